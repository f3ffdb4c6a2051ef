package harness

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
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
	base := "https://api.github.com/repos/" + Repo
	return payload(r, size, map[string]any{
		"action": "opened",
		"issue": map[string]any{
			"id": 1_000_000 + n, "number": n, "title": words(r, 8), "state": "open",
			"url":      fmt.Sprintf("%s/issues/%d", base, n),
			"html_url": fmt.Sprintf("https://github.com/%s/issues/%d", Repo, n),
			"user":     user("octocat"), "labels": []string{},
		},
	}, func(p map[string]any, text string) { p["issue"].(map[string]any)["body"] = text })
}

// Push is a `push` payload of about size bytes.
func Push(r *rand.Rand, size int) []byte {
	return payload(r, size, map[string]any{
		"ref": "refs/heads/main", "before": hexID(r), "after": hexID(r), "created": false, "deleted": false, "forced": false,
		"pusher": map[string]any{"name": "octocat"},
	}, func(p map[string]any, text string) {
		p["commits"] = []any{map[string]any{"id": hexID(r), "message": text, "modified": []string{"README.md"}}}
	})
}

// payload adds what every event has, then as much text as is missing. GitHub's payloads are mostly
// URLs that repeat one another and compress to a sixth; so do these.
func payload(r *rand.Rand, size int, event map[string]any, fill func(map[string]any, string)) []byte {
	event["repository"] = map[string]any{
		"id": 4711, "name": "widgets", "full_name": Repo, "private": false, "owner": user("octo-org"),
		"html_url": "https://github.com/" + Repo, "default_branch": "main", "links": links(r),
	}
	event["organization"] = map[string]any{"login": "octo-org", "id": 42}
	event["sender"] = user("octocat")
	fill(event, "")
	if missing := size - len(encode(event)); missing > 0 {
		fill(event, words(r, missing/6)) // a word and its space
	}
	return encode(event)
}

func user(login string) map[string]any {
	base := "https://api.github.com/users/" + login
	return map[string]any{
		"login": login, "id": 583231, "type": "User", "site_admin": false, "url": base,
		"followers_url": base + "/followers", "gists_url": base + "/gists{/gist_id}", "repos_url": base + "/repos",
		"events_url": base + "/events{/privacy}", "received_events_url": base + "/received_events",
	}
}

func links(r *rand.Rand) map[string]string {
	all := map[string]string{}
	for range 40 {
		name := words(r, 1) + "_url"
		all[name] = "https://api.github.com/repos/" + Repo + "/" + name + "{/sha}"
	}
	return all
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
