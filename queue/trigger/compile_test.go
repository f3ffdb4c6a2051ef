package trigger

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCompileErrors(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(*Spec)
		fields []string
	}{
		"no name":               {func(s *Spec) { s.Name = "" }, []string{"name"}},
		"upper-case name":       {func(s *Spec) { s.Name = "Triage" }, []string{"name"}},
		"name with a slash":     {func(s *Spec) { s.Name = "a/b" }, []string{"name"}},
		"long name":             {func(s *Spec) { s.Name = strings.Repeat("a", 101) }, []string{"name"}},
		"no on":                 {func(s *Spec) { s.On = nil }, []string{"on"}},
		"empty on":              {func(s *Spec) { s.On = []string{"push", ""} }, []string{"on[1]"}},
		"dot without action":    {func(s *Spec) { s.On = []string{"issues."} }, []string{"on[0]"}},
		"action alone":          {func(s *Spec) { s.On = []string{".opened"} }, []string{"on[0]"}},
		"star":                  {func(s *Spec) { s.On = []string{"*", "issues.*", "Issues", "issues opened"} }, []string{"on[0]", "on[1]", "on[2]", "on[3]"}},
		"empty source":          {func(s *Spec) { s.Sources = []string{"a", ""} }, []string{"sources[1]"}},
		"bad repo":              {func(s *Spec) { s.Repos = []string{"acme/*", "acme/[", "acme", "!acme", ""} }, []string{"repos[1]", "repos[2]", "repos[3]", "repos[4]"}},
		"bad path":              {func(s *Spec) { s.Paths = []string{"/a", "./a", "docs/", "!docs/", "{a", "ok", "", "!/x"} }, []string{"paths[0]", "paths[1]", "paths[2]", "paths[3]", "paths[4]", "paths[6]", "paths[7]"}},
		"bad if":                {func(s *Spec) { s.If = "evnt == 1" }, []string{"if"}},
		"bad permission":        {func(s *Spec) { s.Permission = "owner" }, []string{"permission"}},
		"negative age":          {func(s *Spec) { s.MaxAge = -time.Second }, []string{"max_age"}},
		"no concurrency":        {func(s *Spec) { s.Concurrency = 0 }, []string{"concurrency"}},
		"bad serialize":         {func(s *Spec) { s.Serialize = "org" }, []string{"serialize"}},
		"bad coalesce":          {func(s *Spec) { s.Coalesce = "repo" }, []string{"coalesce"}},
		"no queue":              {func(s *Spec) { s.QueueSize, s.QueueWait = 0, 0 }, []string{"queue.size", "queue.wait"}},
		"bad prompt":            {func(s *Spec) { s.Prompt = "{{" }, []string{"prompt"}},
		"bad argument":          {func(s *Spec) { s.Run.Command = []string{"x", "{{ .nope }}", "{{"} }, []string{"run.command[1]", "run.command[2]"}},
		"no program":            {func(s *Spec) { s.Run.Command = []string{""} }, []string{"run.command[0]"}},
		"no target":             {func(s *Spec) { s.Run = Target{} }, []string{"run"}},
		"two targets":           {func(s *Spec) { s.Run.HTTP = &HTTP{URL: "http://x"} }, []string{"run"}},
		"bad follow-up":         {func(s *Spec) { s.FollowUp = &FollowUp{Target: Target{Command: []string{"x", "{{ .seesion }}"}}} }, []string{"follow_up.command[1]"}},
		"bad probe":             {func(s *Spec) { s.Probe = &Target{} }, []string{"probe"}},
		"several, in one go":    {func(s *Spec) { s.Name, s.If, s.Prompt = "", "1", "{{" }, []string{"name", "if", "prompt"}},
		"a template in a URL":   {func(s *Spec) { s.Run = Target{HTTP: &HTTP{URL: "http://x/{{ .nope }}"}} }, nil},
		"free text as action":   {func(s *Spec) { s.On = []string{"repository_dispatch.On-Demand.v1"} }, nil},
		"no limit of the loops": {func(s *Spec) { s.LoopLimit = Rate{} }, nil},
		"exclusions only":       {func(s *Spec) { s.Repos, s.Paths = []string{"!acme/x", "**"}, []string{"!docs/**"} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			compiled, err := Compile(spec(c.edit))
			if (err != nil) != (c.fields != nil) || (compiled == nil) != (err != nil) {
				t.Fatalf("got %v, %v", compiled, err)
			}
			if err == nil {
				return
			}
			var got []string
			for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
				var field *FieldError
				if !errors.As(e, &field) {
					t.Fatalf("%v is no FieldError", e)
				}
				got = append(got, field.Field)
			}
			if !slices.Equal(got, c.fields) {
				t.Errorf("got %v, want %v: %v", got, c.fields, err)
			}
		})
	}
}

func TestNeeds(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Spec)
		want Needs
	}{
		"events":     {func(s *Spec) { s.On = []string{"push", "issues.opened", "issues.closed"} }, Needs{Events: []string{"issues", "push"}, Permissions: map[string]string{}}},
		"sources":    {func(s *Spec) { s.On, s.Sources = []string{"push"}, []string{"a"} }, Needs{Sources: []string{"a"}, Events: []string{"push"}, Permissions: map[string]string{}}},
		"permission": {func(s *Spec) { s.On, s.Permission = []string{"push"}, "write" }, Needs{Events: []string{"push"}, Permissions: map[string]string{"metadata": "read"}}},
		"anyone":     {func(s *Spec) { s.On, s.Permission = []string{"push"}, "none" }, Needs{Events: []string{"push"}, Permissions: map[string]string{}}},
		"paths": {
			func(s *Spec) { s.On, s.Paths = []string{"push", "pull_request_review", "status"}, []string{"a"} },
			Needs{Events: []string{"pull_request_review", "push", "status"}, Permissions: map[string]string{"contents": "read", "pull_requests": "read"}},
		},
		"token": {func(s *Spec) {
			s.On, s.Paths, s.GitHubToken = []string{"push"}, []string{"a"}, map[string]string{"contents": "write", "issues": "read"}
		}, Needs{Events: []string{"push"}, Permissions: map[string]string{"contents": "write", "issues": "read"}}},
		"token that reads what paths read": {func(s *Spec) {
			s.On, s.Paths, s.GitHubToken = []string{"push"}, []string{"a"}, map[string]string{"contents": "read"}
		}, Needs{Events: []string{"push"}, Permissions: map[string]string{"contents": "read"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Trigger = "t"
			if got := compile(t, c.edit).Needs(); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
	off := compile(t, func(s *Spec) { s.Name, s.Enabled = "off", false })
	if all := newSet(t, off, compile(t, nil)).Needs(); len(all) != 1 || all[0].Trigger != "t" {
		t.Errorf("a set needs %+v", all)
	}
}
