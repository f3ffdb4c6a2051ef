package config

import (
	"time"

	"github.com/goccy/go-yaml/ast"
)

// read reads the whole file into c.
func (c *Config) read(root value) {
	q, w, b, in := &c.Queue, &c.Watchdog, &c.Breaker, &c.Ingress
	root.object(fields{
		"listen":          scalar(address(&c.Listen)),
		"operator_listen": scalar(address(&c.OperatorListen)),
		"public_url":      scalar(webURL(&c.PublicURL)),
		"store":           database(storeURL(&c.Store, root.r.dir)),
		"store_listen":    database(listenURL(&c.StoreListen)),
		"system_token":    secret(&c.SystemToken, checkToken),
		"github_api_url":  scalar(apiURL(&c.GitHubAPIURL)),
		"apps":            c.readApps,
		"hooks":           c.readHooks,
		"session_ttl":     scalar(duration(&c.SessionTTL, tick)),
		"shutdown_grace":  scalar(duration(&c.ShutdownGrace, 0)),
		"triggers":        c.readTriggers,
		"limits": object(fields{
			"concurrency": scalar(count(&c.Limits.Concurrency, 1)),
			"queue_size":  scalar(count(&c.Limits.QueueSize, 1)),
			"queue_wait":  scalar(duration(&c.Limits.QueueWait, tick)),
		}),
		"queue": object(fields{
			"workers":         scalar(count(&q.Workers, 1)),
			"lease":           scalar(duration(&q.Lease, time.Second)),
			"renew":           scalar(duration(&q.Renew, tick)),
			"max_attempts":    scalar(count(&q.MaxAttempts, 1)),
			"backoff":         durations(&q.Backoff),
			"poll":            scalar(duration(&q.Poll, tick)),
			"notify_coalesce": scalar(duration(&q.NotifyCoalesce, 0)),
			"max_outages":     scalar(count(&q.MaxOutages, 0)),
			"kill_after":      scalar(duration(&q.KillAfter, 0)),
		}),
		"retention": object(fields{
			"keep":  scalar(duration(&c.Retention.Keep, time.Second)),
			"every": scalar(duration(&c.Retention.Every, tick)),
			"batch": scalar(count(&c.Retention.Batch, 1)),
		}),
		"watchdog": object(fields{
			"enabled":      scalar(boolean(&w.Enabled)),
			"redeliver":    scalar(boolean(&w.Redeliver)),
			"every":        scalar(duration(&w.Every, watchdogFloor)),
			"grace":        scalar(duration(&w.Grace, 0)),
			"max_attempts": scalar(count(&w.MaxAttempts, 1)),
			"max_pages":    scalar(count(&w.MaxPages, 1)),
			"backoff":      durations(&w.Backoff),
			"pace":         scalar(duration(&w.Pace, 0)),
			"budget":       scalar(count(&w.Budget, 1)),
		}),
		"breaker": object(fields{
			"enabled":            scalar(boolean(&b.Enabled)),
			"threshold":          scalar(count(&b.Threshold, 1)),
			"open":               scalar(duration(&b.Open, tick)),
			"max_open":           scalar(duration(&b.MaxOpen, tick)),
			"probe":              scalar(duration(&b.Probe, tick)),
			"rate_limit_default": scalar(duration(&b.RateLimitDefault, tick)),
		}),
		"app_monitor": object(fields{
			"every": scalar(duration(&c.AppMonitor.Every, monitorFloor)),
		}),
		"ingress": object(fields{
			"max_body":        scalar(size(&in.MaxBody, 1)),
			"memory":          scalar(size(&in.Memory, 1)),
			"budget":          scalar(duration(&in.Budget, tick)),
			"attempts":        scalar(count(&in.Attempts, 1)),
			"attempt_timeout": scalar(duration(&in.AttemptTimeout, tick)),
			"retry_delay":     scalar(duration(&in.RetryDelay, 0)),
			"read_timeout":    scalar(duration(&in.ReadTimeout, tick)),
		}),
	})
}

// The floors that protect GitHub's API.
const (
	watchdogFloor = 10 * time.Second
	monitorFloor  = time.Minute
)

func object(f fields) func(value) {
	return func(v value) { v.object(f) }
}

// durations reads a list of waits, at least one.
func durations(dst *[]time.Duration) func(value) {
	return func(v value) {
		var all []time.Duration
		v.list(func(_ int, item value) {
			var d time.Duration
			scalar(duration(&d, 0))(item)
			all = append(all, d)
		})
		if _, isList := v.resolved().(*ast.SequenceNode); (isList || v.null()) && len(all) == 0 {
			v.fail("want at least one wait")
		}
		*dst = all
	}
}

// database reads a store's URL, written out or, as it may hold a password, named like a secret.
func database(set setter) func(value) {
	return func(v value) {
		if _, named := v.resolved().(*ast.MappingNode); named {
			secret(nil, set)(v)
			return
		}
		v.r.hide(v.node)
		scalar(set)(v)
	}
}
