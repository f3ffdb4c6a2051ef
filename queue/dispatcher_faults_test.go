package queue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

func TestDispatcherEndsWhatCannotBeRenewed(t *testing.T) {
	for name, arm := range map[string]fault{"refused": refuse, "hanging": hang} {
		t.Run(name, func(t *testing.T) {
			in(t, func(b *bubble) {
				d, target := dispatcher(b, lasting(time.Hour))
				run := b.admit(anything, admission("deploy"))[0]
				b.service(d.Run)
				synctest.Wait()
				b.set("RenewRuns", arm)
				b.pass(50 * time.Second)
				// A quarter of the lease early: time for its processes to die.
				want(t, "ended at", target.ended.all(), []time.Duration{46 * time.Second})
				want(t, "cause", target.causes.all()[0], queue.ErrLeaseLost)
				b.wantRun(run.ID, queue.Uncertain, queue.ReasonWorkerLost, 1)
			})
		})
	}
}

func TestDispatcherRecordsThroughFaults(t *testing.T) {
	cases := map[string]struct {
		arm    fault
		until  time.Duration
		state  queue.RunState
		reason string
	}{
		"failed and not stored":      {refuse, 30 * time.Second, queue.Succeeded, ""},
		"stored, answer lost":        {lose, 30 * time.Second, queue.Succeeded, ""},
		"no answer, not stored":      {hang, 30 * time.Second, queue.Succeeded, ""},
		"away until the lease ended": {refuse, 61 * time.Second, queue.Uncertain, queue.ReasonWorkerLost},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in(t, func(b *bubble) {
				d, target := dispatcher(b, answering(succeeded))
				var errs list[error]
				d.Observe = func(a queue.RunAttempt) { errs.add(a.Err) }
				run := b.admit(anything, admission("deploy"))[0]
				b.set("SettleRun", c.arm)
				b.service(d.Run)
				b.pass(c.until)
				b.set("SettleRun", 0)
				b.pass(time.Minute)
				b.wantRun(run.ID, c.state, c.reason, 1)
				want(t, "starts", len(target.at.all()), 1)
				told := errs.all()
				want(t, "told", len(told), 1)
				if unrecorded := told[0] != nil; unrecorded != (c.arm == lose || c.state == queue.Uncertain) {
					t.Errorf("told %v", told)
				}
			})
		})
	}
}

