package queuetest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// flowTests have a worker and a dispatcher at work, as a node has.
var flowTests = []test{
	{name: "five events of one issue at once: one run starts, the others wait for it in order", do: func(k *kit) {
		for name, c := range map[string]struct {
			rule queue.DispatchRule
			as   queue.Admission
		}{
			"one at once":         {rule("narrow", 1), plain("narrow")},
			"one of an issue":     {rule("serial", 5), plain("serial", serialize("100#7"))},
			"one, then hand-over": {followRule("chat", 5), plain("chat", follows)},
		} {
			k := k.at("%s", name)
			n := k.works(c.rule, c.as)
			const events = 5
			var all []queue.Delivery
			for range events {
				all = append(all, k.delivery(about(7)))
			}
			k.race(events, func(k *kit, i int) {
				_, err := k.store.Enqueue(k.ctx, all[i], payloadOf(all[i]))
				k.check(err, "enqueueing")
			})
			order := k.listDeliveries(queue.DeliveryFilter{Limit: events})[:events]
			slices.Reverse(order) // newest first
			spread := order[events-1].ReceivedAt.Sub(order[0].ReceivedAt)
			k.t.Logf("%s: received within %v", name, spread)
			for range events {
				within(k, "a decision", n.decided)
			}
			first := within(k, "a start", n.began)
			if first.DeliveryID != order[0].ID {
				k.Errorf("that of %s starts, of five received within %v; want that of %s, the first", first.DeliveryID, spread, order[0].ID)
			}
			if c.rule.FollowUp { // the others are handed to it, which takes no slot
				for _, d := range order[1:] {
					r := within(k, "a hand-over", n.began)
					if r.DeliveryID != d.ID || r.Kind != queue.FollowUp || r.Session != first.ID {
						k.Errorf("then %s is a %s to %q; want %s handed to %q", r.DeliveryID, r.Kind, r.Session, d.ID, first.ID)
					}
					r.end <- queue.Outcome{State: queue.Delivered}
				}
				first.end <- queue.Outcome{State: queue.Succeeded}
			} else {
				if s := k.stats()[c.rule.Trigger]; s.Running != 1 || s.Waiting != events-1 {
					k.Errorf("%d run and %d wait, want one and four", s.Running, s.Waiting)
				}
				last := first
				for _, d := range order[1:] {
					last.end <- queue.Outcome{State: queue.Succeeded}
					if last = within(k, "the next start", n.began); last.DeliveryID != d.ID {
						k.Errorf("then that of %s starts, want that of %s", last.DeliveryID, d.ID)
					}
				}
				last.end <- queue.Outcome{State: queue.Succeeded}
			}
			n.stop()
			if n := len(n.began); n != 0 {
				k.Errorf("%d more were begun", n)
			}
		}
	}},
}

// working is a node whose target tells of each attempt that begins.
type working struct {
	decided chan queue.DeliveryAttempt
	began   chan underWay
	stop    func()
}

// underWay is an attempt that goes on until it is told how it ends.
type underWay struct {
	queue.Run
	end chan queue.Outcome
}

func (k *kit) works(r queue.DispatchRule, as queue.Admission) *working {
	n := &working{decided: make(chan queue.DeliveryAttempt, 100), began: make(chan underWay, 100)}
	ctx, stop := context.WithCancel(k.ctx)
	d := &queue.Dispatcher{
		Store: k.store, Node: "node-1", Settings: k.settings, ShutdownGrace: time.Minute,
		Rules: func() []queue.DispatchRule { return []queue.DispatchRule{r} },
		Execute: func(ctx context.Context, c queue.RunClaim, _ func(string, queue.SessionState)) queue.Outcome {
			a := underWay{c.Run, make(chan queue.Outcome, 1)}
			n.began <- a
			select {
			case o := <-a.end:
				return o
			case <-ctx.Done():
				return queue.Outcome{State: queue.Uncertain, Reason: queue.ReasonInterrupted}
			}
		},
	}
	w := &queue.Worker{
		Store: k.store, Node: "node-1", Settings: k.settings,
		Decide:  func(context.Context, *queue.DeliveryClaim) (queue.Settlement, error) { return decided(as), nil },
		Observe: func(a queue.DeliveryAttempt) { n.decided <- a },
	}
	var parts sync.WaitGroup
	for _, run := range []func(context.Context) error{d.Run, w.Run} {
		parts.Go(func() { k.check(run(ctx), "working") })
	}
	n.stop = func() { stop(); parts.Wait() }
	k.t.Cleanup(n.stop)
	return n
}

// within is what comes next from a channel.
func within[T any](k *kit, what string, from <-chan T) (next T) {
	k.Helper()
	select {
	case next = <-from:
	case <-time.After(30 * time.Second):
		k.Fatalf("%s did not come", what)
	}
	return next
}
