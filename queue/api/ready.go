package api

import (
	"net/http"
	"sync/atomic"
	"time"
)

// Readiness answers /readyz: whether this node can do its work, and why not. It is safe for
// concurrent use. No request touches the store: the node's heartbeat reports what it found.
type Readiness struct {
	// StoreLost is how long the store may be silent; the heartbeat comes several times in that span.
	StoreLost time.Duration
	// LastClaim is when a worker of this node last got an answer to a claim; nil without a worker.
	LastClaim func() time.Time
	// Stalled is how long a worker may go without one: three leases.
	Stalled time.Duration

	draining  atomic.Bool
	storeSeen atomic.Int64
	refusals  atomic.Int64 // deliveries in a row that the store did not take
	refusedAt atomic.Int64 // when it did not take the last of them
}

// SawStore records that the store has just answered a write.
func (r *Readiness) SawStore(now time.Time) { r.storeSeen.Store(now.UnixNano()) }

// LostStore records that it did not.
func (r *Readiness) LostStore() { r.storeSeen.Store(0) }

// Ingested records whether the store has taken a delivery. One that is full may answer everything
// else: two deliveries in a row that it did not take make the node unready, until it takes one or
// StoreLost has gone by without another.
func (r *Readiness) Ingested(taken bool, now time.Time) {
	if taken {
		r.refusals.Store(0)
		return
	}
	r.refusedAt.Store(now.UnixNano())
	r.refusals.Add(1)
}

// Drain makes the node unready for good.
func (r *Readiness) Drain() { r.draining.Store(true) }

// Reason is empty when the node is ready.
func (r *Readiness) Reason(now time.Time) string {
	if r.draining.Load() {
		return "shutting_down"
	}
	if seen := r.storeSeen.Load(); seen == 0 || now.Sub(time.Unix(0, seen)) > r.StoreLost {
		return "store_unavailable"
	}
	if r.refusals.Load() >= 2 && now.Sub(time.Unix(0, r.refusedAt.Load())) < r.StoreLost {
		return "store_unavailable"
	}
	if r.LastClaim != nil && now.Sub(r.LastClaim()) > r.Stalled {
		return "worker_stalled"
	}
	return ""
}

func (r *Readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	reason := r.Reason(time.Now())
	if reason == "" {
		writeJSON(w, http.StatusOK, map[string]any{"ready": true, "reason": nil})
		return
	}
	writeJSON(w, http.StatusServiceUnavailable, map[string]any{"ready": false, "reason": reason})
}
