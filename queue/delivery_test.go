package queue_test

import (
	"slices"
	"testing"

	"github.com/seed-de999ace/preloop/queue"
)

func TestFactsKeys(t *testing.T) {
	cases := map[string]struct {
		facts         queue.Facts
		repo, subject string
	}{
		"nothing known":           {queue.Facts{}, "", ""},
		"a repository by its id":  {queue.Facts{Repo: "Acme/Widgets", RepoID: 42}, "42", ""},
		"by its name, any case":   {queue.Facts{Repo: "Acme/Widgets"}, "acme/widgets", ""},
		"a subject":               {queue.Facts{Repo: "Acme/Widgets", RepoID: 42, Subject: "Acme/Widgets#7", SubjectNum: 7}, "42", "42#7"},
		"a subject, no id":        {queue.Facts{Repo: "Acme/Widgets", Subject: "Acme/Widgets#7", SubjectNum: 7}, "acme/widgets", "acme/widgets#7"},
		"a number, but ambiguous": {queue.Facts{Repo: "Acme/Widgets", RepoID: 42, SubjectNum: 7}, "42", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			want(t, "repository", c.facts.RepoKey(), c.repo)
			want(t, "subject", c.facts.SubjectKey(), c.subject)
		})
	}
}

func TestStatesThatAreOver(t *testing.T) {
	var terminal []queue.DeliveryState
	for _, s := range queue.DeliveryStates {
		if s.Terminal() {
			terminal = append(terminal, s)
		}
	}
	want(t, "terminal", terminal, []queue.DeliveryState{queue.Done, queue.Failed})
	for _, s := range queue.RunStates {
		live := slices.Contains([]queue.RunState{queue.Waiting, queue.Running, queue.Routing, queue.Uncertain}, s)
		if s.Ended() == live {
			t.Errorf("%s: ended is %v", s, s.Ended())
		}
	}
}

func TestDeliveryKey(t *testing.T) {
	d := queue.Delivery{ID: "g-1", Source: "app-7", SourceName: "acme-bot"}
	want(t, "key", d.Key(), "acme-bot/g-1")
}
