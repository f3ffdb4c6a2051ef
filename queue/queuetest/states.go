package queuetest

import (
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// deliveryState makes a delivery that stands somewhere in its life.
type deliveryState struct {
	name  string
	state queue.DeliveryState
	make  func(k *kit) (queue.Delivery, queue.Lease)
}

// deliveryStates are the places a delivery can stand in. The lease is the one that it has or had.
var deliveryStates = []deliveryState{
	{"received", queue.Received, func(k *kit) (queue.Delivery, queue.Lease) {
		return k.enqueue(k.delivery()), queue.Lease{}
	}},
	{"received, to be tried again", queue.Received, settledAs(queue.Settlement{Kind: queue.SettleRetry, Error: "boom"})},
	{"received, parked", queue.Received, settledAs(queue.Settlement{Kind: queue.SettlePark, Wait: time.Hour})},
	{"received, released", queue.Received, settledAs(queue.Settlement{Kind: queue.SettleRelease})},
	{"processing", queue.Processing, func(k *kit) (queue.Delivery, queue.Lease) {
		return k.enqueue(k.delivery()), k.claim().Lease
	}},
	{"processing, lease expired", queue.Processing, func(k *kit) (queue.Delivery, queue.Lease) {
		d, l := k.enqueue(k.delivery()), k.claim().Lease
		k.pass(k.settings.Lease + time.Second)
		return d, l
	}},
	{"done", queue.Done, settledAs(decided(plain("deploy")))},
	{"failed", queue.Failed, settledAs(queue.Settlement{Kind: queue.SettleFail, Error: "boom"})},
}

func settledAs(s queue.Settlement) func(k *kit) (queue.Delivery, queue.Lease) {
	return func(k *kit) (queue.Delivery, queue.Lease) {
		d, l := k.enqueue(k.delivery()), k.claim().Lease
		k.settle(l, s)
		return d, l
	}
}

// runState makes a run of a trigger that stands somewhere in its life. No other delivery may be
// claimable meanwhile.
type runState struct {
	name     string
	state    queue.RunState
	kind     queue.RunKind
	held     bool // a worker holds its lease
	accepted bool // it runs without a worker
	make     func(k *kit, trigger string) queue.RunClaim
}

// runStates are the places a run can stand in. A start's subject is issue 7 and its trigger does
// not follow up; a follow-up's is handed to a run that is under way.
var runStates = []runState{
	{name: "waiting", state: queue.Waiting, kind: queue.Start, make: func(k *kit, trigger string) queue.RunClaim {
		return queue.RunClaim{Run: k.admit(k.delivery(about(7)), plain(trigger))[0]}
	}},
	{name: "waiting for its next attempt", state: queue.Waiting, kind: queue.Start, make: outcomes(queue.Outcome{State: queue.Waiting})},
	{name: "running", state: queue.Running, kind: queue.Start, held: true, make: outcomes()},
	{name: "running, accepted", state: queue.Running, kind: queue.Start, accepted: true, make: func(k *kit, trigger string) queue.RunClaim {
		return outcomes(accepted(time.Hour))(k, trigger)
	}},
	{name: "uncertain", state: queue.Uncertain, kind: queue.Start, make: outcomes(queue.Outcome{State: queue.Uncertain, Reason: queue.ReasonInterrupted})},
	{name: "succeeded", state: queue.Succeeded, kind: queue.Start, make: outcomes(queue.Outcome{State: queue.Succeeded})},
	{name: "failed", state: queue.RunFailed, kind: queue.Start, make: outcomes(queue.Outcome{State: queue.RunFailed, Error: "exit status 1"})},
	{name: "canceled", state: queue.Canceled, kind: queue.Start, make: func(k *kit, trigger string) queue.RunClaim {
		r := k.admit(k.delivery(about(7)), plain(trigger))[0]
		_, err := k.store.CancelRun(k.ctx, r.ID)
		k.must(err, "canceling a waiting run")
		return queue.RunClaim{Run: r}
	}},
	{name: "dropped, queue full", state: queue.Dropped, kind: queue.Start, make: func(k *kit, trigger string) queue.RunClaim {
		k.admit(k.delivery(about(7)), plain(trigger, size(1)))
		return queue.RunClaim{Run: k.admit(k.delivery(about(7)), plain(trigger, size(1)))[0]}
	}},
	{name: "dropped, expired", state: queue.Dropped, kind: queue.Start, make: func(k *kit, trigger string) queue.RunClaim {
		r := k.admit(k.delivery(about(7)), plain(trigger))[0]
		k.pass(24*time.Hour + time.Second)
		k.sweep()
		return queue.RunClaim{Run: r}
	}},
	{name: "dropped, superseded", state: queue.Dropped, kind: queue.Start, make: func(k *kit, trigger string) queue.RunClaim {
		r := k.admit(k.delivery(about(7)), plain(trigger, coalesces))[0]
		k.admit(k.delivery(about(7)), plain(trigger, coalesces))
		return queue.RunClaim{Run: r}
	}},
	{name: "follow-up, waiting", state: queue.Waiting, kind: queue.FollowUp, make: func(k *kit, trigger string) queue.RunClaim {
		k.admit(k.delivery(about(7)), plain(trigger, follows))
		return queue.RunClaim{Run: k.admit(k.delivery(about(7)), plain(trigger, follows))[0]}
	}},
	{name: "follow-up, routing", state: queue.Routing, kind: queue.FollowUp, held: true, make: handOvers()},
	{name: "follow-up, to be tried again", state: queue.Routing, kind: queue.FollowUp, make: handOvers(queue.Outcome{State: queue.Waiting})},
	{name: "follow-up, uncertain", state: queue.Uncertain, kind: queue.FollowUp, make: handOvers(queue.Outcome{State: queue.Uncertain, Reason: queue.ReasonUnconfirmed})},
	{name: "follow-up, delivered", state: queue.Delivered, kind: queue.FollowUp, make: handOvers(queue.Outcome{State: queue.Delivered})},
	{name: "follow-up, failed", state: queue.RunFailed, kind: queue.FollowUp, make: handOvers(queue.Outcome{State: queue.RunFailed})},
}

// outcomes starts a run and settles it so; without an outcome it stays running.
func outcomes(os ...queue.Outcome) func(k *kit, trigger string) queue.RunClaim {
	return func(k *kit, trigger string) queue.RunClaim {
		k.admit(k.delivery(about(7)), plain(trigger))
		c := k.startOne(rule(trigger, 1))
		for _, o := range os {
			k.settleRun(c.Lease, o)
		}
		return c
	}
}

// handOvers hands a follow-up to a run that is under way and settles it so; without an outcome it
// stays routing.
func handOvers(os ...queue.Outcome) func(k *kit, trigger string) queue.RunClaim {
	return func(k *kit, trigger string) queue.RunClaim {
		k.admit(k.delivery(about(7)), plain(trigger, follows))
		k.startOne(followRule(trigger, 1))
		k.admit(k.delivery(about(7)), plain(trigger, follows))
		c := k.startOne(followRule(trigger, 1))
		for _, o := range os {
			k.settleRun(c.Lease, o)
		}
		return c
	}
}

// accepted is the answer of a target that finishes by itself, within d.
func accepted(d time.Duration) queue.Outcome {
	return queue.Outcome{State: queue.Running, Session: "chat-1", Deadline: time.Now().Add(d)}
}

// eachRunState does something to a run in each state, each with a trigger of its own.
func eachRunState(k *kit, do func(k *kit, s runState, c queue.RunClaim)) {
	for i, s := range runStates {
		inRunState(k, s, "trigger-"+string(rune('a'+i)), do)
	}
}

func inRunState(k *kit, s runState, trigger string, do func(k *kit, s runState, c queue.RunClaim)) {
	k = k.at("%s", s.name)
	c := s.make(k, trigger)
	r := k.run(c.ID)
	if r.State != s.state || r.Kind != s.kind {
		k.Fatalf("the run was to be a %s that is %s, it is a %s that is %s", s.kind, s.state, r.Kind, r.State)
	}
	do(k, s, c)
}
