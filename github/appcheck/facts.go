package appcheck

import (
	"context"
	"slices"

	"github.com/seed-de999ace/preloop/github"
)

// Client is what a check asks of GitHub. *github.Client is one.
type Client interface {
	App(ctx context.Context) (github.App, error)
	HookConfig(ctx context.Context, h github.Hook) (github.HookConfig, error)
	Webhook(ctx context.Context, h github.Hook) (github.Webhook, error)
}

// Kind is what delivers.
type Kind int

// The kinds of source.
const (
	App Kind = iota
	RepoHook
	OrgHook
)

func (k Kind) String() string { return []string{"the app", "the webhook", "the webhook"}[k] }

// Facts are what GitHub says of an app or a webhook.
type Facts struct {
	Kind        Kind
	AppID       int64
	Slug        string            // of an app
	PageURL     string            // of an app: its public page
	User, Org   string            // of an app: who owns it; both empty: unknown
	Events      []string          // subscribed to; "*" stands for all
	Permissions map[string]string // of an app
	Active      bool
	Webhook     github.Hook // of a webhook: which it is
	Hook        github.HookConfig
}

// Read asks GitHub. The zero hook is the app whose credential the client has.
func Read(ctx context.Context, c Client, hook github.Hook) (Facts, error) {
	if hook == (github.Hook{}) {
		app, err := c.App(ctx)
		if err != nil {
			return Facts{}, err
		}
		config, err := c.HookConfig(ctx, hook)
		f := Facts{
			Kind: App, AppID: app.ID, Slug: app.Slug, PageURL: app.HTMLURL, Events: app.Events, Permissions: app.Permissions,
			Active: true, // GitHub does not tell
			Hook:   config,
		}
		switch app.Owner.Type {
		case "Organization":
			f.Org = app.Owner.Login
		case "User":
			f.User = app.Owner.Login
		}
		return f, err
	}
	w, err := c.Webhook(ctx, hook)
	f := Facts{Kind: RepoHook, Webhook: hook, Events: w.Events, Active: w.Active, Hook: w.Config}
	if hook.Org != "" {
		f.Kind = OrgHook
	}
	return f, err
}

// subscribed reports whether GitHub lists the event.
func (f Facts) subscribed(event string) bool {
	return slices.Contains(f.Events, event) || slices.Contains(f.Events, "*")
}
