package queuetest

import (
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

var admissionTests = []test{
	{name: "a run waits until it expires", do: func(k *kit) {
		r := k.admit(k.delivery(about(7)), plain("triage"))[0]
		if r.State != queue.Waiting || r.Kind != queue.Start || r.Attempts != 0 || r.Generation != 0 || len(r.ID) != 36 || r.Session != "" {
			k.Errorf("admitted %+v; want a waiting start with a UUID and no session", r)
		}
		k.near("the wait", r.ExpiresAt.Sub(r.CreatedAt), 24*time.Hour)
		k.same("the run's story", k.run(r.ID).Run, r)
		k.recount()
	}},
	{name: "the cap counts waiting and routing runs of the trigger", do: func(k *kit) {
		small := plain("triage", size(2))
		var states []queue.RunState
		for range 4 {
			states = append(states, k.admit(k.delivery(), small)[0].State)
		}
		k.same("four into two places", states, []queue.RunState{queue.Waiting, queue.Waiting, queue.Dropped, queue.Dropped})
		if r := k.admit(k.delivery(), plain("other", size(2)))[0]; r.State != queue.Waiting {
			k.Errorf("another trigger's run is %s", r.State)
		}
		c := k.startOne(rule("triage", 1)) // a running run has left its place
		k.admitted(small, queue.Waiting, "")
		d := k.admitted(small, queue.Dropped, queue.ReasonQueueFull)
		if d.FinishedAt.IsZero() || d.ID == "" {
			k.Errorf("the dropped run is %+v; want an id and an end", d)
		}
		detail := k.detail(d.DeliveryID)
		if len(detail.Decisions) != 1 || detail.Decisions[0].Verdict != queue.Matched || detail.Decisions[0].RunID != d.ID {
			k.Errorf("its decision is %+v; want matched with the run's id", detail.Decisions)
		}
		// A run that is to be tried again counts, and is not refused.
		k.settleRun(c.Lease, queue.Outcome{State: queue.Waiting})
		k.is(c.ID, queue.Waiting)
		k.startOne(rule("triage", 1))
		k.admitted(small, queue.Dropped, queue.ReasonQueueFull)
		k.recount()
	}},
	{name: "a hand-over takes a place, an uncertain run none", do: func(k *kit) {
		small := plain("triage", size(1), follows)
		k.admit(k.delivery(about(7)), small)
		k.startOne(followRule("triage", 1))
		k.admit(k.delivery(about(7)), small)
		hand := k.startOne(followRule("triage", 1))
		if r := k.admit(k.delivery(about(8)), small)[0]; r.State != queue.Dropped {
			k.Errorf("beside a hand-over in a queue of one, a run is %s", r.State)
		}
		k.settleRun(hand.Lease, queue.Outcome{State: queue.Uncertain})
		if r := k.admit(k.delivery(about(8)), small)[0]; r.State != queue.Waiting {
			k.Errorf("beside an uncertain one, a run is %s", r.State)
		}
	}},
	{name: "what has expired takes no place, though nobody has swept", do: func(k *kit) {
		small := plain("triage", size(1))
		k.admitted(small, queue.Waiting, "")
		k.pass(24*time.Hour + time.Second)
		k.admitted(small, queue.Waiting, "")
		k.admitted(small, queue.Dropped, queue.ReasonQueueFull)
	}},
	{name: "a trigger that was paused at receipt ignores, whenever it is decided", do: func(k *kit) {
		before := k.enqueue(k.delivery())
		k.pause("triage")
		during := k.enqueue(k.delivery())
		k.resume("triage")
		after := k.enqueue(k.delivery())
		k.pause("triage") // a second pause, in which all are decided
		k.decidesAs("triage", map[string]string{before.ID: "", during.ID: "paused", after.ID: ""})
		for _, d := range []queue.Delivery{before, during, after} {
			if other := k.detail(d.ID).Decisions[1]; other.Verdict != queue.Matched {
				k.Errorf("%s: another trigger's decision is %+v", d.ID, other)
			}
		}
		// A replay is received when it is replayed, and so is a dead letter that GitHub sends again.
		k.replay(before.ID)
		k.resume("triage")
		k.replay(during.ID)
		k.decidesAs("triage", map[string]string{before.ID: "paused", during.ID: ""})
		dead, reborn := k.enqueue(k.delivery()), k.enqueue(k.delivery())
		for _, c := range k.claims(2) {
			k.settle(c.Lease, queue.Settlement{Kind: queue.SettleFail, Error: "boom"})
		}
		k.pause("triage")
		k.offer(dead)
		k.resume("triage")
		k.offer(reborn)
		k.decidesAs("triage", map[string]string{dead.ID: "paused", reborn.ID: ""})
	}},
	{name: "one event through two sources runs once, in every generation", do: func(k *kit) {
		app := k.delivery(guid("same"), from("app-1", "acme-bot"))
		hook := k.delivery(guid("same"), from("hook-2", "widgets"))
		k.enqueue(hook) // received first, but decided second
		k.enqueue(app)
		c := k.claims(2)
		owner := k.done(c[1].Lease, plain("triage"))[0]
		ignored := func(l queue.Lease) {
			k.Helper()
			got := k.settle(l, decided(plain("triage"), plain("other")))
			d := got.Decisions[0]
			if len(got.Runs) != 1 || d.Verdict != queue.Ignored || d.RunID != "" || !strings.HasPrefix(d.Reason, "double_subscription") || !strings.Contains(d.Reason, "acme-bot") {
				k.Errorf("decided %+v with %d runs; want ignored, double_subscription, naming acme-bot", d, len(got.Runs))
			}
			if got.Decisions[1].Verdict != queue.Matched {
				k.Errorf("the other trigger, which nobody owns, is %+v", got.Decisions[1])
			}
		}
		ignored(c[0].Lease)
		k.replay("hook-2/same")
		ignored(k.claim().Lease)
		k.replay("app-1/same")
		if r := k.done(k.claim().Lease, plain("triage"))[0]; r.Generation != 1 || r.ID == owner.ID {
			k.Errorf("the owner's next generation ran as %+v", r)
		}
		k.replay("hook-2/same")
		ignored(k.claim().Lease)
		if n := len(k.listRuns(queue.RunFilter{Trigger: "triage"})); n != 2 {
			k.Errorf("the event ran %d times, want 2", n)
		}

		doubles, err := k.store.DoubleSubscriptions(k.ctx)
		k.must(err, "reading double subscriptions")
		if len(doubles) != 1 || doubles[0].Trigger != "triage" || doubles[0].Owner != "acme-bot" || doubles[0].Other != "widgets" || doubles[0].LastAt.IsZero() {
			k.Errorf("double subscriptions: %+v; want that of triage, acme-bot before widgets", doubles)
		}
		k.pass(25 * time.Hour)
		if doubles, err = k.store.DoubleSubscriptions(k.ctx); err != nil || len(doubles) != 0 {
			k.Errorf("a day later: %+v, %v", doubles, err)
		}
	}},
	{name: "a dropped run owns its event too", do: func(k *kit) {
		k.admit(k.delivery(), plain("triage", size(1)))
		k.admit(k.delivery(guid("same"), from("app-1", "acme-bot")), plain("triage", size(1)))
		k.enqueue(k.delivery(guid("same"), from("hook-2", "widgets")))
		got := k.settle(k.claim().Lease, decided(plain("triage")))
		if len(got.Runs) != 0 || got.Decisions[0].Verdict != queue.Ignored {
			k.Errorf("the second source got %+v", got)
		}
	}},
	{name: "a paused owner owns nothing", do: func(k *kit) {
		k.pause("triage")
		k.enqueue(k.delivery(guid("same"), from("app-1", "acme-bot")))
		k.settle(k.claim().Lease, decided(plain("triage")))
		k.resume("triage")
		if r := k.admit(k.delivery(guid("same"), from("hook-2", "widgets")), plain("triage"))[0]; r.State != queue.Waiting {
			k.Errorf("the second source's run is %s", r.State)
		}
	}},
	{name: "starts of one subject are limited", do: func(k *kit) {
		limited := plain("triage", func(a *queue.Admission) { a.LoopCount, a.LoopPer = 3, time.Hour })
		about7 := func() queue.Run { return k.admit(k.delivery(about(7)), limited)[0] }
		for range 3 {
			if r := about7(); r.State != queue.Waiting {
				k.Errorf("within the limit, a run is %s %s", r.State, r.Reason)
			}
		}
		if r := about7(); r.State != queue.Dropped || r.Reason != queue.ReasonLoopLimit {
			k.Errorf("beyond the limit, a run is %s %s", r.State, r.Reason)
		}
		renamed := k.admit(k.delivery(aboutIn("ACME/gadgets", 100, 7)), limited)[0]
		if renamed.State != queue.Dropped {
			k.Errorf("after a rename of its repository, a run is %s", renamed.State)
		}
		for name, d := range map[string]queue.Delivery{
			"another issue": k.delivery(about(8)), "another repository's": k.delivery(aboutIn("acme/other", 200, 7)), "a push": k.delivery(),
		} {
			if r := k.admit(d, limited)[0]; r.State != queue.Waiting {
				k.Errorf("%s run is %s %s", name, r.State, r.Reason)
			}
		}
		if r := k.admit(k.delivery(about(7)), plain("other", func(a *queue.Admission) { a.LoopCount, a.LoopPer = 3, time.Hour }))[0]; r.State != queue.Waiting {
			k.Errorf("another trigger's run is %s %s", r.State, r.Reason)
		}
		for range 5 {
			if r := k.admit(k.delivery(), limited)[0]; r.State != queue.Waiting {
				k.Errorf("pushes have no subject to be limited by: %s %s", r.State, r.Reason)
			}
		}
		k.pass(time.Hour + time.Second)
		if r := about7(); r.State != queue.Waiting {
			k.Errorf("an hour later, a run is %s %s", r.State, r.Reason)
		}
	}},
	{name: "what was dropped does not count towards the limit", do: func(k *kit) {
		limited := plain("triage", size(1), func(a *queue.Admission) { a.LoopCount, a.LoopPer = 2, time.Hour })
		event := func() queue.Run { return k.admit(k.delivery(about(7)), limited)[0] }
		first := event()
		for range 3 {
			k.is(event().ID, queue.Dropped, queue.ReasonQueueFull)
		}
		k.settleRun(k.started(rule("triage", 1), first)[0].Lease, queue.Outcome{State: queue.Succeeded})
		k.is(event().ID, queue.Waiting)
		for range 3 {
			k.is(event().ID, queue.Dropped, queue.ReasonLoopLimit)
		}
		k.pass(time.Hour + time.Second)
		k.startOne(rule("triage", 1))
		k.is(event().ID, queue.Waiting)
	}},
	{name: "hand-overs of one subject have a limit of their own", do: func(k *kit) {
		limited := plain("triage", follows, func(a *queue.Admission) {
			a.LoopCount, a.LoopPer, a.FollowCount, a.FollowPer = 1, time.Hour, 2, time.Hour
		})
		var got []string
		for range 4 {
			r := k.admit(k.delivery(about(7)), limited)[0]
			got = append(got, string(r.Kind)+" "+string(r.State))
		}
		k.same("one start and three follow-ups", got, []string{"start waiting", "follow_up waiting", "follow_up waiting", "follow_up dropped"})
	}},
	{name: "the loop limit goes before coalescing and the cap", do: func(k *kit) {
		a := plain("triage", size(1), coalesces, func(a *queue.Admission) { a.LoopCount, a.LoopPer = 1, time.Hour })
		old := k.admit(k.delivery(about(7)), a)[0]
		if r := k.admit(k.delivery(about(7)), a)[0]; r.State != queue.Dropped || r.Reason != queue.ReasonLoopLimit {
			k.Errorf("it is %s %s, want loop_limit", r.State, r.Reason)
		}
		k.is(old.ID, queue.Waiting)
	}},
	{name: "a newer event replaces the older waiting one of its subject", do: func(k *kit) {
		a := plain("triage", size(3), coalesces)
		old := k.admit(k.delivery(about(7)), a)[0]
		bystander := k.admit(k.delivery(about(8)), a)[0]
		push := k.admit(k.delivery(), a)[0] // the queue is full
		young := k.admit(k.delivery(about(7)), a)[0]
		k.is(old.ID, queue.Dropped, queue.ReasonSuperseded)
		k.is(bystander.ID, queue.Waiting)
		k.is(push.ID, queue.Waiting)
		k.is(young.ID, queue.Waiting)
		k.admitted(a, queue.Dropped, queue.ReasonQueueFull) // no subject, nothing to replace
		k.recount()
	}},
	{name: "what was started is never superseded", do: func(k *kit) {
		a := plain("triage", coalesces)
		k.admit(k.delivery(about(7)), a)
		running := k.startOne(rule("triage", 1))
		k.admit(k.delivery(about(7)), a)
		k.is(running.ID, queue.Running)
		k.settleRun(running.Lease, queue.Outcome{State: queue.Waiting, RetryAfter: time.Hour})
		k.admit(k.delivery(about(7)), a)
		k.is(running.ID, queue.Waiting)
		if n := len(k.listRuns(queue.RunFilter{States: []queue.RunState{queue.Waiting}})); n != 2 {
			k.Errorf("%d runs wait, want the one to be tried again and the newest", n)
		}
	}},
	{name: "one delivery, several triggers, in one write", do: func(k *kit) {
		runs := k.admit(k.delivery(about(7)), plain("a"), plain("b"), plain("c", size(1)))
		if len(runs) != 3 || runs[0].ID == runs[1].ID {
			k.Errorf("admitted %+v", runs)
		}
		got := k.admit(k.delivery(about(7)), plain("a"), plain("c", size(1)))
		if got[0].State != queue.Waiting || got[1].State != queue.Dropped {
			k.Errorf("admitted as %s and %s, want waiting and dropped", got[0].State, got[1].State)
		}
	}},
	{name: "a run that waits wakes its own node", do: func(k *kit) {
		l := k.enqueueAndClaim()
		k.wakes("an admission", func() { k.done(l, plain("triage")) })
	}},
}

// admitted takes a push through its decision and checks what became of its run.
func (k *kit) admitted(a queue.Admission, state queue.RunState, reason string) queue.Run {
	k.Helper()
	r := k.admit(k.delivery(), a)[0]
	if r.State != state || r.Reason != reason {
		k.Errorf("a run of %s is %s %q, want %s %q", a.Trigger, r.State, r.Reason, state, reason)
	}
	return r
}

// pause and resume let a moment pass on both sides, so that no receipt is at the same time.
func (k *kit) pause(trigger string) {
	k.Helper()
	k.pass(time.Second)
	k.must(k.store.PauseTrigger(k.ctx, trigger), "pausing "+trigger)
	k.pass(time.Second)
}

func (k *kit) resume(trigger string) {
	k.Helper()
	k.pass(time.Second)
	k.must(k.store.ResumeTrigger(k.ctx, trigger), "resuming "+trigger)
	k.pass(time.Second)
}

func (k *kit) replay(ref string) {
	k.Helper()
	_, err := k.store.Replay(k.ctx, ref, queue.ReplayOptions{})
	k.must(err, "replaying "+ref)
}

// decidesAs claims all deliveries, decides each for the trigger and for "other", and checks the
// reasons: "" is matched, else ignored with that clause.
func (k *kit) decidesAs(trigger string, want map[string]string) {
	k.Helper()
	for _, c := range k.claims(100) {
		got := k.settle(c.Lease, decided(plain(trigger), plain("other")))
		d, clause := got.Decisions[0], want[c.ID]
		verdict := queue.Matched
		if clause != "" {
			verdict = queue.Ignored
		}
		if d.Verdict != verdict || clause != "" && (!strings.HasPrefix(d.Reason, clause+":") || d.RunID != "") {
			k.Errorf("%s: the decision is %+v, want %s %q", c.ID, d, verdict, clause)
		}
	}
}
