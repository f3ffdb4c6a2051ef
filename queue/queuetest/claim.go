package queuetest

import (
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

var claimTests = []test{
	{name: "oldest first, n at most", do: func(k *kit) {
		var want []string
		for range 5 {
			want = append(want, key(k.enqueue(k.delivery())))
		}
		if c := k.claims(0); len(c) != 0 {
			k.Errorf("claimed %v, want none of none", keys(c))
		}
		k.same("the first three", keys(k.claims(3)), want[:3])
		k.same("the rest", keys(k.claims(3)), want[3:])
		k.unclaimable("all are held")
	}},
	{name: "a claim charges an attempt and holds a lease", do: func(k *kit) {
		d := k.enqueue(k.delivery())
		c := k.claim()
		if c.State != queue.Processing || c.Attempts != 1 || c.Lease.Row != c.Seq || c.Lease.Token == 0 || string(c.Payload) != string(payloadOf(d)) {
			k.Errorf("claimed %+v; want processing, 1 attempt, its seq's lease and its payload", c)
		}
		k.near("the lease", time.Until(c.Lease.Until), k.settings.Lease)
		got := k.detail(d.ID)
		if got.State != queue.Processing || got.Attempts != 1 || !got.FinishedAt.IsZero() {
			k.Errorf("claimed: %+v", got.Delivery)
		}
		k.near("the row's lease", time.Until(got.LeaseUntil), k.settings.Lease)
	}},
	{name: "only what is due or was abandoned", do: func(k *kit) {
		for _, s := range deliveryStates {
			k := k.at("%s", s.name)
			d, _ := s.make(k)
			want := map[string]bool{"received": true, "received, released": true, "processing, lease expired": true}[s.name]
			if got := len(k.claims(100)) == 1; got != want {
				k.Errorf("claimed: %v, want %v", got, want)
			}
			if !want {
				if got := k.detail(d.ID); got.State != s.state {
					k.Errorf("a claim made it %s", got.State)
				}
			}
			settleAll(k)
		}
	}},
	{name: "one that is not due lets younger ones pass", do: func(k *kit) {
		k.enqueue(k.delivery())
		k.settle(k.claim().Lease, queue.Settlement{Kind: queue.SettlePark, Wait: time.Hour})
		young := k.enqueue(k.delivery())
		if c := k.claim(); c.ID != young.ID {
			k.Errorf("claimed %s, want %s", c.ID, young.ID)
		}
		k.pass(time.Hour + time.Second)
		c := k.claims(1)
		k.same("after the wait, the older one", keys(c), []string{"acme-bot/guid-0001"})
	}},
	{name: "an expired lease is claimable again, charged again", do: func(k *kit) {
		d := k.enqueue(k.delivery())
		first := k.claim()
		k.pass(k.settings.Lease / 2)
		k.unclaimable("though its lease lasts")
		k.pass(k.settings.Lease/2 + time.Second)
		second := k.claim()
		if second.Attempts != 2 || second.Lease.Token <= first.Lease.Token {
			k.Errorf("attempt %d with token %d after %d; want attempt 2 and a higher token", second.Attempts, second.Lease.Token, first.Lease.Token)
		}
		k.settle(second.Lease, queue.Settlement{Kind: queue.SettleDone})
		h := k.detail(d.ID).History
		if len(h) != 2 || h[0].Attempt != 1 || h[0].Outcome != "lease_expired" || h[0].Node != "node-1" || h[1].Attempt != 2 || h[1].Outcome != "done" {
			k.Errorf("the history is %+v; want lease_expired, then done", h)
		}
	}},
	{name: "poison is failed by the claim after its last lease", do: func(k *kit) {
		poison := k.enqueue(k.delivery())
		for i := range k.settings.MaxAttempts {
			if c := k.claim(); c.Attempts != i+1 {
				k.Fatalf("attempt %d is number %d", i+1, c.Attempts)
			}
			k.pass(k.settings.Lease + time.Second)
		}
		if got := k.detail(poison.ID); got.State != queue.Processing {
			k.Errorf("before the claim it is %s", got.State)
		}
		young := k.enqueue(k.delivery())
		c := append(k.claims(1), k.claims(1)...)
		k.same("beside poison", keys(c), []string{key(young)})
		got := k.detail(poison.ID)
		if got.State != queue.Failed || got.Attempts != k.settings.MaxAttempts || got.LastError == "" || got.FinishedAt.IsZero() || !got.LeaseUntil.IsZero() {
			k.Errorf("poison became %+v; want failed after %d attempts with an error, finished and without a lease", got.Delivery, k.settings.MaxAttempts)
		}
		if len(got.History) != k.settings.MaxAttempts {
			k.Errorf("its history has %d attempts, want %d", len(got.History), k.settings.MaxAttempts)
		}
		k.recount()
	}},
	{name: "six attempts in all, by failure and by expiry", do: func(k *kit) {
		d := k.enqueue(k.delivery())
		for range k.settings.MaxAttempts / 2 {
			k.settle(k.claim().Lease, queue.Settlement{Kind: queue.SettleRetry, Error: "boom"})
			k.pass(time.Minute)
			k.claim()
			k.pass(k.settings.Lease + time.Second)
		}
		k.unclaimable("though all attempts are spent")
		if got := k.detail(d.ID); got.State != queue.Failed {
			k.Errorf("it is %s, want failed", got.State)
		}
	}},
	{name: "only nodes with the newest triggers claim", do: func(k *kit) {
		at := time.Now()
		beat := func(id, hash string, loaded time.Time) {
			k.Helper()
			k.must(k.store.Heartbeat(k.ctx, queue.Node{ID: id, TriggersHash: hash, TriggersLoadedAt: loaded, StartedAt: at}), "a heartbeat of "+id)
		}
		// claims says whether a node gets work, and gives the work back.
		claims := func(node string) bool {
			k.Helper()
			c, err := k.store.ClaimDeliveries(k.ctx, node, 1)
			k.must(err, "claiming as "+node)
			for _, c := range c {
				k.settle(c.Lease, queue.Settlement{Kind: queue.SettleRelease})
			}
			return len(c) == 1
		}
		expect := func(when string, old, young bool) {
			k.Helper()
			if got := claims("old"); got != old {
				k.Errorf("%s: the older node claims: %v, want %v", when, got, old)
			}
			if got := claims("young"); got != young {
				k.Errorf("%s: the younger node claims: %v, want %v", when, got, young)
			}
		}
		k.enqueue(k.delivery())
		beat("old", "a", at.Add(-time.Hour))
		beat("young", "a", at)
		expect("with equal triggers", true, true)
		beat("young", "b", at)
		expect("with different triggers", false, true)
		beat("old", "b", at.Add(time.Second))
		expect("once the older has loaded the same", true, true)
		beat("old", "c", at.Add(2*time.Second))
		expect("once the older has loaded others", true, false)
		k.must(k.store.Leave(k.ctx, "old"), "leaving")
		if !claims("young") {
			k.Errorf("a node that has left still gates the younger one")
		}
		beat("old", "c", at.Add(2*time.Second))
		k.pass(k.settings.DeadNode + time.Second)
		beat("young", "b", at)
		if !claims("young") {
			k.Errorf("a dead node still gates the younger one")
		}
	}},
}
