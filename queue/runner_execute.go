package queue

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// execute does one attempt at a run and records its outcome, for as long as the lease lasts. An
// outcome that cannot be recorded by then leaves a run that nobody holds, and that is what it
// becomes: uncertain.
func (r *dispatcherRun) execute(h *holding, c RunClaim) {
	began := time.Now()
	waited := began.Sub(c.CreatedAt)
	r.log.Debug("run begins", append(runAttrs(&c.Run), slog.String("kind", string(c.Kind)))...)
	var o Outcome
	if h.ctx.Err() == nil {
		o = sound(r.guard(h, c))
	} else { // stopped before it began
		o = Outcome{State: Waiting, Refund: true, Error: errorText(context.Cause(h.ctx).Error())}
	}
	c.Payload = nil
	attempt := RunAttempt{Run: &c.Run, Outcome: o, Took: time.Since(began), Waited: waited}

	lease, ours := h.settle()
	if ours {
		var settled *Run
		attempt.Err = r.link.persist(lease.Until, func(ctx context.Context) (err error) {
			settled, err = r.Store.SettleRun(ctx, lease, o)
			return err
		})
		switch {
		case attempt.Err == nil && settled != nil:
			attempt.Run = settled
		case attempt.Err != nil && !refused(attempt.Err):
			h.loosen(r.settings.Lease)
		}
	} else {
		attempt.Err = ErrLeaseLost
	}
	r.tell(attempt)
	if attempt.Run.State == Uncertain {
		r.probes.wanted(attempt.Run.NextAttempt)
	}
}

// guard turns a panic into a failed run, and keeps the store told of the target's session.
func (r *dispatcherRun) guard(h *holding, c RunClaim) (o Outcome) {
	defer func() {
		if v := recover(); v != nil {
			o = Outcome{State: RunFailed, Error: panicText(v)}
			r.log.Error("executing a run panicked", append(runAttrs(&c.Run), slog.String("error", o.Error), slog.String("stack", string(debug.Stack())))...)
		}
	}()
	session := &sessionReport{run: r, holding: h, claim: &c.Run}
	return r.Execute(h.ctx, c, session.report)
}

// sound makes an outcome that both databases can keep of whatever Execute returned.
func sound(o Outcome) Outcome {
	switch o.State {
	case Waiting, Running, Succeeded, RunFailed, Delivered, Uncertain, Canceled:
	default:
		o.State, o.Error = RunFailed, "the target gave no outcome"
	}
	o.Error = errorText(o.Error)
	return o
}

// tell logs and reports an attempt that is over.
func (r *dispatcherRun) tell(a RunAttempt) {
	level := slog.LevelInfo
	attrs := append(runAttrs(a.Run), slog.Duration("took", a.Took))
	if a.Outcome.Error != "" {
		attrs = append(attrs, slog.String("error", a.Outcome.Error))
	}
	var word string
	switch {
	case errors.Is(a.Err, ErrLeaseLost):
		word, level = "lost its lease", slog.LevelWarn
	case a.Err != nil:
		word, level = "could not be recorded", slog.LevelError
		attrs = append(attrs, slog.String("store_error", a.Err.Error()))
	default:
		word = string(a.Run.State)
		if a.Run.Reason != "" {
			attrs = append(attrs, slog.String("reason", a.Run.Reason))
		}
		if a.Run.State == RunFailed || a.Run.State == Uncertain {
			level = slog.LevelWarn
		}
	}
	r.log.Log(context.Background(), level, "run "+word, attrs...)
	if r.Observe != nil {
		r.Observe(a)
	}
}

// sessionReport passes on what a running target says of its session. The target is not held up
// by the store: a goroutine, at most one a run, sends the newest word until it has arrived.
type sessionReport struct {
	run     *dispatcherRun
	holding *holding
	claim   *Run

	mu      sync.Mutex
	session string       // guarded by mu
	state   SessionState // guarded by mu
	news    bool         // guarded by mu: not yet sent
	sending bool         // guarded by mu
}

func (s *sessionReport) report(session string, state SessionState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session, s.state, s.news = or(session, s.session), or(state, s.state), true
	if !s.sending {
		s.sending = true
		s.run.work.Go(s.send)
	}
}

// send ends when the newest word has arrived, or the run has been settled: the outcome has it too.
func (s *sessionReport) send() {
	for {
		s.mu.Lock()
		session, state, news := s.session, s.state, s.news
		s.news = false
		if s.sending = news; !news {
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		for tries := (backoff{}); ; {
			lease, ours := s.holding.current()
			if !ours {
				return
			}
			err := s.run.link.call(func(ctx context.Context) error {
				return s.run.Store.ReportSession(ctx, lease, session, state)
			})
			if err == nil {
				break
			}
			if errors.Is(err, ErrLeaseLost) {
				return // settled meanwhile
			}
			if refused(err) || !sleep(s.holding.ctx, tries.next()) {
				s.run.log.Warn("a run's session could not be recorded", append(runAttrs(s.claim), slog.String("error", err.Error()))...)
				return
			}
		}
	}
}
