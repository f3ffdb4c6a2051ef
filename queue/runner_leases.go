package queue

import (
	"context"
	"slices"
	"sync"
	"time"
)

// leaseSet holds the leases of what this process has claimed and not yet settled. It renews them
// together, and ends the work whose lease the store gave to somebody else, or that could not be
// renewed in time by this process's own clock.
type leaseSet struct {
	margin time.Duration // work that could not be renewed is ended so long before its lease is over

	mu    sync.Mutex
	held  map[leaseKey]*holding // guarded by mu
	loose []Lease               // guarded by mu: dropped, though the store may still have them
}

// leaseKey tells two claims of one row apart: the older one may still be winding down.
type leaseKey struct{ row, token int64 }

// holding is one held lease and the context of the work under it.
type holding struct {
	set    *leaseSet
	ctx    context.Context
	cancel context.CancelCauseFunc
	expiry *time.Timer

	// guarded by set.mu
	lease    Lease
	settling bool // no longer renewed, so that a settlement which never succeeds ends with the lease
	lost     bool // the store said so
}

func newLeaseSet(margin time.Duration) *leaseSet {
	return &leaseSet{margin: margin, held: map[leaseKey]*holding{}}
}

// hold begins to keep l. The context of the holding ends with cause ErrLeaseLost, or with that of
// its parent or of cancelAll.
func (s *leaseSet) hold(parent context.Context, l Lease) *holding {
	h := &holding{set: s, lease: l}
	h.ctx, h.cancel = context.WithCancelCause(parent)
	h.expiry = time.AfterFunc(time.Until(l.Until)-s.margin, func() { h.cancel(ErrLeaseLost) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[leaseKey{l.Row, l.Token}] = h
	return h
}

// settle ends the renewal and returns the lease as it stands. False: the store has said that it
// is lost, and there is nothing to write any more.
func (h *holding) settle() (Lease, bool) {
	h.set.mu.Lock()
	defer h.set.mu.Unlock()
	h.settling = true
	return h.lease, !h.lost
}

// current returns the lease as it stands. False: it is lost, or its work is being settled.
func (h *holding) current() (Lease, bool) {
	h.set.mu.Lock()
	defer h.set.mu.Unlock()
	return h.lease, !h.lost && !h.settling
}

// drop ends the holding.
func (h *holding) drop() {
	h.set.mu.Lock()
	delete(h.set.held, leaseKey{h.lease.Row, h.lease.Token})
	h.set.mu.Unlock()
	h.expiry.Stop()
	h.cancel(nil)
}

// loosen is for a holding that is dropped without an answer of the store: known names its lease
// until nobody can hold it any more, one renewal under way included.
func (h *holding) loosen(lease time.Duration) {
	h.set.mu.Lock()
	defer h.set.mu.Unlock()
	l := h.lease
	l.Until = l.Until.Add(lease)
	h.set.loose = append(h.set.loose, l)
}

// known lists every lease under which something may have begun.
func (s *leaseSet) known() []Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loose = slices.DeleteFunc(s.loose, func(l Lease) bool { return time.Now().After(l.Until) })
	list := slices.Clone(s.loose)
	for _, h := range s.held {
		list = append(list, h.lease)
	}
	return list
}

// cancelAll ends all work with this cause, and goes on holding its leases.
func (s *leaseSet) cancelAll(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.held {
		h.cancel(cause)
	}
}

// leases lists what is to be renewed.
func (s *leaseSet) leases() []Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Lease, 0, len(s.held))
	for _, h := range s.held {
		if !h.settling && !h.lost {
			list = append(list, h.lease)
		}
	}
	return list
}

// answer takes in what the store said of the leases that it was asked to renew.
func (s *leaseSet) answer(asked, renewed, canceled []Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	still := make(map[leaseKey]bool, len(renewed))
	for _, l := range renewed {
		key := leaseKey{l.Row, l.Token}
		still[key] = true
		// One that settles keeps the deadline it had: whoever settles has read it already.
		if h := s.held[key]; h != nil && !h.settling {
			h.lease.Until = l.Until
			h.expiry.Reset(time.Until(l.Until) - s.margin)
		}
	}
	for _, l := range asked {
		key := leaseKey{l.Row, l.Token}
		// A row that was settled meanwhile is not renewed either; its work is over.
		if h := s.held[key]; h != nil && !h.settling && !still[key] {
			h.lost = true
			h.cancel(ErrLeaseLost)
		}
	}
	for _, l := range canceled {
		if h := s.held[leaseKey{l.Row, l.Token}]; h != nil {
			h.cancel(ErrCanceled)
		}
	}
}

// wakeRenewal is the least time between two renewals that wakes ask for, so that a busy queue
// does not turn every commit into a renewal.
const wakeRenewal = time.Second

// keep renews every so often, and soon after a wake, until ctx is done. A renewal that failed is
// tried again without waiting for the next one.
func (s *leaseSet) keep(ctx context.Context, every time.Duration, wakes <-chan struct{}, l *link,
	renew func(context.Context, []Lease) (renewed, canceled []Lease, err error),
) {
	away := outage{log: l.log, gone: "leases cannot be renewed", back: "leases are renewed again"}
	timer := time.NewTimer(every)
	defer timer.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-wakes:
			if early := wakeRenewal - time.Since(last); early > 0 {
				timer.Reset(min(early, time.Until(last.Add(every))))
				continue
			}
		}
		wait := every
		if asked := s.leases(); len(asked) > 0 {
			var renewed, canceled []Lease
			err := l.call(func(ctx context.Context) (err error) {
				renewed, canceled, err = renew(ctx, asked)
				return err
			})
			if err != nil {
				wait = min(every, away.failed(err))
			} else {
				s.answer(asked, renewed, canceled)
				away.over()
			}
		}
		last = time.Now()
		timer.Reset(wait)
	}
}
