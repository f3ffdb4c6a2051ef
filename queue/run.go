package queue

import "time"

// RunState says where a run stands. See doc.go for the drawing.
type RunState string

// The states of a run.
const (
	Waiting   RunState = "waiting"   // admitted; for capacity, for its turn, or for its next attempt
	Running   RunState = "running"   // a start under way
	Routing   RunState = "routing"   // a hand-over to a live session, under way or to be tried again
	Succeeded RunState = "succeeded" // the target said so
	RunFailed RunState = "failed"    // the target said so, or it could not be started
	Dropped   RunState = "dropped"   // never started; the reason says why
	Delivered RunState = "delivered" // a hand-over that its session confirmed
	Uncertain RunState = "uncertain" // may or may not have happened; nobody retries it blindly
	Canceled  RunState = "canceled"  // by an operator
)

// RunStates lists every state in the order of a run's life.
var RunStates = []RunState{Waiting, Running, Routing, Succeeded, RunFailed, Dropped, Delivered, Uncertain, Canceled}

// Ended reports whether the run will not change again without an operator.
func (s RunState) Ended() bool {
	switch s {
	case Succeeded, RunFailed, Dropped, Delivered, Canceled:
		return true
	}
	return false
}

// Reasons of runs that did not simply succeed or fail.
const (
	ReasonQueueFull     = "queue_full"
	ReasonExpired       = "expired"
	ReasonSuperseded    = "superseded"
	ReasonLoopLimit     = "loop_limit"
	ReasonWorkerLost    = "worker_lost"
	ReasonInterrupted   = "interrupted"
	ReasonUnconfirmed   = "unconfirmed"
	ReasonTimeout       = "timeout"
	ReasonArgument      = "argument"
	ReasonStartFailed   = "start_failed"
	ReasonGitHubToken   = "github_token"
	ReasonUncertainTime = "uncertain_after"
	ReasonResolved      = "resolved"
)

// RunKind tells a start from a follow-up.
type RunKind string

// The kinds of run.
const (
	Start    RunKind = "start"
	FollowUp RunKind = "follow_up"
)

// Run is one execution of one trigger for one delivery.
type Run struct {
	ID          string // UUID; also the idempotency key of every try, and the session's id until the target reports another
	Trigger     string
	DeliverySeq int64 // the order in which runs start
	DeliveryID  string
	Source      string
	SourceName  string
	Generation  int
	Kind        RunKind
	State       RunState
	Reason      string
	Event       string
	Facts
	Session     string // the session it opened or is handed to; empty without one
	Attempts    int
	Outages     int // refunded attempts because GitHub failed with the breaker closed
	CreatedAt   time.Time
	NextAttempt time.Time // zero, or when it is tried again (or probed, while uncertain)
	ExpiresAt   time.Time // while waiting for its first attempt
	StartedAt   time.Time
	FinishedAt  time.Time
	ExitCode    *int
	HTTPStatus  *int
	Error       string
	Node        string
	LeaseUntil  time.Time
}

// Outcome is what a target (or the lack of one) says of one attempt at a run.
type Outcome struct {
	State      RunState      // Succeeded, RunFailed, Delivered, Uncertain, Canceled; Waiting: try again; Running: accepted, finishes by itself; Dropped is never an outcome
	Reason     string        // one of the Reason… constants, or empty
	Error      string        // for people; never holds a secret or payload
	ExitCode   *int          // command targets
	HTTPStatus *int          // HTTP targets
	RetryAfter time.Duration // with Waiting: the target's own wish; 0 means the usual waits
	Refund     bool          // with Waiting: a dependency was unavailable; the attempt does not count and RetryAfter is the wait
	Outage     bool          // with Refund: a transport or 5xx failure before the breaker opened
	Output     []byte        // the last 64 KiB, masked

	Session      string // the session that the target reported, or empty
	SessionState SessionState
	SessionEnded bool      // hand-over only: the session is gone, start a run instead
	Deadline     time.Time // with Running: when an unfinished HTTP run becomes uncertain
}
