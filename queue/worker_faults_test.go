package queue_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

func TestWorkerEndsWorkThatCannotBeRenewed(t *testing.T) {
	for name, arm := range map[string]fault{"refused": refuse, "hanging": hang} {
		t.Run(name, func(t *testing.T) {
			in(t, func(b *bubble) {
				var ended list[time.Duration]
				slow := taking(time.Hour)
				w, d := worker(b, func(ctx context.Context, c *queue.DeliveryClaim) (queue.Settlement, error) {
					s, err := slow(ctx, c)
					ended.add(b.now())
					return s, err
				})
				id := b.enqueue()
				b.service(w.Run)
				synctest.Wait()
				b.down(arm)
				b.pass(59 * time.Second)
				want(t, "ended at", ended.all(), []time.Duration{55 * time.Second})
				want(t, "cause", fmt.Sprint(d.causes.all()), fmt.Sprint([]error{queue.ErrLeaseLost}))
				if n := b.logs.count("leases cannot be renewed"); n != 1 {
					t.Errorf("%d lines say that renewing fails, want 1", n)
				}
				// With the store back it is somebody's turn again.
				b.down(0)
				b.pass(7 * time.Second)
				if got := b.delivery(id); got.State != queue.Processing {
					t.Errorf("the delivery is %s, want processing again", got.State)
				}
			})
		})
	}
}

func TestWorkerObeysALostLease(t *testing.T) {
	in(t, func(b *bubble) {
		w, d := worker(b, func(ctx context.Context, c *queue.DeliveryClaim) (queue.Settlement, error) {
			if c.Attempts == 1 {
				<-ctx.Done()
			}
			return queue.Settlement{Kind: queue.SettleDone}, ctx.Err()
		})
		var told list[string]
		w.Observe = func(a queue.DeliveryAttempt) { told.add(a.Outcome) }
		w.Renew = 70 * time.Second
		b.skew = time.Hour
		id := b.enqueue()
		b.service(w.Run)
		b.pass(69 * time.Second) // the next holder has claimed it and is done
		want(t, "outcomes before the renewal", told.all(), []string{"done"})
		b.pass(2 * time.Second)
		want(t, "cause", d.causes.all()[1], queue.ErrLeaseLost)
		want(t, "outcomes", told.all(), []string{"done", "lease_lost"})
		want(t, "settlements", len(b.times("SettleDelivery")), 1)
		b.wantDelivery(id, queue.Done, 2, "lease_expired", "done")
	})
}

// A settlement's answer that is lost is the same to the worker as one that never arrived; the
// token keeps the repeated one from doing anything.
func TestWorkerSettlesThroughFaults(t *testing.T) {
	cases := map[string]struct {
		arm     fault
		outcome string
	}{
		"failed and not stored": {refuse, "done"},
		"no answer, not stored": {hang, "done"},
		"stored, answer lost":   {lose, "lease_lost"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in(t, func(b *bubble) {
				w, d := worker(b, func(context.Context, *queue.DeliveryClaim) (queue.Settlement, error) {
					return matched(admission("deploy")), nil
				})
				var told list[string]
				w.Observe = func(a queue.DeliveryAttempt) { told.add(a.Outcome) }
				b.set("SettleDelivery", c.arm)
				id := b.enqueue()
				b.service(w.Run)
				b.pass(12 * time.Second)
				b.set("SettleDelivery", 0)
				b.pass(2 * time.Minute)
				want(t, "decisions", len(d.at.all()), 1)
				want(t, "outcome", told.all(), []string{c.outcome})
				if got := b.wantDelivery(id, queue.Done, 1, "done"); len(got.Runs) != 1 {
					t.Errorf("%d runs, want 1", len(got.Runs))
				}
			})
		})
	}
}

func TestWorkerGivesUpASettlementWithTheLease(t *testing.T) {
	in(t, func(b *bubble) {
		w, d := worker(b, nil)
		var told list[string]
		w.Observe = func(a queue.DeliveryAttempt) { told.add(a.Outcome) }
		b.set("SettleDelivery", refuse)
		id := b.enqueue()
		b.service(w.Run)
		b.pass(61 * time.Second)
		b.set("SettleDelivery", 0)
		b.pass(30 * time.Second)
		// Nothing renews a lease whose work is over, so that a settlement which never works ends.
		want(t, "renewals", len(b.times("RenewDeliveries")), 0)
		want(t, "decisions", len(d.at.all()), 2)
		want(t, "outcomes", told.all(), []string{"unrecorded", "done"})
		b.wantDelivery(id, queue.Done, 2, "lease_expired", "done")
	})
}

func TestWorkerClaimsThroughFaults(t *testing.T) {
	cases := map[string]struct {
		arm      fault
		attempts int
		outcomes []string
		by       time.Duration
	}{
		"failed and not stored": {refuse, 1, []string{"done"}, 15 * time.Second},
		"stored, answer lost":   {lose, 2, []string{"lease_expired", "done"}, 65 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in(t, func(b *bubble) {
				w, d := worker(b, nil)
				b.set("ClaimDeliveries", c.arm)
				id := b.enqueue()
				b.service(w.Run)
				b.pass(10 * time.Second)
				b.set("ClaimDeliveries", 0)
				b.pass(time.Minute)
				b.wantDelivery(id, queue.Done, c.attempts, c.outcomes...)
				if at := d.at.all()[0]; at > c.by {
					t.Errorf("decided at %v, want by %v", at, c.by)
				}
			})
		})
	}
}

func TestWorkerOutlivesTheStore(t *testing.T) {
	in(t, func(b *bubble) {
		w, d := worker(b, nil)
		b.service(w.Run)
		synctest.Wait()
		b.pass(time.Minute)
		b.down(refuse)
		b.enqueue()
		b.pass(10 * time.Minute)
		if gap := time.Since(w.LastClaim()); gap < 9*time.Minute {
			t.Errorf("the last claim was %v ago though the store was away", gap)
		}
		tries := len(b.times("ClaimDeliveries"))
		if tries > 300 {
			t.Errorf("%d claims in ten minutes without a store", tries)
		}
		b.down(0)
		b.pass(5 * time.Second)
		want(t, "decisions", len(d.at.all()), 1)
		want(t, "lines that say it is gone", b.logs.count("the store does not answer"), 1)
		want(t, "lines that say it is back", b.logs.count("the store answers again"), 1)
		if gap := time.Since(w.LastClaim()); gap > 5*time.Second {
			t.Errorf("the last claim was %v ago", gap)
		}
	})
}
