package queuetest

import (
	"fmt"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// triage is the trigger of these tests: it follows up, one run at once.
var triage = followRule("triage", 1)

// event takes a new event about an issue through its decision for triage.
func (k *kit) event(issue int64, with ...func(*queue.Admission)) queue.Run {
	k.Helper()
	return k.admit(k.delivery(about(issue)), plain("triage", append(with, follows)...))[0]
}

// asleep makes a session of an issue that has gone to sleep, and returns its run.
func (k *kit) asleep(issue int64) queue.Run {
	k.Helper()
	r := k.event(issue)
	c := k.started(triage, r)
	k.settleRun(c[0].Lease, queue.Outcome{State: queue.Succeeded, Session: fmt.Sprintf("chat-%d", issue), SessionState: queue.SessionSleeping})
	return r
}

// session checks the state of the session that a run opened.
func (k *kit) session(runID string, want queue.SessionState) *queue.Session {
	k.Helper()
	s := k.run(runID).SessionDetail
	if s == nil {
		k.Fatalf("the run of %s has no session, want one that is %s", k.run(runID).DeliveryID, want)
	}
	if s.State != want {
		k.Errorf("the session is %s, want %s", s.State, want)
	}
	return s
}

// handed checks that exactly this run is handed over now, to this session.
func (k *kit) handed(r queue.Run, session string) queue.RunClaim {
	k.Helper()
	c := k.started(triage, r)[0]
	if c.Kind != queue.FollowUp || c.State != queue.Routing || c.Session != session || c.Attempts != 1 {
		k.Errorf("claimed a %s that is %s, attempt %d, for session %q; want a first hand-over to %q", c.Kind, c.State, c.Attempts, c.Session, session)
	}
	return c
}

// startsAs checks that exactly this run starts now, as a start.
func (k *kit) startsAs(r queue.Run) queue.RunClaim {
	k.Helper()
	c := k.started(triage, r)[0]
	if c.Kind != queue.Start || c.State != queue.Running {
		k.Errorf("claimed a %s that is %s, want a running start", c.Kind, c.State)
	}
	return c
}

func (k *kit) kind(r queue.Run, want queue.RunKind) {
	k.Helper()
	if r.Kind != want {
		k.Errorf("the run of %s is a %s, want a %s", r.DeliveryID, r.Kind, want)
	}
}

// ends are the ways in which a session's run stops being there.
var ends = map[string]func(k *kit, c queue.RunClaim){
	"succeeded": func(k *kit, c queue.RunClaim) { k.settleRun(c.Lease, queue.Outcome{State: queue.Succeeded}) },
	"failed":    func(k *kit, c queue.RunClaim) { k.settleRun(c.Lease, queue.Outcome{State: queue.RunFailed}) },
	"canceled":  func(k *kit, c queue.RunClaim) { k.settleRun(c.Lease, queue.Outcome{State: queue.Canceled}) },
	"uncertain": func(k *kit, c queue.RunClaim) { k.settleRun(c.Lease, queue.Outcome{State: queue.Uncertain}) },
	"lost":      func(k *kit, _ queue.RunClaim) { k.pass(k.settings.Lease + time.Second); k.sweep() },
	"finished": func(k *kit, c queue.RunClaim) {
		k.settleRun(c.Lease, accepted(time.Hour))
		_, err := k.store.FinishRun(k.ctx, c.ID, queue.Finish{As: queue.Succeeded})
		k.must(err, "finishing")
	},
	"canceled while accepted": func(k *kit, c queue.RunClaim) {
		k.settleRun(c.Lease, accepted(time.Hour))
		_, err := k.store.CancelRun(k.ctx, c.ID)
		k.must(err, "canceling")
	},
	"unconfirmed": func(k *kit, c queue.RunClaim) {
		k.settleRun(c.Lease, accepted(time.Hour))
		k.pass(time.Hour + time.Second)
		k.sweep()
	},
}

var followUpTests = []test{
	{name: "a later event is handed to the run that is under way, without a slot", do: func(k *kit) {
		opener := k.event(7)
		k.kind(opener, queue.Start)
		c := k.startsAs(opener)
		if c.Session != opener.ID {
			k.Errorf("the session of the opener is %q, want its run's id %q", c.Session, opener.ID)
		}
		s := k.session(opener.ID, queue.SessionLive)
		if s.ID != opener.ID || s.Trigger != "triage" || s.RunID != opener.ID || s.Subject != opener.Subject || s.SubjectKey != opener.SubjectKey() || s.Reported {
			k.Errorf("the session is %+v", s)
		}
		later := k.event(7)
		k.kind(later, queue.FollowUp)
		h := k.handed(later, opener.ID)
		k.settleRun(h.Lease, queue.Outcome{State: queue.Delivered})
		k.is(later.ID, queue.Delivered)
		k.is(opener.ID, queue.Running)
		k.session(opener.ID, queue.SessionLive)
	}},
	{name: "in order, one at a time", do: func(k *kit) {
		opener := k.event(7)
		k.startsAs(opener)
		runs := []queue.Run{k.event(7), k.event(7), k.event(7)}
		for _, r := range runs {
			h := k.handed(r, opener.ID)
			k.started(triage) // the others wait
			k.settleRun(h.Lease, queue.Outcome{State: queue.Delivered})
		}
		k.started(triage)
	}},
	{name: "two that did not happen go on in order, one at a time", do: func(k *kit) {
		opener := k.event(7)
		k.startsAs(opener)
		runs := []queue.Run{k.event(7), k.event(7)}
		for _, r := range runs {
			k.settleRun(k.handed(r, opener.ID).Lease, queue.Outcome{State: queue.Uncertain})
		}
		for _, p := range k.probes("triage") {
			_, err := k.store.SettleProbe(k.ctx, p.Lease, queue.ProbeDidNot)
			k.must(err, "settling")
		}
		routing := 0
		for _, r := range runs {
			if k.run(r.ID).State == queue.Routing {
				routing++
			}
		}
		if routing != 1 {
			k.Errorf("%d of one session are routing", routing)
		}
		k.pass(2 * time.Second)
		for _, r := range runs {
			h := k.startOne(triage)
			if h.ID != r.ID || h.State != queue.Routing || h.Attempts != 2 {
				k.Fatalf("claimed %s, %s, attempt %d; want the second attempt at %s", h.DeliveryID, h.State, h.Attempts, r.DeliveryID)
			}
			k.started(triage) // the other waits
			k.settleRun(h.Lease, queue.Outcome{State: queue.Delivered})
		}
		k.started(triage)
	}},
	{name: "behind a run that still waits, then handed over once it runs", do: func(k *kit) {
		busy := k.startsAs(k.event(1))
		opener := k.event(7)
		later := k.event(7)
		k.kind(opener, queue.Start)
		k.kind(later, queue.FollowUp)
		k.started(triage)
		k.settleRun(busy.Lease, queue.Outcome{State: queue.Succeeded})
		var got []string
		for len(got) < 2 { // in one pass or in two
			c := k.start(triage)
			if len(c) == 0 {
				k.Fatalf("after %v nothing more was claimed", got)
			}
			for _, c := range c {
				got = append(got, fmt.Sprintf("%s %s %v", c.DeliveryID, c.State, c.Session == opener.ID))
			}
		}
		k.same("claimed", got, []string{opener.DeliveryID + " running true", later.DeliveryID + " routing true"})
	}},
	{name: "without a session, the next event starts a run", do: func(k *kit) {
		for name, end := range ends {
			k := k.at("%s", name)
			c := k.startsAs(k.event(7))
			end(k, c)
			k.session(c.ID, queue.SessionEnded)
			next := k.event(7)
			k.kind(next, queue.Start)
			n := k.startsAs(next)
			if n.Session == c.Session {
				k.Errorf("the next run has the ended session %q", n.Session)
			}
			k.settleRun(n.Lease, queue.Outcome{State: queue.Succeeded})
		}
	}},
	{name: "what was not handed over in time becomes a start and keeps its place", do: func(k *kit) {
		for name, end := range ends {
			k := k.at("%s", name)
			c := k.startsAs(k.event(7))
			first, second := k.event(7), k.event(7)
			other := k.event(8)
			k.kind(first, queue.FollowUp)
			k.kind(second, queue.FollowUp)
			end(k, c)
			n := k.startsAs(first) // before issue 8, which was received later
			if n.Session != first.ID {
				k.Errorf("its session is %q, want its own %q", n.Session, first.ID)
			}
			h := k.handed(second, first.ID)
			k.settleRun(h.Lease, queue.Outcome{State: queue.Delivered})
			k.settleRun(n.Lease, queue.Outcome{State: queue.Succeeded})
			o := k.startsAs(other)
			k.settleRun(o.Lease, queue.Outcome{State: queue.Succeeded})
		}
	}},
	{name: "behind an opener that never ran it becomes a start", do: func(k *kit) {
		for name, end := range map[string]func(r queue.Run){
			"canceled": func(r queue.Run) {
				_, err := k.store.CancelRun(k.ctx, r.ID)
				k.must(err, "canceling")
			},
			"expired": func(queue.Run) { k.pass(time.Hour + time.Second); k.sweep() },
		} {
			k := k.at("%s", name)
			opener := k.event(7, func(a *queue.Admission) { a.QueueWait = time.Hour })
			later := k.event(7)
			k.kind(later, queue.FollowUp)
			end(opener)
			c := k.startsAs(later)
			k.settleRun(c.Lease, queue.Outcome{State: queue.Succeeded})
		}
	}},
	{name: "an opener to be tried again keeps its followers behind it", do: func(k *kit) {
		opener := k.event(7)
		c := k.startsAs(opener)
		later := k.event(7)
		k.settleRun(c.Lease, queue.Outcome{State: queue.Waiting, RetryAfter: time.Hour})
		k.started(triage)
		behind := k.event(7)
		k.kind(behind, queue.FollowUp)
		k.pass(time.Hour + time.Second)
		k.startsAs(opener)
		k.handed(later, opener.ID)
	}},
	{name: "an opener that was given back has no session yet", do: func(k *kit) {
		opener := k.event(7)
		c := k.startsAs(opener)
		later := k.event(7)
		k.must(k.store.ReleaseRun(k.ctx, c.Lease), "releasing")
		busy := k.pausedStart("triage", func() []queue.RunClaim { return k.start(triage) })
		if len(busy) != 0 {
			k.Errorf("%v were claimed of a paused trigger", runNames(busy))
		}
		k.startsAs(opener)
		k.handed(later, opener.ID)
	}},
	{name: "a session that is gone makes the hand-over a start in its place", do: func(k *kit) {
		k.asleep(7)
		small := func(a *queue.Admission) { a.QueueSize = 2 }
		first := k.event(7, small)
		h := k.handed(first, "chat-7")
		second := k.event(7, small)
		full := k.event(9, small)
		if full.State != queue.Dropped {
			k.Errorf("beside a hand-over and one that waits in a queue of two, it is %s", full.State)
		}
		got := k.settleRun(h.Lease, queue.Outcome{State: queue.Waiting, SessionEnded: true, Error: "exit status 69"})
		if got.State != queue.Waiting || got.Kind != queue.Start || got.ID != first.ID {
			k.Errorf("it became a %s that is %s, want a waiting start", got.Kind, got.State)
		}
		k.kind(second, queue.FollowUp)
		third := k.event(7)
		k.kind(third, queue.FollowUp)
		c := k.startsAs(first)
		if c.Session != first.ID {
			k.Errorf("its session is %q, want its own", c.Session)
		}
		h = k.handed(second, first.ID)
		k.settleRun(h.Lease, queue.Outcome{State: queue.Delivered})
		k.handed(third, first.ID)
	}},
	{name: "a session that is gone while its run is under way", do: func(k *kit) {
		opener := k.startsAs(k.event(7))
		later, other := k.event(7), k.event(8)
		h := k.handed(later, opener.ID)
		k.settleRun(h.Lease, queue.Outcome{State: queue.Waiting, SessionEnded: true})
		k.started(triage) // its slot is taken
		k.settleRun(opener.Lease, queue.Outcome{State: queue.Succeeded})
		c := k.startsAs(later)
		k.session(later.ID, queue.SessionLive)
		k.settleRun(c.Lease, queue.Outcome{State: queue.Succeeded})
		k.startsAs(other)
	}},
	{name: "certainly not delivered: tried again, and blocks its session", do: func(k *kit) {
		opener := k.startsAs(k.event(7))
		first, second := k.event(7), k.event(7)
		h := k.handed(first, opener.ID)
		k.settleRun(h.Lease, queue.Outcome{State: queue.Waiting, RetryAfter: time.Minute / 2})
		k.is(first.ID, queue.Routing)
		k.started(triage)
		k.pass(time.Minute/2 + time.Second)
		again := k.started(triage, first)[0]
		if again.Attempts != 2 || again.Session != opener.ID {
			k.Errorf("it is attempt %d for %q", again.Attempts, again.Session)
		}
		k.settleRun(again.Lease, queue.Outcome{State: queue.RunFailed})
		k.handed(second, opener.ID)
	}},
	{name: "perhaps delivered: uncertain, and the next one goes on", do: func(k *kit) {
		opener := k.startsAs(k.event(7))
		first, second := k.event(7), k.event(7)
		h := k.handed(first, opener.ID)
		k.settleRun(h.Lease, queue.Outcome{State: queue.Uncertain, Reason: queue.ReasonUnconfirmed})
		k.handed(second, opener.ID)
		k.is(first.ID, queue.Uncertain, queue.ReasonUnconfirmed)
		k.session(opener.ID, queue.SessionLive)
	}},
	{name: "two issues never share a session", do: func(k *kit) {
		wide := followRule("triage", 10)
		seven, eight := k.event(7), k.event(8)
		elsewhere := k.admit(k.delivery(aboutIn("acme/other", 200, 7)), plain("triage", follows))[0]
		push := k.admit(k.delivery(), plain("triage", follows))[0]
		again := k.admit(k.delivery(), plain("triage", follows))[0]
		for _, r := range []queue.Run{seven, eight, elsewhere, push, again} {
			k.kind(r, queue.Start)
		}
		k.started(wide, seven, eight, elsewhere, push, again)
		want := map[string]string{}
		for _, opener := range []queue.Run{seven, eight, elsewhere} {
			d := k.delivery(func(d *queue.Delivery) { d.Facts = opener.Facts })
			want[k.admit(d, plain("triage", follows))[0].ID] = opener.ID
		}
		got := map[string]string{}
		for _, c := range k.start(wide) {
			got[c.ID] = c.Session
		}
		k.same("hand-overs by session", got, want)
	}},
	{name: "two triggers never share a session", do: func(k *kit) {
		k.startsAs(k.event(7))
		k.kind(k.admit(k.delivery(about(7)), plain("review", follows))[0], queue.Start)
	}},
	{name: "a renamed repository's issue stays the same", do: func(k *kit) {
		opener := k.startsAs(k.event(7))
		later := k.admit(k.delivery(aboutIn("Acme/Gadgets", 100, 7)), plain("triage", follows))[0]
		k.handed(later, opener.ID)
	}},
	{name: "nothing of a paused trigger is handed over", do: func(k *kit) {
		opener := k.startsAs(k.event(7))
		later := k.event(7)
		if c := k.pausedStart("triage", func() []queue.RunClaim { return k.start(triage) }); len(c) != 0 {
			k.Errorf("%v were claimed of a paused trigger", runNames(c))
		}
		h := k.handed(later, opener.ID)
		k.settleRun(h.Lease, queue.Outcome{State: queue.Waiting})
		k.pass(2 * time.Second)
		if c := k.pausedStart("triage", func() []queue.RunClaim { return k.start(triage) }); len(c) != 0 {
			k.Errorf("%v were claimed again of a paused trigger", runNames(c))
		}
		k.started(triage, later)
	}},
	{name: "a follow-up that waits too long is dropped", do: func(k *kit) {
		c := k.startsAs(k.event(7))
		k.settleRun(c.Lease, accepted(48*time.Hour))
		reported := triage
		reported.SessionReported = true
		later := k.event(8) // a start behind a full slot
		behind := k.event(8)
		k.pass(24*time.Hour + time.Second)
		k.started(triage)
		k.is(later.ID, queue.Dropped, queue.ReasonExpired)
		k.is(behind.ID, queue.Dropped, queue.ReasonExpired)
	}},
}

// pausedStart does something while the trigger is paused.
func (k *kit) pausedStart(trigger string, do func() []queue.RunClaim) []queue.RunClaim {
	k.Helper()
	k.pause(trigger)
	defer k.resume(trigger)
	return do()
}
