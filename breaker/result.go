package breaker

import (
	"fmt"
	"time"
)

// Kind is what one call tells about GitHub.
type Kind int

// The kinds of result.
const (
	NoVerdict   Kind = iota // the caller gave up before GitHub could answer
	Reachable               // any answer that proves GitHub reachable, 404 and 422 included
	Unavailable             // no answer, an answer that is not GitHub's, or a 5xx
	RateLimited             // GitHub answered that this credential has to wait
)

// Result is the outcome of one call.
type Result struct {
	Kind    Kind
	Wait    time.Duration // with RateLimited: what GitHub named; 0 when it named nothing
	Message string        // for people; never holds a secret
}

// OpenError says that a call was not made because a breaker is open.
type OpenError struct {
	Key         string
	RetryIn     time.Duration
	RateLimited bool
	Due         bool   // its interval is over and nobody is probing
	Cause       string // the last error that was met
}

// Reason says what opened the breaker.
func (e *OpenError) Reason() string {
	switch {
	case e.RateLimited && e.Cause != "":
		return e.Cause
	case e.RateLimited:
		return "GitHub limits the rate"
	case e.Cause != "":
		return "GitHub is unavailable, last: " + e.Cause
	}
	return "GitHub is unavailable"
}

func (e *OpenError) Error() string {
	return fmt.Sprintf("%s; next try in %s", e.Reason(), e.RetryIn.Round(time.Second))
}
