package queuetest

import (
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

var claimRunsTests = []test{
	{name: "a start charges an attempt and holds a lease", do: func(k *kit) {
		d := k.delivery(about(7))
		r := k.admit(d, plain("triage"))[0]
		c := k.startOne(rule("triage", 1))
		if c.ID != r.ID || c.State != queue.Running || c.Kind != queue.Start || c.Attempts != 1 || c.Node != "node-1" || c.StartedAt.IsZero() ||
			c.Lease.Token == 0 || string(c.Payload) != string(payloadOf(d)) || c.Session != "" {
			k.Errorf("claimed %+v", c)
		}
		k.near("the lease", time.Until(c.Lease.Until), k.settings.Lease)
		got := k.is(r.ID, queue.Running)
		k.same("the run as read", got.Run, c.Run)
		k.near("the row's lease", time.Until(got.LeaseUntil), k.settings.Lease)
		k.started(rule("triage", 1))
	}},
	{name: "in the order of receipt, not of admission", do: func(k *kit) {
		for range 3 {
			k.enqueue(k.delivery())
		}
		c := k.claims(3)
		third := k.done(c[2].Lease, plain("deploy"))[0]
		first := k.done(c[0].Lease, plain("deploy"))[0]
		second := k.done(c[1].Lease, plain("deploy"))[0]
		for _, want := range []queue.Run{first, second, third} {
			got := k.started(rule("deploy", 1), want)
			k.settleRun(got[0].Lease, queue.Outcome{State: queue.Succeeded})
		}
	}},
	{name: "a replay starts in its delivery's place", do: func(k *kit) {
		old := k.delivery()
		first := k.admit(old, plain("deploy"))[0]
		young := k.admit(k.delivery(), plain("deploy"))[0]
		k.replay(old.ID)
		again := k.done(k.claim().Lease, plain("deploy"))[0]
		got := k.started(rule("deploy", 3), first, again, young)
		if got[0].Generation != 0 || got[1].Generation != 1 {
			k.Errorf("generation %d started before %d", got[0].Generation, got[1].Generation)
		}
	}},
	{name: "concurrency at most, each trigger for itself", do: func(k *kit) {
		for range 4 {
			k.admit(k.delivery(), plain("deploy"), plain("lint"))
		}
		c := k.start(rule("deploy", 3), rule("lint", 1))
		started := map[string]int{}
		for _, r := range c {
			started[r.Trigger]++
		}
		k.same("started", started, map[string]int{"deploy": 3, "lint": 1})
		k.started(rule("deploy", 3))
		for _, r := range c {
			if r.Trigger == "lint" {
				k.settleRun(r.Lease, queue.Outcome{State: queue.Succeeded})
			}
		}
		if n := len(k.start(rule("deploy", 3), rule("lint", 1))); n != 1 {
			k.Errorf("%d runs start in the one place that is free", n)
		}
		if n := len(k.start(rule("deploy", 4))); n != 1 {
			k.Errorf("%d runs start in a place that was added", n)
		}
		k.recount()
	}},
	{name: "max at most", do: func(k *kit) {
		for range 5 {
			k.admit(k.delivery(), plain("deploy"), plain("lint"))
		}
		c, _, err := k.store.ClaimRuns(k.ctx, "node-1", []queue.DispatchRule{rule("deploy", 5), rule("lint", 5)}, 3)
		k.must(err, "claiming")
		if s := k.stats(); len(c) != 3 || s["deploy"].Running+s["lint"].Running != 3 {
			k.Errorf("%d runs were claimed and %d run, want 3", len(c), s["deploy"].Running+s["lint"].Running)
		}
	}},
	{name: "only triggers that are asked for", do: func(k *kit) {
		r := k.admit(k.delivery(), plain("deploy"))[0]
		k.started(rule("other", 5))
		k.started(queue.DispatchRule{})
		k.is(r.ID, queue.Waiting)
	}},
	{name: "what keeps a slot and what does not", do: func(k *kit) {
		for _, c := range []struct {
			name  string
			hold  func(c queue.RunClaim)
			slots int // that are left of one
		}{
			{"running", func(queue.RunClaim) {}, 0},
			{"running, its lease expired", func(queue.RunClaim) { k.pass(k.settings.Lease + time.Second) }, 0},
			{"accepted", func(c queue.RunClaim) { k.settleRun(c.Lease, accepted(time.Hour)) }, 0},
			{"uncertain", func(c queue.RunClaim) { k.settleRun(c.Lease, queue.Outcome{State: queue.Uncertain}) }, 1},
			{"to be tried again", func(c queue.RunClaim) { k.settleRun(c.Lease, queue.Outcome{State: queue.Waiting}) }, 1},
			{"succeeded", func(c queue.RunClaim) { k.settleRun(c.Lease, queue.Outcome{State: queue.Succeeded}) }, 1},
		} {
			k := k.at("%s", c.name)
			k.admit(k.delivery(), plain(c.name))
			k.admit(k.delivery(), plain(c.name))
			c.hold(k.startOne(rule(c.name, 1)))
			if n := len(k.start(rule(c.name, 1))); n != c.slots {
				k.Errorf("%d more runs start, want %d", n, c.slots)
			}
		}
	}},
	{name: "what waited too long is dropped", do: func(k *kit) {
		old := k.admit(k.delivery(), plain("deploy"))[0]
		k.pass(23 * time.Hour)
		young := k.admit(k.delivery(), plain("deploy"))[0]
		k.pass(time.Hour + time.Second)
		k.started(rule("deploy", 2), young)
		k.is(old.ID, queue.Dropped, queue.ReasonExpired)
		k.recount()
	}},
	{name: "what was tried before never expires, and is overtaken meanwhile", do: func(k *kit) {
		old := k.admit(k.delivery(), plain("deploy"))[0]
		k.settleRun(k.startOne(rule("deploy", 1)).Lease, queue.Outcome{State: queue.Waiting, RetryAfter: 48 * time.Hour})
		young := k.admit(k.delivery(), plain("deploy"))[0]
		c := k.started(rule("deploy", 1), young)
		k.settleRun(c[0].Lease, queue.Outcome{State: queue.Succeeded})
		k.pass(47 * time.Hour)
		k.started(rule("deploy", 1))
		k.sweep()
		k.is(old.ID, queue.Waiting)
		k.pass(time.Hour + time.Second)
		k.started(rule("deploy", 1), old)
	}},
	{name: "next is when something becomes due", do: func(k *kit) {
		next := func() time.Time {
			k.Helper()
			_, next, err := k.store.ClaimRuns(k.ctx, "node-1", []queue.DispatchRule{rule("deploy", 2)}, 10)
			k.must(err, "claiming")
			return next
		}
		if at := next(); !at.IsZero() {
			k.Errorf("with nothing at all, next is %v", at)
		}
		k.admit(k.delivery(), plain("deploy"), plain("other"))
		k.admit(k.delivery(), plain("deploy"))
		c := k.start(rule("deploy", 2), rule("other", 2))
		var first time.Time
		for i, r := range c { // an hour, then an hour and a bit; the other trigger's does not count
			wait := time.Hour + time.Duration(i)*time.Second
			if r.Trigger == "other" {
				wait = time.Minute
			}
			got := k.settleRun(r.Lease, queue.Outcome{State: queue.Waiting, RetryAfter: wait})
			if r.Trigger == "deploy" && (first.IsZero() || got.NextAttempt.Before(first)) {
				first = got.NextAttempt
			}
		}
		k.near("next after the first that is due", next().Sub(first), 0)
	}},
	{name: "one running run a serialize key, in order", do: func(k *kit) {
		a := plain("deploy", serialize("100#7"))
		first := k.admit(k.delivery(about(7)), a)[0]
		second := k.admit(k.delivery(about(7)), a)[0]
		other := k.admit(k.delivery(about(8)), plain("deploy", serialize("100#8")))[0]
		free := k.admit(k.delivery(), plain("deploy"))[0]
		c := k.started(rule("deploy", 10), first, other, free)
		k.started(rule("deploy", 10))
		k.settleRun(c[0].Lease, queue.Outcome{State: queue.Waiting, RetryAfter: time.Hour})
		third := k.admit(k.delivery(about(7)), a)[0]
		k.started(rule("deploy", 10)) // the one to be tried again is first within its key
		k.pass(time.Hour + time.Second)
		c = k.started(rule("deploy", 10), first)
		k.settleRun(c[0].Lease, queue.Outcome{State: queue.Uncertain})
		c = k.started(rule("deploy", 10), second)
		k.settleRun(c[0].Lease, queue.Outcome{State: queue.RunFailed})
		k.started(rule("deploy", 10), third)
	}},
	{name: "a serialize key holds within its trigger", do: func(k *kit) {
		k.admit(k.delivery(about(7)), plain("a", serialize("100#7")), plain("b", serialize("100#7")))
		if n := len(k.start(rule("a", 1), rule("b", 1))); n != 2 {
			k.Errorf("%d runs start, want one a trigger", n)
		}
	}},
	{name: "nothing of a paused trigger starts, though it expires", do: func(k *kit) {
		r := k.admit(k.delivery(), plain("deploy"))[0]
		other := k.admit(k.delivery(), plain("lint"))[0]
		k.pause("deploy")
		if c := k.start(rule("deploy", 1), rule("lint", 1)); len(c) != 1 || c[0].ID != other.ID {
			k.Errorf("%v started, want that of %s alone", runNames(c), other.DeliveryID)
		}
		k.resume("deploy")
		k.pause("deploy")
		k.is(r.ID, queue.Waiting)
		k.pass(24 * time.Hour)
		k.started(rule("deploy", 1))
		k.is(r.ID, queue.Dropped, queue.ReasonExpired)
	}},
	{name: "resuming lets what waits start", do: func(k *kit) {
		r := k.admit(k.delivery(), plain("deploy"))[0]
		k.pause("deploy")
		k.started(rule("deploy", 1))
		k.resume("deploy")
		k.started(rule("deploy", 1), r)
	}},
	{name: "what a lost claim has leased goes back, and nothing else", do: func(k *kit) {
		disown := func(node string, held ...queue.Lease) int {
			k.Helper()
			n, err := k.store.DisownRuns(k.ctx, node, held)
			k.must(err, "disowning")
			return n
		}
		if n := disown("node-1"); n != 0 {
			k.Errorf("with nothing at all, %d were given back", n)
		}
		for _, kind := range []queue.RunKind{queue.Start, queue.FollowUp} {
			k := k.at("%s", kind)
			held := []queue.Lease{k.claimed(queue.Start, "held "+string(kind)).Lease}
			lost := k.claimed(kind, "lost "+string(kind))
			if kind == queue.FollowUp { // its opener is no lost one
				for _, r := range k.listRuns(queue.RunFilter{Trigger: lost.Trigger, States: []queue.RunState{queue.Running}}) {
					_, err := k.store.FinishRun(k.ctx, r.ID, queue.Finish{As: queue.Succeeded, Session: "chat-7", SessionState: queue.SessionSleeping})
					k.must(err, "finishing the opener")
				}
			}
			acceptedRun := k.claimed(queue.Start, "accepted "+string(kind))
			k.settleRun(acceptedRun.Lease, accepted(time.Hour))
			k.uncertain(queue.Start, "uncertain "+string(kind))
			k.probe("uncertain " + string(kind))
			k.unchanged("another node's look", func() {
				if n := disown("node-2"); n != 0 {
					k.Errorf("%d runs of another node were given back", n)
				}
			})
			old := held[0]
			held = append(k.renewRuns(held...), queue.Lease{Row: lost.Lease.Row, Token: lost.Lease.Token - 1}) // an older claim of it
			if !held[0].Same(old) {
				k.Fatalf("the lease %+v was renewed as %+v", old, held[0])
			}
			if n := disown("node-1", held...); n != 1 {
				k.Errorf("%d were given back, want the lost one", n)
			}
			got := k.is(lost.ID, map[queue.RunKind]queue.RunState{queue.Start: queue.Waiting, queue.FollowUp: queue.Routing}[kind])
			if got.Attempts != 0 || !got.LeaseUntil.IsZero() {
				k.Errorf("it is %+v", got.Run)
			}
			k.lost(func() error { return k.store.ReleaseRun(k.ctx, lost.Lease) })
			if again := k.startOne(followRule(lost.Trigger, 1)); again.ID != lost.ID || again.Attempts != 1 {
				k.Errorf("claimed again: %+v", again.Run)
			}
			k.pass(k.settings.Lease + time.Second)
			k.unchanged("a look at leases that are over", func() {
				if n := disown("node-1"); n != 0 {
					k.Errorf("%d runs were given back after their lease", n)
				}
			})
			k.sweep()
		}
		k.recount()
	}},
	{name: "running runs of a paused trigger go on", do: func(k *kit) {
		k.admit(k.delivery(), plain("deploy"))
		c := k.startOne(rule("deploy", 1))
		k.pause("deploy")
		if held := k.renewRuns(c.Lease); len(held) != 1 {
			k.Errorf("its lease was not renewed")
		}
		k.settleRun(c.Lease, queue.Outcome{State: queue.Succeeded})
	}},
}

func (k *kit) renewRuns(leases ...queue.Lease) []queue.Lease {
	k.Helper()
	held, _, err := k.store.RenewRuns(k.ctx, leases)
	k.must(err, "renewing runs")
	return held
}
