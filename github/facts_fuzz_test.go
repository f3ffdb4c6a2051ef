package github_test

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/seed-de999ace/preloop/fixtures"
	"github.com/seed-de999ace/preloop/github"
)

// eventsRead holds one event for each way in which a subject is found.
var eventsRead = []string{
	"issues", "pull_request", "discussion", "check_run", "check_suite", "workflow_run",
	"deployment_protection_rule", "sub_issues", "issue_dependencies", "push",
}

// slowFacts reads the facts the plain way: decode into maps, then look.
func slowFacts(event string, body []byte) (github.Facts, bool) {
	body = bytes.TrimPrefix(body, []byte("\uFEFF"))
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber() // as a float, 1e400 would be refused
	var decoded any
	if dec.Decode(&decoded) != nil {
		return github.Facts{}, false
	}
	if _, err := dec.Token(); err != io.EOF {
		return github.Facts{}, false
	}
	top, ok := decoded.(map[string]any)
	if !ok {
		return github.Facts{}, false
	}

	f := github.Facts{
		Action:       textAt(top, "action"),
		Repo:         textAt(top, "repository", "full_name"),
		RepoID:       numberAt(top, "repository", "id"),
		Sender:       textAt(top, "sender", "login"),
		Org:          textAt(top, "organization", "login"),
		Installation: numberAt(top, "installation", "id"),
	}
	f.SenderBot = at(top, "sender", "type") == "Bot" || strings.HasSuffix(f.Sender, "[bot]")
	if owner, name := textAt(top, "repository", "owner", "login"), textAt(top, "repository", "name"); f.Repo == "" && owner != "" && name != "" {
		f.Repo = owner + "/" + name
	}
	if f.Org == "" {
		f.Org, _, _ = strings.Cut(f.Repo, "/")
		if !strings.Contains(f.Repo, "/") {
			f.Org = ""
		}
	}
	if f.SubjectNum = slowSubject(event, f, top); f.Repo == "" {
		f.SubjectNum = 0
	}
	if f.SubjectNum != 0 {
		f.Subject = f.Repo + "#" + strconv.FormatInt(f.SubjectNum, 10)
	}
	return f, true
}

func slowSubject(event string, f github.Facts, top map[string]any) int64 {
	switch event {
	case "issues":
		return numberAt(top, "issue", "number")
	case "pull_request":
		return numberAt(top, "pull_request", "number")
	case "discussion":
		return numberAt(top, "discussion", "number")
	case "check_run":
		return slowOwnPull(f, at(top, "check_run", "pull_requests"), at(top, "check_run", "check_suite", "pull_requests"))
	case "check_suite", "workflow_run":
		return slowOwnPull(f, at(top, event, "pull_requests"))
	case "deployment_protection_rule":
		return slowOwnPull(f, at(top, "pull_requests"))
	case "sub_issues":
		if strings.HasPrefix(f.Action, "parent_issue_") {
			return numberAt(top, "sub_issue", "number")
		} else if strings.HasPrefix(f.Action, "sub_issue_") {
			return numberAt(top, "parent_issue", "number")
		}
	case "issue_dependencies":
		if strings.HasPrefix(f.Action, "blocked_by_") {
			return numberAt(top, "blocked_issue", "number")
		} else if strings.HasPrefix(f.Action, "blocking_") {
			return numberAt(top, "blocking_issue", "number")
		}
	}
	return 0
}

func slowOwnPull(f github.Facts, lists ...any) int64 {
	own := map[int64]bool{}
	for _, list := range lists {
		entries, _ := list.([]any)
		for _, entry := range entries {
			if entry, ok := entry.(map[string]any); ok && f.RepoID != 0 && numberAt(entry, "base", "repo", "id") == f.RepoID {
				own[numberAt(entry, "number")] = true
			}
		}
	}
	if len(own) != 1 {
		return 0
	}
	for number := range own {
		return number
	}
	return 0
}

func at(value any, keys ...string) any {
	for _, key := range keys {
		object, _ := value.(map[string]any)
		value = object[key]
	}
	return value
}

func textAt(value any, keys ...string) string {
	text, _ := at(value, keys...).(string)
	if len(text) > 255 || strings.Contains(text, "\x00") {
		return ""
	}
	return text
}

func numberAt(value any, keys ...string) int64 {
	number, _ := at(value, keys...).(json.Number)
	n, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil || n <= 0 {
		return 0
	}
	return n
}

