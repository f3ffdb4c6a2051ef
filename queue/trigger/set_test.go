package trigger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-de999ace/preloop/queue"
)

func names(results []Result) string {
	var all []string
	for _, r := range results {
		all = append(all, r.Trigger.Spec.Name)
	}
	return strings.Join(all, " ")
}

func TestSetChoosesByOnAndSource(t *testing.T) {
	add := func(name string, edit func(*Spec)) *Trigger {
		return compile(t, func(s *Spec) { s.Name = name; edit(s) })
	}
	set := newSet(t,
		add("opened", func(s *Spec) { s.On = []string{"issues.opened"} }),
		add("issues", func(s *Spec) { s.On = []string{"issues"} }),
		add("both", func(s *Spec) { s.On = []string{"issues.opened", "issues", "push"} }),
		add("closed", func(s *Spec) { s.On = []string{"issues.closed"} }),
		add("push", func(s *Spec) { s.On = []string{"push"} }),
		add("named", func(s *Spec) { s.On, s.Sources = []string{"issues"}, []string{"x", "acme-bot"} }),
		add("keyed", func(s *Spec) { s.On, s.Sources = []string{"issues"}, []string{"app-7"} }),
		add("other", func(s *Spec) { s.On, s.Sources = []string{"issues"}, []string{"app-8"} }),
		add("elsewhere", func(s *Spec) { s.On, s.Repos = []string{"issues"}, []string{"other/x"} }),
		add("dotted", func(s *Spec) { s.On = []string{"repository_dispatch.on.demand"} }),
	)
	for name, c := range map[string]struct {
		edit func(*queue.Delivery)
		want string
	}{
		"event and action":     {nil, "opened issues both named keyed elsewhere"},
		"another action":       {func(d *queue.Delivery) { d.Action = "edited" }, "issues both named keyed elsewhere"},
		"no action":            {push, "both push"},
		"unknown event":        {func(d *queue.Delivery) { d.Event = "nope" }, ""},
		"dotted action":        {func(d *queue.Delivery) { d.Event, d.Action = "repository_dispatch", "on.demand" }, "dotted"},
		"another source":       {func(d *queue.Delivery) { d.Source, d.SourceName = "app-8", "b" }, "opened issues both other elsewhere"},
		"replayed for some":    {func(d *queue.Delivery) { d.Triggers = []string{"both", "opened", "push", "nope"} }, "opened both"},
		"replayed for none":    {func(d *queue.Delivery) { d.Triggers = []string{"nope"} }, ""},
		"an empty list is all": {func(d *queue.Delivery) { d.Triggers = []string{} }, "opened issues both named keyed elsewhere"},
		"one of another repo":  {func(d *queue.Delivery) { d.Triggers = []string{"elsewhere"} }, "elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			results, err := set.Decide(t.Context(), event("{}", c.edit), nil)
			if err != nil || names(results) != c.want {
				t.Errorf("got %q, %v, want %q", names(results), err, c.want)
			}
		})
	}
}

func TestSetCopiesTheGeneration(t *testing.T) {
	results, _ := newSet(t, compile(t, nil)).Decide(t.Context(), event("{}", func(d *queue.Delivery) { d.Generation = 3 }), nil)
	if results[0].Generation != 3 {
		t.Errorf("got %+v", results[0].Decision)
	}
}

func TestSetNames(t *testing.T) {
	a, b := compile(t, nil), compile(t, func(s *Spec) { s.Name = "b" })
	if _, err := NewSet([]*Trigger{a, b, a}); err == nil || err.Error() != "two triggers are named t" {
		t.Errorf("got %v", err)
	}
	set := newSet(t, a, b)
	if set.Get("b") != b || set.Get("nope") != nil || len(set.Triggers()) != 2 {
		t.Error("triggers are not found by name")
	}
	if results, err := newSet(t).Decide(t.Context(), event("{}", nil), nil); results != nil || err != nil {
		t.Errorf("an empty set decides %v, %v", results, err)
	}
}

// fourParts is a filter of four conditions, as issuePayload passes it.
const fourParts = `event == "issues" && body.issue.number == 7 && !body.issue.title.startsWith("WIP") && body.issue.labels.exists(l, l.name == "bug")`

// fleet is n triggers for one event, each for a repository of its own.
func fleet(t testing.TB, n int, filter string) *Set {
	var triggers []*Trigger
	for i := range n {
		triggers = append(triggers, compile(t, func(s *Spec) {
			s.Name, s.On = fmt.Sprintf("t-%d", i), []string{"issues.opened"}
			s.Repos = []string{fmt.Sprintf("Acme/repo-%d", i), "!acme/secret"}
			s.If = filter
		}))
	}
	return newSet(t, triggers...)
}

