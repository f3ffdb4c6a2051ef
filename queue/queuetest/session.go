package queuetest

import (
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

var sessionTests = []test{
	{name: "a sleeping session is woken by a hand-over, and sleeps on", do: func(k *kit) {
		opener := k.asleep(7)
		s := k.session(opener.ID, queue.SessionSleeping)
		if s.ID != "chat-7" || !s.Reported {
			k.Errorf("the session is %+v, want the reported chat-7", s)
		}
		r := k.event(7)
		k.kind(r, queue.FollowUp)
		h := k.handed(r, "chat-7")
		k.session(opener.ID, queue.SessionLive)
		k.settleRun(h.Lease, queue.Outcome{State: queue.Delivered})
		k.session(opener.ID, queue.SessionSleeping)
		if n := k.stats()["triage"].Running; n != 0 {
			k.Errorf("%d runs hold a slot", n)
		}
	}},
	{name: "its time begins anew with every hand-over", do: func(k *kit) {
		opener := k.asleep(7)
		for range 4 {
			k.pass(k.settings.SessionTTL - time.Hour)
			k.sweep()
			h := k.handed(k.event(7), "chat-7")
			k.settleRun(h.Lease, queue.Outcome{State: queue.Delivered})
		}
		s := k.session(opener.ID, queue.SessionSleeping)
		if s.ExpiresAt.IsZero() {
			k.Errorf("a sleeping session has no end: %+v", s)
		}
	}},
	{name: "a session that says it has ended has ended", do: func(k *kit) {
		opener := k.asleep(7)
		h := k.handed(k.event(7), "chat-7")
		k.settleRun(h.Lease, queue.Outcome{State: queue.Delivered, SessionState: queue.SessionEnded})
		k.session(opener.ID, queue.SessionEnded)
		k.kind(k.event(7), queue.Start)
	}},
	{name: "a hand-over that cannot be confirmed leaves the session", do: func(k *kit) {
		for name, o := range map[string]queue.Outcome{
			"uncertain": {State: queue.Uncertain}, "failed": {State: queue.RunFailed},
		} {
			k := k.at("%s", name)
			opener := k.asleep(7)
			h := k.handed(k.event(7), "chat-7")
			k.settleRun(h.Lease, o)
			k.session(opener.ID, queue.SessionSleeping)
			h = k.handed(k.event(7), "chat-7")
			k.settleRun(h.Lease, queue.Outcome{State: queue.Delivered, SessionState: queue.SessionEnded})
		}
	}},
	{name: "a worker lost during a hand-over leaves the session", do: func(k *kit) {
		opener := k.asleep(7)
		k.handed(k.event(7), "chat-7")
		k.pass(k.settings.Lease + time.Second)
		k.sweep()
		k.session(opener.ID, queue.SessionSleeping)
		k.handed(k.event(7), "chat-7")
	}},
	{name: "a hand-over that was given back leaves the session", do: func(k *kit) {
		opener := k.asleep(7)
		h := k.handed(k.event(7), "chat-7")
		k.must(k.store.ReleaseRun(k.ctx, h.Lease), "releasing")
		h = k.startOne(triage)
		if h.Session != "chat-7" {
			k.Errorf("claimed again for %q", h.Session)
		}
		k.settleRun(h.Lease, queue.Outcome{State: queue.Delivered})
		k.session(opener.ID, queue.SessionSleeping)
	}},
	{name: "a run reports its session while it runs", do: func(k *kit) {
		opener := k.startsAs(k.event(7))
		first := k.event(7)
		h := k.handed(first, opener.ID)
		k.settleRun(h.Lease, queue.Outcome{State: queue.Delivered})
		k.must(k.store.ReportSession(k.ctx, opener.Lease, "chat-9", queue.SessionLive), "reporting")
		s := k.session(opener.ID, queue.SessionLive)
		if s.ID != "chat-9" || !s.Reported {
			k.Errorf("the session is %+v, want the reported chat-9", s)
		}
		if got := k.run(opener.ID).Run.Session; got != "chat-9" {
			k.Errorf("the opener's session is %q", got)
		}
		k.handed(k.event(7), "chat-9")
	}},
	{name: "a report with a lost lease changes nothing", do: func(k *kit) {
		opener := k.startsAs(k.event(7))
		k.pass(k.settings.Lease + time.Second)
		report := func() error { return k.store.ReportSession(k.ctx, opener.Lease, "chat-9", queue.SessionLive) }
		k.lost(report)
		k.sweep()
		k.lost(report)
	}},
	{name: "a session that must be reported is waited for", do: func(k *kit) {
		reported := triage
		reported.SessionReported = true
		opener := k.started(reported, k.event(7))[0]
		later := k.event(7)
		k.kind(later, queue.FollowUp)
		k.started(reported)
		k.must(k.store.ReportSession(k.ctx, opener.Lease, "chat-9", queue.SessionLive), "reporting")
		if c := k.started(reported, later)[0]; c.Session != "chat-9" || c.State != queue.Routing {
			k.Errorf("it is %s for %q, want routing for chat-9", c.State, c.Session)
		}
	}},
	{name: "one that was never reported ends with its run", do: func(k *kit) {
		reported := triage
		reported.SessionReported = true
		opener := k.started(reported, k.event(7))[0]
		later := k.event(7)
		k.settleRun(opener.Lease, queue.Outcome{State: queue.Succeeded})
		if c := k.started(reported, later)[0]; c.Kind != queue.Start {
			k.Errorf("it is a %s, want a start", c.Kind)
		}
	}},
	{name: "a session that ends before its run keeps followers behind the run", do: func(k *kit) {
		opener := k.startsAs(k.event(7))
		later := k.event(7)
		k.must(k.store.ReportSession(k.ctx, opener.Lease, "", queue.SessionEnded), "reporting")
		k.session(opener.ID, queue.SessionEnded)
		k.started(triage)
		k.kind(k.event(7), queue.FollowUp)
		k.settleRun(opener.Lease, queue.Outcome{State: queue.Succeeded})
		k.startsAs(later)
	}},
	{name: "an accepted run's session is live until it is finished", do: func(k *kit) {
		opener := k.startsAs(k.event(7))
		k.settleRun(opener.Lease, accepted(2*time.Hour))
		s := k.session(opener.ID, queue.SessionLive)
		if s.ID != "chat-1" || !s.Reported {
			k.Errorf("the session is %+v, want the reported chat-1", s)
		}
		h := k.handed(k.event(7), "chat-1")
		k.settleRun(h.Lease, queue.Outcome{State: queue.Delivered})
		_, err := k.store.FinishRun(k.ctx, opener.ID, queue.Finish{As: queue.Succeeded, Session: "chat-2", SessionState: queue.SessionSleeping})
		k.must(err, "finishing")
		if s := k.session(opener.ID, queue.SessionSleeping); s.ID != "chat-2" || s.ExpiresAt.IsZero() {
			k.Errorf("the session is %+v, want a sleeping chat-2 with an end", s)
		}
		k.handed(k.event(7), "chat-2")
	}},
	{name: "a failed run's session may sleep", do: func(k *kit) {
		c := k.startsAs(k.event(7))
		k.settleRun(c.Lease, queue.Outcome{State: queue.RunFailed, Session: "chat-7", SessionState: queue.SessionSleeping})
		k.session(c.ID, queue.SessionSleeping)
		k.handed(k.event(7), "chat-7")
	}},
	{name: "one session of a subject at most is not ended", do: func(k *kit) {
		wide := followRule("triage", 10)
		opener := k.started(wide, k.event(7))[0]
		h := k.handedBy(wide, k.event(7))
		k.settleRun(h.Lease, queue.Outcome{State: queue.Waiting, SessionEnded: true})
		k.session(opener.ID, queue.SessionEnded)
		sleep := func() {
			k.settleRun(opener.Lease, queue.Outcome{State: queue.Succeeded, Session: "chat-7", SessionState: queue.SessionSleeping})
		}
		k.started(wide) // not beside its opener
		sleep()
		again := k.startOne(wide)
		k.session(again.ID, queue.SessionLive)
		k.handedBy(wide, k.event(7))
		k.session(opener.ID, queue.SessionEnded) // ended is ended, whatever its opener says afterwards
	}},
	{name: "a run without a subject has no session", do: func(k *kit) {
		r := k.admit(k.delivery(), plain("triage", follows))[0]
		k.startsAs(r)
		if got := k.run(r.ID); got.SessionDetail != nil && got.SessionDetail.State != queue.SessionEnded {
			k.Errorf("it opened %+v", got.SessionDetail)
		}
	}},
}

// handedBy checks that exactly this run is handed over by a rule.
func (k *kit) handedBy(rule queue.DispatchRule, r queue.Run) queue.RunClaim {
	k.Helper()
	c := k.started(rule, r)[0]
	if c.State != queue.Routing {
		k.Errorf("the run is %s, want routing", c.State)
	}
	return c
}
