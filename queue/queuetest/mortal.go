package queuetest

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// moment is a point in a node's life at which it can be killed: before a call reaches the store,
// or after the store has done it and before the node knows.
type moment struct {
	call  string // a method of queue.Runs, or Execute
	after bool
}

func (m moment) String() string {
	if m.after {
		return "after " + m.call
	}
	return "before " + m.call
}

// mortal is a store in the hands of a node that is killed at one moment. From then on each of its
// goroutines ends at its next call, as none would have come so far: what the store has is all that
// is left.
type mortal struct {
	queue.Store
	at   moment
	dead chan struct{}
	once sync.Once
}

func newMortal(s queue.Store, at moment) *mortal {
	return &mortal{Store: s, at: at, dead: make(chan struct{})}
}

// reach ends the goroutine if the node is dead or is killed here.
func (m *mortal) reach(at moment) {
	if m.at == at {
		m.once.Do(func() { close(m.dead) })
	}
	select {
	case <-m.dead:
		runtime.Goexit()
	default:
	}
}

// call does one call of a mortal node.
func call[T any](m *mortal, name string, do func() (T, error)) (T, error) {
	m.reach(moment{name, false})
	v, err := do()
	m.reach(moment{name, true})
	return v, err
}

func (m *mortal) ClaimRuns(ctx context.Context, node string, rules []queue.DispatchRule, n int) (claims []queue.RunClaim, next time.Time, err error) {
	m.reach(moment{"ClaimRuns", false})
	claims, next, err = m.Store.ClaimRuns(ctx, node, rules, n)
	if len(claims) > 0 {
		m.reach(moment{"ClaimRuns", true})
	}
	return claims, next, err
}

func (m *mortal) SettleRun(ctx context.Context, l queue.Lease, o queue.Outcome) (*queue.Run, error) {
	return call(m, "SettleRun", func() (*queue.Run, error) { return m.Store.SettleRun(ctx, l, o) })
}

func (m *mortal) ReportSession(ctx context.Context, l queue.Lease, session string, state queue.SessionState) error {
	_, err := call(m, "ReportSession", func() (none struct{}, err error) { return none, m.Store.ReportSession(ctx, l, session, state) })
	return err
}

func (m *mortal) ReleaseRun(ctx context.Context, l queue.Lease) error {
	_, err := call(m, "ReleaseRun", func() (none struct{}, err error) { return none, m.Store.ReleaseRun(ctx, l) })
	return err
}

func (m *mortal) DisownRuns(ctx context.Context, node string, held []queue.Lease) (int, error) {
	return call(m, "DisownRuns", func() (int, error) { return m.Store.DisownRuns(ctx, node, held) })
}

func (m *mortal) RenewRuns(ctx context.Context, l []queue.Lease) (held, cancel []queue.Lease, err error) {
	m.reach(moment{"RenewRuns", false})
	held, cancel, err = m.Store.RenewRuns(ctx, l)
	m.reach(moment{"RenewRuns", true})
	return held, cancel, err
}

func (m *mortal) SweepRuns(ctx context.Context) (int, error) {
	return call(m, "SweepRuns", func() (int, error) { return m.Store.SweepRuns(ctx) })
}

func (m *mortal) ClaimProbes(ctx context.Context, node string, triggers []string, n int) ([]queue.RunClaim, error) {
	m.reach(moment{"ClaimProbes", false})
	claims, err := m.Store.ClaimProbes(ctx, node, triggers, n)
	if len(claims) > 0 {
		m.reach(moment{"ClaimProbes", true})
	}
	return claims, err
}

func (m *mortal) SettleProbe(ctx context.Context, l queue.Lease, a queue.ProbeAnswer) (*queue.Run, error) {
	return call(m, "SettleProbe", func() (*queue.Run, error) { return m.Store.SettleProbe(ctx, l, a) })
}

// life is a node's that is killed at a moment: what its target saw of it.
type life struct {
	*mortal
	started, ended atomic.Int64 // attempts that reached the target, and those that had their effect
}

// lives has a node dispatch until it is killed at a moment. outcome is its target's.
func (k *kit) lives(at moment, r queue.DispatchRule, outcome queue.Outcome) *life {
	k.Helper()
	n := &life{mortal: newMortal(k.store, at)}
	ctx, stop := context.WithCancel(k.ctx)
	defer stop()
	d := &queue.Dispatcher{
		Store: n, Node: "mortal", Settings: k.settings, Renew: 20 * time.Millisecond,
		Rules: func() []queue.DispatchRule { return []queue.DispatchRule{r} },
		Execute: func(_ context.Context, _ queue.RunClaim, report func(string, queue.SessionState)) queue.Outcome {
			n.started.Add(1)
			n.reach(moment{"Execute", false})
			if at.call == "ReportSession" {
				report("chat-7", queue.SessionLive)
			}
			if at.call == "ReportSession" || at.call == "RenewRuns" { // the target takes its time
				<-n.dead
			}
			n.ended.Add(1)
			n.reach(moment{"Execute", true})
			return outcome
		},
		Probed: func() []string { return []string{r.Trigger} },
		Probe:  func(context.Context, queue.RunClaim) queue.ProbeAnswer { return queue.ProbeHappened },
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = d.Run(ctx)
	}()
	select {
	case <-n.dead:
	case <-time.After(time.Minute):
		k.Errorf("the node did not come to its end")
	}
	stop()
	<-done
	return n
}

// takeOver lets the leases of the dead end, and another node look.
func (k *kit) takeOver() {
	k.Helper()
	k.pass(k.settings.Lease + time.Second)
	k.sweep()
}