func checkAgainstDecoder(t interface {
	Helper()
	Errorf(string, ...any)
}, event string, body []byte,
) {
	t.Helper()
	before := bytes.Clone(body)
	got, err := github.ReadFacts(event, body)
	want, ok := slowFacts(event, body)
	if (err == nil) != ok {
		t.Errorf("%s %.200q: error %v, the decoder says %v", event, body, err, ok)
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s %.200q: facts (-decoder +got):\n%s", event, body, diff)
	}
	if !utf8.ValidString(got.Action + got.Repo + got.Subject + got.Sender + got.Org) {
		t.Errorf("%s %.200q: facts are not valid UTF-8", event, body)
	}
	if !bytes.Equal(before, body) {
		t.Errorf("%s: the body was changed", event)
	}
}

// FuzzReadFacts holds that bodies are judged as encoding/json does and that the facts are those of a
// decoded map.
func FuzzReadFacts(f *testing.F) {
	for _, p := range fixtures.All() {
		f.Add(p.Event, p.Body)
	}
	for _, body := range fixtures.Malformed() {
		f.Add("issues", []byte(body))
	}
	f.Fuzz(func(t *testing.T, event string, body []byte) {
		if !slices.Contains(eventsRead, event) {
			event = eventsRead[len(body)%len(eventsRead)]
		}
		checkAgainstDecoder(t, event, body)
	})
}

// Payloads made of the keys that matter reach places that random bytes do not.
func TestReadFactsAgreesWithADecodedMap(t *testing.T) {
	scalar := rapid.SampledFrom([]string{
		"7", "8", "0", "-7", "7.0", "7e0", "1e400", "18446744073709551616", "null", "true", "false", `""`, `"7"`, "1", "x",
		`"acme"`, `"acme/widgets"`, `"widgets"`, `"caf\u00e9 \ud83d"`, `"a\u0000b"`, "\"\xff\"", `"Bot"`, `"x[bot]"`, `"tab	"`,
		`"parent_issue_added"`, `"sub_issue_added"`, `"blocked_by_added"`, `"blocking_added"`,
	})
	key := rapid.SampledFrom([]string{
		"action", "repository", "full_name", "name", "owner", "login", "id", "sender", "type", "organization", "installation",
		"issue", "number", "pull_request", "pull_requests", "base", "repo", "check_run", "check_suite", "workflow_run",
		"sub_issue", "parent_issue", "blocked_issue", "blocking_issue", "discussion", "other", "Action", `n\u0075mber`, `\u0069d`, "",
	})
	space := rapid.SampledFrom([]string{"", "", "", "", " ", "\n\t", "\r"})
	var value func(depth int) *rapid.Generator[string]
	value = func(depth int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			kind := rapid.IntRange(0, 9).Draw(t, "kind")
			if depth > 0 && kind > 0 || depth == 6 || depth > 0 && kind > 6 {
				if kind < 4 || depth == 6 {
					return scalar.Draw(t, "scalar")
				}
			}
			open, shut := "{", "}"
			if depth > 0 && kind > 7 {
				open, shut = "[", "]"
			}
			out := space.Draw(t, "s") + open
			for n := range rapid.IntRange(0, 6).Draw(t, "n") {
				if n > 0 {
					out += space.Draw(t, "s") + ","
				}
				if open == "{" {
					out += space.Draw(t, "s") + `"` + key.Draw(t, "key") + `"` + space.Draw(t, "s") + ":"
				}
				out += value(depth+1).Draw(t, "value")
			}
			return out + space.Draw(t, "s") + shut + space.Draw(t, "s")
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		checkAgainstDecoder(t, rapid.SampledFrom(eventsRead).Draw(t, "event"), []byte(value(0).Draw(t, "body")))
	})
}

// Every prefix and every changed byte of a real payload is judged as the decoder judges it.
func TestReadFactsOfDamagedPayloads(t *testing.T) {
	body := fixtures.Get("odd.duplicate_keys").Body
	for i := range body {
		checkAgainstDecoder(t, "issues", body[:i])
		for _, c := range []byte{0, '"', '\\', '{', '}', '[', ']', ',', ':', ' ', '0', '-', 'e', 0x1f, 0x80, 0xff} {
			damaged := bytes.Clone(body)
			damaged[i] = c
			checkAgainstDecoder(t, "issues", damaged)
		}
	}
}
