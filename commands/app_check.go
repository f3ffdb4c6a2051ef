package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-de999ace/preloop/commands/config"
	"github.com/seed-de999ace/preloop/queue/api"
)

// AppCheckCmd compares apps and webhooks at GitHub with the configuration.
type AppCheckCmd struct {
	Source string `placeholder:"NAME" help:"Only this app or hook."`
	Output
}

// Run checks every app once: 0 healthy, 1 drift, 3 when one could not be read or checked.
func (c *AppCheckCmd) Run(ctx context.Context, a *app) error {
	if a.Server != "" {
		return usagef("app-check asks GitHub by itself; what a server has found is in `preloop status`")
	}
	cfg, err := a.load(config.Options{})
	if err != nil {
		return err
	}
	store, err := openForPass(ctx, cfg, a.log)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // every write has been answered
	return c.check(ctx, a, &monitor{cfg: cfg, store: store, hub: newHub(cfg, breakerDocs{store}, a.log), log: a.log})
}

func (c *AppCheckCmd) check(ctx context.Context, a *app, m *monitor) error {
	sources := monitored(m.cfg)
	if len(sources) == 0 {
		return usagef("there is nothing to check: that needs an app with its private key, or a hook with its id")
	}
	if c.Source != "" {
		var some []monitoredSource
		for _, s := range sources {
			if s.name == c.Source || s.key == c.Source {
				some = append(some, s)
			}
		}
		if sources = some; len(some) == 0 {
			return usagef("--source: no app or hook that can be checked is named %s", c.Source)
		}
	}
	verdicts, err := m.pass(ctx, sources)
	if err != nil {
		return err
	}
	t := &table{header: []string{"SOURCE", "STATE", "FINDING"}, wrap: true}
	code := exitDone
	for _, v := range verdicts {
		switch {
		case v.held || v.Error != nil || !v.Checked:
			code = exitUnreachable
		case v.Healthy == nil || !*v.Healthy:
			code = max(code, exitFound)
		}
		if c.asJSON() {
			if err := c.print(a.out, v.AppVerdict); err != nil {
				return err
			}
			continue
		}
		for _, finding := range v.findings() {
			t.add(v.Source, v.state(), finding)
		}
	}
	if !c.asJSON() {
		if err := t.print(a); err != nil {
			return err
		}
	}
	if code != exitDone {
		return quietCode(code)
	}
	return nil
}

// verdict is one app's, and whether it is an earlier pass's.
type verdict struct {
	api.AppVerdict
	key  string
	held bool // its breaker is open: it was not read again
}

func (v verdict) state() string {
	switch {
	case v.held && v.Checked:
		return "held"
	case v.Error != nil:
		return "unread"
	case !v.Checked:
		return "unchecked"
	case v.Healthy != nil && *v.Healthy:
		return "healthy"
	}
	return "drift"
}

// findings are what a person can act on, one a line.
func (v verdict) findings() (lines []string) {
	if v.held {
		line := "GitHub could not be asked: its breaker is open"
		if v.Checked && v.CheckedAt != nil {
			line += "; what follows is from " + v.CheckedAt.UTC().Format(time.RFC3339)
		}
		lines = append(lines, line)
	}
	if v.Error != nil {
		lines = append(lines, *v.Error)
	}
	if v.URLDrifted && v.ExpectedURL != nil {
		lines = append(lines, fmt.Sprintf("GitHub delivers to %s and should to %s; change the webhook URL at %s, or public_url here", orDash(v.HookURL), *v.ExpectedURL, orDash(v.SettingsURL)))
	}
	lines = append(lines, v.Problems...)
	if len(lines) == 0 {
		lines = append(lines, "-")
	}
	return lines
}

// monitorApps returns the service: every app is checked at the start and then every so often.
func (n *node) monitorApps() func(ctx context.Context) error {
	reloaded := n.reloads()
	return func(ctx context.Context) error {
		told := map[string]string{}
		again := false
		for {
			m := &monitor{cfg: n.current().cfg, store: n.store, hub: n.hub, log: n.log}
			if !again || !m.recent(ctx) {
				verdicts, err := m.pass(ctx, monitored(m.cfg))
				if ctx.Err() != nil {
					return nil
				}
				if err != nil {
					n.log.Error("the apps were not checked", "error", err)
				}
				m.tell(verdicts, told)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-reloaded: // what the triggers need may be different
				again = false
			case <-time.After(m.cfg.AppMonitor.Every):
				again = true
			}
		}
	}
}

// recent reports whether another node has just checked every app.
func (m *monitor) recent(ctx context.Context) bool {
	var last api.MonitorPass
	_, err := loadDoc(ctx, m.store, api.DocMonitor, "pass", &last)
	return err == nil && time.Since(last.CheckedAt) < m.cfg.AppMonitor.Every/2
}

// tell logs what is wrong, once for as long as it stays the same.
func (m *monitor) tell(verdicts []verdict, told map[string]string) {
	for _, v := range verdicts {
		text := v.state()
		if text != "healthy" {
			text = fmt.Sprint(v.findings())
		}
		if v.held || told[v.key] == text {
			continue
		}
		was := told[v.key]
		told[v.key] = text
		switch {
		case text != "healthy":
			for _, finding := range v.findings() {
				m.log.Warn("GitHub's side of an app or hook is not as it should be", "source", v.Source, "finding", finding)
			}
		case was != "":
			m.log.Info("GitHub's side of an app or hook is as it should be again", "source", v.Source)
		}
	}
}

var errNoKey = errors.New("no private key is configured for the app, so GitHub cannot be asked about it: set its private_key")
