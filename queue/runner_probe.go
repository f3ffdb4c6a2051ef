package queue

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Probes at the same time: of one trigger, before it has to wait, and of one claim.
const (
	maxProbes  = 4
	probeBatch = 16
)

// probes knows when uncertain runs want to be asked after, and how many are being asked after
// for each trigger, so that one whose probe hangs does not hold up the others.
type probes struct {
	mu    sync.Mutex
	at    time.Time      // guarded by mu: the earliest known time, zero when none is
	under map[string]int // guarded by mu: under way, by trigger
}

func newProbes() *probes { return &probes{under: map[string]int{}} }

// wanted notes that a run may be due at that time. The zero time is now.
func (p *probes) wanted(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at.IsZero() {
		at = time.Now()
	}
	if p.at.IsZero() || at.Before(p.at) {
		p.at = at
	}
}

// due reports whether to ask the store for runs to probe, and forgets the time.
func (p *probes) due(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() || p.at.After(now) {
		return false
	}
	p.at = time.Time{}
	return true
}

func (p *probes) next() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}

func (p *probes) add(trigger string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.under[trigger] += n; p.under[trigger] == 0 {
		delete(p.under, trigger)
	}
}

// free lists those of triggers that may be probed more.
func (p *probes) free(triggers []string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	for _, t := range triggers {
		if p.under[t] < maxProbes {
			list = append(list, t)
		}
	}
	return list
}

// claimProbes begins to ask after the uncertain runs that are due.
func (r *dispatcherRun) claimProbes() error {
	if r.Probed == nil || r.Probe == nil {
		return nil
	}
	triggers := r.probes.free(r.Probed())
	if len(triggers) == 0 {
		return nil
	}
	var claims []RunClaim
	err := r.link.call(func(ctx context.Context) (err error) {
		claims, err = r.Store.ClaimProbes(ctx, r.Node, triggers, probeBatch)
		return err
	})
	for _, c := range claims {
		r.probes.add(c.Trigger, 1)
		h := r.leases.hold(r.link.base, c.Lease)
		r.work.Go(func() {
			defer h.drop()
			r.probe(h, c)
			r.probes.add(c.Trigger, -1)
			r.ended.set()
		})
	}
	if len(claims) == probeBatch {
		r.probes.wanted(time.Time{})
	}
	return err
}

// probe asks once and records the answer.
func (r *dispatcherRun) probe(h *holding, c RunClaim) {
	answer := ProbeUnknown
	if r.stop.Err() == nil {
		answer = r.ask(h.ctx, c)
	}
	lease, ours := h.settle()
	if !ours {
		return
	}
	var settled *Run
	err := r.link.persist(lease.Until, func(ctx context.Context) (err error) {
		settled, err = r.Store.SettleProbe(ctx, lease, answer)
		return err
	})
	if err != nil {
		r.log.Warn("a probe's answer could not be recorded", append(runAttrs(&c.Run), slog.String("error", err.Error()))...)
		return
	}
	if settled.State == Uncertain {
		r.probes.wanted(settled.NextAttempt)
	}
	r.log.Info("run probed", append(runAttrs(settled), slog.String("state", string(settled.State)))...)
}

// ask turns a panic into an unknown answer.
func (r *dispatcherRun) ask(ctx context.Context, c RunClaim) (answer ProbeAnswer) {
	defer func() {
		if v := recover(); v != nil {
			answer = ProbeUnknown
			r.log.Error("a probe panicked", append(runAttrs(&c.Run), slog.String("error", panicText(v)))...)
		}
	}()
	answer = r.Probe(ctx, c)
	if ctx.Err() != nil && answer == ProbeDidNot {
		return ProbeUnknown // it was cut off, and the silence of a target that was cut off means nothing
	}
	return answer
}
