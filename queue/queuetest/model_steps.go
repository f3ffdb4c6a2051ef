package queuetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

func (m *model) arrive() {
	d := m.delivery(from("app-1", "acme-bot"))
	if issue := pick(m, "issue", 0, 1, 1, 2); issue > 0 {
		about(int64(issue))(&d)
	}
	if len(m.order) > 0 && pick(m, "second source", false, false, false, false, true) {
		first := m.deliveries[pick(m, "first", m.order...)]
		d = first.Delivery
		from("hook-2", "widgets")(&d)
	}
	key := d.Source + "/" + d.ID
	want := queue.Accepted
	if m.deliveries[key] != nil {
		return // it came through both already
	}
	if got := m.offer(d); got != want {
		m.Fatalf("%s: %s, want %s", key, got, want)
	}
	m.deliveries[key] = &modelDelivery{Delivery: d, state: queue.Received, due: m.now}
	m.order = append(m.order, key)
}

// burst takes some events all the way through their decisions.
func (m *model) burst() {
	for range pick(m, "events", 2, 3, 5) {
		m.arrive()
	}
	m.claimSome()
	for len(m.held) > 0 {
		m.decide()
	}
}

func (m *model) redeliver() {
	if len(m.order) == 0 {
		return
	}
	d := m.deliveries[pick(m, "delivery", m.order...)]
	want := queue.Duplicate
	if d.state == queue.Failed {
		want = queue.Requeued
		d.state, d.attempts, d.due = queue.Received, 0, m.now
	}
	if got := m.offer(d.Delivery); got != want {
		m.Fatalf("redelivered %s: %s, want %s", d.ID, got, want)
	}
}

func (m *model) claimSome() {
	node := pick(m, "node", 0, 1)
	claims, err := m.store.ClaimDeliveries(m.ctx, nodeName(node), pick(m, "n", 1, 2, 5))
	m.must(err, "claiming deliveries")
	if stale := m.stale(node); stale && len(claims) > 0 {
		m.Fatalf("%s was claimed by a node whose triggers are old", claims[0].ID)
	}
	var last int64
	for _, c := range claims {
		key := c.Source + "/" + c.ID
		d := m.deliveries[key]
		switch {
		case d == nil:
			m.Fatalf("claimed %s, which nobody has received", key)
		case c.Seq <= last:
			m.Fatalf("claimed %s out of order", key)
		case c.Attempts != d.attempts+1 || c.Attempts > m.settings.MaxAttempts || c.Generation != d.generation:
			m.Fatalf("claimed %s as attempt %d of generation %d, after %d of %d", key, c.Attempts, c.Generation, d.attempts, d.generation)
		case d.state.Terminal(), d.state == queue.Received && d.due > m.now+blur, d.state == queue.Processing && d.until > m.now+blur:
			m.Fatalf("claimed %s, which is %s", key, d.state)
		}
		last = c.Seq
		d.state, d.attempts, d.token, d.until = queue.Processing, c.Attempts, c.Lease.Token, m.now+m.settings.Lease
		m.held = append(m.held, heldDelivery{key, c.Lease})
	}
	// What has spent its attempts becomes failed when a claim meets it.
	for _, key := range m.order {
		d := m.deliveries[key]
		if d.state == queue.Processing && d.attempts == m.settings.MaxAttempts && d.until <= m.now+blur && m.detail(key).State == queue.Failed {
			d.state = queue.Failed
		}
	}
}

// decide settles a held delivery as done, for some triggers.
func (m *model) decide() {
	m.settleAs(func(d queue.Delivery) queue.Settlement {
		var as []queue.Admission
		for _, t := range modelTriggers {
			if pick(m, t.rule.Trigger, true, true, true, false) {
				as = append(as, t.ask(d))
			}
		}
		return decided(as...)
	})
}

func (m *model) settleOne() {
	m.settleAs(func(queue.Delivery) queue.Settlement {
		return pick(m, "settlement",
			queue.Settlement{Kind: queue.SettleRetry, Error: "boom"},
			queue.Settlement{Kind: queue.SettleFail, Error: "boom"},
			queue.Settlement{Kind: queue.SettlePark, Error: "limit", Wait: 10 * time.Second},
			queue.Settlement{Kind: queue.SettleRelease})
	})
}

