package queuetest

import (
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

var renewTests = []test{
	{name: "a renewed lease lasts", do: func(k *kit) {
		d := k.enqueue(k.delivery())
		l := k.claim().Lease
		for range 5 {
			k.pass(k.settings.Lease * 2 / 3)
			held := k.renew(l)
			if len(held) != 1 || held[0].Row != l.Row || held[0].Token != l.Token {
				k.Fatalf("renewed %+v, want %+v", held, l)
			}
			k.near("the renewed lease", time.Until(held[0].Until), k.settings.Lease)
			k.near("the row's lease", time.Until(k.detail(d.ID).LeaseUntil), k.settings.Lease)
			k.unclaimable("though its lease was renewed")
			l = held[0]
		}
		if got := k.detail(d.ID); got.Attempts != 1 {
			k.Errorf("renewing charged an attempt: %d", got.Attempts)
		}
		k.settle(l, queue.Settlement{Kind: queue.SettleDone})
	}},
	{name: "only what is held is renewed", do: func(k *kit) {
		k.enqueue(k.delivery())
		expired := k.claim().Lease
		k.pass(k.settings.Lease + time.Second)
		k.refusesRenewal("expired", expired)
		passedOn := expired
		expired = k.claim().Lease // the row's next holder
		k.refusesRenewal("passed on", passedOn)
		held := expired
		settled := k.enqueueAndClaim()
		k.settle(settled, queue.Settlement{Kind: queue.SettleDone})
		released := k.enqueueAndClaim()
		k.settle(released, queue.Settlement{Kind: queue.SettlePark, Wait: time.Hour})
		unknown := queue.Lease{Row: 4711, Token: 1}
		forged := queue.Lease{Row: held.Row, Token: held.Token + 1}
		for name, l := range map[string]queue.Lease{"settled": settled, "parked": released, "unknown": unknown, "forged": forged} {
			k.refusesRenewal(name, l)
		}
		got := k.renew(settled, held, unknown, passedOn)
		if len(got) != 1 || got[0].Row != held.Row || got[0].Token != held.Token {
			k.Errorf("of one that is held and three that are not, %+v were renewed", got)
		}
		if got := k.renew(); len(got) != 0 {
			k.Errorf("of none, %+v were renewed", got)
		}
	}},
}

func (k *kit) renew(leases ...queue.Lease) []queue.Lease {
	k.Helper()
	held, err := k.store.RenewDeliveries(k.ctx, leases)
	k.must(err, "renewing leases")
	return held
}

func (k *kit) refusesRenewal(name string, l queue.Lease) {
	k.Helper()
	k.unchanged("renewing a lease that is "+name, func() {
		if held := k.renew(l); len(held) != 0 {
			k.Errorf("a lease that is %s was renewed", name)
		}
	})
}

// enqueueAndClaim leases a new delivery.
func (k *kit) enqueueAndClaim() queue.Lease {
	k.Helper()
	k.enqueue(k.delivery())
	return k.claim().Lease
}
