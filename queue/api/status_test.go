package api

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/breaker"
	"github.com/seed-de999ace/preloop/queue"
)

func TestStatusFields(t *testing.T) {
	bubble(t, func(w *world) {
		w.local.Sources = func() []SourceInfo {
			return []SourceInfo{{Key: "app-1", Name: "acme", AppID: 1, Secrets: []string{"current", "old"}}, {Key: "hook-2", Name: "widgets"}}
		}
		w.publishTriggers("greet")
		w.ran("one", "greet", queue.Outcome{State: queue.Succeeded})
		w.own("two")
		w.settle(matched("greet", 0))
		w.own("dead")
		w.settle(queue.Settlement{Kind: queue.SettleFail, Error: "no"})
		w.beat("node-1", "h", time.Now(), "worker", "watchdog")
		w.publish(DocBreaker, "host:api.github.com", breaker.State{Failures: 2, Trips: 4, LastError: "500", LastErrorAt: time.Now()})
		w.publish(DocBreaker, "app:1", breaker.State{Open: true, OpenUntil: time.Now().Add(20 * time.Second), RateLimited: true, Trips: 1, LastError: "429", LastErrorAt: time.Now()})
		at := time.Now().UTC()
		w.publish(DocWatchdog, "app-1", WatchdogSource{Source: "acme", LastPollAt: &at, LastSuccessAt: &at, LastExamined: 3, RedeliveriesRequested: 2, BlindSeconds: 60})
		healthy := true
		w.publish(DocApp, "app-1", AppVerdict{Source: "acme", Checked: true, CheckedAt: &at, Healthy: &healthy})
		w.publish(DocMonitor, "pass", MonitorPass{CheckedAt: at})
		time.Sleep(10 * time.Second)
		w.own("fresh")
		time.Sleep(5500 * time.Millisecond)

		s := w.get("/api/v1/status")
		w.has("the status", s, "status version node store queue runs watchdog github_breaker breakers apps app_config_checked_at triggers nodes conditions")
		w.has("store", s["store"], "kind ok")
		w.has("queue", s["queue"], "received processing done dead_letters oldest_pending_at oldest_pending_age_seconds")
		w.has("runs", s["runs"], "waiting running routing succeeded failed dropped delivered uncertain canceled dropped_24h dropped_24h_by_reason")
		w.has("watchdog", s["watchdog"], "enabled last_poll_at last_success_at last_success_age_seconds last_examined redeliveries_requested open_repairs blind_seconds last_error sources")
		const breakerKeys = "open retry_in_seconds consecutive_failures trips rate_limited last_error"
		w.has("github_breaker", s["github_breaker"], breakerKeys)
		w.has("a breaker", s["breakers"].([]any)[0], "credential", breakerKeys)
		for _, a := range s["apps"].([]any) {
			w.has("an app", a, "source app_id checked checked_at healthy hook_url expected_url url_drifted settings_url missing_events missing_permissions problems error secrets")
		}
		w.has("a secret", s["apps"].([]any)[0].(map[string]any)["secrets"].([]any)[0], "name deliveries last_used_at")
		w.has("a trigger", s["triggers"].([]any)[0], triggerKeys)
		for _, c := range s["conditions"].([]any) {
			w.has("a condition", c, "type severity message since")
		}
		for path, want := range map[string]any{
			"status": "warning", "version": "1.2.3", "node": "node-1", "store.kind": "sqlite", "store.ok": true,
			"queue.received": 1.0, "queue.processing": 0.0, "queue.done": 2.0, "queue.dead_letters": 1.0, "queue.oldest_pending_at": "2000-01-01T00:00:10Z", "queue.oldest_pending_age_seconds": 5.0,
			"runs.succeeded": 1.0, "runs.dropped": 1.0, "runs.waiting": 0.0, "runs.dropped_24h": 1.0, "runs.dropped_24h_by_reason.queue_full": 1.0,
			"watchdog.enabled": true, "watchdog.last_poll_at": "2000-01-01T00:00:00Z", "watchdog.last_success_age_seconds": 15.0, "watchdog.last_examined": 3.0,
			"watchdog.redeliveries_requested": 2.0, "watchdog.open_repairs": 0.0, "watchdog.blind_seconds": 60.0, "watchdog.last_error": nil,
			"github_breaker.open": false, "github_breaker.retry_in_seconds": 0.0, "github_breaker.consecutive_failures": 2.0, "github_breaker.trips": 4.0, "github_breaker.last_error": "500",
			"breakers.0.credential": "app:1", "breakers.0.open": true, "breakers.0.rate_limited": true, "breakers.0.retry_in_seconds": 5.0,
			"apps.0.source": "acme", "apps.0.app_id": 1.0, "apps.0.healthy": true, "apps.0.error": nil, "apps.0.secrets.0.name": "current", "apps.0.secrets.0.deliveries": 4.0,
			"apps.0.secrets.1.name": "old", "apps.0.secrets.1.deliveries": 0.0, "apps.0.secrets.1.last_used_at": nil,
			"apps.1.source": "widgets", "apps.1.app_id": nil, "apps.1.checked": false, "apps.1.healthy": nil, "apps.1.checked_at": nil,
			"app_config_checked_at": "2000-01-01T00:00:00Z", "triggers.0.name": "greet", "triggers.0.state": "active", "triggers.0.dropped_24h": 1.0,
			"nodes.0.id": "node-1", "nodes.0.gone": false, "nodes.0.last_heartbeat_at": "2000-01-01T00:00:00Z", "nodes.0.triggers_current": true,
		} {
			if got := dig(s, path); got != want {
				t.Errorf("%s is %v, want %v", path, got, want)
			}
		}
		for _, path := range []string{"apps.1.missing_events", "apps.1.missing_permissions", "apps.1.problems", "apps.1.secrets"} {
			if list, ok := dig(s, path).([]any); !ok || len(list) != 0 {
				t.Errorf("%s is %v, want an empty list", path, dig(s, path))
			}
		}
		h := w.get("/api/v1/webhooks/health")
		w.has("health", h, "status queue watchdog github_breaker breakers apps conditions")
		for key := range h {
			if a, b := toJSON(t, h[key]), toJSON(t, s[key]); a != b {
				t.Errorf("health and status differ in %s:\n%s\n%s", key, a, b)
			}
		}
		// Every moment is RFC 3339 in UTC.
		moment := regexp.MustCompile(`"(\w+_at|since)":"([^"]*)"`)
		found := moment.FindAllStringSubmatch(w.ask("GET", "/api/v1/status", "").Body.String(), -1)
		for _, m := range found {
			if at, err := time.Parse(time.RFC3339Nano, m[2]); err != nil || !strings.HasSuffix(m[2], "Z") || at.Year() != 2000 {
				t.Errorf("%s is %q", m[1], m[2])
			}
		}
		if len(found) < 10 {
			t.Errorf("%d moments only", len(found))
		}
	})
}