func (m *model) settleAs(as func(d queue.Delivery) queue.Settlement) {
	if len(m.held) == 0 {
		return
	}
	i := pick(m, "held", indices(m.held)...)
	h := m.held[i]
	m.held = slices.Delete(m.held, i, i+1)
	d := m.deliveries[h.key]
	if d == nil {
		return // pruned, long after its lease was lost
	}
	s := as(d.Delivery)
	before := m.listRuns(queue.RunFilter{Limit: 500})
	got, err := m.store.SettleDelivery(m.ctx, h.lease, s)
	mine := d.state == queue.Processing && d.token == h.lease.Token
	switch {
	case errors.Is(err, queue.ErrLeaseLost):
		if mine && d.until > m.now+blur {
			m.Fatalf("%s: the lease was lost before its time", h.key)
		}
		return
	case err != nil:
		m.Fatalf("settling %s: %v", h.key, err)
	case !mine || d.until < m.now-blur:
		m.Fatalf("%s was settled with a lease that was lost", h.key)
	}
	next := m.settings.NextState(s.Kind, d.attempts, 0, s.Wait, s.Outage)
	if next.Refund {
		d.attempts--
	}
	if d.state, d.due = next.State, m.now+next.Wait; got.State != d.state {
		m.Fatalf("%s was settled as %s, want %s", h.key, got.State, d.state)
	}
	for _, decision := range got.Decisions {
		if decision.Verdict == queue.Matched {
			m.matched[fmt.Sprintf("%s/%s/%d", decision.Trigger, h.key, d.generation)] = h.key
		}
	}
	m.admittedWithin(before, s.Admissions, got)
}

// renewAll also shows that a lost lease cannot be had again.
func (m *model) renewAll() {
	var leases []queue.Lease
	for _, h := range m.held {
		leases = append(leases, h.lease)
	}
	held := m.renew(leases...)
	for _, h := range m.held {
		d := m.deliveries[h.key]
		renewed := slices.ContainsFunc(held, func(l queue.Lease) bool { return l.Row == h.lease.Row && l.Token == h.lease.Token })
		mine := d != nil && d.state == queue.Processing && d.token == h.lease.Token
		if renewed && (!mine || d.until < m.now-blur) || !renewed && mine && d.until > m.now+blur {
			m.Fatalf("%s: renewed %v", h.key, renewed)
		}
		if renewed {
			d.until = m.now + m.settings.Lease
		}
	}
	leases = nil
	for _, r := range m.runs {
		leases = append(leases, r.Lease)
	}
	for _, l := range m.renewRuns(leases...) {
		for i := range m.runs {
			if r := &m.runs[i]; r.Lease.Row == l.Row && r.Lease.Token == l.Token {
				if r.until < m.now-blur {
					m.Fatalf("the run %s was renewed after its lease", name(r.Run))
				}
				r.until = m.now + m.settings.Lease
			}
		}
	}
}

func (m *model) passSome() {
	d := pick(m, "time", time.Second, time.Second, 7*time.Second, 7*time.Second, 31*time.Second, 61*time.Second, 11*time.Minute, 25*time.Hour)
	m.pass(d)
	m.now += d
}

func (m *model) dispatch() {
	for _, c := range m.claimRuns() {
		m.runs = append(m.runs, heldRun{RunClaim: c, until: m.now + m.settings.Lease})
		m.begun[c.ID] = true
	}
}

// claimRuns starts what may start, by all rules or by those that are left of them.
func (m *model) claimRuns() []queue.RunClaim {
	limit := pick(m, "max", 1, 3, 100)
	claims, _, err := m.store.ClaimRuns(m.ctx, "node-1", m.rules, limit)
	m.must(err, "claiming runs")
	if len(claims) > limit {
		m.Fatalf("%d runs were claimed, want %d at most", len(claims), limit)
	}
	m.startedInOrder(m.rules, claims, len(claims) < limit)
	for _, c := range claims {
		if m.begun[c.ID] && c.Trigger != "serial" { // that one is idempotent
			m.Fatalf("%s is begun again, and nobody has said that it did not happen", name(c.Run))
		}
	}
	return claims
}

