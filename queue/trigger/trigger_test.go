package trigger

import (
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// spec is the smallest valid Spec, changed by edit.
func spec(edit func(*Spec)) Spec {
	s := Spec{
		Name: "t", On: []string{"issues", "issue_comment", "pull_request", "push", "status"},
		Enabled: true, Concurrency: 1, Serialize: "none", Coalesce: "none",
		LoopLimit: Rate{20, time.Hour}, QueueSize: 50, QueueWait: 24 * time.Hour, UncertainAfter: 24 * time.Hour,
		Run: Target{Command: []string{"true"}, Timeout: time.Hour},
	}
	if edit != nil {
		edit(&s)
	}
	return s
}

func compile(t testing.TB, edit func(*Spec)) *Trigger {
	t.Helper()
	compiled, err := Compile(spec(edit))
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

func newSet(t testing.TB, triggers ...*Trigger) *Set {
	t.Helper()
	s, err := NewSet(triggers)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// delivery is one that a plain trigger matches, received a second ago.
func delivery(edit func(*queue.Delivery)) *queue.Delivery {
	d := &queue.Delivery{
		ID: "guid-1", Source: "app-7", SourceName: "acme-bot", Event: "issues",
		Facts: queue.Facts{
			Action: "opened", Repo: "acme/api", RepoID: 9, Subject: "acme/api#7", SubjectNum: 7, Sender: "octocat", Org: "acme",
		},
		Headers:    map[string]string{"X-GitHub-Event": "issues", "User-Agent": "GitHub-Hookshot/1"},
		ReceivedAt: now.Add(-time.Second),
	}
	if edit != nil {
		edit(d)
	}
	return d
}

const issuePayload = `{"action":"opened","issue":{"number":7,"title":"Crash","body":null,"user":{"login":"octocat"},
"labels":[{"name":"bug"},{"name":"p1"}],"score":7.5},"repository":{"id":3804004623172239366,"full_name":"acme/api"},
"sender":{"login":"octocat"}}`

func event(payload string, edit func(*queue.Delivery)) *Event {
	return NewEvent(delivery(edit), []byte(payload), now)
}
