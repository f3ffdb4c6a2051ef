package queuetest

import (
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

var triggerTests = []test{
	{name: "a pause is seen by every handle, and pausing twice changes nothing", do: func(k *kit) {
		k.pause("deploy")
		since := k.stats()["deploy"].PausedSince
		k.near("since then", time.Since(since), time.Second)
		k.must(k.store.PauseTrigger(k.ctx, "deploy"), "pausing again")
		other := k.on(k.another(k.t))
		if got := other.stats()["deploy"].PausedSince; got.IsZero() {
			k.Errorf("another handle does not see the pause")
		}
		k.near("the difference", k.stats()["deploy"].PausedSince.Sub(since), 0)
		other.resume("deploy")
		if got := k.stats()["deploy"].PausedSince; !got.IsZero() {
			k.Errorf("after a resume it is paused since %v", got)
		}
		other.resume("deploy")
		k.resume("never-paused")
		k.admitted(plain("deploy"), queue.Waiting, "")
	}},
	{name: "a pause of one trigger is no pause of another", do: func(k *kit) {
		k.pause("deploy")
		k.admitted(plain("lint"), queue.Waiting, "")
		k.startOne(rule("lint", 1))
	}},
	{name: "a second pause since when a first was over", do: func(k *kit) {
		k.pause("deploy")
		first := k.enqueue(k.delivery())
		k.resume("deploy")
		between := k.enqueue(k.delivery())
		k.pause("deploy")
		second := k.enqueue(k.delivery())
		k.resume("deploy")
		after := k.enqueue(k.delivery())
		k.decidesAs("deploy", map[string]string{first.ID: "paused", between.ID: "", second.ID: "paused", after.ID: ""})
	}},
	{name: "a pause is remembered as long as a delivery of its time may be decided", do: func(k *kit) {
		k.pause("deploy")
		d := k.enqueue(k.delivery())
		k.resume("deploy")
		for range 20 {
			k.settle(k.claim().Lease, queue.Settlement{Kind: queue.SettlePark, Wait: 3 * day})
			_, err := k.store.Prune(k.ctx, 100)
			k.must(err, "pruning")
			k.pass(3*day + time.Second)
		}
		k.decidesAs("deploy", map[string]string{d.ID: "paused"})
	}},
	{name: "resuming wakes its own node", do: func(k *kit) {
		k.admit(k.delivery(), plain("deploy"))
		k.pause("deploy")
		k.wakes("a resume", func() { k.resume("deploy") })
	}},
	{name: "stats are counted from rows", do: func(k *kit) {
		stats := func() queue.TriggerStats { k.Helper(); return k.stats()["deploy"] }
		if _, ok := k.stats()["deploy"]; ok {
			k.Errorf("a trigger without state and runs has stats")
		}
		for range 2 {
			k.admit(k.delivery(), plain("deploy", size(2)))
		}
		for range 3 {
			k.admit(k.delivery(), plain("deploy", size(2)))
		}
		s := stats()
		if s.Waiting != 2 || s.Dropped24h != 3 || s.Running != 0 || !s.LastRunAt.IsZero() && s.LastRunAt.After(time.Now()) {
			k.Errorf("two wait and three were dropped: %+v", s)
		}
		c := k.startOne(rule("deploy", 1))
		if s = stats(); s.Waiting != 1 || s.Running != 1 || s.LastRunAt.IsZero() {
			k.Errorf("one runs: %+v", s)
		}
		k.settleRun(c.Lease, queue.Outcome{State: queue.Uncertain})
		if s = stats(); s.Uncertain != 1 || s.Running != 0 {
			k.Errorf("one is uncertain: %+v", s)
		}
		k.pass(25 * time.Hour)
		if s = stats(); s.Dropped24h != 0 {
			k.Errorf("a day later, %d were dropped", s.Dropped24h)
		}
	}},
	{name: "how many of the newest five starts failed in a row", do: func(k *kit) {
		for i, c := range []struct {
			o    queue.RunState
			want int
		}{
			{queue.RunFailed, 1},
			{queue.RunFailed, 2},
			{queue.Succeeded, 0},
			{queue.RunFailed, 1},
			{queue.RunFailed, 2},
			{queue.RunFailed, 3},
			{queue.RunFailed, 4},
			{queue.RunFailed, 5},
			{queue.RunFailed, 5},
			{queue.Succeeded, 0},
		} {
			k.admit(k.delivery(), plain("deploy"))
			k.settleRun(k.startOne(rule("deploy", 1)).Lease, queue.Outcome{State: c.o})
			k.pass(time.Minute)
			if got := k.stats()["deploy"].LastFailed; got != c.want {
				k.Errorf("after run %d, which %s, %d failed in a row, want %d", i+1, c.o, got, c.want)
			}
		}
	}},
}
