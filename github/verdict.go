package github

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/breaker"
)

// verdict is what an answer's status, headers and error body say to the breakers.
func verdict(now time.Time, status int, header http.Header, p problem) breaker.Result {
	switch {
	case status >= 500:
		return breaker.Result{Kind: breaker.Unavailable, Message: fmt.Sprintf("GitHub answered %d %s", status, p.sentence())}
	case status == http.StatusTooManyRequests, status == http.StatusForbidden && limits(now, header, p):
		return breaker.Result{
			Kind:    breaker.RateLimited,
			Wait:    limitWait(now, header),
			Message: fmt.Sprintf("GitHub limits the rate (%d %s)", status, p.sentence()),
		}
	}
	return breaker.Result{Kind: breaker.Reachable}
}

// limits tells a 403 that is a rate limit from one that is a missing permission.
func limits(now time.Time, header http.Header, p problem) bool {
	if _, ok := retryAfter(now, header); ok || exhausted(header) {
		return true
	}
	text := strings.ToLower(p.Message + " " + p.DocumentationURL)
	for _, sign := range []string{"secondary rate", "secondary-rate", "abuse detection", "abuse-rate-limits", "api rate limit exceeded"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

func exhausted(header http.Header) bool {
	return strings.TrimSpace(header.Get("X-Ratelimit-Remaining")) == "0"
}

// limitWait is the wait that the headers name: retry-after, else the reset. Where something remains
// of the primary limit its reset has nothing to do with the refusal, as GitHub's own rules say.
// 0 means that they name none; a wait that is over already is the shortest one.
func limitWait(now time.Time, header http.Header) time.Duration {
	if wait, ok := retryAfter(now, header); ok {
		return max(wait, 1)
	}
	reset, err := strconv.ParseInt(strings.TrimSpace(header.Get("X-Ratelimit-Reset")), 10, 64)
	if err != nil || reset <= 0 || !exhausted(header) && header.Get("X-Ratelimit-Remaining") != "" {
		return 0
	}
	return max(time.Unix(reset, 0).Sub(clock(now, header)), 1)
}

// retryAfter reads a wait in seconds or as an HTTP date, which a proxy may send.
func retryAfter(now time.Time, header http.Header) (time.Duration, bool) {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil {
		return time.Duration(min(seconds, 1<<31)) * time.Second, true
	}
	if at, err := http.ParseTime(text); err == nil {
		return at.Sub(clock(now, header)), true
	}
	return 0, false
}

// clock is GitHub's time where the answer has it, because its absolute times are by that clock.
func clock(now time.Time, header http.Header) time.Time {
	if date := answered(header); !date.IsZero() {
		return date
	}
	return now
}

// answered is the answer's own time, or zero.
func answered(header http.Header) time.Time {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return date
}
