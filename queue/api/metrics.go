package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-de999ace/preloop/queue"
)

// Metrics are what Prometheus sees. Labels are bounded: results, states and reasons are fixed
// words, triggers and sources are the configuration's. Nothing of a payload becomes a label.
type Metrics struct {
	registry   *prometheus.Registry
	deliveries *prometheus.CounterVec
	enqueue    prometheus.Histogram
	attempts   *prometheus.CounterVec
	latency    prometheus.Histogram
	runs       *prometheus.CounterVec
	waited     prometheus.Histogram
	took       prometheus.Histogram
	pruned     prometheus.Counter
}

var seconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60, 600, 3600}

// NewMetrics returns this process's metrics; what the store says is read from ops at each scrape.
func NewMetrics(ops Operations, log *slog.Logger) *Metrics {
	m := &Metrics{
		registry:   prometheus.NewRegistry(),
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "preloop_webhook_requests_total", Help: "Requests to the webhook endpoint by result."}, []string{"result"}),
		enqueue:    prometheus.NewHistogram(prometheus.HistogramOpts{Name: "preloop_webhook_request_seconds", Help: "Time from a webhook request to its answer.", Buckets: seconds}),
		attempts:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "preloop_delivery_attempts_total", Help: "Attempts at deliveries by outcome."}, []string{"outcome"}),
		latency:    prometheus.NewHistogram(prometheus.HistogramOpts{Name: "preloop_delivery_latency_seconds", Help: "Time from a delivery's receipt to the end of an attempt at it.", Buckets: seconds}),
		runs:       prometheus.NewCounterVec(prometheus.CounterOpts{Name: "preloop_run_attempts_total", Help: "Attempts at runs by the state that the run then had."}, []string{"state"}),
		waited:     prometheus.NewHistogram(prometheus.HistogramOpts{Name: "preloop_run_wait_seconds", Help: "Time from a run's admission to the start of an attempt.", Buckets: seconds}),
		took:       prometheus.NewHistogram(prometheus.HistogramOpts{Name: "preloop_run_seconds", Help: "How long attempts at runs took.", Buckets: seconds}),
		pruned:     prometheus.NewCounter(prometheus.CounterOpts{Name: "preloop_pruned_deliveries_total", Help: "Deliveries that this process pruned."}),
	}
	m.registry.MustRegister(m.deliveries, m.enqueue, m.attempts, m.latency, m.runs, m.waited, m.took, m.pruned, &stored{ops: ops, log: log})
	return m
}

// ServeHTTP answers a scrape.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// Request counts one request to the webhook endpoint.
func (m *Metrics) Request(result string, took time.Duration) {
	m.deliveries.WithLabelValues(result).Inc()
	m.enqueue.Observe(took.Seconds())
}

// Delivery counts one attempt at a delivery.
func (m *Metrics) Delivery(a queue.DeliveryAttempt) {
	m.attempts.WithLabelValues(a.Outcome).Inc()
	m.latency.Observe(a.Latency.Seconds())
}

// Run counts one attempt at a run.
func (m *Metrics) Run(a queue.RunAttempt) {
	m.runs.WithLabelValues(string(a.Run.State)).Inc()
	m.waited.Observe(a.Waited.Seconds())
	m.took.Observe(a.Took.Seconds())
}

// Pruned counts what pruning deleted.
func (m *Metrics) Pruned(n int) { m.pruned.Add(float64(n)) }

// stored collects what the status document says, which is the same on every node of a store.
type stored struct {
	ops Operations
	log *slog.Logger
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("preloop_"+name, help, labels, nil)
}

