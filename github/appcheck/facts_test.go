package appcheck

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-de999ace/preloop/github"
)

type gitHub struct {
	owner   string // what kind of account it is
	app     error
	config  error
	webhook error
}

func (g gitHub) App(context.Context) (github.App, error) {
	app := github.App{ID: 7, Slug: "bot", HTMLURL: "https://github.com/apps/bot", Events: []string{"push"}, Permissions: map[string]string{"contents": "read"}}
	app.Owner.Login, app.Owner.Type = "acme", g.owner
	return app, g.app
}

func (g gitHub) HookConfig(context.Context, github.Hook) (github.HookConfig, error) {
	return github.HookConfig{URL: "https://h.test/", HasSecret: true}, g.config
}

func (g gitHub) Webhook(context.Context, github.Hook) (github.Webhook, error) {
	return github.Webhook{ID: 9, Events: []string{"push"}, Config: github.HookConfig{URL: "https://h.test/", HasSecret: true}}, g.webhook
}

func TestRead(t *testing.T) {
	away := errors.New("away")
	for name, c := range map[string]struct {
		client gitHub
		hook   github.Hook
		kind   Kind
		active bool
		err    bool
		page   string
	}{
		"an organization's app":            {client: gitHub{owner: "Organization"}, kind: App, active: true, page: "https://github.com/organizations/acme/settings/apps/bot"},
		"a user's app":                     {client: gitHub{owner: "User"}, kind: App, active: true, page: "https://github.com/settings/apps/bot"},
		"an enterprise's app":              {kind: App, active: true, page: "https://github.com/apps/bot"},
		"an app that cannot be read":       {client: gitHub{app: away}, err: true},
		"an app whose hook cannot be read": {client: gitHub{config: away}, err: true},
		"a repository's hook, inactive":    {hook: github.Hook{Repo: "acme/widgets", ID: 9}, kind: RepoHook, page: "https://ghe.test/acme/widgets/settings/hooks/9"},
		"an organization's hook":           {hook: github.Hook{Org: "acme", ID: 9}, kind: OrgHook, page: "https://ghe.test/organizations/acme/settings/hooks/9"},
		"a hook that cannot be read":       {client: gitHub{webhook: away}, hook: github.Hook{Org: "acme", ID: 9}, err: true},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Read(t.Context(), c.client, c.hook)
			if c.err {
				if !errors.Is(err, away) {
					t.Fatalf("got %v", err)
				}
				return
			}
			if err != nil || f.Kind != c.kind || f.Active != c.active || !f.Hook.HasSecret || !f.subscribed("push") {
				t.Errorf("got %+v, %v", f, err)
			}
			if v := Judge(f, Expect{WebHost: "ghe.test"}); v.SettingsURL != c.page {
				t.Errorf("the settings page is %s", v.SettingsURL)
			}
		})
	}
}
