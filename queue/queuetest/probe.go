package queuetest

import (
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// uncertain makes an uncertain run of the kind.
func (k *kit) uncertain(kind queue.RunKind, trigger string) queue.RunClaim {
	k.Helper()
	c := k.claimed(kind, trigger)
	k.settleRun(c.Lease, queue.Outcome{State: queue.Uncertain, Reason: queue.ReasonInterrupted})
	return c
}

func (k *kit) probes(triggers ...string) []queue.RunClaim {
	k.Helper()
	c, err := k.store.ClaimProbes(k.ctx, "node-1", triggers, 100)
	k.must(err, "claiming probes")
	return c
}

func (k *kit) probe(trigger string) queue.RunClaim {
	k.Helper()
	c := k.probes(trigger)
	if len(c) != 1 {
		k.Fatalf("%d runs of %s are to be probed, want one", len(c), trigger)
	}
	return c[0]
}

var probeTests = []test{
	{name: "uncertain runs of these triggers are asked after, at once, once", do: func(k *kit) {
		eachRunState(k, func(k *kit, s runState, c queue.RunClaim) {
			trigger := k.run(c.ID).Trigger
			if n := len(k.probes("other")); n != 0 {
				k.Errorf("%d runs of another trigger are probed", n)
			}
			if n := len(k.probes()); n != 0 {
				k.Errorf("%d runs of no trigger are probed", n)
			}
			got := k.probes(trigger, "other")
			if want := s.state == queue.Uncertain; (len(got) == 1) != want {
				k.Fatalf("%d are probed, want that only if uncertain", len(got))
			}
			if len(got) == 0 {
				return
			}
			p := got[0]
			if p.ID != c.ID || p.State != queue.Uncertain || len(p.Payload) == 0 || p.Attempts != 1 || p.Lease.Token <= c.Lease.Token {
				k.Errorf("probed %+v", p)
			}
			k.near("the lease", time.Until(p.Lease.Until), k.settings.Lease)
			if n := len(k.probes(trigger)); n != 0 {
				k.Errorf("%d are probed while another probe is under way", n)
			}
		})
	}},
	{name: "max at most", do: func(k *kit) {
		for range 3 {
			k.uncertain(queue.Start, "deploy")
		}
		for _, want := range []int{2, 1, 0} {
			c, err := k.store.ClaimProbes(k.ctx, "node-1", []string{"deploy"}, 2)
			if k.must(err, "claiming probes"); len(c) != want {
				k.Errorf("%d are probed, want %d", len(c), want)
			}
		}
	}},
	{name: "it happened", do: func(k *kit) {
		for kind, want := range map[queue.RunKind]queue.RunState{queue.Start: queue.Succeeded, queue.FollowUp: queue.Delivered} {
			k := k.at("%s", kind)
			c := k.uncertain(kind, string(kind))
			got, err := k.store.SettleProbe(k.ctx, k.probe(string(kind)).Lease, queue.ProbeHappened)
			k.must(err, "settling")
			k.same("the answer", *got, k.is(c.ID, want).Run)
		}
		k.recount()
	}},
	{name: "it did not happen: tried again, six times", do: func(k *kit) {
		for _, kind := range []queue.RunKind{queue.Start, queue.FollowUp} {
			k := k.at("%s", kind)
			trigger := string(kind)
			c := k.uncertain(kind, trigger)
			for i := 1; i < k.settings.MaxAttempts; i++ {
				got, err := k.store.SettleProbe(k.ctx, k.probe(trigger).Lease, queue.ProbeDidNot)
				k.must(err, "settling")
				if got.State != queue.Waiting && got.State != queue.Routing || got.ID != c.ID || got.Kind != kind || !got.FinishedAt.IsZero() {
					k.Fatalf("it is to be tried again: %+v", got)
				}
				k.pass(time.Minute / 2)
				again := k.startOne(followRule(trigger, 1))
				if again.ID != c.ID || again.Attempts != i+1 {
					k.Fatalf("the run of %s is attempt %d, want %d", again.DeliveryID, again.Attempts, i+1)
				}
				k.settleRun(again.Lease, queue.Outcome{State: queue.Uncertain})
			}
			_, err := k.store.SettleProbe(k.ctx, k.probe(trigger).Lease, queue.ProbeDidNot)
			k.must(err, "settling")
			k.is(c.ID, queue.RunFailed)
		}
	}},
	{name: "unknown is asked again after 1, 5, 15, 30 and 30 s", do: func(k *kit) {
		c := k.uncertain(queue.Start, "deploy")
		for _, s := range []int{1, 5, 15, 30, 30, 30, 30} {
			wait := time.Duration(s) * time.Second
			k := k.at("%v", wait)
			_, err := k.store.SettleProbe(k.ctx, k.probe("deploy").Lease, queue.ProbeUnknown)
			k.must(err, "settling")
			k.is(c.ID, queue.Uncertain)
			k.pass(wait / 2)
			if n := len(k.probes("deploy")); n != 0 {
				k.Errorf("%d are asked again after half the wait", n)
			}
			k.pass(wait/2 + 100*time.Millisecond)
		}
		if got := k.run(c.ID); got.Attempts != 1 {
			k.Errorf("probes were charged as attempts: %d", got.Attempts)
		}
		k.pass(24 * time.Hour)
		k.sweep()
		k.is(c.ID, queue.RunFailed, queue.ReasonUncertainTime)
	}},
	{name: "an abandoned probe is made again", do: func(k *kit) {
		c := k.uncertain(queue.Start, "deploy")
		first := k.probe("deploy")
		k.pass(k.settings.Lease + time.Second)
		k.lost(func() error { _, err := k.store.SettleProbe(k.ctx, first.Lease, queue.ProbeDidNot); return err })
		k.sweep()
		k.is(c.ID, queue.Uncertain)
		k.pass(time.Minute) // a sweep may count as an unknown answer
		second := k.probe("deploy")
		k.lost(func() error { _, err := k.store.SettleProbe(k.ctx, first.Lease, queue.ProbeDidNot); return err })
		_, err := k.store.SettleProbe(k.ctx, second.Lease, queue.ProbeHappened)
		k.must(err, "settling")
		k.lost(func() error { _, err := k.store.SettleProbe(k.ctx, second.Lease, queue.ProbeHappened); return err })
	}},
	{name: "an operator's word goes before a probe's", do: func(k *kit) {
		for name, word := range map[string]func(id string) error{
			"resolve": func(id string) error {
				_, err := k.store.ResolveRun(k.ctx, id, queue.RunFailed)
				return err
			},
			"retry":  func(id string) error { _, err := k.store.RetryRun(k.ctx, id); return err },
			"cancel": func(id string) error { _, err := k.store.CancelRun(k.ctx, id); return err },
			"finish": func(id string) error {
				_, err := k.store.FinishRun(k.ctx, id, queue.Finish{As: queue.Succeeded})
				return err
			},
		} {
			k := k.at("%s", name)
			c := k.uncertain(queue.Start, name)
			p := k.probe(name)
			k.must(word(c.ID), name)
			k.lost(func() error { _, err := k.store.SettleProbe(k.ctx, p.Lease, queue.ProbeDidNot); return err })
		}
	}},
	{name: "a run past its time waits for the probe that is under way, and no longer", do: func(k *kit) {
		for name, c := range map[string]struct {
			answer queue.ProbeAnswer
			want   queue.RunState
		}{
			"it happened": {queue.ProbeHappened, queue.Succeeded},
			"it did not":  {queue.ProbeDidNot, queue.Waiting},
			"unknown":     {queue.ProbeUnknown, queue.RunFailed},
			"no answer":   {-1, queue.RunFailed},
		} {
			k := k.at("%s", name)
			run := k.uncertain(queue.Start, name)
			k.pass(24*time.Hour - 10*time.Second)
			p := k.probe(name)
			k.pass(20 * time.Second)
			k.sweep()
			k.is(run.ID, queue.Uncertain)
			if c.answer >= 0 {
				_, err := k.store.SettleProbe(k.ctx, p.Lease, c.answer)
				k.must(err, "settling")
			} else {
				k.pass(k.settings.Lease)
				k.sweep()
			}
			k.is(run.ID, c.want)
			k.lost(func() error { _, err := k.store.SettleProbe(k.ctx, p.Lease, queue.ProbeHappened); return err })
		}
	}},
}
