package queue_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// fault is an arm of a failing call.
type fault int

const (
	refuse fault = iota + 1 // it failed and was not stored
	lose                    // it was stored and its answer was lost
	hang                    // no answer until the caller gives up; not stored
)

var errFault = errors.New("connection reset")

// faulty is a store whose methods can be made to fail, by name, and whose calls are noted.
type faulty struct {
	queue.Store
	began time.Time
	deaf  bool          // no wakes arrive
	skew  time.Duration // the holder of a delivery believes that its lease lasts so much longer

	mu     sync.Mutex
	faults map[string]fault
	calls  map[string][]time.Duration // when each call began
	before func(method string)
}

func (f *faulty) set(method string, arm fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[method] = arm
}

// down makes everything that workers and dispatchers call fail; 0 brings it back.
func (f *faulty) down(arm fault) {
	for _, m := range []string{
		"ClaimDeliveries", "RenewDeliveries", "SettleDelivery", "ClaimRuns", "RenewRuns", "SettleRun",
		"ReportSession", "ReleaseRun", "DisownRuns", "SweepRuns", "ClaimProbes", "SettleProbe", "Prune", "Compact",
	} {
		f.set(m, arm)
	}
}

// times are when a method was called, in whole seconds.
func (f *faulty) times(method string) (list []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, at := range f.calls[method] {
		list = append(list, int(at.Round(time.Second)/time.Second))
	}
	return list
}

func (f *faulty) do(ctx context.Context, method string, call func() error) error {
	f.mu.Lock()
	arm, before := f.faults[method], f.before
	f.calls[method] = append(f.calls[method], time.Since(f.began))
	f.mu.Unlock()
	if before != nil {
		before(method)
	}
	switch arm {
	case refuse:
		return errFault
	case hang:
		<-ctx.Done()
		return ctx.Err()
	}
	if err := call(); err != nil {
		return err
	}
	if arm == lose {
		return errFault
	}
	return nil
}

func fetch[T any](ctx context.Context, f *faulty, method string, call func() (T, error)) (T, error) {
	var v, none T
	err := f.do(ctx, method, func() (err error) {
		v, err = call()
		return err
	})
	if err != nil {
		return none, err
	}
	return v, nil
}

func (f *faulty) Wakes() (<-chan struct{}, func()) {
	if f.deaf {
		return nil, func() {}
	}
	return f.Store.Wakes()
}

func (f *faulty) ClaimDeliveries(ctx context.Context, node string, n int) ([]queue.DeliveryClaim, error) {
	return fetch(ctx, f, "ClaimDeliveries", func() ([]queue.DeliveryClaim, error) {
		claims, err := f.Store.ClaimDeliveries(ctx, node, n)
		for i := range claims {
			claims[i].Lease.Until = claims[i].Lease.Until.Add(f.skew)
		}
		return claims, err
	})
}

func (f *faulty) RenewDeliveries(ctx context.Context, l []queue.Lease) ([]queue.Lease, error) {
	return fetch(ctx, f, "RenewDeliveries", func() ([]queue.Lease, error) { return f.Store.RenewDeliveries(ctx, l) })
}

func (f *faulty) SettleDelivery(ctx context.Context, l queue.Lease, s queue.Settlement) (queue.Settled, error) {
	return fetch(ctx, f, "SettleDelivery", func() (queue.Settled, error) { return f.Store.SettleDelivery(ctx, l, s) })
}

func (f *faulty) ClaimRuns(ctx context.Context, node string, rules []queue.DispatchRule, limit int) (claims []queue.RunClaim, next time.Time, err error) {
	claims, err = fetch(ctx, f, "ClaimRuns", func() (_ []queue.RunClaim, err error) {
		claims, next, err = f.Store.ClaimRuns(ctx, node, rules, limit)
		return claims, err
	})
	return claims, next, err
}

func (f *faulty) RenewRuns(ctx context.Context, l []queue.Lease) (held, cancel []queue.Lease, err error) {
	held, err = fetch(ctx, f, "RenewRuns", func() (_ []queue.Lease, err error) {
		held, cancel, err = f.Store.RenewRuns(ctx, l)
		return held, err
	})
	return held, cancel, err
}

func (f *faulty) SettleRun(ctx context.Context, l queue.Lease, o queue.Outcome) (*queue.Run, error) {
	return fetch(ctx, f, "SettleRun", func() (*queue.Run, error) { return f.Store.SettleRun(ctx, l, o) })
}

func (f *faulty) ReportSession(ctx context.Context, l queue.Lease, session string, state queue.SessionState) error {
	return f.do(ctx, "ReportSession", func() error { return f.Store.ReportSession(ctx, l, session, state) })
}

func (f *faulty) ReleaseRun(ctx context.Context, l queue.Lease) error {
	return f.do(ctx, "ReleaseRun", func() error { return f.Store.ReleaseRun(ctx, l) })
}

func (f *faulty) DisownRuns(ctx context.Context, node string, held []queue.Lease) (int, error) {
	return fetch(ctx, f, "DisownRuns", func() (int, error) { return f.Store.DisownRuns(ctx, node, held) })
}

func (f *faulty) SweepRuns(ctx context.Context) (int, error) {
	return fetch(ctx, f, "SweepRuns", func() (int, error) { return f.Store.SweepRuns(ctx) })
}

func (f *faulty) ClaimProbes(ctx context.Context, node string, triggers []string, limit int) ([]queue.RunClaim, error) {
	return fetch(ctx, f, "ClaimProbes", func() ([]queue.RunClaim, error) { return f.Store.ClaimProbes(ctx, node, triggers, limit) })
}

func (f *faulty) SettleProbe(ctx context.Context, l queue.Lease, a queue.ProbeAnswer) (*queue.Run, error) {
	return fetch(ctx, f, "SettleProbe", func() (*queue.Run, error) { return f.Store.SettleProbe(ctx, l, a) })
}

func (f *faulty) Prune(ctx context.Context, limit int) (int, error) {
	return fetch(ctx, f, "Prune", func() (int, error) { return f.Store.Prune(ctx, limit) })
}

func (f *faulty) PruneRepairs(ctx context.Context, limit int) (int, error) {
	return fetch(ctx, f, "PruneRepairs", func() (int, error) { return f.Store.PruneRepairs(ctx, limit) })
}

func (f *faulty) Compact(ctx context.Context) error {
	return f.do(ctx, "Compact", func() error { return f.Store.Compact(ctx) })
}
