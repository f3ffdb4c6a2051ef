package queuetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed-de999ace/preloop/queue"
)

// tb is what a kit reports to: a test or a property's check.
type tb interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// kit is a store in a test's hands.
type kit struct {
	tb
	t        *testing.T
	ctx      context.Context
	settings queue.Settings
	store    queue.Store
	another  func(t *testing.T) queue.Store
	pass     func(d time.Duration)
	number   *int // of deliveries made, for their ids
}

func newKit(to tb, t *testing.T, o Opened, s queue.Settings) *kit {
	if o.Pass == nil {
		o.Pass = time.Sleep
	}
	return &kit{tb: to, t: t, ctx: t.Context(), settings: s, store: o.Store, another: o.Another, pass: o.Pass, number: new(int)}
}

// at is the kit with a case's name before what it reports.
func (k *kit) at(format string, args ...any) *kit {
	c := *k
	c.tb = prefixed{k.tb, fmt.Sprintf(format, args...)}
	return &c
}

// on is the kit with another handle on the same data.
func (k *kit) on(s queue.Store) *kit {
	c := *k
	c.store = s
	return &c
}

type prefixed struct {
	tb
	prefix string
}

func (p prefixed) Errorf(format string, args ...any) {
	p.Helper()
	p.tb.Errorf("%s: %s", p.prefix, fmt.Sprintf(format, args...))
}

func (p prefixed) Fatalf(format string, args ...any) {
	p.Helper()
	p.tb.Fatalf("%s: %s", p.prefix, fmt.Sprintf(format, args...))
}

func (k *kit) must(err error, doing string) {
	k.Helper()
	if err != nil {
		k.Fatalf("%s: %v", doing, err)
	}
}

// refused checks that do answers want and that nothing of the store has changed.
func (k *kit) refused(want error, what string, do func() error) {
	k.Helper()
	k.unchanged(what, func() {
		k.Helper()
		if err := do(); !errors.Is(err, want) {
			k.Errorf("%s: got error %v, want %q", what, err, want)
		}
	})
}

