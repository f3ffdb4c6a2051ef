package queue_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/seed-de999ace/preloop/queue"
)

func TestWait(t *testing.T) {
	s := queue.DefaultSettings()
	for i, wait := range []time.Duration{0, 1 * time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, 30 * time.Second, 30 * time.Second} {
		want(t, "wait", s.Wait(i), wait)
	}
	want(t, "wait before any attempt", s.Wait(-1), time.Duration(0))
	s.Backoff = nil
	want(t, "wait without a backoff", s.Wait(3), time.Duration(0))
}

func TestNextState(t *testing.T) {
	cases := map[string]struct {
		kind     queue.SettleKind
		attempts int
		outages  int
		wait     time.Duration
		outage   bool
		want     queue.Next
	}{
		"done":                         {kind: queue.SettleDone, attempts: 1, want: queue.Next{State: queue.Done, Word: "done"}},
		"done at the last attempt":     {kind: queue.SettleDone, attempts: 6, want: queue.Next{State: queue.Done, Word: "done"}},
		"failed for good":              {kind: queue.SettleFail, attempts: 1, want: queue.Next{State: queue.Failed, Word: "failed"}},
		"first failure":                {kind: queue.SettleRetry, attempts: 1, want: queue.Next{State: queue.Received, Wait: time.Second, Word: "retry"}},
		"fifth failure":                {kind: queue.SettleRetry, attempts: 5, want: queue.Next{State: queue.Received, Wait: 30 * time.Second, Word: "retry"}},
		"sixth failure":                {kind: queue.SettleRetry, attempts: 6, want: queue.Next{State: queue.Failed, Word: "failed"}},
		"a wait of its own":            {kind: queue.SettleRetry, attempts: 2, wait: time.Minute, want: queue.Next{State: queue.Received, Wait: time.Minute, Word: "retry"}},
		"released":                     {kind: queue.SettleRelease, attempts: 6, want: queue.Next{State: queue.Received, Refund: true, Word: "released"}},
		"parked":                       {kind: queue.SettlePark, attempts: 6, wait: time.Hour, want: queue.Next{State: queue.Received, Refund: true, Wait: time.Hour, Word: "parked"}},
		"first outage":                 {kind: queue.SettlePark, attempts: 1, outage: true, want: queue.Next{State: queue.Received, Refund: true, Outage: true, Wait: time.Second, Word: "parked"}},
		"outage with a longer wait":    {kind: queue.SettlePark, attempts: 1, outage: true, wait: time.Minute, want: queue.Next{State: queue.Received, Refund: true, Outage: true, Wait: time.Minute, Word: "parked"}},
		"twentieth outage":             {kind: queue.SettlePark, attempts: 1, outages: 19, outage: true, want: queue.Next{State: queue.Received, Refund: true, Outage: true, Wait: 30 * time.Second, Word: "parked"}},
		"one outage too many":          {kind: queue.SettlePark, attempts: 1, outages: 20, outage: true, want: queue.Next{State: queue.Received, Wait: time.Second, Word: "retry"}},
		"too many and no attempt left": {kind: queue.SettlePark, attempts: 6, outages: 20, outage: true, want: queue.Next{State: queue.Failed, Word: "failed"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			want(t, "next", queue.DefaultSettings().NextState(c.kind, c.attempts, c.outages, c.wait, c.outage), c.want)
		})
	}
}

// Whatever a delivery meets, only its own failures bring it to its end, and never more than allowed.
func TestADeliveryEndsByItsOwnFailuresAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := queue.DefaultSettings()
		attempts, outages, failures := 0, 0, 0
		for range rapid.IntRange(1, 200).Draw(t, "length") {
			kind := rapid.SampledFrom([]queue.SettleKind{queue.SettleRetry, queue.SettlePark, queue.SettleRelease}).Draw(t, "kind")
			outage := kind == queue.SettlePark && rapid.Bool().Draw(t, "outage")
			if kind == queue.SettleRetry || outage && outages >= s.MaxOutages {
				failures++
			}
			attempts++
			n := s.NextState(kind, attempts, outages, 0, outage)
			if n.Refund {
				attempts--
			}
			if n.Outage {
				outages++
			}
			if attempts != failures {
				t.Fatalf("%d attempts are charged after %d failures", attempts, failures)
			}
			if ended := n.State == queue.Failed; ended != (failures == s.MaxAttempts) {
				t.Fatalf("ended is %v after %d failures", ended, failures)
			}
			if n.State == queue.Failed {
				return
			}
		}
	})
}

func TestAppendAttemptKeepsTheFirstAndTheNewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5*queue.MaxHistory).Draw(t, "attempts")
		var h []queue.Attempt
		for i := range n {
			h = queue.AppendAttempt(h, queue.Attempt{Attempt: i + 1})
		}
		if len(h) != min(n, queue.MaxHistory) {
			t.Fatalf("%d of %d attempts are kept", len(h), n)
		}
		for i, a := range h {
			expect := i + 1
			if first := queue.MaxHistory / 4; i >= first && n > queue.MaxHistory {
				expect = n - len(h) + i + 1
			}
			if a.Attempt != expect {
				t.Fatalf("place %d of %d attempts holds number %d, want %d", i, n, a.Attempt, expect)
			}
		}
	})
}
