package breaker

import (
	"context"
	"sync"
	"time"
)

// Prober finds the cheap call that tests the breaker of a key, or nil when this node has no
// credential for it. The call must end with its context and must not go through the breakers.
type Prober func(key string) func(ctx context.Context) Result

// Run shares breakers with other nodes and probes open ones until ctx ends. A store that does not
// answer is logged and tried again; it never ends Run.
func (s *Set) Run(ctx context.Context, prober Prober) {
	var probes sync.WaitGroup
	defer probes.Wait()
	working := true // logs the change, not each failure
	for ctx.Err() == nil {
		err := s.Refresh(ctx)
		if (err == nil) != working && ctx.Err() == nil {
			working = err == nil
			if working {
				s.log.Info("breakers are shared with other nodes again")
			} else {
				s.log.Warn("breakers are not shared with other nodes for now", "error", err)
			}
		}
		for _, key := range s.due(time.Now()) {
			if call := prober(key); call != nil {
				probes.Go(func() { s.TryProbe(ctx, key, call) })
			}
		}
		s.sleep(ctx)
	}
}

// due lists the breakers whose interval is over and that nobody probes.
func (s *Set) due(now time.Time) (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.entries {
		if at, ok := e.state.Due(now, s.settings); ok && !now.Before(at) {
			keys = append(keys, key)
		}
	}
	return keys
}

// sleep waits until the store has to be read again, a probe becomes due, or a breaker changes.
func (s *Set) sleep(ctx context.Context) {
	now := time.Now()
	wait := quietReload * s.reload
	s.mu.Lock()
	for _, e := range s.entries {
		if e.dirty || e.state.Open || e.state.Failures > 0 {
			wait = min(wait, s.reload)
		}
		if at, ok := e.state.Due(now, s.settings); ok && at.After(now) {
			wait = min(wait, at.Sub(now))
		}
	}
	s.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-s.wake:
	case <-timer.C:
	}
}

// poke makes Run look again.
func (s *Set) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Host is the key of the host's breaker.
func (s *Set) Host() string { return s.host }

// TryProbe makes the call if this node wins the probe of key, and reports whether it did. Of all
// nodes that share the store one wins; while the store is away each node decides for itself. The
// answer settles the breaker of key alone: every open breaker has a probe of its own.
func (s *Set) TryProbe(ctx context.Context, key string, call func(context.Context) Result) bool {
	now := time.Now().UTC().Round(0)
	var won bool
	taken := s.update(ctx, key, func(state State) State {
		state, won = state.TryProbe(now, s.settings, s.owner)
		return state
	})
	if !won {
		return false
	}
	limited, cancel := context.WithDeadline(ctx, taken.Probe.Deadline)
	result := call(limited)
	cancel()
	if ctx.Err() != nil && result.Kind != Reachable {
		result = Result{Kind: NoVerdict} // we are going, GitHub may be well
	}
	if result.Kind == RateLimited && key == s.host {
		result.Kind = Reachable // a limit is the credential's; the host has answered
	}
	now = time.Now().UTC().Round(0)
	s.update(ctx, key, func(state State) State {
		return state.ProbeResult(now, s.settings, s.owner, taken.Generation, result)
	})
	s.log.Info("breaker probed", "breaker", key, "open", s.state(key).Open, "result", result.Message)
	return true
}