var (
	descUp         = desc("store_up", "1 when the store answered this scrape.")
	descDeliveries = desc("deliveries", "Deliveries in the store by state.", "state")
	descOldest     = desc("queue_oldest_pending_seconds", "Age of the oldest delivery that is claimable or being processed.")
	descRuns       = desc("runs", "Runs in the store by state.", "state")
	descDropped    = desc("runs_dropped_24h", "Runs dropped in the last 24 hours by reason.", "reason")
	descTrigger    = desc("trigger_runs", "Runs of a trigger that have not ended, by state.", "trigger", "state")
	descOpen       = desc("breaker_open", "1 while the breaker of a credential or host is open.", "breaker")
	descRetry      = desc("breaker_retry_seconds", "When an open breaker is tried again.", "breaker")
	descTrips      = desc("breaker_trips_total", "How often a breaker has opened.", "breaker")
	descSuccess    = desc("watchdog_last_success_timestamp_seconds", "When every source's history was last read.")
	descRepairs    = desc("watchdog_open_repairs", "Deliveries that GitHub has and the store has not.")
	descBlind      = desc("watchdog_blind_seconds", "How long GitHub could not reach this server in the last 24 hours.")
	descHealthy    = desc("app_healthy", "1 when GitHub's side of a source was found right, 0 when not; absent while unchecked.", "source")
	descCondition  = desc("condition", "1 for each condition that holds.", "type", "severity")
)

// Describe implements prometheus.Collector: an unchecked one, whose labels vary.
func (s *stored) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s *stored) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	st, err := s.ops.Status(ctx)
	if err != nil {
		s.log.Warn("a scrape got nothing of the store", "error", err)
		gauge(descUp, 0)
		return
	}
	gauge(descUp, 1)
	gauge(descDeliveries, float64(st.Queue.Received), string(queue.Received))
	gauge(descDeliveries, float64(st.Queue.Processing), string(queue.Processing))
	gauge(descDeliveries, float64(st.Queue.Done), string(queue.Done))
	gauge(descDeliveries, float64(st.Queue.DeadLetters), string(queue.Failed))
	age := 0.0
	if st.Queue.OldestPendingAgeSecond != nil {
		age = float64(*st.Queue.OldestPendingAgeSecond)
	}
	gauge(descOldest, age)
	for _, state := range queue.RunStates {
		if n, ok := st.Runs[string(state)].(int); ok {
			gauge(descRuns, float64(n), string(state))
		}
	}
	if reasons, ok := st.Runs["dropped_24h_by_reason"].(map[string]int); ok {
		for reason, n := range reasons {
			gauge(descDropped, float64(n), reason)
		}
	}
	for _, t := range st.Triggers {
		gauge(descTrigger, float64(t.Running), t.Name, string(queue.Running))
		gauge(descTrigger, float64(t.Waiting), t.Name, string(queue.Waiting))
		gauge(descTrigger, float64(t.Routing), t.Name, string(queue.Routing))
		gauge(descTrigger, float64(t.Uncertain), t.Name, string(queue.Uncertain))
	}
	breaker := func(name string, b BreakerStatus) {
		open := 0.0
		if b.Open {
			open = 1
		}
		gauge(descOpen, open, name)
		gauge(descRetry, float64(b.RetryInSeconds), name)
		out <- prometheus.MustNewConstMetric(descTrips, prometheus.CounterValue, float64(b.Trips), name)
	}
	breaker("host", st.GitHubBreaker)
	for _, b := range st.Breakers {
		breaker(b.Credential, b.BreakerStatus)
	}
	if st.Watchdog.LastSuccessAt != nil {
		gauge(descSuccess, float64(st.Watchdog.LastSuccessAt.Unix()))
	}
	gauge(descRepairs, float64(st.Watchdog.OpenRepairs))
	gauge(descBlind, float64(st.Watchdog.BlindSeconds))
	shown := map[string]bool{} // a name that a removed source had too is shown once, or Prometheus refuses all
	for _, a := range st.Apps {
		if a.Healthy != nil && !shown[a.Source] {
			shown[a.Source] = true
			healthy := 0.0
			if *a.Healthy {
				healthy = 1
			}
			gauge(descHealthy, healthy, a.Source)
		}
	}
	seen := map[string]bool{}
	for _, c := range st.Conditions {
		if !seen[c.Type] {
			seen[c.Type] = true
			gauge(descCondition, 1, c.Type, c.Severity)
		}
	}
}
