// Package target executes what a run asks for, a command or an HTTP request, and says in the
// words of [queue.Outcome] what became of it.
//
// Each target has three methods. Run starts a run. HandOver gives a follow-up to a session that
// is already at work. Probe asks whether a run whose outcome is unknown has happened. Each does
// one attempt: when to try again, what the store keeps and who holds the lease is the caller's.
//
// Between "it happened" and "it did not" lies what cannot be known: the request was sent and no
// answer came, the command was killed half way. That is [queue.Uncertain], never a failure and
// never a silent second try. An attempt is tried again only where it certainly did nothing
// (the connection was never made) or the target itself asked for it (exit 75, 425, 429, 503).
//
// The methods return when ctx is done, whose cause says why: [queue.ErrCanceled],
// [queue.ErrShutdown], [queue.ErrLeaseLost]; any other cause counts as a shutdown. A command gets
// up to KillAfter to obey, so the caller renews its lease until the method has returned.
//
// All methods are safe for concurrent use.
package target

import (
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// Defaults where a target says nothing.
const (
	DefaultCommandTimeout = time.Hour
	DefaultHTTPTimeout    = 30 * time.Second
	DefaultKillAfter      = 10 * time.Second

	// DefaultFinishTimeout is how long a run that an HTTP target accepted (202 with a session)
	// has to finish where the target has no timeout of its own.
	DefaultFinishTimeout = time.Hour
)

// OutputLimit is how much output is kept of a run, in bytes.
const OutputLimit = 64 << 10

// Job is one attempt at a run with everything that its target is told.
type Job struct {
	Run         *queue.Run
	Headers     map[string]string // the delivery's stored headers
	Payload     []byte            // the stored JSON, byte for byte
	Prompt      string
	Session     string   // the run's id on a start, the live session's on a follow-up
	Argv        []string // rendered; for a command
	Token       string   // GITHUB_TOKEN of a command; empty: none
	Secret      []byte   // signs the body of an HTTP request; nil: unsigned
	FinishURL   string   // with FinishToken: where an HTTP target finishes the run
	FinishToken string
	Traceparent string   // W3C trace context; empty: none
	Mask        []string // further secrets to mask in what is kept of the output
}

// Report is told what a running command says of its session: its id and its state, each empty
// until the command has named it. It is called for every change, from one goroutine, and not
// after the method that was given it has returned, which waits for it: it must not block for long.
type Report func(session string, state queue.SessionState)

// Probe is the answer to whether a run has happened.
type Probe = queue.ProbeAnswer

// The answers of a probe.
const (
	Happened = queue.ProbeHappened
	DidNot   = queue.ProbeDidNot
	Unknown  = queue.ProbeUnknown
)

// Exit codes with a meaning of their own.
const (
	exitUnavailable = 69 // EX_UNAVAILABLE: the session has ended
	exitTempFail    = 75 // EX_TEMPFAIL: try again
	exitDidNot      = 10 // a probe's answer
)