// outcome ends an attempt at a run in some way.
func (m *model) outcome() {
	if len(m.runs) == 0 {
		return
	}
	i := pick(m, "run", indices(m.runs)...)
	r := m.runs[i]
	m.runs = slices.Delete(m.runs, i, i+1)
	if pick(m, "release", false, false, false, true) {
		if m.fenced(r, m.store.ReleaseRun(m.ctx, r.Lease)) {
			delete(m.begun, r.ID)
		}
		return
	}
	outcomes := []queue.Outcome{
		{State: queue.Succeeded},
		{State: queue.Succeeded, Session: "chat-" + r.DeliveryID, SessionState: queue.SessionSleeping},
		{State: queue.RunFailed},
		{State: queue.Uncertain, Reason: queue.ReasonInterrupted},
		{State: queue.Waiting},
		accepted(time.Hour),
		{State: queue.Canceled},
		{State: queue.Waiting, Refund: true, RetryAfter: time.Second},
	}
	if r.Kind == queue.FollowUp {
		outcomes = []queue.Outcome{
			{State: queue.Delivered},
			{State: queue.Delivered, SessionState: queue.SessionEnded},
			{State: queue.RunFailed},
			{State: queue.Uncertain, Reason: queue.ReasonUnconfirmed},
			{State: queue.Waiting},
			{State: queue.Waiting, SessionEnded: true},
		}
	}
	o := pick(m, "outcome", outcomes...)
	got, err := m.store.SettleRun(m.ctx, r.Lease, o)
	if !m.fenced(r, err) {
		return
	}
	if o.State == queue.Waiting {
		delete(m.begun, r.ID)
	}
	can := []queue.RunState{o.State, queue.Canceled}
	switch o.State {
	case queue.Waiting, queue.Uncertain:
		can = append(can, queue.Waiting, queue.Routing, queue.RunFailed)
	case queue.Succeeded, queue.RunFailed, queue.Delivered:
		can = can[:1]
	}
	if !slices.Contains(can, got.State) {
		m.Fatalf("%s was settled with %s and is %s", name(r.Run), o.State, got.State)
	}
}

// fenced checks the answer to a settlement against the lease, and says whether it counted.
func (m *model) fenced(r heldRun, err error) bool {
	switch {
	case errors.Is(err, queue.ErrLeaseLost):
		if !r.touched && r.until > m.now+blur {
			m.Fatalf("the lease of %s was lost before its time", name(r.Run))
		}
		return false
	case err != nil:
		m.Fatalf("settling %s: %v", name(r.Run), err)
	case r.until < m.now-blur:
		m.Fatalf("%s was settled with a lease that was lost", name(r.Run))
	}
	return true
}

func (m *model) probeSome() {
	claims, err := m.store.ClaimProbes(m.ctx, "node-1", []string{"plain", "chat", "latest"}, 3)
	m.must(err, "claiming probes")
	for _, c := range claims {
		if c.State != queue.Uncertain {
			m.Fatalf("%s is probed and is %s", name(c.Run), c.State)
		}
		if answer := pick(m, "answer", -1, int(queue.ProbeUnknown), int(queue.ProbeHappened), int(queue.ProbeDidNot)); answer >= 0 {
			_, err := m.store.SettleProbe(m.ctx, c.Lease, queue.ProbeAnswer(answer))
			m.must(err, "settling a probe of "+name(c.Run))
			if queue.ProbeAnswer(answer) == queue.ProbeDidNot {
				delete(m.begun, c.ID)
			}
		}
	}
}

func (m *model) pauseOrResume() {
	t := pick(m, "trigger", modelTriggers...).rule.Trigger
	if m.paused[t] {
		m.resume(t)
	} else {
		m.pause(t)
	}
	m.now += 2 * time.Second
	m.paused[t] = !m.paused[t]
}

