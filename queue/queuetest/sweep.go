package queuetest

import (
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

var sweepTests = []test{
	{name: "nothing that is held or waits its time is moved", do: func(k *kit) {
		eachRunState(k, func(k *kit, _ runState, _ queue.RunClaim) {
			k.sweep() // what an earlier state's passing time has left
			k.unchanged("a sweep", func() {
				if n := k.sweep(); n != 0 {
					k.Errorf("%d rows were swept, want none", n)
				}
			})
		})
	}},
	{name: "a lost worker's run is uncertain", do: func(k *kit) {
		for _, kind := range []queue.RunKind{queue.Start, queue.FollowUp} {
			k := k.at("%s", kind)
			c := k.claimed(kind, string(kind))
			k.pass(k.settings.Lease + time.Second)
			if n := k.sweep(); n < 1 {
				k.Errorf("no row was swept")
			}
			got := k.is(c.ID, queue.Uncertain, queue.ReasonWorkerLost)
			if got.Attempts != 1 || !got.LeaseUntil.IsZero() || len(got.History) != 1 || got.UncertainUntil.IsZero() {
				k.Errorf("swept: %+v, history %+v", got.Run, got.History)
			}
			if n := k.sweep(); n != 0 {
				k.Errorf("%d rows were swept again", n)
			}
		}
		k.recount()
	}},
	{name: "an idempotent one is tried again, six times", do: func(k *kit) {
		r := k.admit(k.delivery(), plain("deploy", idempotent))[0]
		for i := range k.settings.MaxAttempts {
			if c := k.startOne(rule("deploy", 1)); c.Attempts != i+1 || c.ID != r.ID {
				k.Fatalf("attempt %d, want %d", c.Attempts, i+1)
			}
			k.pass(k.settings.Lease + time.Second)
			k.sweep()
			want := queue.Waiting
			if i+1 == k.settings.MaxAttempts {
				want = queue.RunFailed
			}
			k.is(r.ID, want)
			k.pass(time.Minute)
		}
	}},
	{name: "an idempotent hand-over is tried again", do: func(k *kit) {
		a := plain("triage", follows, idempotent)
		k.admit(k.delivery(about(7)), a)
		opener := k.startOne(followRule("triage", 1))
		k.settleRun(opener.Lease, accepted(time.Hour))
		hand := k.admit(k.delivery(about(7)), a)[0]
		k.started(followRule("triage", 1), hand)
		k.pass(k.settings.Lease + time.Second)
		k.sweep()
		k.is(hand.ID, queue.Routing)
		k.pass(time.Minute)
		if c := k.started(followRule("triage", 1), hand); c[0].Attempts != 2 {
			k.Errorf("it is attempt %d, want 2", c[0].Attempts)
		}
	}},
	{name: "an uncertain run fails after its time", do: func(k *kit) {
		for _, kind := range []queue.RunKind{queue.Start, queue.FollowUp} {
			k := k.at("%s", kind)
			c := k.claimed(kind, string(kind))
			k.settleRun(c.Lease, queue.Outcome{State: queue.Uncertain, Reason: queue.ReasonInterrupted})
			k.pass(23 * time.Hour)
			k.sweep()
			k.is(c.ID, queue.Uncertain)
			k.pass(time.Hour + time.Second)
			k.sweep()
			k.is(c.ID, queue.RunFailed, queue.ReasonUncertainTime)
		}
		k.recount()
	}},
	{name: "what waited too long is dropped, whoever knows its trigger", do: func(k *kit) {
		r := k.admit(k.delivery(), plain("deploy"))[0]
		tried := k.claimed(queue.Start, "tried")
		k.settleRun(tried.Lease, queue.Outcome{State: queue.Waiting})
		k.pass(24*time.Hour + time.Second)
		if n := k.sweep(); n != 1 {
			k.Errorf("%d rows were swept, want 1", n)
		}
		k.is(r.ID, queue.Dropped, queue.ReasonExpired)
		k.is(tried.ID, queue.Waiting)
	}},
	{name: "a sleeping session ends after its time", do: func(k *kit) {
		opener := k.asleep(7)
		k.pass(k.settings.SessionTTL - time.Hour)
		k.sweep()
		k.session(opener.ID, queue.SessionSleeping)
		k.pass(time.Hour + time.Second)
		if n := k.sweep(); n != 1 {
			k.Errorf("%d rows were swept, want 1", n)
		}
		k.session(opener.ID, queue.SessionEnded)
		if r := k.admit(k.delivery(about(7)), plain("triage", follows))[0]; r.Kind != queue.Start {
			k.Errorf("the next event is a %s, want a start", r.Kind)
		}
	}},
	{name: "what a sweep frees wakes its own node", do: func(k *kit) {
		k.claimed(queue.Start, "deploy")
		k.admit(k.delivery(), plain("deploy"))
		k.pass(k.settings.Lease + time.Second)
		k.wakes("a sweep", func() { k.sweep() })
	}},
}