// same checks got against want by value; nil and empty are the same.
func (k *kit) same(what string, got, want any) {
	k.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		k.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// near checks a duration; the slack is for stores that wait in real time.
func (k *kit) near(what string, got, want time.Duration) {
	k.Helper()
	const slack = 500 * time.Millisecond
	if got < want-slack || got > want+slack {
		k.Errorf("%s is %v, want %v", what, got, want)
	}
}

// --- Deliveries ---

// delivery is a new push to acme/widgets: no subject.
func (k *kit) delivery(with ...func(*queue.Delivery)) queue.Delivery {
	*k.number++
	d := queue.Delivery{
		ID: fmt.Sprintf("guid-%04d", *k.number), Source: "app-1", SourceName: "acme-bot", Event: "push",
		Facts: queue.Facts{Repo: "acme/widgets", RepoID: 100, Sender: "octocat", Org: "acme"}, Secret: "current",
	}
	for _, w := range with {
		w(&d)
	}
	return d
}

// about gives a delivery a subject of acme/widgets.
func about(number int64) func(*queue.Delivery) { return aboutIn("acme/widgets", 100, number) }

func aboutIn(repo string, repoID, number int64) func(*queue.Delivery) {
	return func(d *queue.Delivery) {
		d.Event, d.Action, d.Repo, d.RepoID = "issues", "opened", repo, repoID
		d.Subject, d.SubjectNum = fmt.Sprintf("%s#%d", repo, number), number
	}
}

func from(source, name string) func(*queue.Delivery) {
	return func(d *queue.Delivery) { d.Source, d.SourceName = source, name }
}

func guid(id string) func(*queue.Delivery) { return func(d *queue.Delivery) { d.ID = id } }

func payloadOf(d queue.Delivery) []byte { return []byte(`{"guid":"` + d.ID + `"}`) }

// enqueue makes the store own d, as a new delivery.
func (k *kit) enqueue(d queue.Delivery) queue.Delivery {
	k.Helper()
	if got := k.offer(d); got != queue.Accepted {
		k.Fatalf("enqueueing %s: %s, want accepted", d.Key(), got)
	}
	return d
}

func (k *kit) offer(d queue.Delivery) queue.EnqueueResult {
	k.Helper()
	payload := payloadOf(d)
	d.Size = len(payload)
	r, err := k.store.Enqueue(k.ctx, d, payload)
	k.must(err, "enqueueing "+d.Key())
	return r
}

func (k *kit) claims(n int) []queue.DeliveryClaim {
	k.Helper()
	c, err := k.store.ClaimDeliveries(k.ctx, "node-1", n)
	k.must(err, "claiming deliveries")
	return c
}

// claim leases the one claimable delivery.
func (k *kit) claim() queue.DeliveryClaim {
	k.Helper()
	c := k.claims(100)
	if len(c) != 1 {
		k.Fatalf("claimed %v, want one delivery", keys(c))
	}
	return c[0]
}

// unclaimable checks that no delivery can be claimed.
func (k *kit) unclaimable(why string) {
	k.Helper()
	if c := k.claims(100); len(c) != 0 {
		k.Errorf("claimed %v, %s", keys(c), why)
	}
}

func (k *kit) settle(l queue.Lease, s queue.Settlement) queue.Settled {
	k.Helper()
	got, err := k.store.SettleDelivery(k.ctx, l, s)
	k.must(err, "settling a delivery")
	return got
}

// done settles a claim with a matched decision for each admission, and returns the runs in the
// order of the admissions.
func (k *kit) done(l queue.Lease, as ...queue.Admission) []queue.Run {
	k.Helper()
	settled := k.settle(l, decided(as...))
	byTrigger := map[string]queue.Run{}
	for _, r := range settled.Runs {
		byTrigger[r.Trigger] = r
	}
	runs := make([]queue.Run, 0, len(as))
	for _, a := range as {
		r, ok := byTrigger[a.Trigger]
		if !ok {
			k.Fatalf("no run for trigger %s; decisions %+v", a.Trigger, settled.Decisions)
		}
		runs = append(runs, r)
	}
	return runs
}

func decided(as ...queue.Admission) queue.Settlement {
	s := queue.Settlement{Kind: queue.SettleDone, Admissions: as}
	for _, a := range as {
		s.Decisions = append(s.Decisions, queue.Decision{Trigger: a.Trigger, Verdict: queue.Matched, Reason: "if: true"})
	}
	return s
}

// admit takes a new delivery through its decision and returns its runs. No other delivery may be
// claimable meanwhile.
func (k *kit) admit(d queue.Delivery, as ...queue.Admission) []queue.Run {
	k.Helper()
	k.enqueue(d)
	return k.done(k.claim().Lease, as...)
}

func (k *kit) detail(ref string) *queue.DeliveryDetail {
	k.Helper()
	d, err := k.store.Delivery(k.ctx, ref)
	k.must(err, "reading delivery "+ref)
	return d
}

// --- Runs ---

// plain is what a trigger with documented defaults asks for.
func plain(trigger string, with ...func(*queue.Admission)) queue.Admission {
	a := queue.Admission{Trigger: trigger, QueueSize: 50, QueueWait: 24 * time.Hour, UncertainAfter: 24 * time.Hour}
	for _, w := range with {
		w(&a)
	}
	return a
}

func follows(a *queue.Admission)    { a.FollowUp = true }
func idempotent(a *queue.Admission) { a.Idempotent = true }
func coalesces(a *queue.Admission)  { a.Coalesce = true }
func size(n int) func(*queue.Admission) {
	return func(a *queue.Admission) { a.QueueSize = n }
}

func serialize(key string) func(*queue.Admission) {
	return func(a *queue.Admission) { a.SerializeKey = key }
}

func rule(trigger string, concurrency int) queue.DispatchRule {
	return queue.DispatchRule{Trigger: trigger, Concurrency: concurrency}
}

func followRule(trigger string, concurrency int) queue.DispatchRule {
	return queue.DispatchRule{Trigger: trigger, Concurrency: concurrency, FollowUp: true}
}

func (k *kit) start(rules ...queue.DispatchRule) []queue.RunClaim {
	k.Helper()
	c, _, err := k.store.ClaimRuns(k.ctx, "node-1", rules, 100)
	k.must(err, "claiming runs")
	return c
}

// startOne starts the one run that may start.
func (k *kit) startOne(r queue.DispatchRule) queue.RunClaim {
	k.Helper()
	c := k.start(r)
	if len(c) != 1 {
		k.Fatalf("%d runs of %s were claimed, want one: %v", len(c), r.Trigger, runNames(c))
	}
	return c[0]
}

// started checks which deliveries' runs a claim starts, in order.
func (k *kit) started(r queue.DispatchRule, want ...queue.Run) []queue.RunClaim {
	k.Helper()
	c := k.start(r)
	var names []string
	for _, w := range want {
		names = append(names, w.DeliveryID)
	}
	var got []string
	for _, g := range c {
		got = append(got, g.DeliveryID)
	}
	if !cmp.Equal(got, names, cmpopts.EquateEmpty()) {
		k.Fatalf("runs of deliveries %v were claimed, want those of %v", runNames(c), names)
	}
	return c
}

func (k *kit) settleRun(l queue.Lease, o queue.Outcome) *queue.Run {
	k.Helper()
	r, err := k.store.SettleRun(k.ctx, l, o)
	k.must(err, "settling a run")
	return r
}

func (k *kit) sweep() int {
	k.Helper()
	n, err := k.store.SweepRuns(k.ctx)
	k.must(err, "sweeping runs")
	return n
}

func (k *kit) run(id string) *queue.RunDetail {
	k.Helper()
	r, err := k.store.Run(k.ctx, id)
	k.must(err, "reading run "+id)
	return r
}

// is checks a run's state, and its reason if one is given.
func (k *kit) is(id string, state queue.RunState, reason ...string) *queue.RunDetail {
	k.Helper()
	r := k.run(id)
	if r.State != state || len(reason) > 0 && r.Reason != reason[0] {
		k.Errorf("the run of %s is %s %q, want %s %q", r.DeliveryID, r.State, r.Reason, state, strings.Join(reason, ""))
	}
	if r.State.Ended() == r.FinishedAt.IsZero() {
		k.Errorf("the run of %s is %s and finished at %v", r.DeliveryID, r.State, r.FinishedAt)
	}
	return r
}

func keys(c []queue.DeliveryClaim) []string {
	var list []string
	for i := range c {
		list = append(list, c[i].Delivery.Key())
	}
	return list
}

func runNames(c []queue.RunClaim) []string {
	var list []string
	for _, r := range c {
		list = append(list, fmt.Sprintf("%s(%s %s)", r.DeliveryID, r.Kind, r.State))
	}
	return list
}

func key(d queue.Delivery) string { return d.Key() }