func (m *model) replaySome() {
	if len(m.order) == 0 {
		return
	}
	key := pick(m, "delivery", m.order...)
	d := m.deliveries[key]
	_, err := m.store.Replay(m.ctx, key, queue.ReplayOptions{})
	if !d.state.Terminal() {
		if !errors.Is(err, queue.ErrConflict) {
			m.Fatalf("replaying %s, which is %s: %v", key, d.state, err)
		}
		return
	}
	m.must(err, "replaying "+key)
	d.state, d.attempts, d.due = queue.Received, 0, m.now
	d.generation++
}

// actions are an operator's, with the states that allow them.
var actions = []struct {
	name string
	from []queue.RunState
}{
	{"cancel", []queue.RunState{queue.Waiting, queue.Running, queue.Routing, queue.Uncertain}},
	{"retry", []queue.RunState{queue.RunFailed, queue.Uncertain, queue.Canceled, queue.Dropped}},
	{"resolve", []queue.RunState{queue.Uncertain}},
	{"finish", []queue.RunState{queue.Running, queue.Uncertain}},
}

// operate does something to some run, rather something possible.
func (m *model) operate() {
	runs := m.listRuns(queue.RunFilter{Limit: 500})
	if len(runs) == 0 {
		return
	}
	slices.Reverse(runs) // an index names the same run while others arrive
	r := runs[pick(m, "run", indices(runs)...)]
	likely := indices(actions)
	for i, a := range actions {
		if slices.Contains(a.from, r.State) {
			likely = append(likely, i, i, i)
		}
	}
	a := actions[pick(m, "action", likely...)]
	what, can := a.name, a.from
	var err error
	switch what {
	case "cancel":
		_, err = m.store.CancelRun(m.ctx, r.ID)
	case "retry":
		_, err = m.store.RetryRun(m.ctx, r.ID)
		m.reopened[r.ID] = true
		if err == nil {
			delete(m.begun, r.ID)
		}
	case "resolve":
		_, err = m.store.ResolveRun(m.ctx, r.ID, pick(m, "as", queue.Succeeded, queue.RunFailed))
	case "finish":
		_, err = m.store.FinishRun(m.ctx, r.ID, queue.Finish{As: queue.Succeeded, SessionState: pick(m, "session", queue.SessionSleeping, queue.SessionEnded, "")})
	}
	possible := slices.Contains(can, r.State)
	if (err == nil) != possible || err != nil && !errors.Is(err, queue.ErrConflict) {
		m.Fatalf("%s of %s, which is %s: %v", what, name(r), r.State, err)
	}
	for i := range m.runs {
		m.runs[i].touched = m.runs[i].touched || m.runs[i].ID == r.ID
	}
}

func (m *model) pruneSome() {
	before := m.listDeliveries(queue.DeliveryFilter{Limit: 500})
	n, err := m.store.Prune(m.ctx, 3)
	m.must(err, "pruning")
	left := map[string]bool{}
	for _, d := range m.listDeliveries(queue.DeliveryFilter{Limit: 500}) {
		left[d.Source+"/"+d.ID] = true
	}
	for _, d := range before {
		key := d.Source + "/" + d.ID
		if left[key] {
			continue
		}
		n--
		if !d.State.Terminal() || time.Since(d.FinishedAt) < m.settings.Keep-blur {
			m.Fatalf("pruned %s, which is %s", key, d.State)
		}
		delete(m.deliveries, key)
		m.order = slices.DeleteFunc(m.order, func(k string) bool { return k == key })
		for id, r := range m.seen {
			if r.Source+"/"+r.DeliveryID == key {
				if !r.State.Ended() || time.Since(r.FinishedAt) < m.settings.Keep-blur {
					m.Fatalf("pruned %s with the run %s, which is %s", key, name(r), r.State)
				}
				delete(m.seen, id)
			}
		}
	}
	if n != 0 {
		m.Fatalf("the number of pruned deliveries is wrong by %d", n)
	}
}

// name is a run's in messages: the same in every repetition, as its id is not.
func name(r queue.Run) string {
	return fmt.Sprintf("%s/%s/%s/%d", r.Trigger, r.Source, r.DeliveryID, r.Generation)
}

func indices[T any](list []T) []int {
	var all []int
	for i := range list {
		all = append(all, i)
	}
	return all
}
