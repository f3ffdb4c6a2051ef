package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// How long something has to last before it is a condition.
const (
	stalledAfter = 15 * time.Minute
	staleAfter   = 30 * time.Minute
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// conditions judges the facts. One rule a condition, in the order of the documentation.
func conditions(f facts, s *Status) []Condition {
	out := []Condition{}
	add := func(kind, severity string, since time.Time, format string, args ...any) {
		out = append(out, Condition{Type: kind, Severity: severity, Message: fmt.Sprintf(format, args...), Since: when(since)})
	}
	if n := f.counts.Deliveries[queue.Failed]; n > 0 {
		add("webhook_dead_letter", "error", f.counts.OldestDead, "%s failed; see `preloop deliveries list --state failed`, then `preloop replay`", plural(n, "delivery has", "deliveries have"))
	}
	if at := f.counts.OldestClaimable; !at.IsZero() && f.now.Sub(at) >= stalledAfter && !s.GitHubBreaker.Open {
		add("webhook_queue_stalled", "error", at, "a delivery has been claimable since %s and no worker took it; is a worker running?", at.UTC().Format(time.RFC3339))
	}
	for _, key := range sortedKeys(f.breakers) {
		if st := f.breakers[key].At(f.now, f.settings); st.Open {
			why := "unavailable"
			if st.RateLimited {
				why = "rate-limited"
			}
			add("github_unavailable", "warning", st.LastErrorAt, "GitHub is %s for %s: deliveries are parked, they do not fail; the next try is in %d s", why, key, int64((st.Wait(f.now, f.settings)+time.Second-1)/time.Second))
		}
	}
	if s.Watchdog.Enabled && len(s.Watchdog.Sources) > 0 {
		last := time.Time{}
		if s.Watchdog.LastSuccessAt != nil {
			last = *s.Watchdog.LastSuccessAt
		} else {
			last = oldestStart(f.nodes)
		}
		if !last.IsZero() && f.now.Sub(last) >= staleAfter {
			add("webhook_watchdog_stale", "warning", last, "no poll of GitHub's delivery history has succeeded since %s: lost deliveries are not found", last.UTC().Format(time.RFC3339))
		}
	}
	if n := s.Watchdog.RedeliveriesOutstanding; n > 0 {
		var since time.Time
		if s.Watchdog.AwaitedSince != nil {
			since = *s.Watchdog.AwaitedSince
		}
		add("webhook_repairs_pending", "warning", since, "%s; see `preloop repairs list`", plural(n, "missing delivery was asked for again and has not arrived", "missing deliveries were asked for again and have not arrived"))
	}
	var drifted []string
	var drift time.Time
	for _, a := range s.Apps {
		if a.Error != nil || a.Healthy != nil && !*a.Healthy {
			drifted = append(drifted, a.Source)
			if a.CheckedAt != nil && (drift.IsZero() || a.CheckedAt.Before(drift)) {
				drift = *a.CheckedAt
			}
		}
	}
	if len(drifted) > 0 {
		add("webhook_config_drift", "warning", drift, "GitHub's side of %s is wrong or could not be read; see `preloop app-check`", strings.Join(drifted, ", "))
	}
	if len(s.Watchdog.FailingSources) > 0 {
		add("webhook_delivery_failing", "error", time.Time{}, "GitHub's newest deliveries to %s all failed though this server is up: a proxy, DNS, TLS or a redirect stands between", strings.Join(s.Watchdog.FailingSources, ", "))
	}
	for _, d := range f.doubles {
		add("webhook_double_subscription", "warning", d.LastAt, "trigger %s gets one event through %s and %s; it runs once, for %s", d.Trigger, d.Owner, d.Other, d.Owner)
	}
	if newest := newestTriggers(f.nodes); newest != "" {
		var stale []string
		for _, n := range f.nodes {
			if !n.Gone && n.TriggersHash != newest {
				stale = append(stale, n.ID)
			}
		}
		if len(stale) > 0 {
			add("config_mismatch", "warning", time.Time{}, "%s have older triggers than the newest set and claim no deliveries; reload or restart them", strings.Join(stale, ", "))
		}
	}
	if n := f.counts.Runs[queue.Uncertain]; n > 0 {
		add("run_uncertain", "warning", f.counts.OldestUncertain, "%s for your word; see `preloop runs list --state uncertain`, then `preloop runs resolve` or `preloop runs retry`", plural(n, "run waits", "runs wait"))
	}
	if len(f.counts.Dropped1h) > 0 {
		var parts []string
		total := 0
		for _, reason := range sortedKeys(f.counts.Dropped1h) {
			parts = append(parts, fmt.Sprintf("%d %s", f.counts.Dropped1h[reason], reason))
			total += f.counts.Dropped1h[reason]
		}
		add("run_dropped", "warning", time.Time{}, "%s dropped in the last hour (%s); see `preloop runs list --state dropped`", plural(total, "run was", "runs were"), strings.Join(parts, ", "))
	}
	for _, name := range sortedKeys(f.stats) {
		gone := len(f.triggers) > 0 && !slices.ContainsFunc(f.triggers, func(t TriggerInfo) bool { return t.Name == name })
		if f.stats[name].LastFailed >= 5 && !gone {
			add("trigger_failing", "error", f.stats[name].LastRunAt, "the last five runs of trigger %s failed; see `preloop runs list --trigger %s`", name, name)
		}
	}
	return out
}

func oldestStart(nodes []queue.Node) (oldest time.Time) {
	for _, n := range nodes {
		if !n.Gone && slices.Contains(n.Components, "watchdog") && (oldest.IsZero() || n.StartedAt.Before(oldest)) {
			oldest = n.StartedAt
		}
	}
	return oldest
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
