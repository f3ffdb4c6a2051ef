package api

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/breaker"
	"github.com/seed-de999ace/preloop/queue"
)

var sample = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? (\S+)$`)

// scrape reads the metrics: each sample's value by its name and labels.
func (w *world) scrape() map[string]string {
	w.Helper()
	a := w.ask("GET", "/metrics", "")
	if a.Code != http.StatusOK {
		w.Fatalf("%d %s", a.Code, a.Body)
	}
	all := map[string]string{}
	for line := range strings.Lines(a.Body.String()) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		m := sample.FindStringSubmatch(line)
		if m == nil {
			w.Fatalf("this is no sample: %q", line)
		}
		all[strings.TrimSuffix(line, " "+m[3])] = m[3]
	}
	return all
}

// What a payload says never becomes a metric, and labels are a fixed few.
func TestMetrics(t *testing.T) {
	w := newWorld(t)
	w.publishTriggers("greet")
	hostile := func(d *queue.Delivery) {
		d.Event, d.Action, d.Repo, d.Subject, d.Sender, d.Org = "issues", hush, hush+"/"+hush, hush+"/"+hush+"#1", hush+"\"}\n", hush
	}
	w.ran("one", "greet", queue.Outcome{State: queue.RunFailed, Error: hush, Reason: queue.ReasonTimeout}, hostile)
	w.own("two", hostile)
	w.settle(matched("greet", 0))
	w.own("three", hostile)
	w.settle(queue.Settlement{Kind: queue.SettleFail, Error: hush})
	w.publish(DocBreaker, "host:api.github.com", breaker.State{Trips: 3, LastError: hush})
	w.publish(DocBreaker, "app:1", breaker.State{Open: true, OpenUntil: time.Now().Add(time.Minute), LastError: hush})
	at, yes := time.Now(), true
	w.publish(DocWatchdog, "app-1", WatchdogSource{Source: "acme", LastPollAt: &at, LastSuccessAt: &at, LastError: &[]string{hush}[0]})
	w.publish(DocApp, "app-1", AppVerdict{Source: "acme", Healthy: &yes, Problems: []string{hush}})
	w.publish(DocApp, "app-2", AppVerdict{Source: "acme", Healthy: &yes}) // the same name twice
	w.metrics.Request("accepted", time.Millisecond)
	w.metrics.Delivery(queue.DeliveryAttempt{Outcome: "done", Latency: time.Second})
	w.metrics.Run(queue.RunAttempt{Run: &queue.Run{State: queue.RunFailed, Error: hush}, Waited: time.Second, Took: time.Second})
	w.metrics.Pruned(3)

	all := w.scrape()
	known := []string{"result", "outcome", "state", "reason", "trigger", "breaker", "source", "type", "severity", "le"}
	label := regexp.MustCompile(`(\w+)="`)
	for name := range all {
		if !strings.HasPrefix(name, "preloop_") {
			t.Errorf("%s does not begin with preloop_", name)
		}
		if strings.Contains(name, hush) {
			t.Errorf("%s shows what a payload says", name)
		}
		for _, m := range label.FindAllStringSubmatch(name, -1) {
			if !slices.Contains(known, m[1]) {
				t.Errorf("%s has the label %s", name, m[1])
			}
		}
	}
	for name, want := range map[string]string{
		"preloop_store_up": "1", `preloop_deliveries{state="done"}`: "2", `preloop_deliveries{state="failed"}`: "1", `preloop_runs{state="failed"}`: "1", `preloop_runs{state="dropped"}`: "1",
		`preloop_runs_dropped_24h{reason="queue_full"}`: "1", `preloop_trigger_runs{state="waiting",trigger="greet"}`: "0", `preloop_breaker_open{breaker="app:1"}`: "1",
		`preloop_breaker_open{breaker="host"}`: "0", `preloop_breaker_trips_total{breaker="host"}`: "3", `preloop_app_healthy{source="acme"}`: "1",
		`preloop_condition{severity="error",type="webhook_dead_letter"}`: "1", `preloop_webhook_requests_total{result="accepted"}`: "1", "preloop_webhook_request_seconds_count": "1",
		`preloop_delivery_attempts_total{outcome="done"}`: "1", `preloop_run_attempts_total{state="failed"}`: "1", "preloop_run_seconds_count": "1", "preloop_run_wait_seconds_count": "1",
		"preloop_pruned_deliveries_total": "3", "preloop_watchdog_open_repairs": "0",
	} {
		if all[name] != want {
			t.Errorf("%s is %q, want %s", name, all[name], want)
		}
	}

	w.must(w.store.Close())
	if all = w.scrape(); all["preloop_store_up"] != "0" || all[`preloop_runs{state="failed"}`] != "" || all["preloop_pruned_deliveries_total"] != "3" {
		t.Errorf("without its store a node shows %v", all)
	}
}
