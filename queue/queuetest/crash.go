package queuetest

import (
	"fmt"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// steps are the moments of one attempt at a run, in their order. Before the first the run waits;
// from the intent on until its outcome is written, nobody but the target can say what happened.
var steps = []struct {
	at               moment
	waits, ambiguous bool
	started, ended   int64
}{
	{at: moment{"ClaimRuns", false}, waits: true},
	{at: moment{"ClaimRuns", true}, ambiguous: true}, // the intent is written
	{at: moment{"Execute", false}, ambiguous: true, started: 1},
	{at: moment{"RenewRuns", false}, ambiguous: true, started: 1, ended: 1},
	{at: moment{"RenewRuns", true}, ambiguous: true, started: 1, ended: 1},
	{at: moment{"ReportSession", false}, ambiguous: true, started: 1, ended: 1},
	{at: moment{"ReportSession", true}, ambiguous: true, started: 1, ended: 1},
	{at: moment{"Execute", true}, ambiguous: true, started: 1, ended: 1},
	{at: moment{"SettleRun", false}, ambiguous: true, started: 1, ended: 1},
	{at: moment{"SettleRun", true}, started: 1, ended: 1}, // the outcome is written
}

// fates are the kinds of run that a crash can meet.
var fates = []struct {
	name      string
	kind      queue.RunKind
	with      func(*queue.Admission)
	outcome   queue.Outcome
	ambiguous queue.RunState // what another node makes of it where nobody knows
	settled   queue.RunState // what its outcome makes of it
}{
	{"succeeds", queue.Start, follows, queue.Outcome{State: queue.Succeeded}, queue.Uncertain, queue.Succeeded},
	{"fails", queue.Start, follows, queue.Outcome{State: queue.RunFailed}, queue.Uncertain, queue.RunFailed},
	{"is to be tried again", queue.Start, follows, queue.Outcome{State: queue.Waiting}, queue.Uncertain, queue.Waiting},
	{"is idempotent", queue.Start, func(a *queue.Admission) { follows(a); idempotent(a) }, queue.Outcome{State: queue.Succeeded}, queue.Waiting, queue.Succeeded},
	{"is handed over", queue.FollowUp, follows, queue.Outcome{State: queue.Delivered}, queue.Uncertain, queue.Delivered},
	{"is handed over, idempotent", queue.FollowUp, func(a *queue.Admission) { follows(a); idempotent(a) }, queue.Outcome{State: queue.Delivered}, queue.Routing, queue.Delivered},
}

// crashTests kill a node at every step between intent, start, end and settlement, and have another
// one take over.
var crashTests = []test{
	{name: "a run's node, at every step", do: func(k *kit) {
		for i, f := range fates {
			for j, s := range steps {
				k := k.at("a run that %s, %s", f.name, s.at)
				c := crash{kit: k, trigger: fmt.Sprintf("trigger-%d-%d", i, j), issue: int64(100*i + j + 1), at: s.at}
				run, n := c.happens(f.kind, f.with, f.outcome)
				if n.started.Load() != s.started || n.ended.Load() != s.ended {
					k.Errorf("the target was reached %d times and ended %d times, want %d and %d", n.started.Load(), n.ended.Load(), s.started, s.ended)
				}
				switch {
				case s.waits:
					k.is(run.ID, queue.Waiting)
					c.goesOn(run, 1)
				case !s.ambiguous:
					k.is(run.ID, f.settled)
					if f.settled == queue.Waiting {
						c.goesOn(run, 2)
					}
				case f.ambiguous == queue.Uncertain:
					k.is(run.ID, queue.Uncertain, queue.ReasonWorkerLost)
					c.waitsForAWord(run)
				default:
					k.is(run.ID, f.ambiguous)
					c.goesOn(run, 2)
				}
			}
		}
		k.recount()
	}},
	{name: "a run that needs no worker outlives its node", do: func(k *kit) {
		c := crash{kit: k, trigger: "deploy", issue: 7, at: moment{"SettleRun", true}}
		run, _ := c.happens(queue.Start, follows, queue.Outcome{State: queue.Running, Session: "chat-7", Deadline: time.Now().Add(48 * time.Hour)})
		k.session(run.ID, queue.SessionLive)
		_, err := k.store.FinishRun(k.ctx, run.ID, queue.Finish{As: queue.Succeeded})
		k.must(err, "finishing")
		k.is(run.ID, queue.Succeeded)
	}},
	{name: "the node that asks after an uncertain run", do: func(k *kit) {
		for i, c := range []struct {
			at   moment
			want queue.RunState
		}{
			{moment{"ClaimProbes", false}, queue.Uncertain},
			{moment{"ClaimProbes", true}, queue.Uncertain},
			{moment{"SettleProbe", false}, queue.Uncertain},
			{moment{"SettleProbe", true}, queue.Succeeded},
		} {
			k, trigger := k.at("%s", c.at), fmt.Sprint("trigger-", i)
			run := k.uncertain(queue.Start, trigger)
			k.lives(c.at, rule(trigger, 1), queue.Outcome{State: queue.Succeeded})
			k.takeOver()
			k.is(run.ID, c.want)
			if c.want == queue.Uncertain { // it is asked again
				k.pass(2 * time.Second)
				_, err := k.store.SettleProbe(k.ctx, k.probe(trigger).Lease, queue.ProbeHappened)
				k.must(err, "settling")
				k.is(run.ID, queue.Succeeded)
			}
		}
	}},
	{name: "the node that decides", do: func(k *kit) {
		d := k.enqueue(k.delivery())
		k.claim() // and no more is heard of it
		k.takeOver()
		if n := len(k.detail(d.ID).Runs); n != 0 {
			k.Errorf("it has %d runs before it is decided", n)
		}
		c := k.claim()
		if c.Attempts != 2 {
			k.Errorf("it is decided in attempt %d, want 2", c.Attempts)
		}
		k.done(c.Lease, plain("deploy"))
		k.takeOver()
		k.unclaimable("though it is decided")
		if n := len(k.detail(d.ID).Runs); n != 1 {
			k.Errorf("in the end it has %d runs", n)
		}
	}},
}

// crash is one node's end, with a trigger and an issue of its own.
type crash struct {
	*kit
	trigger string
	issue   int64
	at      moment
}

func (c crash) rule() queue.DispatchRule { return followRule(c.trigger, 1) }

// happens admits a run of the kind, kills the node that executes it, and lets another one look.
func (c crash) happens(kind queue.RunKind, with func(*queue.Admission), outcome queue.Outcome) (queue.Run, *life) {
	c.Helper()
	as := plain(c.trigger, with)
	if kind == queue.FollowUp {
		c.admit(c.delivery(about(c.issue)), as)
		c.settleRun(c.startOne(c.rule()).Lease, accepted(48*time.Hour))
	}
	run := c.admit(c.delivery(about(c.issue)), as)[0]
	if run.Kind != kind {
		c.Fatalf("the run is a %s, want a %s", run.Kind, kind)
	}
	n := c.lives(c.at, c.rule(), outcome)
	c.takeOver()
	return run, n
}

// goesOn: the run is begun as its so many-th attempt, under the same id, and by nobody else.
func (c crash) goesOn(run queue.Run, attempt int) {
	c.Helper()
	c.pass(2 * time.Second)
	got := c.startOne(c.rule())
	if got.ID != run.ID || got.Attempts != attempt {
		c.Errorf("what goes on is %s, attempt %d; want %s, attempt %d", got.DeliveryID, got.Attempts, run.DeliveryID, attempt)
	}
	c.settleRun(got.Lease, queue.Outcome{State: queue.Happened(got.Kind)})
}

// waitsForAWord: nobody begins the run again before somebody says that it did not happen. It holds
// no slot meanwhile.
func (c crash) waitsForAWord(run queue.Run) {
	c.Helper()
	c.pass(time.Hour)
	c.started(c.rule())
	if n := c.stats()[c.trigger].Running; run.Kind == queue.Start && n != 0 {
		c.Errorf("it holds a slot")
	}
	_, err := c.store.SettleProbe(c.ctx, c.probe(c.trigger).Lease, queue.ProbeDidNot)
	c.must(err, "settling a probe")
	c.goesOn(run, 2)
}
