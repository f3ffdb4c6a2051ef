package queue

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"
)

// link is how a component speaks with its store: every call on a context of its own, so that a
// write once begun is not cut off by the stop, and with a bound, so that it cannot hang either.
type link struct {
	base    context.Context // ends when the component no longer waits for its last writes
	timeout time.Duration
	log     *slog.Logger
}

// newLink bounds a call to well below a lease: a renewal that hangs leaves time for another one.
func newLink(base context.Context, lease time.Duration, log *slog.Logger) *link {
	return &link{base: base, timeout: min(10*time.Second, lease/4), log: log}
}

// call does one call.
func (l *link) call(do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(l.base, l.timeout)
	defer cancel()
	return do(ctx)
}

// persist repeats a write that is safe to repeat until it succeeds, the store refuses it, or the
// next try would come after until. It returns the last error.
func (l *link) persist(until time.Time, write func(context.Context) error) error {
	for tries := (backoff{}); ; {
		err := l.call(write)
		if err == nil || refused(err) {
			return err
		}
		wait := tries.next()
		if time.Now().Add(wait).After(until) || !sleep(l.base, wait) {
			return err
		}
	}
}

// refused reports whether the store has answered: trying again cannot change it.
func refused(err error) bool {
	for _, answer := range []error{ErrLeaseLost, ErrNotFound, ErrConflict, ErrAmbiguous, ErrInvalid} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}

// backoff doubles from 100 ms to 5 s, each wait cut by up to a half at random, so that nodes do
// not return to a recovering store in step.
type backoff struct{ wait time.Duration }

func (b *backoff) next() time.Duration {
	b.wait = min(max(2*b.wait, 100*time.Millisecond), 5*time.Second)
	return b.wait - rand.N(b.wait/2)
}

// outage says once that something is away, and once that it is back.
type outage struct {
	log        *slog.Logger
	gone, back string
	since      time.Time // zero while all is well
	tries      backoff
}

// failed returns the wait before the next try.
func (o *outage) failed(err error) time.Duration {
	if o.since.IsZero() {
		o.since = time.Now()
		o.log.Error(o.gone, slog.String("error", err.Error()))
	}
	return o.tries.next()
}

func (o *outage) over() {
	if !o.since.IsZero() {
		o.log.Info(o.back, slog.Duration("after", time.Since(o.since)))
	}
	o.since, o.tries = time.Time{}, backoff{}
}

// pacer slows down a loop that is woken again and again without finding anything, as by a flood
// of commits that are none of its business. The first few passes are free: one delivery wakes
// the dispatcher when it arrives, and again when its run has been admitted.
type pacer struct {
	empty int // passes in a row that found nothing
	last  time.Time
}

// pause is how long the next pass has to wait at least.
func (p *pacer) pause(found bool, now time.Time) time.Duration {
	quiet := now.Sub(p.last) > 100*time.Millisecond
	p.last = now
	if found || quiet {
		p.empty = 0
		return 0
	}
	p.empty = min(p.empty+1, 8)
	if p.empty < 4 {
		return 0
	}
	return time.Millisecond << (p.empty - 4)
}

// signal is a level: it may be set many times and is taken once.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// sleep waits and says whether ctx let it.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// within waits for done for at most d and says whether it came.
func within(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
