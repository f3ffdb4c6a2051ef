package appcheck

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-de999ace/preloop/github"
)

const hookURL = "https://hooks.example.test/api/v1/github/webhooks"

// sound is an app that lacks nothing, changed by change.
func sound(change func(*Facts)) Facts {
	f := Facts{
		Kind: App, AppID: 1234, Slug: "acme-bot", PageURL: "https://github.com/apps/acme-bot", Org: "acme", Active: true,
		Events:      []string{"issues", "issue_comment", "check_run"},
		Permissions: map[string]string{"metadata": "read", "issues": "write", "checks": "read"},
		Hook:        github.HookConfig{URL: hookURL, ContentType: "json", HasSecret: true},
	}
	if change != nil {
		change(&f)
	}
	return f
}

func hook(kind Kind, events ...string) Facts {
	return Facts{Kind: kind, Webhook: github.Hook{Repo: "acme/widgets", ID: 4711}, Active: true, Events: events, Hook: github.HookConfig{URL: hookURL, ContentType: "json", HasSecret: true}}
}

func on(events ...string) []Need { return []Need{{Trigger: "triage", On: events, Named: true}} }

func TestJudge(t *testing.T) {
	type want struct {
		drifted     bool
		events      []string
		permissions []string
		problems    []string // a part of each
	}
	for name, c := range map[string]struct {
		facts Facts
		url   string // expected; "-" for none
		needs []Need
		want  want
	}{
		"nothing is wrong":                  {facts: sound(nil), needs: on("issues.opened", "issue_comment", "check_run.created")},
		"no trigger":                        {facts: sound(func(f *Facts) { f.Events = nil })},
		"a slash at the end":                {facts: sound(func(f *Facts) { f.Hook.URL += "/" })},
		"the host in capitals and the port": {facts: sound(func(f *Facts) { f.Hook.URL = "https://HOOKS.example.test:443/api/v1/github/webhooks" })},
		"everything at once": {
			facts: sound(func(f *Facts) {
				f.Hook = github.HookConfig{URL: "https://old.example.test/", ContentType: "form", InsecureTLS: true}
				f.Events, f.Permissions = nil, nil
			}),
			needs: on("issues.opened"),
			want:  want{drifted: true, events: []string{"issues"}, permissions: []string{"issues:read"}, problems: []string{"no secret", "sends its payloads as form", "certificate", "trigger triage is dead"}},
		},
		"another host":                   {facts: sound(func(f *Facts) { f.Hook.URL = "https://old.example.test/api/v1/github/webhooks" }), want: want{drifted: true}},
		"another path":                   {facts: sound(func(f *Facts) { f.Hook.URL = "https://hooks.example.test/webhook" }), want: want{drifted: true}},
		"another scheme":                 {facts: sound(func(f *Facts) { f.Hook.URL = "http://hooks.example.test/api/v1/github/webhooks" }), want: want{drifted: true}},
		"no public URL, nothing claimed": {facts: sound(func(f *Facts) { f.Hook.URL = "https://old.example.test/" }), url: "-"},
		"no URL at GitHub":               {facts: sound(func(f *Facts) { f.Hook.URL = "" }), want: want{drifted: true, problems: []string{"no delivery URL: GitHub sends nothing; set one at https://github.com/organizations/acme/settings/apps/acme-bot"}}},
		"no URL on either side":          {facts: sound(func(f *Facts) { f.Hook.URL = "" }), url: "-", want: want{problems: []string{"no delivery URL: GitHub sends nothing; set one at https://github.com/organizations/acme/settings/apps/acme-bot"}}},
		"no secret":                      {facts: sound(func(f *Facts) { f.Hook.HasSecret = false }), want: want{problems: []string{"no secret at GitHub: its deliveries are not signed, and every one is refused; set the one that is configured here at https://github.com/organizations/acme/settings/apps/acme-bot"}}},
		"form-encoded":                   {facts: sound(func(f *Facts) { f.Hook.ContentType = "form" }), want: want{problems: []string{"choose application/json at https://github.com/organizations/acme/settings/apps/acme-bot"}}},
		"certificates are not verified":  {facts: sound(func(f *Facts) { f.Hook.InsecureTLS = true }), want: want{problems: []string{"enable SSL verification at https://github.com/organizations/acme/settings/apps/acme-bot"}}},
		"a hook that is switched off":    {facts: func() Facts { f := hook(RepoHook, "push"); f.Active = false; return f }(), want: want{problems: []string{"tick Active at https://github.com/acme/widgets/settings/hooks/4711"}}},

		"not subscribed":                        {facts: sound(nil), needs: on("label"), want: want{events: []string{"label"}, problems: []string{"trigger triage is dead: the app is not subscribed to label; tick it at https://github.com/organizations/acme/settings/apps/acme-bot/permissions"}}},
		"not subscribed, twice":                 {facts: sound(nil), needs: on("label.created", "label.edited"), want: want{events: []string{"label"}, problems: []string{"not subscribed to label"}}},
		"the permission is missing as well":     {facts: sound(nil), needs: on("push"), want: want{events: []string{"push"}, permissions: []string{"contents:read"}, problems: []string{"trigger triage is dead: the app is not subscribed to push, which needs the permission contents:read"}}},
		"one of two permissions will do":        {facts: sound(func(f *Facts) { f.Events = nil; f.Permissions = map[string]string{"pull_requests": "read"} }), needs: on("milestone"), want: want{events: []string{"milestone"}, problems: []string{"tick it at"}}},
		"an action that needs more":             {facts: sound(nil), needs: on("check_run.rerequested"), want: want{permissions: []string{"checks:write"}, problems: []string{"GitHub sends check_run.rerequested only to an app with the permission checks:write"}}},
		"implied by a permission":               {facts: sound(func(f *Facts) { f.Events = nil; f.Permissions["checks"] = "write" }), needs: on("check_run.rerequested", "check_suite")},
		"not implied by a lesser one":           {facts: sound(func(f *Facts) { f.Events = nil }), needs: on("check_suite"), want: want{events: []string{"check_suite"}, problems: []string{"check_suite"}}},
		"always sent":                           {facts: sound(nil), needs: on("installation.created", "installation_repositories", "github_app_authorization", "ping")},
		"global, never listed":                  {facts: sound(nil), needs: on("security_advisory", "meta", "installation_target")},
		"never sent to apps":                    {facts: sound(nil), needs: on("package_v2", "security_and_analysis", "page_build", "repository_import")[:1]},
		"an event that nobody knows":            {facts: sound(nil), needs: on("brand_new"), want: want{events: []string{"brand_new"}, problems: []string{"not subscribed to brand_new"}}},
		"a new event that the app has":          {facts: sound(func(f *Facts) { f.Events = append(f.Events, "brand_new") }), needs: on("brand_new")},
		"GitHub Enterprise Server has its host": {facts: sound(func(f *Facts) { f.PageURL = "https://ghe.acme.test/github-apps/acme-bot" }), needs: on("label"), want: want{events: []string{"label"}, problems: []string{"https://ghe.acme.test/organizations/acme/settings/apps/acme-bot/permissions"}}},
		"a trigger needs a permission itself":   {facts: sound(nil), needs: []Need{{Trigger: "ci", On: []string{"issues"}, Permissions: map[string]string{"contents": "read", "issues": "write", "metadata": "read"}}}, want: want{permissions: []string{"contents:read"}, problems: []string{"trigger ci needs the permission contents:read"}}},
		"the event needs the same one":          {facts: sound(nil), needs: []Need{{Trigger: "ci", On: []string{"push"}, Permissions: map[string]string{"contents": "read"}, Named: true}}, want: want{events: []string{"push"}, permissions: []string{"contents:read"}, problems: []string{"not subscribed to push, which needs the permission contents:read"}}},
		"another trigger needs the same one":    {facts: sound(nil), needs: []Need{{Trigger: "a", On: []string{"push"}, Named: true}, {Trigger: "ci", Permissions: map[string]string{"contents": "read"}}}, want: want{events: []string{"push"}, permissions: []string{"contents:read"}, problems: []string{"trigger a is dead", "trigger ci needs the permission contents:read"}}},
		"and a greater one than it has":         {facts: sound(nil), needs: []Need{{Trigger: "ci", Permissions: map[string]string{"checks": "write"}}}, want: want{permissions: []string{"checks:write"}, problems: []string{"checks:write"}}},

		"a hook with the event":                        {facts: hook(RepoHook, "push"), needs: on("push")},
		"a hook with every event":                      {facts: hook(OrgHook, "*"), needs: on("push", "team")},
		"a hook without it":                            {facts: hook(RepoHook, "push"), needs: on("issues"), want: want{events: []string{"issues"}, problems: []string{"trigger triage is dead here: the webhook does not send issues; tick it at https://github.com/acme/widgets/settings/hooks/4711"}}},
		"a hook that the trigger may not mean":         {facts: hook(RepoHook, "push"), needs: []Need{{Trigger: "triage", On: []string{"issues"}}}},
		"what hooks are never sent":                    {facts: hook(RepoHook, "push"), needs: on("installation"), want: want{problems: []string{"trigger triage is dead: GitHub sends installation to apps, never to the webhook"}}},
		"what hooks are never sent, and are not meant": {facts: hook(RepoHook, "push"), needs: []Need{{Trigger: "triage", On: []string{"installation"}}}},
		"a hook has no permissions":                    {facts: hook(RepoHook, "push"), needs: []Need{{Trigger: "ci", On: []string{"push"}, Permissions: map[string]string{"contents": "write"}, Named: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			e := Expect{URL: hookURL, WebHost: "github.com", Needs: c.needs}
			if c.url == "-" {
				e.URL = ""
			}
			if name == "never sent to apps" {
				e.Needs, c.want.problems = neverSent(t)
			}
			v := Judge(c.facts, e)
			if v.URLDrifted != c.want.drifted || !slices.Equal(v.MissingEvents, c.want.events) || !slices.Equal(v.MissingPermissions, c.want.permissions) || len(v.Problems) != len(c.want.problems) {
				t.Fatalf("got %+v", v)
			}
			for i, part := range c.want.problems {
				if !strings.Contains(v.Problems[i], part) {
					t.Errorf("problem %d: %q does not say %q", i, v.Problems[i], part)
				}
			}
			if healthy := !c.want.drifted && c.want.events == nil && c.want.permissions == nil && c.want.problems == nil; v.Healthy() != healthy {
				t.Errorf("healthy: %v", v.Healthy())
			}
		})
	}
}

// neverSent is a trigger on every event that GitHub does not send to apps.
func neverSent(t *testing.T) ([]Need, []string) {
	t.Helper()
	var events, problems []string
	for _, e := range github.KnownEvents() {
		if e.Subscription == github.SubscriptionNever {
			events = append(events, e.Name)
			problems = append(problems, "GitHub sends "+e.Name+" to ")
		}
	}
	if len(events) == 0 {
		t.Fatal("the table knows none")
	}
	return on(events...), problems
}

// An app that has every permission and lists every event that can be listed lacks nothing,
// whatever a trigger waits for: no event of the table raises a false alarm.
func TestNoFalseAlarmForAnyEvent(t *testing.T) {
	f := sound(func(f *Facts) { f.Events = nil })
	for _, e := range github.KnownEvents() {
		for _, p := range e.Permissions {
			f.Permissions[p] = "admin"
		}
		if e.Subscription == github.SubscriptionOptIn && !e.SentUnasked(map[string]string{"checks": "write"}) {
			f.Events = append(f.Events, e.Name)
		}
	}
	for _, e := range github.KnownEvents() {
		if e.Subscription == github.SubscriptionNever {
			continue
		}
		on := []string{e.Name}
		for _, action := range e.Actions {
			on = append(on, e.Name+"."+action)
		}
		if v := Judge(f, Expect{URL: hookURL, Needs: []Need{{Trigger: "all", On: on, Named: true}}}); !v.Healthy() {
			t.Errorf("%s: %+v", e.Name, v)
		}
	}
}

func TestSameURL(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"https://h/p", "https://h/p/", true},
		{"https://h/p", "https://h:443/p", true},
		{"http://h/p", "http://h:80/p", true},
		{"https://h/p", "https://H/p?x=1", true},
		{" https://h/p", "https://h/p", true},
		{"https://h", "https://h/", true},
		{"https://h/p", "https://h/P", false},
		{"https://h/p", "http://h/p", false},
		{"https://h/p", "https://h:8443/p", false},
		{"https://h/p", "https://h.other/p", false},
		{"", "", false},
		{"%", "%", false},
	} {
		if got := SameURL(c.a, c.b); got != c.same || SameURL(c.b, c.a) != got {
			t.Errorf("SameURL(%q, %q) = %v", c.a, c.b, got)
		}
	}
}

func TestNoCredentialOfAURLIsShown(t *testing.T) {
	v := Judge(sound(func(f *Facts) { f.Hook.URL = "https://user:hunter2@h.test/p?token=hunter2#hunter2" }), Expect{URL: hookURL})
	if strings.Contains(v.HookURL, "hunter2") || !strings.HasPrefix(v.HookURL, "https://h.test/p") {
		t.Errorf("got %q", v.HookURL)
	}
}
