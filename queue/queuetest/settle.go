package queuetest

import (
	"errors"
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// settlements are all the ways to end an attempt.
var settlements = []struct {
	name string
	s    queue.Settlement
	word string // in the history
	want queue.DeliveryState
}{
	{"done", decided(plain("deploy")), "done", queue.Done},
	{"retry", queue.Settlement{Kind: queue.SettleRetry, Error: "boom"}, "retry", queue.Received},
	{"fail", queue.Settlement{Kind: queue.SettleFail, Error: "boom"}, "failed", queue.Failed},
	{"park", queue.Settlement{Kind: queue.SettlePark, Error: "rate limit", Wait: time.Hour}, "parked", queue.Received},
	{"release", queue.Settlement{Kind: queue.SettleRelease}, "released", queue.Received},
}

var settleTests = []test{
	{name: "each kind leaves its state and its line in the history", do: func(k *kit) {
		for _, c := range settlements {
			k := k.at("%s", c.name)
			d := k.enqueue(k.delivery())
			l := k.claim().Lease
			if got := k.settle(l, c.s); got.State != c.want {
				k.Errorf("settled as %s, want %s", got.State, c.want)
			}
			got := k.detail(d.ID)
			if got.State != c.want || !got.LeaseUntil.IsZero() || got.FinishedAt.IsZero() == c.want.Terminal() || got.LastError != c.s.Error {
				k.Errorf("it is %+v", got.Delivery)
			}
			if len(got.History) != 1 {
				k.Fatalf("the history is %+v, want one attempt", got.History)
			}
			h := got.History[0]
			if h.Attempt != 1 || h.Node != "node-1" || h.Outcome != c.word || h.Error != c.s.Error || h.StartedAt.IsZero() || h.FinishedAt.Before(h.StartedAt) {
				k.Errorf("the history has %+v", h)
			}
			settleAll(k)
		}
		k.recount()
	}},
	{name: "no kind is taken from a lease that is lost", do: func(k *kit) {
		lost := map[string]func() queue.Lease{
			"expired": func() queue.Lease {
				l := k.enqueueAndClaim()
				k.pass(k.settings.Lease + time.Second)
				return l
			},
			"expired and passed on": func() queue.Lease {
				l := k.enqueueAndClaim()
				k.pass(k.settings.Lease + time.Second)
				k.claim()
				return l
			},
			"settled": func() queue.Lease {
				l := k.enqueueAndClaim()
				k.settle(l, queue.Settlement{Kind: queue.SettleDone})
				return l
			},
			"released": func() queue.Lease {
				l := k.enqueueAndClaim()
				k.settle(l, queue.Settlement{Kind: queue.SettleRelease})
				return l
			},
			"forged":  func() queue.Lease { l := k.enqueueAndClaim(); l.Token++; return l },
			"unknown": func() queue.Lease { return queue.Lease{Row: 4711, Token: 1} },
		}
		for name, lease := range lost {
			l := lease()
			k.unchanged("settling with a lease that is "+name, func() {
				for _, c := range settlements {
					if _, err := k.store.SettleDelivery(k.ctx, l, c.s); !errors.Is(err, queue.ErrLeaseLost) {
						k.Errorf("%s with a lease that is %s: got error %v, want a lost lease", c.name, name, err)
					}
				}
			})
			settleAll(k)
		}
	}},
	{name: "settling again after a lost answer does no harm", do: func(k *kit) {
		for _, c := range settlements {
			k := k.at("%s", c.name)
			l := k.enqueueAndClaim()
			k.settle(l, c.s)
			k.refused(queue.ErrLeaseLost, "the second settlement", func() error {
				_, err := k.store.SettleDelivery(k.ctx, l, c.s)
				return err
			})
			settleAll(k)
		}
	}},
	{name: "waits of 1, 5, 15, 30 and 30 s, failed after six", do: func(k *kit) {
		d := k.enqueue(k.delivery())
		for i, wait := range []time.Duration{1 * time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, 30 * time.Second} {
			k := k.at("attempt %d", i+1)
			c := k.claim()
			if c.Attempts != i+1 {
				k.Errorf("it is number %d", c.Attempts)
			}
			k.settle(c.Lease, queue.Settlement{Kind: queue.SettleRetry, Error: "boom"})
			got := k.detail(d.ID)
			if got.State != queue.Received || got.Attempts != i+1 {
				k.Fatalf("it left %+v", got.Delivery)
			}
			k.near("the wait", got.NextAttempt.Sub(got.History[i].FinishedAt), wait)
			k.unclaimable("at once after a failure")
			k.pass(wait / 2)
			k.unclaimable("half a wait after a failure")
			k.pass(wait/2 + 100*time.Millisecond)
		}
		k.settle(k.claim().Lease, queue.Settlement{Kind: queue.SettleRetry, Error: "the last"})
		got := k.detail(d.ID)
		if got.State != queue.Failed || got.Attempts != 6 || got.LastError != "the last" || got.FinishedAt.IsZero() || len(got.History) != 6 {
			k.Errorf("after the sixth it is %+v with %d attempts kept", got.Delivery, len(got.History))
		}
		k.pass(24 * time.Hour)
		k.unclaimable("though it is failed")
	}},
	{name: "a retry's own wait goes before the usual one", do: func(k *kit) {
		k.settle(k.enqueueAndClaim(), queue.Settlement{Kind: queue.SettleRetry, Error: "boom", Wait: time.Hour})
		k.pass(59 * time.Minute)
		k.unclaimable("before its own wait is over")
		k.pass(time.Minute + time.Second)
		k.claim()
	}},
	{name: "parking refunds, however often", do: func(k *kit) {
		d := k.enqueue(k.delivery())
		for i := range queue.MaxHistory + 6 {
			c := k.claim()
			if c.Attempts != 1 {
				k.Fatalf("the claim after %d parkings is attempt %d, want 1", i, c.Attempts)
			}
			k.settle(c.Lease, queue.Settlement{Kind: queue.SettlePark, Error: "rate limit", Wait: time.Minute})
			if got := k.detail(d.ID); got.State != queue.Received || got.Attempts != 0 {
				k.Fatalf("parked: %+v", got.Delivery)
			}
			k.pass(time.Minute + time.Second)
		}
		got := k.detail(d.ID)
		if len(got.History) > queue.MaxHistory || len(got.History) < queue.MaxHistory/2 {
			k.Errorf("the history has %d lines, want %d at most", len(got.History), queue.MaxHistory)
		}
		first, last := got.History[0], got.History[len(got.History)-1]
		if !first.StartedAt.Before(last.StartedAt) {
			k.Errorf("the history begins at %v and ends at %v", first.StartedAt, last.StartedAt)
		}
	}},
	{name: "an outage parks after the usual waits, twenty times", do: func(k *kit) {
		d := k.enqueue(k.delivery())
		outage := queue.Settlement{Kind: queue.SettlePark, Error: "502", Outage: true}
		for i := range k.settings.MaxOutages {
			c := k.claim()
			k.settle(c.Lease, outage)
			got := k.detail(d.ID)
			if got.State != queue.Received || got.Attempts != 0 || got.Outages != i+1 {
				k.Fatalf("outage %d left %+v", i+1, got.Delivery)
			}
			if i < 6 {
				k.near("the wait", got.NextAttempt.Sub(got.History[i].FinishedAt), k.settings.Wait(i+1))
			}
			k.pass(30*time.Second + 100*time.Millisecond)
		}
		for i := range k.settings.MaxAttempts {
			if c := k.claim(); c.Attempts != i+1 {
				k.Fatalf("the claim is attempt %d, want %d", c.Attempts, i+1)
			} else {
				k.settle(c.Lease, outage)
			}
			k.pass(time.Minute)
		}
		if got := k.detail(d.ID); got.State != queue.Failed || got.LastError != "502" {
			k.Errorf("it is %s %q, want failed", got.State, got.LastError)
		}
		_, err := k.store.Replay(k.ctx, d.ID, queue.ReplayOptions{})
		k.must(err, "replaying")
		if c := k.claim(); c.Outages != 0 {
			k.Errorf("a new generation begins with %d outages", c.Outages)
		}
	}},
	{name: "a release is claimable at once, refunded", do: func(k *kit) {
		for range 10 {
			k.enqueue(k.delivery())
		}
		for range 7 {
			for _, c := range k.claims(10) {
				if c.Attempts != 1 {
					k.Fatalf("attempt %d after a release", c.Attempts)
				}
				k.settle(c.Lease, queue.Settlement{Kind: queue.SettleRelease})
			}
		}
		if n := len(k.claims(100)); n != 10 {
			k.Errorf("%d can be claimed after releases, want 10", n)
		}
	}},
	{name: "decisions are kept with their runs", do: func(k *kit) {
		d := k.enqueue(k.delivery(about(7)))
		s := decided(plain("deploy"), plain("triage"))
		s.Decisions = append(s.Decisions,
			queue.Decision{Trigger: "nightly", Verdict: queue.Filtered, Reason: "repos: acme/secret is excluded"},
			queue.Decision{Trigger: "broken", Verdict: queue.Errored, Reason: "if: no such key"})
		got := k.settle(k.claim().Lease, s)
		kept := k.detail(d.ID)
		k.same("the decisions as kept", kept.Decisions, got.Decisions)
		k.same("the runs as kept", kept.Runs, got.Runs)
		ids := map[string]string{}
		for _, r := range got.Runs {
			ids[r.Trigger] = r.ID
			if r.DeliveryID != d.ID || r.Source != d.Source || r.SourceName != d.SourceName || r.Event != d.Event || r.Facts != d.Facts || r.DeliverySeq != kept.Seq {
				k.Errorf("the run does not carry its delivery: %+v", r)
			}
		}
		for i := range s.Decisions {
			s.Decisions[i].RunID = ids[s.Decisions[i].Trigger]
			if matched := s.Decisions[i].Verdict == queue.Matched; matched != (s.Decisions[i].RunID != "") {
				k.Errorf("the run of a decision that is %s is %q", s.Decisions[i].Verdict, s.Decisions[i].RunID)
			}
		}
		k.same("the decisions", got.Decisions, s.Decisions)
	}},
	{name: "an error's bytes are no reason to keep a delivery", do: func(k *kit) {
		d := k.enqueue(k.delivery())
		k.settle(k.claim().Lease, queue.Settlement{Kind: queue.SettleFail, Error: "panic: a\x00b\xffc " + strings.Repeat("x", 100_000)})
		if got := k.detail(d.ID); got.State != queue.Failed || !strings.HasPrefix(got.LastError, "panic: a") {
			k.Errorf("it is %s with an error that begins %.20q", got.State, got.LastError)
		}
	}},
}
