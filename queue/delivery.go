package queue

import (
	"strconv"
	"strings"
	"time"
)

// DeliveryState says where a delivery stands. See doc.go for the drawing.
type DeliveryState string

// The states of a delivery.
const (
	Received   DeliveryState = "received"   // owned, waiting for a worker (first time, retry, parked or replayed)
	Processing DeliveryState = "processing" // a worker holds its lease
	Done       DeliveryState = "done"       // decided, its runs admitted in the same transaction
	Failed     DeliveryState = "failed"     // a dead letter
)

// DeliveryStates lists every state in the order of a delivery's life.
var DeliveryStates = []DeliveryState{Received, Processing, Done, Failed}

// Terminal reports whether nothing happens to the delivery any more without an operator or GitHub.
func (s DeliveryState) Terminal() bool { return s == Done || s == Failed }

// Facts are the few things that preloop itself reads out of a payload. A field is empty (or 0)
// where the event has no such thing or the payload has it in an unexpected shape.
type Facts struct {
	Action       string
	Repo         string // owner/name as the payload spells it
	RepoID       int64  // stable across renames and transfers
	Subject      string // owner/name#number, spelled as in the payload; empty when there is none or it is ambiguous
	SubjectNum   int64
	Sender       string // login
	SenderBot    bool   // type Bot, or a login that ends in [bot]
	Org          string // organization login, or the repository's owner
	Installation int64
}

// SubjectKey identifies the subject across renames, transfers and letter case: the repository's
// id (its lower-cased name where the payload has no id) and the number. Empty without a subject.
func (f Facts) SubjectKey() string {
	if f.Subject == "" {
		return ""
	}
	return f.RepoKey() + "#" + strconv.FormatInt(f.SubjectNum, 10)
}

// RepoKey identifies the repository in the same manner. Empty without a repository.
func (f Facts) RepoKey() string {
	switch {
	case f.RepoID != 0:
		return strconv.FormatInt(f.RepoID, 10)
	case f.Repo != "":
		return strings.ToLower(f.Repo)
	}
	return ""
}

// Delivery is one webhook as GitHub sent it, without its payload.
type Delivery struct {
	Seq        int64  // order of receipt in this store, ascending; assigned by the store
	ID         string // X-GitHub-Delivery
	Source     string // key of the source: "app-<id>", "hook-<id>", …; never changes with a rename
	SourceName string // what people call the source; the key where it has no name of its own
	Event      string // X-GitHub-Event
	Facts
	Headers map[string]string // the allow-listed ones, canonical names
	Size    int               // bytes of JSON payload

	State       DeliveryState
	Attempts    int // charged attempts; a parked or released one is refunded
	Generation  int // 0 on receipt, one more for each replay
	ReceivedAt  time.Time
	QueuedAt    time.Time // receipt, or the last replay: what a pause counts by
	NextAttempt time.Time // claimable from here on; meaningful while Received
	LeaseUntil  time.Time // zero unless Processing
	FinishedAt  time.Time // zero unless terminal
	LastError   string

	Force    bool     // replayed with force: max_age does not apply
	Triggers []string // replayed for these triggers only; nil means all
	Outages  int      // times it met a transport or 5xx failure with the breaker closed, this generation

	// Secret is the name of the webhook secret that verified it; counted by the store on enqueue, not kept.
	Secret string
}

// Key is how the delivery is written where its GUID alone is ambiguous.
func (d *Delivery) Key() string { return d.SourceName + "/" + d.ID }

// Attempt is one attempt's outcome, kept for a delivery or a run.
type Attempt struct {
	Generation int       `json:"generation,omitempty"`
	Attempt    int       `json:"attempt"` // its number, also where it was refunded afterwards
	Node       string    `json:"node"`
	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at"`
	Outcome    string    `json:"outcome"` // done, retry, failed, parked, released, lease_expired; for runs their states and words
	Error      string    `json:"error,omitempty"`
}

// Verdict is a trigger's answer to a delivery.
type Verdict string

// The verdicts.
const (
	Matched  Verdict = "matched"
	Filtered Verdict = "filtered"
	Ignored  Verdict = "ignored"
	Errored  Verdict = "error"
)

// Decision is a verdict with its reason, kept with the delivery.
type Decision struct {
	Generation int     `json:"generation,omitempty"`
	Trigger    string  `json:"trigger"`
	Verdict    Verdict `json:"decision"`
	Reason     string  `json:"reason"` // begins with the clause that decided
	RunID      string  `json:"run_id,omitempty"`
}

// EnqueueResult is what became of an enqueued delivery. Every one of them is answered 202.
type EnqueueResult string

// The results of Enqueue.
const (
	Accepted  EnqueueResult = "accepted"
	Duplicate EnqueueResult = "duplicate"
	Requeued  EnqueueResult = "requeued" // a redelivery of a dead letter
)
