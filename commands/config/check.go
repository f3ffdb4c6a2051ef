package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/seed-de999ace/preloop/queue/trigger"
)

// check settles what depends on two values, once all layers have been read.
func (c *Config) check(r *reader) {
	c.checkStore(r)
	c.checkTimes(r)
	c.checkSources(r)
	for i := range c.Triggers {
		c.checkTrigger(r, i)
	}
}

func (c *Config) checkStore(r *reader) {
	if _, tried := r.at["store"]; !tried {
		if c.StateDir == "" {
			r.failAt("store", "%s; or name a store", noStateDir)
			return
		}
		c.Store = StoreURL{Kind: SQLite, Path: filepath.Join(c.StateDir, "preloop.db")}
	}
	if c.Store.Kind == SQLite && c.StoreListen.IsSet() {
		r.failAt("store_listen", "only a Postgres store has listeners")
	}
	if _, tried := r.at["system_token"]; c.Store.Kind == Postgres && r.options.Serve && !c.SystemToken.IsSet() && !tried {
		r.failAt("store", "on Postgres a system token must be configured, the same for every node: set system_token or PRELOOP_SYSTEM_TOKEN")
	}
}

func (c *Config) checkTimes(r *reader) {
	q := &c.Queue
	if _, chosen := r.at["queue.renew"]; !chosen {
		q.Renew = min(q.Renew, q.Lease/3)
	}
	if q.Renew >= q.Lease {
		r.failAt("queue.renew", "%s is not below the lease of %s: it would be lost before it is renewed", short(q.Renew), short(q.Lease))
	}
	b := &c.Breaker
	if _, chosen := r.at["breaker.max_open"]; !chosen {
		b.MaxOpen = max(b.MaxOpen, b.Open)
	}
	if _, chosen := r.at["breaker.open"]; !chosen {
		b.Open = min(b.Open, b.MaxOpen)
	}
	if b.MaxOpen < b.Open {
		r.failAt("breaker.max_open", "%s is below breaker.open, %s", short(b.MaxOpen), short(b.Open))
	}
	if in := c.Ingress; in.Memory < in.MaxBody {
		path := "ingress.memory"
		if _, chosen := r.at[path]; !chosen {
			path = "ingress.max_body"
		}
		r.failAt(path, "memory (%d bytes) is below max_body (%d bytes): the largest body would never fit", in.Memory, in.MaxBody)
	}
}

// checkSources sees to it that a name, a key and a secret each mean one source.
func (c *Config) checkSources(r *reader) {
	names, keys := map[string]string{}, map[string]string{}
	owners := map[string]string{}
	unique := func(seen map[string]string, what, text, path, field string) {
		if first, twice := seen[text]; twice && text != "" {
			r.failAt(join(path, field), "%s %q is already %s", what, text, first)
			return
		}
		seen[text] = path
	}
	secretsOf := func(name, path string, secrets []NamedSecret) {
		for _, s := range secrets {
			if owner, shared := owners[s.Value.Reveal()]; shared && owner != path {
				r.failAt(join(path, "webhook_secrets"), "secret %q of %s is also a secret of %s: each source needs its own", s.Name, name, owner)
			} else {
				owners[s.Value.Reveal()] = path
			}
		}
		if len(secrets) == 0 && !r.options.LenientSecrets {
			c.Warnings = append(c.Warnings, fmt.Sprintf("source %s has no webhook secret: its deliveries are refused", name))
		}
	}
	for _, a := range c.Apps {
		if a.Name == "" {
			continue // without an id, which is reported
		}
		unique(keys, "the app", a.Key(), a.path, "id")
		unique(names, "the name", a.Name, a.path, "name")
		secretsOf(a.Name, a.path, a.WebhookSecrets)
	}
	for _, h := range c.Hooks {
		unique(keys, "the hook", h.Key(), h.path, "id")
		unique(names, "the name", h.Name, h.path, "name")
		secretsOf(h.Name, h.path, h.WebhookSecrets)
	}
	if len(names) == 0 {
		c.Warnings = append(c.Warnings, "no webhook secret is configured: every delivery is refused; set PRELOOP_WEBHOOK_SECRET")
	}
}

func (c *Config) checkTrigger(r *reader, i int) {
	t := &c.Triggers[i]
	at := func(field string) string { return join(fmt.Sprintf("triggers[%d]", i), field) }
	chosen := func(field string) bool { _, ok := r.at[at(field)]; return ok }

	first := slices.IndexFunc(c.Triggers, func(other trigger.Spec) bool { return other.Name == t.Name })
	if first < i && t.Name != "" {
		r.failAt(at("name"), "%q is already the name of triggers[%d]", t.Name, first)
	}
	names := c.sourceNames()
	for n, name := range t.Sources {
		if !slices.Contains(names, name) {
			r.failAt(fmt.Sprintf("%s[%d]", at("sources"), n), "there is no source %q%s", name, suggest(name, names))
		}
	}
	if l := c.Limits.Concurrency; l > 0 && t.Concurrency > l {
		r.failAt(at("concurrency"), "%d is above limits.concurrency, %d", t.Concurrency, l)
	}
	if l := c.Limits.QueueSize; l > 0 && t.QueueSize > l {
		if chosen("queue.size") {
			r.failAt(at("queue.size"), "%d is above limits.queue_size, %d", t.QueueSize, l)
		}
		t.QueueSize = l
	}
	if l := c.Limits.QueueWait; l > 0 && t.QueueWait > l {
		if chosen("queue.wait") {
			r.failAt(at("queue.wait"), "%s is above limits.queue_wait, %s", short(t.QueueWait), short(l))
		}
		t.QueueWait = l
	}
	if t.Coalesce == "subject" && t.FollowUp != nil {
		r.failAt(at("coalesce"), "coalesce and follow_up contradict each other: the one drops the event that the other hands over")
	}
	if slices.Contains(slices.Collect(maps.Values(t.GitHubToken)), "write") && !chosen("permission") {
		r.failAt(at("github_token"), "a token that can write needs permission: the sender's least role, or none if anyone may")
	}
	c.compile(r, i)
	c.checkEvents(t)
}

// compile lets the trigger's own languages be checked, and puts what they say in its place.
func (c *Config) compile(r *reader, i int) {
	base := fmt.Sprintf("triggers[%d]", i)
	compiled, err := trigger.Compile(c.Triggers[i])
	for _, e := range flatten(err) {
		path, message := base, e.Error()
		if field, ok := errors.AsType[*trigger.FieldError](e); ok {
			path, message = join(base, field.Field), field.Err.Error()
		}
		// What is already known to be wrong need not be said again in other words.
		if !r.reported(path) {
			r.failAt(path, "%s", message)
		}
	}
	c.Compiled = append(c.Compiled, compiled)
}

// flatten gives the errors that errors.Join put together.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range joined.Unwrap() {
			all = append(all, flatten(e)...)
		}
		return all
	}
	return []error{err}
}

func (c *Config) sourceNames() []string {
	var names []string
	for _, s := range c.Sources() {
		names = append(names, s.Name)
	}
	return names
}
