package queuetest

import (
	"errors"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

const day = 24 * time.Hour

var pruneTests = []test{
	{name: "terminal deliveries go once their time is over, with all that is theirs", do: func(k *kit) {
		d := k.delivery()
		r := k.admit(d, plain("deploy"))[0]
		k.settleRun(k.startOne(rule("deploy", 1)).Lease, queue.Outcome{State: queue.Succeeded, Output: []byte("hello")})
		dead := k.enqueue(k.delivery())
		k.settle(k.claim().Lease, queue.Settlement{Kind: queue.SettleFail, Error: "boom"})
		k.pass(k.settings.Keep - time.Hour)
		k.prunes(0)
		k.pass(2 * time.Hour)
		k.prunes(2)
		for _, ref := range []string{d.ID, dead.ID} {
			if _, err := k.store.Delivery(k.ctx, ref); !errors.Is(err, queue.ErrNotFound) {
				k.Errorf("the pruned delivery: %v", err)
			}
			if _, err := k.store.Payload(k.ctx, ref); !errors.Is(err, queue.ErrNotFound) {
				k.Errorf("its payload: %v", err)
			}
		}
		if _, err := k.store.Run(k.ctx, r.ID); !errors.Is(err, queue.ErrNotFound) {
			k.Errorf("its run: %v", err)
		}
		if n := len(k.listRuns(queue.RunFilter{})); n != 0 {
			k.Errorf("%d runs are still listed", n)
		}
		k.recount()
		k.enqueue(d) // a GUID that is forgotten is new
		k.must(k.store.Compact(k.ctx), "compacting")
	}},
	{name: "limit at most, oldest or not, until none is left", do: func(k *kit) {
		for range 7 {
			k.settle(k.enqueueAndClaim(), queue.Settlement{Kind: queue.SettleDone})
		}
		k.pass(k.settings.Keep + time.Second)
		young := k.enqueue(k.delivery())
		k.settle(k.claim().Lease, queue.Settlement{Kind: queue.SettleDone})
		for _, want := range []int{3, 3, 1, 0} {
			if n, err := k.store.Prune(k.ctx, 3); err != nil || n != want {
				k.Errorf("pruned %d, %v; want %d", n, err, want)
			}
		}
		k.detail(young.ID)
		k.recount()
	}},
	{name: "what waits or is worked on is never pruned", do: func(k *kit) {
		for _, s := range deliveryStates {
			k := k.at("%s", s.name)
			d, _ := s.make(k)
			k.pass(k.settings.Keep + time.Hour)
			k.sweep() // a waiting run expires
			if s.state.Terminal() {
				continue // its run has just ended
			}
			k.prunes(0)
			k.detail(d.ID)
			settleAll(k)
			k.pass(k.settings.Keep + time.Hour)
			k.prunes(1)
		}
	}},
	{name: "a run that has not ended keeps its delivery", do: func(k *kit) {
		forever := func(a *queue.Admission) { a.QueueWait, a.UncertainAfter = 400*day, 400*day }
		for name, hold := range map[string]func(c queue.RunClaim){
			"waiting for its next attempt": func(c queue.RunClaim) { k.settleRun(c.Lease, queue.Outcome{State: queue.Waiting}) },
			"running, abandoned":           func(queue.RunClaim) {},
			"running, accepted":            func(c queue.RunClaim) { k.settleRun(c.Lease, accepted(400*day)) },
			"uncertain":                    func(c queue.RunClaim) { k.settleRun(c.Lease, queue.Outcome{State: queue.Uncertain}) },
		} {
			k := k.at("%s", name)
			r := k.admit(k.delivery(), plain("deploy", forever))[0]
			hold(k.startOne(rule("deploy", 1)))
			k.pass(k.settings.Keep + time.Hour)
			k.prunes(0)
			if _, err := k.store.CancelRun(k.ctx, r.ID); err != nil {
				k.Errorf("canceling: %v", err)
			}
			k.pass(k.settings.Lease + time.Second)
			k.sweep()
			if got := k.run(r.ID); got.State == queue.Uncertain {
				_, err := k.store.ResolveRun(k.ctx, r.ID, queue.RunFailed)
				k.must(err, "resolving")
			}
			k.pass(k.settings.Keep - time.Hour)
			k.prunes(0) // the run ended later than the delivery
			k.pass(2 * time.Hour)
			k.prunes(1)
		}
		waiting := k.admit(k.delivery(), plain("paused", forever))[0]
		k.pass(k.settings.Keep + time.Hour)
		k.prunes(0)
		k.is(waiting.ID, queue.Waiting)
	}},
	{name: "a run that was ended again keeps its delivery from then on", do: func(k *kit) {
		r := k.admit(k.delivery(), plain("deploy"))[0]
		k.settleRun(k.startOne(rule("deploy", 1)).Lease, queue.Outcome{State: queue.RunFailed})
		k.pass(k.settings.Keep - time.Hour)
		_, err := k.store.RetryRun(k.ctx, r.ID)
		k.must(err, "retrying")
		k.settleRun(k.startOne(rule("deploy", 1)).Lease, queue.Outcome{State: queue.Succeeded})
		k.pass(k.settings.Keep - time.Hour)
		k.prunes(0)
		k.pass(2 * time.Hour)
		k.prunes(1)
	}},
	{name: "a replay keeps a delivery from then on", do: func(k *kit) {
		d := k.enqueue(k.delivery())
		k.settle(k.claim().Lease, queue.Settlement{Kind: queue.SettleFail, Error: "boom"})
		k.pass(k.settings.Keep - time.Hour)
		k.replay(d.ID)
		k.pass(k.settings.Keep)
		k.prunes(0)
		k.settle(k.claim().Lease, queue.Settlement{Kind: queue.SettleDone})
		k.pass(k.settings.Keep - time.Hour)
		k.prunes(0)
		k.pass(2 * time.Hour)
		k.prunes(1)
	}},
	{name: "a session that is not ended keeps its delivery", settings: func(s *queue.Settings) { s.SessionTTL = 90 * day }, do: func(k *kit) {
		k.admit(k.delivery(about(7)), plain("triage", follows))
		k.settleRun(k.startOne(followRule("triage", 1)).Lease, queue.Outcome{State: queue.Succeeded, Session: "chat-1", SessionState: queue.SessionSleeping})
		k.pass(k.settings.Keep + day)
		k.sweep()
		k.prunes(0)
		k.pass(k.settings.SessionTTL)
		k.sweep()
		k.prunes(1)
	}},
}

// prunes checks how many deliveries can be pruned now, and prunes them.
func (k *kit) prunes(want int) {
	k.Helper()
	could, err := k.store.Prunable(k.ctx)
	k.must(err, "counting what can be pruned")
	did, err := k.store.Prune(k.ctx, 1000)
	k.must(err, "pruning")
	if could != want || did != want {
		k.Errorf("%d could be pruned and %d were, want %d", could, did, want)
	}
}
