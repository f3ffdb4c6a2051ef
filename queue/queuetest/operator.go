package queuetest

import (
	"errors"
	"slices"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

var operatorTests = []test{
	{name: "cancel: what nobody works on at once, the holder of the rest is told", do: func(k *kit) {
		eachRunState(k, func(k *kit, s runState, c queue.RunClaim) {
			cancel := func() error { _, err := k.store.CancelRun(k.ctx, c.ID); return err }
			if s.state.Ended() {
				k.conflict("a cancel", cancel)
				return
			}
			if !s.held {
				got, err := k.store.CancelRun(k.ctx, c.ID)
				k.must(err, "canceling")
				k.same("the answer", *got, k.is(c.ID, queue.Canceled).Run)
				k.conflict("a second cancel", cancel)
				return
			}
			_, before, err := k.store.RenewRuns(k.ctx, []queue.Lease{c.Lease})
			k.must(err, "renewing")
			k.must(cancel(), "canceling")
			if got := k.is(c.ID, s.state); !got.CancelAsked {
				k.Errorf("the run does not say that its cancel was asked")
			}
			held, told, err := k.store.RenewRuns(k.ctx, []queue.Lease{c.Lease})
			k.must(err, "renewing")
			if len(before) != 0 || len(told) != 1 || told[0].Row != c.Lease.Row || told[0].Token != c.Lease.Token {
				k.Errorf("told to cancel %+v, before that %+v; want %+v", told, before, c.Lease)
			}
			if len(held) != 1 {
				k.Errorf("a run under way whose cancel was asked is held by %+v", held)
			}
			k.settleRun(c.Lease, queue.Outcome{State: queue.Canceled})
			k.is(c.ID, queue.Canceled)
		})
		k.recount()
	}},
	{name: "what ended by itself is not canceled, what did not is", do: func(k *kit) {
		for i, o := range runOutcomes {
			k := k.at("%s %s", o.kind, o.name)
			c := k.claimed(o.kind, "trigger-"+string(rune('a'+i)))
			_, err := k.store.CancelRun(k.ctx, c.ID)
			k.must(err, "canceling")
			k.settleRun(c.Lease, o.o())
			want := queue.Canceled
			if o.want.Ended() {
				want = o.want
			}
			k.is(c.ID, want)
		}
	}},
	{name: "a canceled run frees its slot and ends its session", do: func(k *kit) {
		opener := k.startsAs(k.event(7))
		k.settleRun(opener.Lease, accepted(time.Hour))
		other := k.event(8)
		_, err := k.store.CancelRun(k.ctx, opener.ID)
		k.must(err, "canceling")
		k.session(opener.ID, queue.SessionEnded)
		k.startsAs(other)
	}},
	{name: "a retry forgets that a cancel was asked", do: func(k *kit) {
		c := k.claimed(queue.Start, "deploy")
		_, err := k.store.CancelRun(k.ctx, c.ID)
		k.must(err, "canceling")
		k.settleRun(c.Lease, queue.Outcome{State: queue.Canceled})
		_, err = k.store.RetryRun(k.ctx, c.ID)
		k.must(err, "retrying")
		again := k.startOne(rule("deploy", 1))
		if _, told, err := k.store.RenewRuns(k.ctx, []queue.Lease{again.Lease}); err != nil || len(told) != 0 || k.run(c.ID).CancelAsked {
			k.Errorf("the next attempt is told to cancel: %+v, %v", told, err)
		}
		k.settleRun(again.Lease, queue.Outcome{State: queue.Waiting})
		k.is(c.ID, queue.Waiting)
	}},
	{name: "retry: what has ended otherwise than well, or is uncertain", do: func(k *kit) {
		eachRunState(k, func(k *kit, s runState, c queue.RunClaim) {
			retry := func() (*queue.Run, error) { return k.store.RetryRun(k.ctx, c.ID) }
			if !slices.Contains([]queue.RunState{queue.RunFailed, queue.Uncertain, queue.Canceled, queue.Dropped}, s.state) {
				k.conflict("a retry", func() error { _, err := retry(); return err })
				return
			}
			before := k.run(c.ID)
			got, err := retry()
			k.must(err, "retrying")
			if got.ID != c.ID || got.Kind != s.kind || got.State != queue.Waiting || got.Attempts != 0 || !got.FinishedAt.IsZero() || got.Reason != "" {
				k.Errorf("it became %+v", got)
			}
			after := k.run(c.ID)
			k.same("the answer", *got, after.Run)
			k.same("its history", after.History, before.History)
			// It has its place whatever the cap, it has not expired, and it has all its attempts.
			claims := k.start(queue.DispatchRule{Trigger: got.Trigger, Concurrency: 10, FollowUp: s.kind == queue.FollowUp})
			i := slices.IndexFunc(claims, func(r queue.RunClaim) bool { return r.ID == c.ID })
			if i < 0 {
				k.Fatalf("a retried run was not claimed, it is %+v", k.run(c.ID).Run)
			}
			if claims[i].Attempts != 1 {
				k.Errorf("it is attempt %d, want 1", claims[i].Attempts)
			}
		})
		k.recount()
	}},
	{name: "a retried run that the cap would refuse is not refused", do: func(k *kit) {
		a := plain("deploy", size(1))
		k.admit(k.delivery(), a)
		dropped := k.admit(k.delivery(), a)[0]
		_, err := k.store.RetryRun(k.ctx, dropped.ID)
		k.must(err, "retrying")
		k.is(dropped.ID, queue.Waiting)
		if r := k.admit(k.delivery(), a)[0]; r.State != queue.Dropped {
			k.Errorf("beside it, a new run is %s", r.State)
		}
	}},
	{name: "resolve: an uncertain run alone", do: func(k *kit) {
		eachRunState(k, func(k *kit, s runState, c queue.RunClaim) {
			resolve := func() error { _, err := k.store.ResolveRun(k.ctx, c.ID, queue.Succeeded); return err }
			if s.state == queue.Uncertain {
				k.must(resolve(), "resolving")
				k.is(c.ID, queue.Happened(s.kind))
			}
			k.conflict("a resolve", resolve)
		})
		for _, kind := range []queue.RunKind{queue.Start, queue.FollowUp} {
			c := k.uncertain(kind, string(kind))
			got, err := k.store.ResolveRun(k.ctx, c.ID, queue.RunFailed)
			k.must(err, "resolving")
			k.same("the answer", *got, k.is(c.ID, queue.RunFailed).Run)
		}
	}},
	{name: "resolve and finish take two words", do: func(k *kit) {
		c := k.uncertain(queue.Start, "deploy")
		k.unchanged("another word", func() {
			for _, as := range append(slices.Clone(queue.RunStates), "", "nope") {
				if as == queue.Succeeded || as == queue.RunFailed {
					continue
				}
				if _, err := k.store.ResolveRun(k.ctx, c.ID, as); !errors.Is(err, queue.ErrInvalid) {
					k.Errorf("resolving as %q: %v, want invalid", as, err)
				}
				if _, err := k.store.FinishRun(k.ctx, c.ID, queue.Finish{As: as}); !errors.Is(err, queue.ErrInvalid) {
					k.Errorf("finishing as %q: %v, want invalid", as, err)
				}
			}
		})
	}},
	{name: "finish: a running run or an uncertain one", do: func(k *kit) {
		eachRunState(k, func(k *kit, s runState, c queue.RunClaim) {
			finish := func() error {
				_, err := k.store.FinishRun(k.ctx, c.ID, queue.Finish{As: queue.Succeeded})
				return err
			}
			if s.state == queue.Uncertain || s.state == queue.Running {
				k.must(finish(), "finishing")
				k.is(c.ID, queue.Happened(s.kind))
			}
			k.conflict("a finish", finish)
			if s.state == queue.Running && s.held { // the target was quicker than its own answer
				k.lost(func() error { _, err := k.store.SettleRun(k.ctx, c.Lease, accepted(time.Hour)); return err })
			}
		})
		c := k.claimed(queue.Start, "deploy")
		k.settleRun(c.Lease, accepted(time.Hour))
		got, err := k.store.FinishRun(k.ctx, c.ID, queue.Finish{As: queue.RunFailed, Error: "the target's word"})
		k.must(err, "finishing")
		k.same("the answer", *got, k.is(c.ID, queue.RunFailed).Run)
		if got.Error != "the target's word" {
			k.Errorf("its error is %q", got.Error)
		}
	}},
	{name: "a finished run frees its slot", do: func(k *kit) {
		c := k.claimed(queue.Start, "deploy")
		k.settleRun(c.Lease, accepted(time.Hour))
		next := k.admit(k.delivery(), plain("deploy"))[0]
		k.started(rule("deploy", 1))
		k.wakes("a finish", func() {
			_, err := k.store.FinishRun(k.ctx, c.ID, queue.Finish{As: queue.RunFailed})
			k.must(err, "finishing")
		})
		k.started(rule("deploy", 1), next)
	}},
	{name: "an unknown run is not found", do: func(k *kit) {
		for name, do := range map[string]func() error{
			"read":    func() error { _, err := k.store.Run(k.ctx, "nope"); return err },
			"cancel":  func() error { _, err := k.store.CancelRun(k.ctx, "nope"); return err },
			"retry":   func() error { _, err := k.store.RetryRun(k.ctx, "nope"); return err },
			"resolve": func() error { _, err := k.store.ResolveRun(k.ctx, "nope", queue.Succeeded); return err },
			"finish": func() error {
				_, err := k.store.FinishRun(k.ctx, "nope", queue.Finish{As: queue.Succeeded})
				return err
			},
		} {
			if err := do(); !errors.Is(err, queue.ErrNotFound) {
				k.Errorf("%s: %v, want not found", name, err)
			}
		}
	}},
	{name: "a retried dead hand-over finds its session or starts a run", do: func(k *kit) {
		opener := k.startsAs(k.event(7))
		r := k.event(7)
		k.settleRun(k.handed(r, opener.ID).Lease, queue.Outcome{State: queue.RunFailed})
		_, err := k.store.RetryRun(k.ctx, r.ID)
		k.must(err, "retrying")
		h := k.handed(r, opener.ID)
		k.settleRun(h.Lease, queue.Outcome{State: queue.RunFailed})
		k.settleRun(opener.Lease, queue.Outcome{State: queue.Succeeded})
		_, err = k.store.RetryRun(k.ctx, r.ID)
		k.must(err, "retrying")
		k.startsAs(r)
	}},
}
