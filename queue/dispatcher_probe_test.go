package queue_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

func TestDispatcherProbes(t *testing.T) {
	cases := map[string]struct {
		answers []queue.ProbeAnswer // the last one repeats
		at      []time.Duration
		state   queue.RunState
		starts  int
	}{
		"it happened": {
			[]queue.ProbeAnswer{queue.ProbeHappened},
			[]time.Duration{0},
			queue.Succeeded, 1,
		},
		"unknown at first": {
			[]queue.ProbeAnswer{queue.ProbeUnknown, queue.ProbeUnknown, queue.ProbeUnknown, queue.ProbeHappened},
			[]time.Duration{0, 1 * time.Second, 6 * time.Second, 21 * time.Second},
			queue.Succeeded, 1,
		},
		"it did not": {
			[]queue.ProbeAnswer{queue.ProbeDidNot},
			[]time.Duration{0},
			queue.Succeeded, 2,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in(t, func(b *bubble) {
				d, target := dispatcher(b, func(_ context.Context, c queue.RunClaim, _ func(string, queue.SessionState)) queue.Outcome {
					if c.Attempts == 1 {
						return queue.Outcome{State: queue.Uncertain, Reason: queue.ReasonUnconfirmed}
					}
					return succeeded
				})
				var at list[time.Duration]
				d.Probed = func() []string { return []string{"deploy"} }
				d.Probe = func(context.Context, queue.RunClaim) queue.ProbeAnswer {
					at.add(b.now())
					return c.answers[min(len(at.all()), len(c.answers))-1]
				}
				run := b.admit(anything, admission("deploy"))[0]
				b.service(d.Run)
				b.pass(2 * time.Minute)
				want(t, "asked at", at.all(), c.at)
				want(t, "starts", len(target.at.all()), c.starts)
				want(t, "state", b.run(run.ID).State, c.state)
			})
		})
	}
}

func TestDispatcherOutlivesItsProbes(t *testing.T) {
	in(t, func(b *bubble) {
		rules := []queue.DispatchRule{{Trigger: "hangs", Concurrency: 20}, {Trigger: "panics", Concurrency: 1}, {Trigger: "quick", Concurrency: 1}}
		d, _ := dispatcher(b, answering(queue.Outcome{State: queue.Uncertain, Reason: queue.ReasonUnconfirmed}), rules...)
		d.Probed = func() []string { return []string{"hangs", "panics", "quick"} }
		var panics atomic.Int32
		d.Probe = func(ctx context.Context, c queue.RunClaim) queue.ProbeAnswer {
			switch c.Trigger {
			case "hangs":
				<-ctx.Done()
				return queue.ProbeDidNot // cut off, it knows nothing
			case "panics":
				panics.Add(1)
				panic("no probe")
			}
			return queue.ProbeHappened
		}
		var hanging []string
		for range 20 {
			hanging = append(hanging, b.admit(anything, admission("hangs"))[0].ID)
		}
		stop := b.service(d.Run)
		b.pass(time.Second)
		others := b.admit(anything, admission("panics"), admission("quick"))
		b.pass(10 * time.Second)
		b.wantRun(others[0].ID, queue.Uncertain, queue.ReasonUnconfirmed, 1)
		b.wantRun(others[1].ID, queue.Succeeded, queue.ReasonResolved, 1)
		if panics.Load() < 2 {
			t.Errorf("asked %d times where the probe panics, want again and again", panics.Load())
		}
		b.pass(5 * time.Minute)
		stop()
		for _, id := range hanging {
			b.wantRun(id, queue.Uncertain, queue.ReasonUnconfirmed, 1)
		}
	})
}
