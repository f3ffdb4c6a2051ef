package target

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-de999ace/preloop/queue"
)

// planted are secrets that preloop itself may have been given, each where an operator puts it.
var planted = map[string]string{
	"PRELOOP_WEBHOOK_SECRET":         "planted-webhook",
	"PRELOOP_SYSTEM_TOKEN":           "planted-system",
	"PRELOOP_GITHUB_APP_PRIVATE_KEY": "planted-key",
	"PRELOOP_STORE_URL":              "postgres://u:planted-store@db/x",
	"GITHUB_TOKEN":                   "planted-github",
	"GH_TOKEN":                       "planted-gh",
	"GH_ENTERPRISE_TOKEN":            "planted-ghe",
	"GITHUB_ENTERPRISE_TOKEN":        "planted-ghe2",
	"PGPASSWORD":                     "planted-pg",
	"NOTIFY_SOCKET":                  "/planted/notify",
	"LISTEN_FDS":                     "planted-1",
	"CREDENTIALS_DIRECTORY":          "/planted/credentials",
	"ACME_SECRET":                    "planted-by-name",
	"DATABASE_URL":                   "postgres://u:planted-by-value@db/x",
	"TINY":                           "pin4",
}

func TestCommandSeesNoSecret(t *testing.T) {
	t.Parallel()
	environ := []string{"PATH=/usr/bin:/bin", "HOME=/home/me", "LANG=C.UTF-8", "AGENT_KEY=mine", "PINNED=pin4x", "GITHUB_SHA=node's", "TRACEPARENT=node's"}
	for name, value := range planted {
		environ = append(environ, name+"="+value)
	}
	c := Command{
		Env:          func() []string { return environ },
		SecretNames:  []string{"ACME_SECRET"},
		SecretValues: [][]byte{[]byte("planted-by-value"), []byte("pin4"), nil},
	}
	j := job("env")
	j.Token = "for-this-run"
	// Past the masking, which would hide what this test looks for.
	var out bytes.Buffer
	for _, variable := range c.environ(j, &files{}) {
		out.WriteString(variable + "\n")
	}
	if strings.Contains(out.String(), "planted") || strings.Contains(out.String(), "TINY") {
		t.Errorf("a secret is passed on:\n%s", out.String())
	}
	o := c.Run(t.Context(), j, nil)
	got := strings.Split(strings.TrimSpace(string(o.Output)), "\n")
	for _, want := range []string{"PATH=/usr/bin:/bin", "HOME=/home/me", "LANG=C.UTF-8", "AGENT_KEY=mine", "GITHUB_TOKEN=***"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing from\n%s", want, o.Output)
		}
	}
	for name := range planted {
		if name != "GITHUB_TOKEN" && slices.ContainsFunc(got, func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
			t.Errorf("%s is passed on", name)
		}
	}
	if bytes.Contains(o.Output, []byte("node's")) {
		t.Errorf("the node's own event is passed on:\n%s", o.Output)
	}
}

func TestCommandEnvironment(t *testing.T) {
	t.Parallel()
	j := job("env")
	j.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	j.Run.Attempts = 2
	o := Command{Env: func() []string { return []string{"PATH=/usr/bin:/bin"} }}.Run(t.Context(), j, nil)
	var got []string
	for line := range strings.Lines(string(o.Output)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "PATH", "GITHUB_EVENT_PATH", "PRELOOP_PAYLOAD", "PRELOOP_PROMPT_FILE", "PRELOOP_OUTPUT":
			value = "…"
		}
		got = append(got, name+"="+value)
	}
	slices.Sort(got)
	want := []string{
		"GITHUB_ACTOR=octocat",
		"GITHUB_EVENT_NAME=issue_comment",
		"GITHUB_EVENT_PATH=…",
		"GITHUB_REPOSITORY=acme/widgets",
		"PATH=…",
		"PRELOOP_ACTION=created",
		"PRELOOP_ATTEMPT=2",
		"PRELOOP_DELIVERY_ID=d-1",
		"PRELOOP_EVENT=issue_comment",
		"PRELOOP_OUTPUT=…",
		"PRELOOP_PAYLOAD=…",
		"PRELOOP_PROMPT=look into it",
		"PRELOOP_PROMPT_FILE=…",
		"PRELOOP_REPO=acme/widgets",
		"PRELOOP_RUN_ID=" + j.Run.ID,
		"PRELOOP_SENDER=octocat",
		"PRELOOP_SESSION=" + j.Run.ID,
		"PRELOOP_SUBJECT=acme/widgets#7",
		"PRELOOP_TRIGGER=triage",
		"TRACEPARENT=" + j.Traceparent,
	}
	if !slices.Equal(got, want) {
		t.Errorf("environment\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCommandPrompt(t *testing.T) {
	t.Parallel()
	j := job("sh", "-c", `printf %s "$PRELOOP_PROMPT" | wc -c; wc -c < "$PRELOOP_PROMPT_FILE"; printf %s "$PRELOOP_PROMPT" | cmp -n 65535 - "$PRELOOP_PROMPT_FILE" && echo same`)
	j.Prompt = strings.Repeat("€", 100_000) // three bytes each; 64 KiB is in the middle of one
	o := Command{}.Run(t.Context(), j, nil)
	if got := strings.Join(strings.Fields(string(o.Output)), " "); got != "65535 300000 same" {
		t.Errorf("output %q, error %q", got, o.Error)
	}
}

func TestCommandWithHostileValues(t *testing.T) {
	t.Parallel()
	j := job("sh", "-c", `echo "[$PRELOOP_PROMPT] [$PRELOOP_ACTION] [$PRELOOP_SENDER]"`)
	j.Prompt = "a\x00b\xff"
	j.Run.Action = strings.Repeat("x", 1<<20)
	j.Run.Sender = "\x00o\nk"
	o := Command{}.Run(t.Context(), j, nil)
	if want := "[ab\uFFFD] [] [o\nk]\n"; o.State != queue.Succeeded || string(o.Output) != want {
		t.Errorf("state %q (%s), output %q", o.State, o.Error, o.Output)
	}
}

func TestFirstAndLastCutBetweenRunes(t *testing.T) {
	t.Parallel()
	const text = "aé€😀z"
	for n := range len(text) + 2 {
		head, tail := first(text, n), last([]byte(text), n)
		if len(head) > n || !utf8.ValidString(head) || !strings.HasPrefix(text, head) || len(head) < n-3 && head != text {
			t.Errorf("first %d: %q", n, head)
		}
		if len(tail) > n || !utf8.Valid(tail) || !strings.HasSuffix(text, string(tail)) || len(tail) < n-3 && string(tail) != text {
			t.Errorf("last %d: %q", n, tail)
		}
	}
}
