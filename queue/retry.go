package queue

import (
	"slices"
	"time"
)

// Settings are the rules by which a store judges attempts. All nodes of one store are expected
// to share them.
type Settings struct {
	Lease          time.Duration   // how long a claim holds
	MaxAttempts    int             // charged attempts before a delivery is failed, or a run
	Backoff        []time.Duration // waits after the first, second, … failed attempt; the last one repeats
	MaxOutages     int             // transport and 5xx failures with the breaker closed that are refunded
	Keep           time.Duration   // retention of terminal rows
	SessionTTL     time.Duration   // how long a sleeping session can be woken after its last hand-over
	NotifyCoalesce time.Duration   // Postgres: notifications after the first one are joined over this time
	DeadNode       time.Duration   // a node whose heartbeat is older than this is gone
}

// DefaultSettings are those of the documentation.
func DefaultSettings() Settings {
	return Settings{
		Lease:          60 * time.Second,
		MaxAttempts:    6,
		Backoff:        []time.Duration{1 * time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, 30 * time.Second},
		MaxOutages:     20,
		Keep:           30 * 24 * time.Hour,
		SessionTTL:     72 * time.Hour,
		NotifyCoalesce: 15 * time.Millisecond,
		DeadNode:       60 * time.Second,
	}
}

// Wait is the time between a failed attempt, the attempts-th, and the next one.
func (s Settings) Wait(attempts int) time.Duration {
	if len(s.Backoff) == 0 || attempts < 1 {
		return 0
	}
	return s.Backoff[min(attempts, len(s.Backoff))-1]
}

// Next is what a settlement makes of a delivery that a worker holds: its new state, whether the
// attempt is refunded, whether it counts as an outage, and the wait before the next claim.
type Next struct {
	State  DeliveryState
	Refund bool
	Outage bool
	Wait   time.Duration
	Word   string // the attempt's outcome in the history
}

// NextState decides what a settlement makes of a delivery. attempts includes the one that is
// being settled; outages are those it has met before.
func (s Settings) NextState(kind SettleKind, attempts, outages int, wait time.Duration, outage bool) Next {
	switch kind {
	case SettleDone:
		return Next{State: Done, Word: "done"}
	case SettleRelease:
		return Next{State: Received, Refund: true, Word: "released"}
	case SettlePark:
		if outage && outages >= s.MaxOutages {
			break // GitHub fails on this one resource: an ordinary failure from now on
		}
		if outage {
			wait = max(wait, s.Wait(outages+1))
		}
		return Next{State: Received, Refund: true, Outage: outage, Wait: wait, Word: "parked"}
	case SettleFail:
		return Next{State: Failed, Word: "failed"}
	}
	if attempts >= s.MaxAttempts {
		return Next{State: Failed, Word: "failed"}
	}
	if wait == 0 {
		wait = s.Wait(attempts)
	}
	return Next{State: Received, Wait: wait, Word: "retry"}
}

// MaxHistory bounds the attempts that are kept with one row, so that a delivery which is parked
// for days stays small: the oldest ones of the middle go first.
const MaxHistory = 64

// AppendAttempt adds a to history within MaxHistory, keeping the first attempts and the newest.
func AppendAttempt(history []Attempt, a Attempt) []Attempt {
	if len(history) >= MaxHistory {
		history = slices.Delete(history, MaxHistory/4, len(history)-MaxHistory+MaxHistory/4+1)
	}
	return append(history, a)
}
