package github

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// What errors.Is recognises in an *Error.
var (
	ErrNotFound     = errors.New("GitHub does not know it, or this credential may not see it")
	ErrUnauthorized = errors.New("GitHub refuses the credential")
	ErrTokenRefused = errors.New("GitHub refuses an installation token")         // includes the two below
	ErrSuspended    = errors.New("the app's installation is suspended")          // until its owner unsuspends it
	ErrNotInstalled = errors.New("the app is not installed there (any more)")    // until somebody installs it
	ErrForeignLink  = errors.New("GitHub's answer links outside of its own API") // never followed
)

// Error is an answer of GitHub that is no success: waiting does not help. It holds no credential.
type Error struct {
	Op        string // what we were doing
	Status    int
	Message   string // GitHub's own, shortened
	RequestID string // x-github-request-id, for GitHub's support
	Hint      string // what to fix, where we know; one sentence without a full stop

	minting bool      // the answer is to a request for an installation token
	lookup  bool      // the answer is to "which installation covers this repository"
	date    time.Time // GitHub's clock; zero where the answer had none
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: GitHub answered %d", e.Op, e.Status)
	if e.Message != "" {
		b.WriteString(" " + e.Message)
	}
	if e.Hint != "" {
		b.WriteString(": " + e.Hint)
	}
	if e.RequestID != "" {
		b.WriteString(" (request " + e.RequestID + ")")
	}
	return b.String()
}

// Is maps the answer to the errors above.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrNotFound:
		return e.Status == http.StatusNotFound && !e.minting
	case ErrUnauthorized:
		return e.Status == http.StatusUnauthorized
	case ErrTokenRefused:
		return e.minting
	case ErrSuspended:
		return e.Status == http.StatusForbidden && strings.Contains(e.Message, "suspended")
	case ErrNotInstalled:
		return e.Status == http.StatusNotFound && (e.minting || e.lookup)
	}
	return false
}

// UnavailableError says that GitHub could not be asked, or did not answer, or wants us to wait.
// The work is sound: park it.
type UnavailableError struct {
	Op          string
	RetryIn     time.Duration // how long to wait; 0: the breaker is still closed, take the usual waits
	RateLimited bool          // a rate limit, not an outage
	BreakerOpen bool          // false: a transport or 5xx failure before the breaker opened
	Status      int           // of the answer; 0 where there was none
	RequestID   string
	Reason      string // what was met, for people
}

func (e *UnavailableError) Error() string {
	text := e.Op + ": " + e.Reason
	if e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	if e.RetryIn > 0 {
		text += "; next try in " + e.RetryIn.Round(time.Second).String()
	}
	return text
}