func TestDispatcherClaimsThroughFaults(t *testing.T) {
	t.Run("failed and not stored", func(t *testing.T) {
		in(t, func(b *bubble) {
			d, target := dispatcher(b, answering(succeeded))
			run := b.admit(anything, admission("deploy"))[0]
			b.set("ClaimRuns", refuse)
			b.service(d.Run)
			b.pass(time.Minute)
			b.set("ClaimRuns", 0)
			b.pass(5 * time.Second)
			b.wantRun(run.ID, queue.Succeeded, "", 1)
			want(t, "starts", len(target.at.all()), 1)
			want(t, "lines that say it is gone", b.logs.count("the store does not answer"), 1)
			want(t, "lines that say it is back", b.logs.count("the store answers again"), 1)
		})
	})
	t.Run("stored, answer lost", func(t *testing.T) {
		in(t, func(b *bubble) {
			d, target := dispatcher(b, answering(succeeded))
			run := b.admit(anything, admission("deploy"))[0]
			b.set("ClaimRuns", lose)
			b.set("DisownRuns", refuse)
			b.service(d.Run)
			b.pass(20 * time.Second)
			b.wantRun(run.ID, queue.Running, "", 1)
			b.set("ClaimRuns", 0)
			b.set("DisownRuns", 0)
			b.pass(10 * time.Second)
			// This node knows that it never began, and gives it back.
			b.wantRun(run.ID, queue.Succeeded, "", 1)
			want(t, "starts", len(target.at.all()), 1)
			want(t, "lines that say it was given back", b.logs.count("given back"), 1)
			calls := len(b.times("DisownRuns"))
			b.pass(2 * time.Minute)
			b.set("DisownRuns", 0)
			if more := len(b.times("DisownRuns")) - calls; more > 13 {
				t.Errorf("%d more looks for lost claims, want them for the time of a lease", more)
			}
		})
	})
	t.Run("what runs or ended without a record is not given back", func(t *testing.T) {
		in(t, func(b *bubble) {
			rules := []queue.DispatchRule{{Trigger: "long", Concurrency: 1}, {Trigger: "short", Concurrency: 1}, {Trigger: "lost", Concurrency: 1}}
			d, target := dispatcher(b, func(ctx context.Context, c queue.RunClaim, report func(string, queue.SessionState)) queue.Outcome {
				if c.Trigger == "long" {
					return lasting(40*time.Second)(ctx, c, report)
				}
				return succeeded
			}, rules...)
			runs := b.admit(anything, admission("long"), admission("short"))
			b.set("SettleRun", refuse)
			b.service(d.Run)
			b.pass(10 * time.Second)
			b.set("ClaimRuns", lose)
			lost := b.admit(anything, admission("lost"))[0]
			b.pass(10 * time.Second)
			b.set("ClaimRuns", 0)
			b.pass(10 * time.Second)
			b.set("SettleRun", 0)
			b.wantRun(lost.ID, queue.Running, "", 1) // begun, and to be settled
			b.wantRun(runs[0].ID, queue.Running, "", 1)
			b.pass(time.Minute)
			b.wantRun(lost.ID, queue.Succeeded, "", 1)
			b.wantRun(runs[0].ID, queue.Succeeded, "", 1)
			b.wantRun(runs[1].ID, queue.Succeeded, "", 1)
			want(t, "starts", len(target.at.all()), 3)
		})
	})
	t.Run("not even when its settlement was given up", func(t *testing.T) {
		in(t, func(b *bubble) {
			d, target := dispatcher(b, answering(succeeded))
			run := b.admit(anything, admission("deploy"))[0]
			b.set("SettleRun", refuse)
			b.service(d.Run)
			b.pass(50 * time.Second)
			b.set("ClaimRuns", lose)
			b.admit(anything, admission("deploy")) // has to wait for the slot
			for range 12 {                         // the last try at the settlement is over before the lease is
				b.pass(time.Second)
				if state := b.run(run.ID).State; state == queue.Waiting {
					t.Fatal("a run that has begun was given back")
				}
			}
			b.set("SettleRun", 0)
			b.set("ClaimRuns", 0)
			b.pass(30 * time.Second)
			b.wantRun(run.ID, queue.Uncertain, queue.ReasonWorkerLost, 1)
			want(t, "starts", len(target.at.all()), 2)
		})
	})
	t.Run("a sweep that fails holds nothing up", func(t *testing.T) {
		in(t, func(b *bubble) {
			d, _ := dispatcher(b, answering(succeeded))
			b.set("SweepRuns", refuse)
			run := b.admit(anything, admission("deploy"))[0]
			b.service(d.Run)
			b.pass(time.Second)
			b.wantRun(run.ID, queue.Succeeded, "", 1)
		})
	})
}

func TestDispatcherSweeps(t *testing.T) {
	in(t, func(b *bubble) {
		lost, idempotent := admission("deploy"), admission("again")
		lost.UncertainAfter = 10 * time.Minute
		idempotent.Idempotent = true
		runs := b.admit(anything, lost, idempotent)
		rules := []queue.DispatchRule{{Trigger: "deploy", Concurrency: 1}, {Trigger: "again", Concurrency: 1}}
		if claims, _, err := b.Store.ClaimRuns(b.Context(), "dead-node", rules, 10); err != nil || len(claims) != 2 {
			t.Fatalf("claimed %d, %v", len(claims), err)
		}
		brief := admission("deploy")
		brief.QueueWait = 30 * time.Second
		late := b.admit(anything, brief)[0]
		b.pass(61 * time.Second)
		d, target := dispatcher(b, answering(succeeded), rules[1])
		b.service(d.Run)
		b.pass(2 * time.Second)
		b.wantRun(runs[0].ID, queue.Uncertain, queue.ReasonWorkerLost, 1)
		b.wantRun(late.ID, queue.Dropped, queue.ReasonExpired, 0)
		b.wantRun(runs[1].ID, queue.Succeeded, "", 2)
		want(t, "starts", len(target.at.all()), 1)
		b.pass(10 * time.Minute)
		b.wantRun(runs[0].ID, queue.RunFailed, queue.ReasonUncertainTime, 1)
	})
}
