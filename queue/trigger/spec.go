package trigger

import (
	"fmt"
	"time"
)

// Spec is a trigger as the operator wrote it, with every default filled in.
// The configuration reads it; Compile checks what only the languages in it can check.
type Spec struct {
	Name           string            // unique, [a-z0-9-]
	On             []string          // event or event.action
	Sources        []string          // names of sources; empty means all
	Repos          []string          // globs over owner/name, a leading ! excludes; empty means all
	If             string            // CEL over event, action, body, headers, repo, sender, subject; empty means true
	Paths          []string          // globs over changed files; empty means all
	Enabled        bool              // false: off
	Permission     string            // the sender's least role; "" when the operator did not say, "none" when anyone may
	Bots           bool              // events sent by bots count too
	MaxAge         time.Duration     // 0: no limit
	Concurrency    int               // at least 1
	Serialize      string            // none, subject, repo
	Coalesce       string            // none, subject
	LoopLimit      Rate              // runs of kind start for one subject
	QueueSize      int               // at least 1
	QueueWait      time.Duration     // how long a run waits for its first start
	Idempotent     bool              // an ambiguous outcome may be retried
	UncertainAfter time.Duration     // then an uncertain run is failed
	GitHubToken    map[string]string // permission → read or write; nil: none is minted
	Prompt         string            // text/template
	Run            Target
	FollowUp       *FollowUp // nil: off
	Probe          *Target   // nil: none
}

// Target says what is executed: a command or an HTTP request, never both.
type Target struct {
	Command []string // each element a text/template
	HTTP    *HTTP
	Timeout time.Duration
}

// HTTP is a request's literal parts. The secret is resolved by the configuration.
type HTTP struct {
	URL      string
	Headers  map[string]string
	Secret   []byte // nil: the source's current webhook secret signs
	Envelope bool   // body: envelope
}

// FollowUp says how a later event on the same subject reaches a live session.
type FollowUp struct {
	Target
	Reported bool // session: reported; wait until the run has named its session
	Limit    Rate // hand-overs for one subject
}

// Rate is a count per duration, written 20/1h.
type Rate struct {
	Count int
	Per   time.Duration
}

// FieldError places an error in a Spec: Field is the YAML path below the trigger, as "if",
// "on[1]" or "run.command[2]".
type FieldError struct {
	Field string
	Err   error
}

func (e *FieldError) Error() string { return fmt.Sprintf("%s: %v", e.Field, e.Err) }
func (e *FieldError) Unwrap() error { return e.Err }