func TestSetListsOtherRepositoriesWhileTheyAreFew(t *testing.T) {
	ours := event(issuePayload, func(d *queue.Delivery) { d.Repo = "ACME/Repo-7" })
	few, err := fleet(t, maxListed, "").Decide(t.Context(), ours, nil)
	if err != nil || len(few) != maxListed {
		t.Fatalf("got %d decisions, %v", len(few), err)
	}
	for i, r := range few {
		if i == 7 && r.Verdict != queue.Matched || i != 7 && (r.Verdict != queue.Filtered || r.Reason != "repos: ACME/Repo-7 is not among them") {
			t.Errorf("%+v", r.Decision)
		}
	}
	large := fleet(t, maxListed+1, "")
	many, err := large.Decide(t.Context(), ours, nil)
	if err != nil || names(many) != "t-7" || many[0].Verdict != queue.Matched {
		t.Errorf("got %v, %v", many, err)
	}
	ours.Delivery.Triggers = []string{"t-3"}
	named, err := large.Decide(t.Context(), ours, nil)
	if err != nil || names(named) != "t-3" || named[0].Verdict != queue.Filtered {
		t.Errorf("got %v, %v", named, err)
	}
}

// The index leaves out nothing but decisions that repos filtered.
func TestIndexAgreesWithAskingEveryTrigger(t *testing.T) {
	repos := []string{"a/x", "A/X", "a/y", "b/*", "**", "!a/x", "!b/y", "{a,b}/z"}
	rapid.Check(t, func(rt *rapid.T) {
		var triggers []*Trigger
		for i := range rapid.SampledFrom([]int{1, 5, maxListed + 30}).Draw(rt, "triggers") {
			compiled, err := Compile(spec(func(s *Spec) {
				s.Name = fmt.Sprint("t-", i)
				s.On = rapid.SliceOfN(rapid.SampledFrom([]string{"issues", "issues.opened", "issues.closed", "push"}), 1, 3).Draw(rt, "on")
				s.Repos = rapid.SliceOfN(rapid.SampledFrom(repos), 0, 3).Draw(rt, "repos")
			}))
			if err != nil {
				rt.Fatal(err)
			}
			triggers = append(triggers, compiled)
		}
		set, err := NewSet(triggers)
		if err != nil {
			rt.Fatal(err)
		}
		ev := event("{}", func(d *queue.Delivery) {
			d.Action = rapid.SampledFrom([]string{"", "opened", "closed"}).Draw(rt, "action")
			d.Repo = rapid.SampledFrom([]string{"", "a/x", "a/Y", "b/y", "b/z", "c/c"}).Draw(rt, "repo")
		})
		results, err := set.Decide(t.Context(), ev, nil)
		if err != nil {
			rt.Fatal(err)
		}
		var want, got []string
		for _, trigger := range triggers {
			if d, _ := trigger.decide(t.Context(), &answers{event: ev}); trigger.wants(ev.Delivery) && !strings.HasPrefix(d.Reason, "repos: ") {
				want = append(want, trigger.Spec.Name)
			}
		}
		for _, r := range results {
			if !r.Trigger.wants(ev.Delivery) {
				rt.Fatalf("%s has a decision though its on differs", r.Trigger.Spec.Name)
			}
			if !strings.HasPrefix(r.Reason, "repos: ") {
				got = append(got, r.Trigger.Spec.Name)
			}
		}
		if !slices.Equal(got, want) {
			rt.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestHash(t *testing.T) {
	withHTTP := func(h HTTP) func(*Spec) {
		return func(s *Spec) {
			s.Run = Target{HTTP: &h}
			s.FollowUp = &FollowUp{Target: s.Run}
			s.Probe = &s.Run
		}
	}
	hash := func(edit func(*Spec)) string { return newSet(t, compile(t, edit)).Hash() }
	plain := hash(withHTTP(HTTP{URL: "http://x"}))
	secret := withHTTP(HTTP{URL: "http://x", Secret: []byte("s"), Headers: map[string]string{"Authorization": "s"}})
	if hash(secret) != plain {
		t.Error("secrets are part of the hash")
	}
	if s := compile(t, secret); newSet(t, s).Hash() == "" || s.Spec.Run.HTTP.Secret == nil || s.Spec.FollowUp.HTTP.Secret == nil || s.Spec.Probe.HTTP.Secret == nil {
		t.Error("hashing takes secrets out of the trigger")
	}
	for name, edit := range map[string]func(*Spec){
		"URL":     withHTTP(HTTP{URL: "http://y"}),
		"command": nil,
		"if":      func(s *Spec) { s.If = "true" },
		"off":     func(s *Spec) { s.Enabled = false },
	} {
		if hash(edit) == plain || name != "command" && hash(edit) == hash(nil) {
			t.Errorf("%s is no part of the hash", name)
		}
	}
	a, b := compile(t, nil), compile(t, func(s *Spec) { s.Name = "b" })
	if newSet(t, a, b).Hash() == newSet(t, b, a).Hash() {
		t.Error("the order is no part of the hash")
	}
}

func TestDescribe(t *testing.T) {
	set := newSet(t,
		compile(t, func(s *Spec) {
			s.Name, s.On, s.Prompt, s.Run.Command = "triage", []string{"issues"}, "Fix #{{ .body.issue.number }}", []string{"claude", "-p", "{{ .prompt }}", "{{ .run_id }}"}
		}),
		compile(t, func(s *Spec) {
			s.Name, s.On, s.Run.Command = "dash", []string{"issues"}, []string{"x", "{{ .body.dash }}"}
		}),
		compile(t, func(s *Spec) { s.Name, s.On, s.If, s.Prompt = "filtered", []string{"issues"}, "false", "P" }),
		compile(t, func(s *Spec) { s.Name, s.On = "push", []string{"push", "issues.closed"} }),
		compile(t, func(s *Spec) { s.Name, s.On, s.Sources = "elsewhere", []string{"issues"}, []string{"other"} }),
	)
	ev := event(`{"issue":{"number":7},"dash":"-x"}`, nil)
	all, err := set.Describe(t.Context(), ev, nil, Vars{RunID: "R", Attempt: 1})
	if err != nil || len(all) != 3 {
		t.Fatalf("got %+v, %v", all, err)
	}
	if d := all[0]; d.Decision.Trigger != "triage" || d.Prompt != "Fix #7" || strings.Join(d.Command, " ") != "claude -p Fix #7 R" || d.Err != nil {
		t.Errorf("got %+v", d)
	}
	var argument *ArgumentError
	if d := all[1]; d.Decision.Verdict != queue.Matched || !errors.As(d.Err, &argument) || d.Command != nil {
		t.Errorf("got %+v", d)
	}
	if d := all[2]; d.Decision.Reason != "if: false" || d.Prompt != "" || d.Command != nil {
		t.Errorf("got %+v", d)
	}
	named, err := set.Describe(t.Context(), ev, nil, Vars{}, "push", "nope", "elsewhere", "filtered")
	if err != nil || len(named) != 3 {
		t.Fatalf("got %+v, %v", named, err)
	}
	for i, want := range []string{"on: issues.opened is not among push, issues.closed", "sources: acme-bot is not among other", "if: false"} {
		if d := named[i].Decision; d.Verdict != queue.Filtered || d.Reason != want {
			t.Errorf("got %+v, want %s", d, want)
		}
	}
	asking := newSet(t, compile(t, func(s *Spec) { s.Permission = "write" }))
	for _, chosen := range [][]string{nil, {"t"}} {
		if _, err := asking.Describe(t.Context(), ev, &github{err: ErrUnavailable}, Vars{}, chosen...); !errors.Is(err, ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			set := fleet(b, n, fourParts)
			d := delivery(func(d *queue.Delivery) { d.Repo = "acme/repo-7" })
			b.ReportAllocs()
			for b.Loop() {
				results, err := set.Decide(b.Context(), NewEvent(d, []byte(issuePayload), now), nil)
				if err != nil || results[min(7, len(results)-1)].Verdict != queue.Matched {
					b.Fatal(results, err)
				}
			}
		})
	}
}

func BenchmarkFilter(b *testing.B) {
	f := fleet(b, 1, fourParts).triggers[0].filter
	ev := event(issuePayload, nil)
	b.ReportAllocs()
	for b.Loop() {
		if verdict, reason := f.eval(b.Context(), ev); verdict != queue.Matched {
			b.Fatal(reason)
		}
	}
}

func BenchmarkPrompt(b *testing.B) {
	t := compile(b, func(s *Spec) {
		s.Prompt = "Fix {{ .body.issue.title }} in {{ .repo }}.{{ range .body.issue.labels }} {{ .name }}{{ end }}"
	})
	ev := event(issuePayload, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := t.Prompt(Vars{Event: ev}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		fleet(b, 1, fourParts)
	}
}
