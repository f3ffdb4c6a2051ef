package queuetest

import (
	"flag"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/seed-de999ace/preloop/queue"
)

// modelChecks is how many random lives a store is led through; -rapid.checks says otherwise, and
// -rapid.steps how long each is.
const modelChecks = 10

// checkModel leads stores through random lives: arrivals, claims, crashes, lost answers, outcomes,
// reloads, pauses, replays, operators. After every step all laws must hold, and at the end everything must come to its end.
func checkModel(t *testing.T, in inside, open func(t *testing.T, s queue.Settings) Opened) {
	checks, failed := modelChecks, false
	flag.Visit(func(f *flag.Flag) {
		if f.Name == "rapid.checks" || f.Name == "rapid.failfile" {
			checks = 1 << 30
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		if checks--; checks < 0 && !failed {
			return // rapid's own default is a hundred
		}
		// A failure unwinds as a panic, which must leave the bubble to reach rapid.
		var stopped any
		in(t, func(t *testing.T) {
			defer func() { stopped = recover() }()
			settings := queue.DefaultSettings()
			m := newModel(newKit(rt, t, open(t, settings), settings), rt)
			rt.Repeat(m.steps())
			m.finish()
		})
		if stopped != nil {
			failed = true
			panic(stopped)
		}
	})
}

// model is what must be true of a store, beside the store.
type model struct {
	*kit
	rt         *rapid.T
	now        time.Duration // that has passed
	deliveries map[string]*modelDelivery
	order      []string // keys of deliveries, as they arrived
	held       []heldDelivery
	runs       []heldRun
	paused     map[string]bool
	seen       map[string]queue.Run // runs as the last step left them
	reopened   map[string]bool      // runs that this step may lead out of an ended state
	matched    map[string]string    // the events that matched and must have a run: its name, and its delivery's key
	begun      map[string]bool      // runs that may have had their effect, by id: nobody may begin them again
	nodes      [2]modelNode
	rules      []queue.DispatchRule // as the newest node knows them; a trigger may be gone
}

// modelDelivery is what the model knows of a delivery for certain.
type modelDelivery struct {
	queue.Delivery
	state      queue.DeliveryState
	attempts   int
	generation int
	token      int64
	until      time.Duration // end of its lease
	due        time.Duration
}

type heldDelivery struct {
	key   string
	lease queue.Lease
}

type heldRun struct {
	queue.RunClaim
	until   time.Duration
	touched bool // an operator may have taken it away
}

// blur is how near to a deadline both answers are right, for stores that wait in real time.
const blur = 2 * time.Second

// modelTriggers are few, so that their limits are met.
var modelTriggers = []struct {
	rule queue.DispatchRule
	ask  func(d queue.Delivery) queue.Admission
}{
	{rule("plain", 2), func(queue.Delivery) queue.Admission { return plain("plain", size(3)) }},
	{rule("serial", 3), func(d queue.Delivery) queue.Admission {
		return plain("serial", size(4), idempotent, serialize(d.SubjectKey()))
	}},
	{rule("latest", 1), func(queue.Delivery) queue.Admission { return plain("latest", size(2), coalesces) }},
	{followRule("chat", 1), func(queue.Delivery) queue.Admission { return plain("chat", size(4), follows) }},
}

func newModel(k *kit, rt *rapid.T) *model {
	return &model{
		kit: k, rt: rt, deliveries: map[string]*modelDelivery{}, paused: map[string]bool{}, seen: map[string]queue.Run{}, reopened: map[string]bool{},
		matched: map[string]string{}, begun: map[string]bool{}, rules: allRules(),
	}
}

func allRules() []queue.DispatchRule {
	var rules []queue.DispatchRule
	for _, t := range modelTriggers {
		rules = append(rules, t.rule)
	}
	return rules
}

func pick[T any](m *model, what string, from ...T) T {
	return rapid.SampledFrom(from).Draw(m.rt, what)
}

// steps are all that can happen to a store; what is more likely has several names. A step that
// finds nothing to do passes.
func (m *model) steps() map[string]func(*rapid.T) {
	some := func(do func()) func(*rapid.T) { return func(*rapid.T) { do() } }
	return map[string]func(*rapid.T){
		"":           some(m.laws),
		"burst":      some(m.burst),
		"burst two":  some(m.burst),
		"burst more": some(m.burst),
		"arrive":     some(m.arrive),
		"redeliver":  some(m.redeliver),
		"claim":      some(m.claimSome),
		"decide":     some(m.decide),
		"settle":     some(m.settleOne),
		"renew":      some(m.renewAll),
		"crash":      some(m.crash),
		"take over":  some(m.takeOver),
		"lose":       some(m.loseClaim),
		"reload":     some(m.reload),
		"heartbeat":  some(m.heartbeats),
		"pass":       some(m.passSome),
		"pass more":  some(m.passSome),
		"dispatch":   some(m.dispatch),
		"go on":      some(m.dispatch),
		"and on":     some(m.dispatch),
		"outcome":    some(m.outcome),
		"another":    some(m.outcome),
		"more":       some(m.outcome),
		"sweep":      some(func() { m.sweep() }),
		"probe":      some(m.probeSome),
		"pause":      some(m.pauseOrResume),
		"replay":     some(m.replaySome),
		"operate":    some(m.operate),
		"operators":  some(m.operate),
		"prune":      some(m.pruneSome),
	}
}
