package target

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// Bounds of a target's Retry-After.
const (
	minRetryAfter = time.Second
	maxRetryAfter = time.Hour
)

// ofRun maps an answer to the outcome of a start:
//
//	2xx                                             Succeeded; 202 with a session: Running
//	425, 429, 503, no connection                    Waiting
//	408, 502, 504, connection lost, timeout         Uncertain (unconfirmed)
//	3xx, other 4xx and 5xx                          RunFailed
func (a answer) ofRun() queue.Outcome {
	o, final := a.common()
	if final {
		return o
	}
	switch {
	case a.status == http.StatusAccepted && o.Session != "":
		o.State = queue.Running
	case a.ok():
		o.State = queue.Succeeded
	case a.tryAgain():
		o.State, o.RetryAfter, o.Error = queue.Waiting, a.retryAfter(), a.text()
	case a.ambiguous():
		o.State, o.Reason, o.Error = queue.Uncertain, queue.ReasonUnconfirmed, a.text()
	default:
		o.State, o.Error = queue.RunFailed, a.text()
	}
	return o
}

// ofHandOver maps an answer to the outcome of a hand-over.
func (a answer) ofHandOver() queue.Outcome {
	o, final := a.common()
	if final {
		return o
	}
	switch {
	case a.ok():
		o.State = queue.Delivered
	case a.status == http.StatusNotFound, a.status == http.StatusConflict, a.status == http.StatusGone:
		o.State, o.SessionEnded, o.Error = queue.Waiting, true, "the session has ended: "+a.text()
	case a.tryAgain():
		o.State, o.RetryAfter, o.Error = queue.Waiting, a.retryAfter(), a.text()
	default:
		o.State, o.Reason, o.Error = queue.Uncertain, queue.ReasonUnconfirmed, a.text()
	}
	return o
}

// ofProbe maps an answer to that of a probe.
func (a answer) ofProbe() Probe {
	switch a.status {
	case http.StatusOK:
		return Happened
	case http.StatusNoContent:
		return DidNot
	}
	return Unknown
}

// common is what all requests have in common; final if there is no more to say, because no
// answer came.
func (a answer) common() (o queue.Outcome, final bool) {
	switch {
	case a.refused != nil:
		return queue.Outcome{State: queue.RunFailed, Reason: queue.ReasonStartFailed, Error: a.refused.Error()}, true
	case a.err == nil:
		o = queue.Outcome{HTTPStatus: &a.status, Output: a.body}
		if id := strings.TrimSpace(a.header.Get("Preloop-Session")); validSession(id) {
			o.Session = id
		}
		o.SessionState = sessionState(a.header.Get("Preloop-Session-State"))
		return o, false
	case a.stop != notStopped && a.stop != timedOut:
		if a.sent {
			return stopped(a.stop), true
		}
		return notStarted(a.stop), true
	case !a.sent:
		return queue.Outcome{State: queue.Waiting, Error: "connecting to the target: " + a.errText()}, true
	}
	return queue.Outcome{
		State: queue.Uncertain, Reason: queue.ReasonUnconfirmed,
		Error: "waiting for the target's answer: " + a.errText(),
	}, true
}

func (a answer) ok() bool { return a.status >= 200 && a.status < 300 }

// tryAgain reports whether the target says that it has not taken the request, for now.
func (a answer) tryAgain() bool {
	switch a.status {
	case http.StatusTooEarly, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	}
	return false
}

// ambiguous reports whether the request may have had its effect all the same: a proxy that lost
// what is behind it answers like this.
func (a answer) ambiguous() bool {
	switch a.status {
	case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// retryAfter reads the header in both its forms, seconds and date, within bounds; 0 without one.
func (a answer) retryAfter() time.Duration {
	value := strings.TrimSpace(a.header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return min(max(time.Duration(seconds)*time.Second, minRetryAfter), maxRetryAfter)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(a.now), minRetryAfter), maxRetryAfter)
	}
	return 0
}

// text says for people what the target answered.
func (a answer) text() string {
	text := strings.TrimSpace(fmt.Sprintf("the target answered %d %s", a.status, http.StatusText(a.status)))
	if a.status >= 300 && a.status < 400 {
		text += "; redirects are not followed: set the url to where it leads"
	}
	return text
}

// errText says for people why no answer came. It never holds the URL.
func (a answer) errText() string {
	if a.stop == timedOut {
		return "timeout"
	}
	return a.err.Error()
}
