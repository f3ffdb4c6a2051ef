package harness

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/fixtures"
)

// Repo is the repository that every made-up event comes from.
const Repo = "octo-org/widgets"

// GUID makes a delivery's id as GitHub does: a UUID of version 1, whose time is the event's. The
// clock sequence and the node are random, so that events of one moment differ.
func GUID(r *rand.Rand) string {
	const since1582 = 0x01b21dd213814000 // of the Unix epoch, in units of 100 ns (RFC 9562, section 5.1)
	t := uint64(time.Now().UnixNano()/100) + since1582
	return fmt.Sprintf("%08x-%04x-1%03x-%04x-%012x", uint32(t), uint16(t>>32), t>>48&0xfff, 0x8000|r.Uint64()&0x3fff, r.Uint64()&0xffffffffffff)
}

// IssueOpened is an `issues` payload of about size bytes about issue number n.
func IssueOpened(r *rand.Rand, n, size int) []byte {
	p := github("issues.opened")
	issue := p["issue"].(map[string]any)
	base := "https://api.github.com/repos/" + Repo + "/issues/" + strconv.Itoa(n)
	issue["id"], issue["number"], issue["title"], issue["body"] = 1_000_000+n, n, words(r, 8), ""
	issue["url"], issue["html_url"] = base, fmt.Sprintf("https://github.com/%s/issues/%d", Repo, n)
	issue["node_id"] = fmt.Sprintf("I_kwDO%016x", r.Uint64())
	if missing := size - len(encode(p)); missing > 0 {
		issue["body"] = words(r, missing/6) // a word and its space
	}
	return encode(p)
}

// Push is a `push` payload of about size bytes: as many commits as fit, the last with a longer message.
func Push(r *rand.Rand, size int) []byte {
	p := github("push.branch")
	sample := p["commits"].([]any)[0].(map[string]any)
	p["before"] = hexID(r)
	var commits []any
	add := func(length int) []byte {
		c := commit(r, sample, length)
		commits = append(commits, c)
		p["commits"], p["head_commit"], p["after"] = commits, c, c["id"]
		return encode(p)
	}
	text := add(12)
	each := len(encode(commits[0]))
	for size-len(text) > 2*each {
		text = add(12)
	}
	if missing := size - len(text) - each; missing > 0 {
		text = add(missing / 12) // it is the head commit, too
	}
	return text
}

func commit(r *rand.Rand, sample map[string]any, length int) map[string]any {
	c := maps.Clone(sample)
	id := hexID(r)
	c["id"], c["tree_id"], c["url"] = id, hexID(r), "https://github.com/"+Repo+"/commit/"+id
	c["message"], c["timestamp"] = words(r, length), time.Unix(1_790_000_000+r.Int64N(10_000_000), 0).UTC().Format(time.RFC3339)
	return c
}

// github is a payload in GitHub's shape under other people's names: as compressible as everybody's is.
func github(fixture string) (p map[string]any) {
	text := strings.NewReplacer("acme", "octo-org", "mira-holt", "octocat", "jun-okafor", "hubot").Replace(string(fixtures.Get(fixture).Body))
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&p); err != nil {
		panic(err) // a file of this module
	}
	return p
}

var vocabulary = strings.Fields(`when build fails after merge branch main since update parse error returns empty value
	before retry please check whether cache server client token queue worker lease event issue pull request review label
	start stop state store write reads table index commit flush batch order first again never always could should`)

func words(r *rand.Rand, n int) string {
	list := make([]string, max(n, 1))
	for i := range list {
		list[i] = vocabulary[r.IntN(len(vocabulary))]
	}
	return strings.Join(list, " ")
}

func hexID(r *rand.Rand) string {
	return fmt.Sprintf("%016x%016x%08x", r.Uint64(), r.Uint64(), r.Uint32())
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of strings and numbers
	}
	return text
}
