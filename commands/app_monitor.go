package commands

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/seed-de999ace/preloop/commands/config"
	"github.com/seed-de999ace/preloop/github"
	"github.com/seed-de999ace/preloop/github/appcheck"
	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/api"
)

// monitoredSource is an app, or a hook that can be asked for.
type monitoredSource struct {
	key, name string
	appID     int64 // 0: a hook
	keyless   bool  // an app without a private key
	hook      github.Hook
	secrets   []string
}

func monitored(cfg *config.Config) (list []monitoredSource) {
	for _, app := range cfg.Apps {
		if app.ID != 0 {
			list = append(list, monitoredSource{key: app.Key(), name: app.Name, appID: app.ID, keyless: !app.PrivateKey.IsSet(), secrets: names(app.WebhookSecrets)})
		}
	}
	for _, h := range cfg.Hooks {
		if h.ID != 0 {
			list = append(list, monitoredSource{key: h.Key(), name: h.Name, hook: github.Hook{Repo: h.Repo, Org: h.Org, ID: h.ID}, secrets: names(h.WebhookSecrets)})
		}
	}
	return list
}

// monitor checks the apps of one reading of the configuration.
type monitor struct {
	cfg   *config.Config
	store queue.Store
	hub   *hub
	log   *slog.Logger
}

// pass checks these sources and publishes their verdicts. The error is the store's.
func (m *monitor) pass(ctx context.Context, sources []monitoredSource) ([]verdict, error) {
	began := time.Now()
	docs, err := m.store.LoadDocs(ctx, api.DocApp)
	if err != nil {
		return nil, err
	}
	uses, err := m.store.SecretUses(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.hub.breakers.Refresh(ctx); err != nil {
		return nil, err
	}
	verdicts := make([]verdict, len(sources))
	var all sync.WaitGroup
	for i, s := range sources {
		all.Go(func() { verdicts[i] = m.check(ctx, s, docs[s.key]) })
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	every := true
	for i := range verdicts {
		v, s := &verdicts[i], sources[i]
		if s.appID != 0 && (v.held || !v.Checked || v.Error != nil) {
			every = false
		}
		if !v.held && !s.keyless || v.held && docs[s.key].Version == 0 {
			if err := publish(ctx, m.store, api.DocApp, s.key, v.AppVerdict); err != nil {
				return nil, err
			}
		}
		v.Secrets = secretsSeen(s, uses)
	}
	for _, s := range monitored(m.cfg) {
		if s.appID != 0 && !slices.ContainsFunc(sources, func(o monitoredSource) bool { return o.key == s.key }) {
			every = false // a pass over some of them
		}
	}
	if every {
		return verdicts, publish(ctx, m.store, api.DocMonitor, "pass", api.MonitorPass{CheckedAt: began.UTC()})
	}
	return verdicts, nil
}

// check reads and judges one source. While its breaker is open the earlier verdict stays.
func (m *monitor) check(ctx context.Context, s monitoredSource, earlier queue.Doc) verdict {
	v := verdict{key: s.key, AppVerdict: m.blank(s)}
	client, err := m.hub.client(s.key)
	if s.keyless {
		err = errNoKey
	}
	if err != nil {
		return v.unread(err, false)
	}
	now := time.Now()
	_, reachable := m.hub.breakers.Gate(now)
	shut := !reachable || m.hub.breakers.Wait(client.BreakerKey(), now) > 0
	facts, err := appcheck.Read(ctx, client, s.hook)
	var away *github.UnavailableError
	switch {
	case err != nil && shut && errors.As(err, &away) && away.BreakerOpen:
		v.held = true
		var last api.AppVerdict
		if earlier.Version > 0 && json.Unmarshal(earlier.Body, &last) == nil {
			v.AppVerdict = last
		}
		return v
	case err != nil:
		return v.unread(err, true)
	}
	found := appcheck.Judge(facts, appcheck.Expect{URL: m.cfg.HookURL(), WebHost: m.hub.endpoint.WebHost(), Needs: m.needs(s)})
	healthy := found.Healthy()
	v.Checked, v.CheckedAt, v.Healthy = true, timeOrNil(now), &healthy
	v.HookURL, v.URLDrifted, v.SettingsURL = textOrNil(found.HookURL), found.URLDrifted, textOrNil(found.SettingsURL)
	v.MissingEvents, v.MissingPermissions, v.Problems = nonNil(found.MissingEvents), nonNil(found.MissingPermissions), nonNil(found.Problems)
	return v
}

// blank is the verdict on a source that was never checked.
func (m *monitor) blank(s monitoredSource) api.AppVerdict {
	v := api.AppVerdict{
		Source: s.name, ExpectedURL: textOrNil(m.cfg.HookURL()),
		MissingEvents: []string{}, MissingPermissions: []string{}, Problems: []string{}, Secrets: []api.SecretSeen{},
	}
	if s.appID != 0 {
		v.AppID = &s.appID
	}
	return v
}

// unread is the verdict when GitHub's facts could not be had: never a clean bill. tried: GitHub was
// asked.
func (v verdict) unread(err error, tried bool) verdict {
	healthy := false
	v.Healthy, v.Error = &healthy, textOrNil(err.Error())
	if tried {
		v.Checked, v.CheckedAt = true, timeOrNil(time.Now())
	}
	return v
}

// needs are what the enabled triggers need of a source.
func (m *monitor) needs(s monitoredSource) (needs []appcheck.Need) {
	alone := len(m.cfg.Sources()) == 1
	for _, t := range m.cfg.Compiled {
		named := slices.Contains(t.Spec.Sources, s.name)
		if !t.Spec.Enabled || len(t.Spec.Sources) > 0 && !named {
			continue
		}
		needs = append(needs, appcheck.Need{Trigger: t.Spec.Name, On: t.Spec.On, Permissions: t.Needs().Permissions, Named: named || alone})
	}
	return needs
}

func secretsSeen(s monitoredSource, uses []queue.SecretUse) []api.SecretSeen {
	out := []api.SecretSeen{}
	for _, name := range s.secrets {
		seen := api.SecretSeen{Name: name}
		for _, u := range uses {
			if u.Source == s.key && u.Name == name {
				seen.Deliveries, seen.LastUsedAt = u.Deliveries, timeOrNil(u.LastUsedAt)
			}
		}
		out = append(out, seen)
	}
	return out
}

func nonNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
