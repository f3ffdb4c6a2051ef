package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// ParkError says that a delivery is fine and a dependency is not: it goes back unharmed, its
// attempt refunded, and is claimable again after Wait.
type ParkError struct {
	Err    error
	Wait   time.Duration // as the breaker names it; with Outage 0 means the usual waits
	Outage bool          // a transport or 5xx failure with the breaker closed: only so many are refunded
}

func (e *ParkError) Error() string { return e.Err.Error() }
func (e *ParkError) Unwrap() error { return e.Err }

// PermanentError says that no further attempt can succeed: the delivery fails at once.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }
func (e *PermanentError) Unwrap() error { return e.Err }

// settlementOf says what a decision, or its error, makes of the attempt. Whatever an attempt that
// was stopped complains about says nothing of the delivery: it is given back.
func settlementOf(ctx context.Context, s Settlement, err error) Settlement {
	var park *ParkError
	var permanent *PermanentError
	switch {
	case err == nil:
		return s
	case ctx.Err() != nil:
		return Settlement{Kind: SettleRelease, Error: errorText(context.Cause(ctx).Error())}
	case errors.As(err, &permanent):
		return Settlement{Kind: SettleFail, Error: errorText(err.Error())}
	case errors.As(err, &park):
		return Settlement{Kind: SettlePark, Error: errorText(err.Error()), Wait: park.Wait, Outage: park.Outage}
	}
	return Settlement{Kind: SettleRetry, Error: errorText(err.Error())}
}

// maxErrorText bounds, in bytes, what is kept and logged of an error.
const maxErrorText = 2 << 10

// errorText is an error's text as both databases can keep it: bounded, UTF-8, without NUL.
func errorText(text string) string { return cut(text, maxErrorText) }

// panicText is what is kept of a panic. Its value may quote what it choked on, so that only the
// type and the beginning of the first line are told.
func panicText(value any) string {
	line, _, _ := strings.Cut(fmt.Sprint(value), "\n")
	return "panic: " + cut(fmt.Sprintf("%T: %s", value, line), 200)
}

func cut(text string, limit int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}
