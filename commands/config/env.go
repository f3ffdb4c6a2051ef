package config

import (
	"slices"
	"strings"
)

// override is a value from the environment or the command line and the key that it overrides.
type override struct {
	name, text string
	key        string
	set        setter
}

func (r *reader) override(all []override) {
	for _, o := range all {
		if o.text == "" {
			continue
		}
		r.at[o.key] = place{name: o.name}
		if err := o.set(o.text); err != nil {
			r.failAt(o.key, "%v", err)
		}
	}
}

// environment reads every variable that stands for a key.
func (c *Config) environment(r *reader) {
	w := &c.Watchdog
	all := []override{
		{name: "PRELOOP_LISTEN", key: "listen", set: address(&c.Listen)},
		{name: "PRELOOP_STORE_URL", key: "store", set: storeURL(&c.Store, "")},
		{name: "PRELOOP_PUBLIC_URL", key: "public_url", set: webURL(&c.PublicURL)},
		{name: "PRELOOP_SYSTEM_TOKEN", key: "system_token", set: systemToken(&c.SystemToken)},
		{name: "PRELOOP_SERVER_URL", key: "server", set: webURL(&c.ServerURL)},
		{name: "PRELOOP_GITHUB_API_URL", key: "github_api_url", set: apiURL(&c.GitHubAPIURL)},
		{name: "PRELOOP_WEBHOOK_WATCHDOG", key: "watchdog.enabled", set: boolean(&w.Enabled)},
		{name: "PRELOOP_WEBHOOK_WATCHDOG_INTERVAL_SECS", key: "watchdog.every", set: seconds(&w.Every, watchdogFloor)},
		{name: "PRELOOP_WEBHOOK_WATCHDOG_GRACE_SECS", key: "watchdog.grace", set: seconds(&w.Grace, 0)},
		{name: "PRELOOP_WEBHOOK_WATCHDOG_MAX_ATTEMPTS", key: "watchdog.max_attempts", set: count(&w.MaxAttempts, 1)},
		{name: "PRELOOP_WEBHOOK_WATCHDOG_MAX_PAGES", key: "watchdog.max_pages", set: count(&w.MaxPages, 1)},
		{name: "PRELOOP_GITHUB_BREAKER", key: "breaker.enabled", set: boolean(&c.Breaker.Enabled)},
		{name: "PRELOOP_GITHUB_BREAKER_THRESHOLD", key: "breaker.threshold", set: count(&c.Breaker.Threshold, 1)},
		{name: "PRELOOP_WEBHOOK_HEALTH_INTERVAL_SECS", key: "app_monitor.every", set: seconds(&c.AppMonitor.Every, monitorFloor)},
	}
	for i := range all {
		all[i].text = r.env(all[i].name)
	}
	r.override(all)
	for _, a := range append(r.appsFromJSON(), r.appFromVariables()...) {
		c.putApp(r, a)
	}
}

func (c *Config) flags(r *reader) {
	f := r.options.Flags
	r.override([]override{
		{"--listen", f.Listen, "listen", address(&c.Listen)},
		{"--operator-listen", f.OperatorListen, "operator_listen", address(&c.OperatorListen)},
		{"--store", f.Store, "store", storeURL(&c.Store, "")},
		{"--public-url", f.PublicURL, "public_url", webURL(&c.PublicURL)},
		{"--server", f.Server, "server", webURL(&c.ServerURL)},
		{"--components", f.Components, "components", components(&c.Components)},
	})
}

func components(dst *[]string) setter {
	return func(text string) error {
		var all []string
		for word := range strings.SplitSeq(text, ",") {
			var name string
			if err := oneOf(&name, Components...)(strings.TrimSpace(word)); err != nil {
				return err
			}
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
		*dst = all
		return nil
	}
}