// dig follows a path of keys and numbers.
func dig(v any, path string) any {
	for key := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[key]
		case []any:
			if i := int(key[0] - '0'); i < len(x) {
				v = x[i]
			} else {
				return "no such element"
			}
		}
	}
	return v
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// An empty store is healthy, and lists are lists.
func TestEmptyStatus(t *testing.T) {
	w := newWorld(t)
	s := w.get("/api/v1/status")
	if s["status"] != "ok" || dig(s, "queue.oldest_pending_at") != nil || dig(s, "queue.oldest_pending_age_seconds") != nil || dig(s, "watchdog.enabled") != false || dig(s, "github_breaker.last_error") != nil || s["app_config_checked_at"] != nil {
		t.Errorf("an empty store: %v", s)
	}
	for _, key := range []string{"breakers", "apps", "triggers", "nodes", "conditions"} {
		if list, ok := s[key].([]any); !ok || len(list) != 0 {
			t.Errorf("%s is %v", key, s[key])
		}
	}
}

// What a source that is not configured any more left behind is forgotten; what another node still
// looks at is not.
func TestForgottenSources(t *testing.T) {
	bubble(t, func(w *world) {
		w.beat("node-1", "h", time.Now(), "watchdog")
		no, at := false, time.Now().UTC()
		publish := func(key string) {
			w.publish(DocApp, key, AppVerdict{Source: key, Checked: true, CheckedAt: &at, Healthy: &no})
			w.publish(DocWatchdog, key, WatchdogSource{Source: key, LastPollAt: &at, LastSuccessAt: &at, Failing: true})
		}
		publish("app-1")
		shown := func(want ...string) {
			t.Helper()
			s, err := w.local.Status(w.Context())
			w.must(err)
			for _, c := range s.Conditions {
				for _, key := range want {
					if c.Type == "webhook_config_drift" && !strings.Contains(c.Message, key) {
						t.Errorf("%s lacks %s", c.Message, key)
					}
				}
			}
			got := []string{}
			for _, a := range s.Apps {
				if a.Checked {
					got = append(got, a.Source)
				}
			}
			if strings.Join(got, " ") != strings.Join(want, " ") || len(s.Watchdog.Sources) != len(want) {
				t.Errorf("apps %v and %d watched sources, want %v", got, len(s.Watchdog.Sources), want)
			}
		}
		time.Sleep(2 * time.Hour)
		at = time.Now().UTC()
		publish("app-2")
		shown("app-1", "app-2") // who configured nothing knows nothing of what is gone
		w.local.Sources = func() []SourceInfo { return []SourceInfo{{Key: "app-3", Name: "app-3"}} }
		shown("app-2")
		w.local.Sources = func() []SourceInfo { return []SourceInfo{{Key: "app-1", Name: "app-1"}} }
		shown("app-1", "app-2")
	})
}

// A store that does not answer is a 500 with a reason, logged once.
func TestStoreAway(t *testing.T) {
	w := newWorld(t)
	w.must(w.store.Close())
	for _, path := range []string{"/api/v1/status", "/api/v1/webhooks/health", "/api/v1/webhooks/deliveries", "/api/v1/runs", "/api/v1/triggers", "/api/v1/webhooks/deliveries/one"} {
		w.log.Reset()
		w.refused(w.ask("GET", path, ""), http.StatusInternalServerError, "the store did not answer")
		if n := strings.Count(w.log.String(), "\n"); n != 1 || strings.Contains(w.log.String(), systemToken) {
			t.Errorf("%s: %d lines are logged: %s", path, n, w.log)
		}
	}
}
