package queuetest

import (
	"errors"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

var replayTests = []test{
	{name: "what has ended begins a new generation, nothing else does", do: func(k *kit) {
		for _, s := range deliveryStates {
			k := k.at("%s", s.name)
			d, _ := s.make(k)
			if !s.state.Terminal() {
				k.refused(queue.ErrConflict, "a replay", func() error {
					_, err := k.store.Replay(k.ctx, d.ID, queue.ReplayOptions{Force: true})
					return err
				})
				settleAll(k)
				continue
			}
			k.pass(time.Minute)
			before := k.detail(d.ID)
			got, err := k.store.Replay(k.ctx, d.ID, queue.ReplayOptions{})
			k.must(err, "replaying")
			if got.State != queue.Received || got.Attempts != 0 || got.Generation != 1 || got.Seq != before.Seq || !got.FinishedAt.IsZero() {
				k.Errorf("replayed: %+v", got)
			}
			if !got.ReceivedAt.Before(got.QueuedAt) {
				k.Errorf("received %v, queued %v; want queued by the replay", got.ReceivedAt, got.QueuedAt)
			}
			after := k.detail(d.ID)
			k.same("the answer", *got, after.Delivery)
			k.same("earlier attempts", after.History, before.History)
			k.same("earlier decisions", after.Decisions, before.Decisions)
			k.same("earlier runs", after.Runs, before.Runs)
			if c := k.claim(); c.Generation != 1 || c.Attempts != 1 || c.Force || c.Triggers != nil || string(c.Payload) != string(payloadOf(d)) {
				k.Errorf("claimed %+v", c)
			}
			settleAll(k)
		}
	}},
	{name: "an unknown delivery is not found", do: func(k *kit) {
		k.refused(queue.ErrNotFound, "a replay", func() error {
			_, err := k.store.Replay(k.ctx, "nope", queue.ReplayOptions{})
			return err
		})
	}},
	{name: "each generation runs once more", do: func(k *kit) {
		d := k.delivery(about(7))
		first := k.admit(d, plain("triage"))[0]
		seen := map[string]bool{first.ID: true}
		for generation := 1; generation <= 3; generation++ {
			k.replay(d.ID)
			r := k.done(k.claim().Lease, plain("triage"))[0]
			if r.Generation != generation || seen[r.ID] {
				k.Errorf("generation %d ran as %s of generation %d", generation, r.ID, r.Generation)
			}
			seen[r.ID] = true
		}
		got := k.detail(d.ID)
		if len(got.Runs) != 4 || len(got.Decisions) != 4 || len(got.History) != 4 {
			k.Errorf("after four generations: %d runs, %d decisions, %d attempts", len(got.Runs), len(got.Decisions), len(got.History))
		}
		for i := range got.Decisions {
			if got.Decisions[i].Generation != i || got.History[i].Generation != i {
				k.Errorf("decision %d is of generation %d, attempt of %d", i, got.Decisions[i].Generation, got.History[i].Generation)
			}
		}
		k.recount()
	}},
	{name: "what narrows a replay holds for that one", do: func(k *kit) {
		d := k.delivery()
		k.admit(d, plain("triage"))
		_, err := k.store.Replay(k.ctx, d.ID, queue.ReplayOptions{Force: true, Triggers: []string{"triage", "deploy"}})
		k.must(err, "replaying")
		c := k.claim()
		if !c.Force {
			k.Errorf("the claim is not forced")
		}
		k.same("the claim's triggers", c.Triggers, []string{"triage", "deploy"})
		k.settle(c.Lease, queue.Settlement{Kind: queue.SettleRetry, Error: "boom"})
		k.pass(time.Minute)
		c = k.claim()
		if !c.Force || len(c.Triggers) != 2 {
			k.Errorf("its next attempt is forced: %v, for %v", c.Force, c.Triggers)
		}
		k.settle(c.Lease, queue.Settlement{Kind: queue.SettleDone})
		k.replay(d.ID)
		if c := k.claim(); c.Force || c.Triggers != nil {
			k.Errorf("the next replay is forced: %v, for %v", c.Force, c.Triggers)
		}
	}},
	{name: "a replayed dead letter has all its attempts again", do: func(k *kit) {
		d := k.enqueue(k.delivery())
		for generation := range 2 {
			for i := range k.settings.MaxAttempts {
				c := k.claim()
				if c.Attempts != i+1 || c.Generation != generation {
					k.Fatalf("attempt %d of generation %d, want %d of %d", c.Attempts, c.Generation, i+1, generation)
				}
				k.settle(c.Lease, queue.Settlement{Kind: queue.SettleRetry, Error: "boom"})
				k.pass(time.Minute)
			}
			if got := k.detail(d.ID); got.State != queue.Failed {
				k.Errorf("it is %s, want failed", got.State)
			}
			if generation == 0 {
				k.replay(d.ID)
			}
		}
	}},
	{name: "the old lease is worth nothing afterwards", do: func(k *kit) {
		d := k.enqueue(k.delivery())
		l := k.claim().Lease
		k.settle(l, queue.Settlement{Kind: queue.SettleDone})
		k.replay(d.ID)
		k.claim()
		if _, err := k.store.SettleDelivery(k.ctx, l, queue.Settlement{Kind: queue.SettleDone}); !errors.Is(err, queue.ErrLeaseLost) {
			k.Errorf("settling with the first generation's lease: %v", err)
		}
	}},
	{name: "a replay wakes its own node", do: func(k *kit) {
		d := k.delivery()
		k.admit(d, plain("deploy"))
		k.wakes("a replay", func() { k.replay(d.ID) })
	}},
}
