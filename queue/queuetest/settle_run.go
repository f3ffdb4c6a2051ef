package queuetest

import (
	"errors"
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// runOutcomes are all that a target can say, for each kind of run.
var runOutcomes = []struct {
	name string
	kind queue.RunKind
	o    func() queue.Outcome
	want queue.RunState
}{
	{"succeeded", queue.Start, func() queue.Outcome { return queue.Outcome{State: queue.Succeeded} }, queue.Succeeded},
	{"failed", queue.Start, func() queue.Outcome { return queue.Outcome{State: queue.RunFailed, Reason: queue.ReasonTimeout} }, queue.RunFailed},
	{"uncertain", queue.Start, func() queue.Outcome { return queue.Outcome{State: queue.Uncertain, Reason: queue.ReasonInterrupted} }, queue.Uncertain},
	{"canceled", queue.Start, func() queue.Outcome { return queue.Outcome{State: queue.Canceled} }, queue.Canceled},
	{"try again", queue.Start, func() queue.Outcome { return queue.Outcome{State: queue.Waiting} }, queue.Waiting},
	{"accepted", queue.Start, func() queue.Outcome { return accepted(time.Hour) }, queue.Running},
	{"delivered", queue.FollowUp, func() queue.Outcome { return queue.Outcome{State: queue.Delivered} }, queue.Delivered},
	{"failed", queue.FollowUp, func() queue.Outcome { return queue.Outcome{State: queue.RunFailed} }, queue.RunFailed},
	{"uncertain", queue.FollowUp, func() queue.Outcome { return queue.Outcome{State: queue.Uncertain, Reason: queue.ReasonUnconfirmed} }, queue.Uncertain},
	{"try again", queue.FollowUp, func() queue.Outcome { return queue.Outcome{State: queue.Waiting} }, queue.Routing},
	{"session ended", queue.FollowUp, func() queue.Outcome { return queue.Outcome{State: queue.Waiting, SessionEnded: true} }, queue.Waiting},
}

// claimed makes a run of the kind that a worker holds.
func (k *kit) claimed(kind queue.RunKind, trigger string) queue.RunClaim {
	k.Helper()
	if kind == queue.FollowUp {
		return handOvers()(k, trigger)
	}
	return outcomes()(k, trigger)
}

var settleRunTests = []test{
	{name: "each outcome leaves its state and its line in the history", do: func(k *kit) {
		for i, c := range runOutcomes {
			k := k.at("%s %s", c.kind, c.name)
			claim := k.claimed(c.kind, "trigger-"+string(rune('a'+i)))
			o := c.o()
			code, status := 3, 502
			o.Error, o.ExitCode, o.HTTPStatus, o.Output = "what went wrong", &code, &status, []byte("out\x00put\xff")
			r := k.settleRun(claim.Lease, o)
			got := k.is(claim.ID, c.want)
			k.same("the answer", *r, got.Run)
			if got.Reason != o.Reason || got.Error != o.Error || got.ExitCode == nil || *got.ExitCode != code || got.HTTPStatus == nil || *got.HTTPStatus != status {
				k.Errorf("the run is %+v", got.Run)
			}
			if string(got.Output) != string(o.Output) {
				k.Errorf("its output is %q, want %q", got.Output, o.Output)
			}
			if !got.LeaseUntil.IsZero() {
				k.Errorf("it still has a lease until %v", got.LeaseUntil)
			}
			if c.want == queue.Running {
				continue // its attempt goes on
			}
			if len(got.History) != 1 || got.History[0].Attempt != 1 || got.History[0].Node != "node-1" || got.History[0].Outcome == "" || got.History[0].Error != o.Error {
				k.Errorf("its history is %+v", got.History)
			}
		}
		k.recount()
	}},
	{name: "no outcome is taken from a lease that is lost", do: func(k *kit) {
		for name, lose := range map[string]func(k *kit, l queue.Lease) queue.Lease{
			"forged":   func(_ *kit, l queue.Lease) queue.Lease { l.Token++; return l },
			"released": func(k *kit, l queue.Lease) queue.Lease { k.must(k.store.ReleaseRun(k.ctx, l), "releasing"); return l },
			"settled": func(k *kit, l queue.Lease) queue.Lease {
				k.settleRun(l, queue.Outcome{State: queue.RunFailed})
				return l
			},
			"expired": func(k *kit, l queue.Lease) queue.Lease { k.pass(k.settings.Lease + time.Second); return l },
			"swept": func(k *kit, l queue.Lease) queue.Lease {
				k.pass(k.settings.Lease + time.Second)
				k.sweep()
				return l
			},
		} {
			for _, kind := range []queue.RunKind{queue.Start, queue.FollowUp} {
				k := k.at("%s %s", name, kind)
				l := lose(k, k.claimed(kind, name+string(kind)).Lease)
				k.unchanged("settling with a lost lease", func() {
					for _, c := range runOutcomes {
						if c.kind != kind {
							continue
						}
						if _, err := k.store.SettleRun(k.ctx, l, c.o()); !errors.Is(err, queue.ErrLeaseLost) {
							k.Errorf("%s: got error %v, want a lost lease", c.name, err)
						}
					}
				})
			}
		}
	}},
	{name: "an unknown run's lease is lost", do: func(k *kit) {
		l := queue.Lease{Row: 4711, Token: 1}
		k.lost(func() error { _, err := k.store.SettleRun(k.ctx, l, queue.Outcome{State: queue.Succeeded}); return err })
		k.lost(func() error { return k.store.ReleaseRun(k.ctx, l) })
		k.lost(func() error { return k.store.ReportSession(k.ctx, l, "chat-1", queue.SessionLive) })
		k.lost(func() error { _, err := k.store.SettleProbe(k.ctx, l, queue.ProbeHappened); return err })
	}},
	{name: "waits of 1, 5, 15, 30 and 30 s, failed after six", do: func(k *kit) {
		for _, kind := range []queue.RunKind{queue.Start, queue.FollowUp} {
			k := k.at("%s", kind)
			r := followRule(string(kind), 1)
			c := k.claimed(kind, string(kind))
			for i, wait := range []time.Duration{1 * time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, 30 * time.Second} {
				k := k.at("attempt %d", i+1)
				got := k.settleRun(c.Lease, queue.Outcome{State: queue.Waiting, Error: "boom"})
				k.near("the wait", got.NextAttempt.Sub(k.run(c.ID).History[i].FinishedAt), wait)
				k.started(r)
				k.pass(wait / 2)
				k.started(r)
				k.pass(wait/2 + 100*time.Millisecond)
				if c = k.startOne(r); c.Attempts != i+2 || c.ID != got.ID {
					k.Fatalf("the next is attempt %d, want %d", c.Attempts, i+2)
				}
			}
			k.settleRun(c.Lease, queue.Outcome{State: queue.Waiting, Error: "the last"})
			if got := k.is(c.ID, queue.RunFailed); got.Attempts != 6 || got.Error != "the last" || len(got.History) != 6 {
				k.Errorf("it has %d attempts, %d in the history, error %q", got.Attempts, len(got.History), got.Error)
			}
		}
	}},
	{name: "the target's own wait goes before the usual one", do: func(k *kit) {
		c := k.claimed(queue.Start, "deploy")
		k.settleRun(c.Lease, queue.Outcome{State: queue.Waiting, RetryAfter: time.Hour})
		k.pass(59 * time.Minute)
		k.started(rule("deploy", 1))
		k.pass(time.Minute + time.Second)
		k.startOne(rule("deploy", 1))
	}},
	{name: "a refund charges nothing, however often", do: func(k *kit) {
		c := k.claimed(queue.Start, "deploy")
		for i := range 8 {
			got := k.settleRun(c.Lease, queue.Outcome{State: queue.Waiting, Refund: true, RetryAfter: time.Minute, Error: "rate limit"})
			if got.State != queue.Waiting || got.Attempts != 0 {
				k.Fatalf("refund %d left %d attempts, %s", i+1, got.Attempts, got.State)
			}
			k.started(rule("deploy", 1))
			k.pass(time.Minute + time.Second)
			c = k.startOne(rule("deploy", 1))
		}
		k.is(c.ID, queue.Running)
	}},
	{name: "twenty outages are refunded, then they count", do: func(k *kit) {
		c := k.claimed(queue.Start, "deploy")
		outage := queue.Outcome{State: queue.Waiting, Refund: true, Outage: true, Error: "502"}
		var got *queue.Run
		for i := range k.settings.MaxOutages + k.settings.MaxAttempts {
			got = k.settleRun(c.Lease, outage)
			if want := max(0, i+1-k.settings.MaxOutages); got.Attempts != want || got.Outages != min(i+1, k.settings.MaxOutages) {
				k.Fatalf("outage %d left %d attempts and %d outages, want %d attempts", i+1, got.Attempts, got.Outages, want)
			}
			if got.State == queue.Waiting {
				k.pass(time.Minute)
				c = k.startOne(rule("deploy", 1))
			}
		}
		k.is(got.ID, queue.RunFailed)
	}},
	{name: "an idempotent run's ambiguous outcome is tried again, six times", do: func(k *kit) {
		k.admit(k.delivery(), plain("deploy", idempotent))
		for i := range k.settings.MaxAttempts {
			c := k.startOne(rule("deploy", 1))
			if c.Attempts != i+1 {
				k.Fatalf("attempt %d, want %d", c.Attempts, i+1)
			}
			got := k.settleRun(c.Lease, queue.Outcome{State: queue.Uncertain, Reason: queue.ReasonInterrupted})
			want := queue.Waiting
			if i+1 == k.settings.MaxAttempts {
				want = queue.RunFailed
			}
			k.is(got.ID, want)
			k.pass(time.Minute)
		}
	}},
	{name: "an uncertain run says until when", do: func(k *kit) {
		k.admit(k.delivery(), plain("deploy", func(a *queue.Admission) { a.UncertainAfter = 3 * time.Hour }))
		c := k.startOne(rule("deploy", 1))
		k.settleRun(c.Lease, queue.Outcome{State: queue.Uncertain})
		got := k.run(c.ID)
		if len(got.History) != 1 {
			k.Fatalf("the history is %+v", got.History)
		}
		k.near("its time", got.UncertainUntil.Sub(got.History[0].FinishedAt), 3*time.Hour)
	}},
	{name: "an accepted run needs no worker until its deadline", do: func(k *kit) {
		c := k.claimed(queue.Start, "deploy")
		k.settleRun(c.Lease, accepted(2*time.Hour))
		if held := k.renewRuns(c.Lease); len(held) != 0 {
			k.Errorf("its lease can be renewed")
		}
		k.pass(time.Hour)
		k.sweep()
		if got := k.is(c.ID, queue.Running); !got.LeaseUntil.IsZero() {
			k.Errorf("it is %+v", got.Run)
		}
		k.lost(func() error {
			_, err := k.store.SettleRun(k.ctx, c.Lease, queue.Outcome{State: queue.Succeeded})
			return err
		})
		k.pass(time.Hour + time.Second)
		if n := k.sweep(); n != 1 {
			k.Errorf("%d rows were swept, want 1", n)
		}
		k.is(c.ID, queue.Uncertain, queue.ReasonUnconfirmed)
	}},
	{name: "the last 64 KiB of output replace those of the attempt before", do: func(k *kit) {
		c := k.claimed(queue.Start, "deploy")
		k.settleRun(c.Lease, queue.Outcome{State: queue.Waiting, Output: []byte(strings.Repeat("a", 64<<10))})
		k.pass(time.Minute)
		c = k.startOne(rule("deploy", 1))
		k.settleRun(c.Lease, queue.Outcome{State: queue.Succeeded, Output: []byte("b")})
		if got := k.run(c.ID).Output; string(got) != "b" {
			k.Errorf("the output has %d bytes, want the last attempt's", len(got))
		}
	}},
	{name: "a release refunds and frees the slot", do: func(k *kit) {
		for _, kind := range []queue.RunKind{queue.Start, queue.FollowUp} {
			k := k.at("%s", kind)
			c := k.claimed(kind, string(kind))
			for range 7 {
				k.must(k.store.ReleaseRun(k.ctx, c.Lease), "releasing")
				got := k.is(c.ID, map[queue.RunKind]queue.RunState{queue.Start: queue.Waiting, queue.FollowUp: queue.Routing}[kind])
				if got.Attempts != 0 || !got.LeaseUntil.IsZero() {
					k.Errorf("released: %+v", got.Run)
				}
				k.lost(func() error { return k.store.ReleaseRun(k.ctx, c.Lease) })
				again := k.startOne(followRule(string(kind), 1))
				if again.ID != c.ID || again.Attempts != 1 || again.Lease.Token <= c.Lease.Token {
					k.Errorf("claimed again: attempt %d with token %d after %d", again.Attempts, again.Lease.Token, c.Lease.Token)
				}
				c = again
			}
		}
	}},
	{name: "an ended run wakes its own node", do: func(k *kit) {
		c := k.claimed(queue.Start, "deploy")
		k.admit(k.delivery(), plain("deploy"))
		k.wakes("the end of a run", func() { k.settleRun(c.Lease, queue.Outcome{State: queue.Succeeded}) })
	}},
}

var renewRunsTests = []test{
	{name: "a renewed lease lasts", do: func(k *kit) {
		c := k.claimed(queue.Start, "deploy")
		l := c.Lease
		for range 5 {
			k.pass(k.settings.Lease * 2 / 3)
			held := k.renewRuns(l)
			if len(held) != 1 || held[0].Row != l.Row || held[0].Token != l.Token {
				k.Fatalf("renewed %+v, want %+v", held, l)
			}
			k.near("the renewed lease", time.Until(held[0].Until), k.settings.Lease)
			k.sweep()
			k.is(c.ID, queue.Running)
			l = held[0]
		}
		k.settleRun(l, queue.Outcome{State: queue.Succeeded})
	}},
	{name: "only what is held is renewed", do: func(k *kit) {
		var lost []queue.Lease
		c := k.claimed(queue.Start, "expired")
		k.pass(k.settings.Lease + time.Second)
		lost = append(lost, c.Lease)
		c = k.claimed(queue.Start, "settled")
		k.settleRun(c.Lease, queue.Outcome{State: queue.Succeeded})
		lost = append(lost, c.Lease)
		c = k.claimed(queue.FollowUp, "released")
		k.must(k.store.ReleaseRun(k.ctx, c.Lease), "releasing")
		lost = append(lost, c.Lease, queue.Lease{Row: 4711, Token: 1})
		c = k.claimed(queue.FollowUp, "held")
		lost = append(lost, queue.Lease{Row: c.Lease.Row, Token: c.Lease.Token + 1})
		k.unchanged("renewing lost leases", func() {
			if held := k.renewRuns(lost...); len(held) != 0 {
				k.Errorf("%+v were renewed", held)
			}
		})
		if held := k.renewRuns(append(lost, c.Lease)...); len(held) != 1 || held[0].Row != c.Lease.Row {
			k.Errorf("%+v were renewed, want %+v", held, c.Lease)
		}
	}},
}

// lost checks that do answers ErrLeaseLost and changes nothing.
func (k *kit) lost(do func() error) {
	k.Helper()
	k.refused(queue.ErrLeaseLost, "with a lost lease", do)
}

// conflict checks that do answers ErrConflict and changes nothing.
func (k *kit) conflict(what string, do func() error) {
	k.Helper()
	k.refused(queue.ErrConflict, what, do)
}
