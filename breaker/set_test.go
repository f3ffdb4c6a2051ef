package breaker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const cred = "app:bot"

func node(name string, store Store) *Set {
	return New(Options{Settings: Defaults(), Host: "api.github.com", Store: store, Node: name})
}

var (
	down    = Result{Kind: Unavailable, Message: "503"}
	up      = Result{Kind: Reachable}
	limited = Result{Kind: RateLimited, Wait: 10 * time.Minute, Message: "429"}
)

// report makes one call with the given result, however the breakers stand.
func report(t *testing.T, s *Set, credential string, r Result) time.Duration {
	t.Helper()
	call, err := s.Begin(t.Context(), credential)
	if err != nil {
		t.Fatalf("the call was refused: %v", err)
	}
	return call.Done(t.Context(), r)
}

func TestUnavailabilityCountsForCredentialAndHost(t *testing.T) {
	s := node("a", nil)
	report(t, s, cred, down)
	report(t, s, "app:other", down)
	if wait := report(t, s, cred, down); wait < 29*time.Second {
		t.Errorf("after three failures on the host the wait is %s", wait)
	}
	if _, open := s.Gate(time.Now()); open {
		t.Error("the host's gate is not shut")
	}
	if wait := s.Wait(cred, time.Now()); wait != 0 {
		t.Errorf("the credential failed twice and waits %s", wait)
	}
	var refused *OpenError
	if _, err := s.Begin(t.Context(), cred); !errors.As(err, &refused) || refused.Key != s.Host() || refused.RateLimited {
		t.Errorf("Begin: %v", err)
	}
}

func TestRateLimitCountsForTheCredentialAlone(t *testing.T) {
	s := node("a", nil)
	report(t, s, "app:other", down)
	report(t, s, "app:other", down)
	report(t, s, cred, limited)
	if _, open := s.Gate(time.Now()); !open {
		t.Error("the host's gate is shut")
	}
	host, credentials := s.Snapshot(time.Now())
	if host.Failures != 0 {
		t.Errorf("the host answered, and %d failures are left", host.Failures)
	}
	if len(credentials) != 2 || credentials[0].Key != cred || !credentials[0].RateLimited || credentials[0].RetryInSeconds != 600 {
		t.Errorf("credentials: %+v", credentials)
	}
	var refused *OpenError
	if _, err := s.Begin(t.Context(), cred); !errors.As(err, &refused) || refused.Key != cred || !refused.RateLimited {
		t.Errorf("Begin: %v", err)
	}
	report(t, s, "app:other", up)
}

func TestSuccessResetsBoth(t *testing.T) {
	s := node("a", nil)
	report(t, s, cred, down)
	report(t, s, cred, down)
	report(t, s, cred, up)
	host, credentials := s.Snapshot(time.Now())
	if host.Failures != 0 || credentials[0].Failures != 0 {
		t.Errorf("host %+v, credentials %+v", host, credentials)
	}
	if host.LastError == nil || *host.LastError != "503" {
		t.Errorf("the last error is gone: %v", host.LastError)
	}
}

func TestNoVerdictChangesNothing(t *testing.T) {
	s := node("a", nil)
	report(t, s, cred, down)
	report(t, s, cred, Result{})
	if host, _ := s.Snapshot(time.Now()); host.Failures != 1 {
		t.Errorf("failures: %d", host.Failures)
	}
}

func TestLateAnswersChangeNothing(t *testing.T) {
	for name, late := range map[string]Result{"success": up, "failure": down} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := node("a", nil)
				early, err := s.Begin(t.Context(), cred)
				if err != nil {
					t.Fatal(err)
				}
				for range 3 {
					report(t, s, cred, down)
				}
				if wait := early.Done(t.Context(), late); wait != 30*time.Second {
					t.Errorf("after the late answer the wait is %s", wait)
				}
			})
		})
	}
}

// TestIdleRecovery shows that a breaker closes by its own probe, within one open interval of the
// recovery, with no work coming along.
func TestIdleRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := node("a", &memory{})
		var healthy atomic.Bool
		var probes atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Run(ctx, func(string) func(context.Context) Result {
				return func(context.Context) Result {
					probes.Add(1)
					if healthy.Load() {
						return up
					}
					return down
				}
			})
		}()
		for range 3 {
			report(t, s, cred, down)
		}
		time.Sleep(35 * time.Second)
		synctest.Wait()
		if n := probes.Load(); n != 2 {
			t.Errorf("%d probes after one interval, want one for the host and one for the credential", n)
		}
		if wait, open := s.Gate(time.Now()); open || wait != 55*time.Second {
			t.Errorf("after a failed probe: open %v, wait %s", open, wait)
		}
		healthy.Store(true)
		time.Sleep(55 * time.Second)
		synctest.Wait()
		if _, open := s.Gate(time.Now()); !open || s.Wait(cred, time.Now()) != 0 {
			t.Error("not closed one interval after the recovery")
		}
		cancel()
		<-done
	})
}

func TestUnansweredProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := node("a", &memory{})
		for range 3 {
			report(t, s, cred, down)
		}
		time.Sleep(30 * time.Second)
		began := time.Now()
		won := s.TryProbe(t.Context(), cred, func(ctx context.Context) Result {
			<-ctx.Done()
			return Result{Kind: Reachable} // an answer that came a moment too late
		})
		if took := time.Since(began); !won || took != time.Minute {
			t.Errorf("won %v, took %s", won, took)
		}
		if wait := s.Wait(cred, time.Now()); wait != time.Minute {
			t.Errorf("wait after the failed probe: %s", wait)
		}
	})
}

func TestShutdownHandsTheProbeOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{}
		a, b := node("a", store), node("b", store)
		for range 3 {
			report(t, a, cred, down)
		}
		time.Sleep(31 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		a.TryProbe(ctx, cred, func(context.Context) Result { cancel(); return down })
		if err := b.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !b.TryProbe(t.Context(), cred, func(context.Context) Result { return up }) {
			t.Error("the other node could not probe")
		}
		if wait := b.Wait(cred, time.Now()); wait != 0 {
			t.Errorf("wait %s", wait)
		}
	})
}

func TestHostProbeThatIsLimitedProvesTheHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := node("a", nil)
		for range 3 {
			report(t, s, cred, down)
		}
		time.Sleep(31 * time.Second)
		s.TryProbe(t.Context(), s.Host(), func(ctx context.Context) Result {
			s.RateLimit(ctx, cred, limited)
			return limited
		})
		if _, open := s.Gate(time.Now()); !open {
			t.Error("the host is still shut")
		}
		if wait := s.Wait(cred, time.Now()); wait != 10*time.Minute {
			t.Errorf("the credential waits %s", wait)
		}
	})
}

func TestOneNodeWinsTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{}
		var nodes []*Set
		for _, name := range []string{"a", "b", "c", "d"} {
			nodes = append(nodes, node(name, store))
		}
		for range 3 {
			report(t, nodes[0], cred, down)
		}
		time.Sleep(31 * time.Second)
		for _, n := range nodes {
			if err := n.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var calls, wins atomic.Int32
		var all sync.WaitGroup
		for _, n := range nodes {
			all.Go(func() {
				if n.TryProbe(t.Context(), cred, func(context.Context) Result {
					calls.Add(1)
					time.Sleep(2 * time.Second)
					return up
				}) {
					wins.Add(1)
				}
			})
		}
		all.Wait()
		if calls.Load() != 1 || wins.Load() != 1 {
			t.Errorf("%d calls, %d winners", calls.Load(), wins.Load())
		}
		for _, n := range nodes {
			if err := n.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			if wait := n.Wait(cred, time.Now()); wait != 0 {
				t.Errorf("a node still waits %s", wait)
			}
		}
	})
}

func TestOtherNodesWaitToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{}
		a, b := node("a", store), node("b", store)
		report(t, a, cred, down)
		time.Sleep(10 * time.Second) // b's knowledge is stale and is renewed by its next call
		report(t, b, cred, down)
		if wait := report(t, a, cred, down); wait != 30*time.Second {
			t.Errorf("three failures over two nodes: wait %s", wait)
		}
		time.Sleep(10 * time.Second)
		var refused *OpenError
		if _, err := b.Begin(t.Context(), cred); !errors.As(err, &refused) || refused.RetryIn != 20*time.Second {
			t.Errorf("the other node: %v", err)
		}
	})
}

func TestFailuresOfNodesAddUp(t *testing.T) {
	store := &memory{}
	a, b := node("a", store), node("b", store)
	report(t, b, cred, up) // b knows the empty store, and not what a tells it next
	report(t, a, cred, down)
	report(t, a, cred, down)
	if wait := report(t, b, cred, down); wait < 29*time.Second {
		t.Errorf("the third failure, met by another node: wait %s", wait)
	}
}

// TestShortWaitIsProbedInTime opens a breaker while Run sleeps for longer than its interval.
func TestShortWaitIsProbedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := node("a", nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.Run(ctx, func(string) func(context.Context) Result {
			return func(context.Context) Result { return up }
		})
		time.Sleep(100 * time.Millisecond)
		report(t, s, cred, Result{Kind: RateLimited, Wait: time.Second})
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if wait := s.Wait(cred, time.Now()); wait != 0 {
			t.Errorf("wait %s", wait)
		}
	})
}

func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{}
		a, b := node("a", store), node("b", store)
		report(t, a, cred, down)
		store.set(func(m *memory) { m.away = true })
		report(t, a, cred, down)
		if wait := report(t, a, cred, down); wait != 30*time.Second {
			t.Errorf("without a store the wait is %s", wait)
		}
		if err := b.Refresh(t.Context()); !errors.Is(err, errAway) {
			t.Errorf("Refresh: %v", err)
		}
		store.set(func(m *memory) { m.away = false })
		for _, n := range []*Set{a, b} {
			if err := n.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			if wait, open := n.Gate(time.Now()); open || wait != 30*time.Second {
				t.Errorf("store is back: open %v, wait %s", open, wait)
			}
		}
	})
}

func TestSwapWhoseAnswerWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{loseAnswer: true}
		a := node("a", store)
		report(t, a, cred, limited)
		store.set(func(m *memory) { m.loseAnswer = false })
		if err := a.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, credentials := a.Snapshot(time.Now()); credentials[0].Trips != 1 || !credentials[0].Open {
			t.Errorf("%+v", credentials)
		}
		time.Sleep(10 * time.Minute)
		if !a.TryProbe(t.Context(), cred, func(context.Context) Result { return up }) {
			t.Error("the probe was not won")
		}
		if row := store.rows[cred]; row.State.Open {
			t.Errorf("stored: %+v", row)
		}
	})
}

func TestSuccessesDoNotTouchTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{}
		a := node("a", store)
		for range 100 {
			report(t, a, cred, up)
		}
		if store.swaps != 0 {
			t.Errorf("%d writes for calls that changed nothing", store.swaps)
		}
	})
}

func TestAbandonedCredentialIsNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := node("a", nil)
		report(t, s, cred, limited)
		time.Sleep(65 * time.Minute)
		if _, credentials := s.Snapshot(time.Now()); len(credentials) != 1 {
			t.Errorf("within the hour: %+v", credentials)
		}
		time.Sleep(6 * time.Minute)
		if _, credentials := s.Snapshot(time.Now()); len(credentials) != 0 {
			t.Errorf("after the hour: %+v", credentials)
		}
	})
}
