package api

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/breaker"
	"github.com/seed-de999ace/preloop/queue"
)

func kinds(list []Condition) []string {
	var out []string
	for _, c := range list {
		out = append(out, c.Type)
	}
	return out
}

// One row a condition: the facts that raise it, and the least change that clears it.
func TestConditions(t *testing.T) {
	now := time.Date(2026, 8, 20, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *time.Time { t := now.Add(-d); return &t }
	yes, no := true, false
	bad := "no answer"
	open := breaker.State{Open: true, OpenUntil: now.Add(20 * time.Second), LastErrorAt: now.Add(-time.Minute), LastError: "502"}
	node := func(id, hash string, loaded time.Duration, gone bool) queue.Node {
		return queue.Node{ID: id, TriggersHash: hash, TriggersLoadedAt: now.Add(-loaded), StartedAt: now.Add(-24 * time.Hour), Components: []string{"watchdog"}, Gone: gone}
	}
	for name, c := range map[string]struct {
		kind, severity string
		says           string
		since          *time.Time
		raise, clear   func(f *facts)
	}{
		"dead letter": {
			"webhook_dead_letter", "error", "2 deliveries have failed", ago(time.Hour),
			func(f *facts) { f.counts.Deliveries[queue.Failed], f.counts.OldestDead = 2, *ago(time.Hour) },
			func(f *facts) { f.counts.Deliveries[queue.Failed] = 0 },
		},
		"stalled": {
			"webhook_queue_stalled", "error", "2026-08-20T11:45:00Z", ago(15 * time.Minute),
			func(f *facts) { f.counts.OldestClaimable = *ago(15 * time.Minute) },
			func(f *facts) { f.counts.OldestClaimable = ago(15 * time.Minute).Add(time.Second) },
		},
		"credential away": {
			"github_unavailable", "warning", "unavailable for app:1", ago(time.Minute),
			func(f *facts) { f.breakers["app:1"] = open },
			func(f *facts) { f.breakers["app:1"] = breaker.State{Failures: 2} },
		},
		"rate limit": {
			"github_unavailable", "warning", "rate-limited for app:1", ago(time.Minute),
			func(f *facts) { b := open; b.RateLimited = true; f.breakers["app:1"] = b },
			func(f *facts) { delete(f.breakers, "app:1") },
		},
		"watchdog stale": {
			"webhook_watchdog_stale", "warning", "2026-08-20T11:30:00Z", ago(30 * time.Minute),
			func(f *facts) {
				f.watching = true
				f.watchdog["app-1"] = WatchdogSource{Source: "acme", LastPollAt: ago(0), LastSuccessAt: ago(30 * time.Minute)}
				f.watchdog["app-2"] = WatchdogSource{Source: "other", LastPollAt: ago(0), LastSuccessAt: ago(0)}
			},
			func(f *facts) {
				f.watchdog["app-1"] = WatchdogSource{Source: "acme", LastSuccessAt: ago(29 * time.Minute)}
			},
		},
		"watchdog stale, but off": {
			"webhook_watchdog_stale", "warning", "succeeded", ago(time.Hour),
			func(f *facts) {
				f.watching, f.watchdog["app-1"] = true, WatchdogSource{LastSuccessAt: ago(time.Hour)}
			},
			func(f *facts) { f.watching = false },
		},
		"watchdog without a success ever": {
			"webhook_watchdog_stale", "warning", "succeeded", ago(24 * time.Hour),
			func(f *facts) {
				f.watching, f.nodes = true, []queue.Node{node("a", "h", time.Hour, false)}
				f.watchdog["app-1"] = WatchdogSource{LastPollAt: ago(0), LastError: &bad}
			},
			func(f *facts) { f.nodes[0].StartedAt = *ago(time.Minute) },
		},
		"repairs pending": {
			"webhook_repairs_pending", "warning", "1 missing delivery was asked for again", ago(time.Minute),
			func(f *facts) { f.repairs = []queue.Repair{{Attempts: 1, LastAttempt: *ago(time.Minute)}, {}} },
			func(f *facts) { f.repairs = f.repairs[1:] },
		},
		"drift": {
			"webhook_config_drift", "warning", "of acme is wrong", ago(time.Minute),
			func(f *facts) {
				f.apps["app-1"] = AppVerdict{Source: "acme", Checked: true, CheckedAt: ago(time.Minute), Healthy: &no}
			},
			func(f *facts) {
				f.apps["app-1"] = AppVerdict{Source: "acme", Checked: true, CheckedAt: ago(time.Minute), Healthy: &yes}
			},
		},
		"app that cannot be read": {
			"webhook_config_drift", "warning", "could not be read", ago(time.Minute),
			func(f *facts) {
				f.apps["app-1"] = AppVerdict{Source: "acme", CheckedAt: ago(time.Minute), Healthy: &yes, Error: &bad}
			},
			func(f *facts) { f.apps["app-1"] = AppVerdict{Source: "acme"} }, // unchecked is no finding
		},
		"delivery failing": {
			"webhook_delivery_failing", "error", "newest deliveries to acme", nil,
			func(f *facts) { f.watchdog["app-1"] = WatchdogSource{Source: "acme", Failing: true} },
			func(f *facts) { f.watchdog["app-1"] = WatchdogSource{Source: "acme"} },
		},
		"double subscription": {
			"webhook_double_subscription", "warning", "trigger greet gets one event through acme and widgets", ago(time.Hour),
			func(f *facts) {
				f.doubles = []queue.DoubleSubscription{{Trigger: "greet", Owner: "acme", Other: "widgets", LastAt: *ago(time.Hour)}}
			},
			func(f *facts) { f.doubles = nil },
		},
		"config mismatch": {
			"config_mismatch", "warning", "b have older triggers", nil,
			func(f *facts) {
				f.nodes = []queue.Node{node("a", "new", time.Minute, false), node("b", "old", time.Hour, false), node("c", "older", 2*time.Hour, true)}
			},
			func(f *facts) { f.nodes[1].TriggersHash = "new" },
		},
		"config mismatch with a node that went": {
			"config_mismatch", "warning", "b have older triggers", nil,
			func(f *facts) {
				f.nodes = []queue.Node{node("a", "new", time.Minute, false), node("b", "old", time.Hour, false)}
			},
			func(f *facts) { f.nodes[0].Gone = true },
		},
		"uncertain": {
			"run_uncertain", "warning", "1 run waits", ago(time.Hour),
			func(f *facts) { f.counts.Runs[queue.Uncertain], f.counts.OldestUncertain = 1, *ago(time.Hour) },
			func(f *facts) { f.counts.Runs[queue.Uncertain] = 0 },
		},
		"dropped": {
			"run_dropped", "warning", "3 runs were dropped in the last hour (1 expired, 2 queue_full)", nil,
			func(f *facts) { f.counts.Dropped1h = map[string]int{"queue_full": 2, "expired": 1} },
			func(f *facts) { f.counts.Dropped1h, f.counts.Dropped24h = nil, map[string]int{"queue_full": 2} },
		},
		"trigger failing": {
			"trigger_failing", "error", "trigger greet failed", ago(time.Minute),
			func(f *facts) { f.stats["greet"] = queue.TriggerStats{LastFailed: 5, LastRunAt: *ago(time.Minute)} },
			func(f *facts) { f.stats["greet"] = queue.TriggerStats{LastFailed: 4} },
		},
		"trigger failing that is gone": {
			"trigger_failing", "error", "trigger greet failed", nil,
			func(f *facts) { f.stats["greet"] = queue.TriggerStats{LastFailed: 5} },
			func(f *facts) { f.triggers = []TriggerInfo{{Name: "another"}} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts{
				now: now, settings: breaker.Defaults(), breakers: map[string]breaker.State{}, apps: map[string]AppVerdict{}, watchdog: map[string]WatchdogSource{}, stats: map[string]queue.TriggerStats{},
				counts: queue.Counts{Deliveries: map[queue.DeliveryState]int{queue.Done: 5, queue.Received: 1}, Runs: map[queue.RunState]int{queue.Succeeded: 5}},
			}
			if s := document(f); len(s.Conditions) != 0 || s.Status != "ok" {
				t.Fatalf("a healthy store has %v", s.Conditions)
			}
			c.raise(&f)
			s := document(f)
			if len(s.Conditions) != 1 || s.Status != "warning" {
				t.Fatalf("got %v, status %s", s.Conditions, s.Status)
			}
			got := s.Conditions[0]
			if got.Type != c.kind || got.Severity != c.severity || !strings.Contains(got.Message, c.says) {
				t.Errorf("got %+v, want %s %s: …%s…", got, c.severity, c.kind, c.says)
			}
			if (got.Since == nil) != (c.since == nil) || got.Since != nil && !got.Since.Equal(*c.since) {
				t.Errorf("since %v, want %v", got.Since, c.since)
			}
			c.clear(&f)
			if s := document(f); len(s.Conditions) != 0 || s.Status != "ok" {
				t.Errorf("once cleared there is still %v", s.Conditions)
			}
		})
	}
}

// While GitHub as a whole is away nothing is claimed, and that is no stall.
func TestNoStallWhileGitHubIsAway(t *testing.T) {
	now := time.Now()
	f := facts{now: now, settings: breaker.Defaults(), breakers: map[string]breaker.State{}, counts: queue.Counts{OldestClaimable: now.Add(-time.Hour)}}
	open := breaker.State{Open: true, OpenUntil: now.Add(time.Minute)}
	f.breakers["app:1"] = open
	if got := kinds(document(f).Conditions); !slices.Contains(got, "webhook_queue_stalled") {
		t.Errorf("with one credential's breaker open: %v", got)
	}
	f.breakers["host:api.github.com"] = open
	if got := kinds(document(f).Conditions); slices.Contains(got, "webhook_queue_stalled") || !slices.Contains(got, "github_unavailable") {
		t.Errorf("with the host's breaker open: %v", got)
	}
}

// The real things, through the store.
func TestConditionsHappen(t *testing.T) {
	seen := map[string]bool{}
	for name, c := range map[string]struct {
		kind         string
		raise, clear func(w *world)
	}{
		"dead letter": {
			"webhook_dead_letter",
			func(w *world) { w.own("one"); w.settle(queue.Settlement{Kind: queue.SettleFail, Error: "no"}) },
			func(w *world) { w.object(w.ask("POST", "/api/v1/webhooks/deliveries/one/replay", "")) },
		},
		"the sixth attempt": {
			"webhook_dead_letter",
			func(w *world) {
				w.own("one")
				for range 6 {
					w.settle(queue.Settlement{Kind: queue.SettleRetry, Error: "no"})
					time.Sleep(time.Minute)
				}
			},
			func(w *world) { w.own("one") }, // somebody presses Redeliver on GitHub
		},
		"stalled": {
			"webhook_queue_stalled",
			func(w *world) { w.own("one"); time.Sleep(15 * time.Minute) },
			func(w *world) { w.settle(queue.Settlement{Kind: queue.SettleDone}) },
		},
		"stalled after a wait": {
			"webhook_queue_stalled",
			func(w *world) {
				w.own("one")
				w.settle(queue.Settlement{Kind: queue.SettlePark, Wait: time.Hour})
				time.Sleep(75 * time.Minute)
			},
			func(w *world) { w.settle(queue.Settlement{Kind: queue.SettlePark, Wait: time.Hour}) },
		},
		"uncertain": {
			"run_uncertain",
			func(w *world) {
				w.admit("one", "greet")
				w.start("greet")
				time.Sleep(61 * time.Second) // its worker is gone
				_, err := w.store.SweepRuns(w.Context())
				w.must(err)
			},
			func(w *world) {
				id := ids(w.get("/api/v1/runs?state=uncertain"), "runs", "id")[0]
				w.object(w.ask("POST", "/api/v1/runs/"+id+"/resolve", `{"as":"succeeded"}`))
			},
		},
		"dropped": {
			"run_dropped",
			func(w *world) { w.own("one"); w.settle(matched("greet", 0)) },
			func(w *world) { time.Sleep(time.Hour) },
		},
		"failing": {
			"trigger_failing",
			func(w *world) {
				for _, id := range []string{"a", "b", "c", "d", "e"} {
					w.ran(id, "greet", queue.Outcome{State: queue.RunFailed})
				}
			},
			func(w *world) { w.ran("f", "greet", queue.Outcome{State: queue.Succeeded}) },
		},
		"double subscription": {
			"webhook_double_subscription",
			func(w *world) {
				w.ran("one", "greet", queue.Outcome{State: queue.Succeeded})
				w.own("one", from("hook-2", "widgets"))
				w.settle(matched("greet", 50))
			},
			func(w *world) { time.Sleep(25 * time.Hour) },
		},
		"mismatch": {
			"config_mismatch",
			func(w *world) {
				old := time.Now()
				time.Sleep(time.Second)
				w.beat("node-1", "new", time.Now())
				w.beat("node-2", "old", old)
			},
			func(w *world) { w.beat("node-2", "new", time.Now()) },
		},
		"mismatch with a dead node": {
			"config_mismatch",
			func(w *world) {
				w.beat("node-2", "old", time.Now())
				time.Sleep(time.Second)
				w.beat("node-1", "new", time.Now())
			},
			func(w *world) { time.Sleep(2 * time.Minute) },
		},
		"breaker": {
			"github_unavailable",
			func(w *world) {
				w.publish(DocBreaker, "host:api.github.com", breaker.State{Open: true, OpenUntil: time.Now().Add(time.Minute), LastErrorAt: time.Now()})
			},
			func(w *world) { w.publish(DocBreaker, "host:api.github.com", breaker.State{}) },
		},
		"stale": {
			"webhook_watchdog_stale",
			func(w *world) {
				at := time.Now()
				w.publish(DocWatchdog, "app-1", WatchdogSource{Source: "acme", LastPollAt: &at, LastSuccessAt: &at})
				time.Sleep(30 * time.Minute)
				w.beat("node-1", "h", at, "watchdog")
			},
			func(w *world) { w.must(w.store.Leave(w.Context(), "node-1")) },
		},
		"pending": {
			"webhook_repairs_pending",
			func(w *world) {
				w.must(w.store.SaveRepairs(w.Context(), []queue.Repair{{Source: "app-1", GUID: "one", State: "open", Attempts: 1, LastAttempt: time.Now(), DeliveredAt: time.Now(), FoundAt: time.Now()}}))
			},
			func(w *world) {
				w.must(w.store.SaveRepairs(w.Context(), []queue.Repair{{Source: "app-1", GUID: "one", State: "arrived", Attempts: 1, DeliveredAt: time.Now(), FoundAt: time.Now(), ClosedAt: time.Now()}}))
			},
		},
		"drift": {
			"webhook_config_drift",
			func(w *world) {
				no := false
				w.publish(DocApp, "app-1", AppVerdict{Source: "acme", Checked: true, Healthy: &no})
			},
			func(w *world) {
				yes := true
				w.publish(DocApp, "app-1", AppVerdict{Source: "acme", Checked: true, Healthy: &yes})
			},
		},
		"delivery failing": {
			"webhook_delivery_failing",
			func(w *world) { w.publish(DocWatchdog, "app-1", WatchdogSource{Source: "acme", Failing: true}) },
			func(w *world) { w.publish(DocWatchdog, "app-1", WatchdogSource{Source: "acme"}) },
		},
	} {
		seen[c.kind] = true
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				conditions := func() []string {
					s, err := w.client.Status(w.Context())
					w.must(err)
					return kinds(s.Conditions)
				}
				c.raise(w)
				if got := conditions(); !slices.Contains(got, c.kind) {
					t.Fatalf("the conditions are %v, want %s", got, c.kind)
				}
				c.clear(w)
				if got := conditions(); slices.Contains(got, c.kind) {
					t.Errorf("%s stays", c.kind)
				}
			})
		})
	}
	if len(seen) != 12 {
		t.Errorf("%d of the 12 documented conditions are caused", len(seen))
	}
}
