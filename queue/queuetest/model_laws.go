package queuetest

import (
	"slices"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// laws are what holds after every step.
func (m *model) laws() {
	deliveries := m.listDeliveries(queue.DeliveryFilter{Limit: 500})
	if len(deliveries) != len(m.deliveries) {
		m.Fatalf("%d deliveries are kept, %d were accepted and not pruned", len(deliveries), len(m.deliveries))
	}
	for _, d := range deliveries {
		key := d.Source + "/" + d.ID
		want := m.deliveries[key]
		if want == nil {
			m.Fatalf("%s is kept, which nobody has received", key)
		}
		if d.State != want.state || d.Attempts != want.attempts || d.Generation != want.generation {
			m.Fatalf("%s is %s after %d attempts in generation %d, want %s after %d in %d", key, d.State, d.Attempts, d.Generation, want.state, want.attempts, want.generation)
		}
	}
	runs := m.listRuns(queue.RunFilter{Limit: 500})
	m.nothingLost(runs)
	m.runLaws(runs)
	m.sessionLaws(runs)
	m.recount()
	clear(m.seen)
	for _, r := range runs {
		m.seen[r.ID] = r
	}
	clear(m.reopened)
}

// nothingLost: what matched has a run, and what did not end by its target's word says why.
func (m *model) nothingLost(runs []queue.Run) {
	there := map[string]bool{}
	for _, r := range runs {
		there[name(r)] = true
		if (r.State == queue.Dropped || r.State == queue.Uncertain) && r.Reason == "" {
			m.Fatalf("%s is %s and does not say why", name(r), r.State)
		}
	}
	for event, key := range m.matched {
		if m.deliveries[key] == nil {
			delete(m.matched, event) // pruned
		} else if !there[event] {
			m.Fatalf("%s matched and has no run", event)
		}
	}
}

func (m *model) runLaws(runs []queue.Run) {
	type event struct{ guid, trigger string }
	once, owners := map[string]bool{}, map[event]string{}
	running, routing := map[string]int{}, map[string]int{}
	for _, r := range runs {
		if once[name(r)] {
			m.Fatalf("%s ran twice in its generation", name(r))
		}
		once[name(r)] = true
		e := event{r.DeliveryID, r.Trigger}
		if owner := owners[e]; owner != "" && owner != r.Source {
			m.Fatalf("%s belongs to two sources", name(r))
		}
		owners[e] = r.Source
		if before, ok := m.seen[r.ID]; ok && before.State.Ended() && r.State != before.State && !m.reopened[r.ID] {
			m.Fatalf("%s was %s and is %s, and nobody asked for it", name(r), before.State, r.State)
		}
		if r.State.Ended() == r.FinishedAt.IsZero() || r.Attempts > m.settings.MaxAttempts || r.Attempts < 0 {
			m.Fatalf("%s is %s, finished at %v, after %d attempts", name(r), r.State, r.FinishedAt, r.Attempts)
		}
		switch {
		case r.State == queue.Running:
			running[r.Trigger]++
			if r.Kind != queue.Start {
				m.Fatalf("%s is a %s and runs", name(r), r.Kind)
			}
			if r.Trigger == "serial" && r.Subject != "" {
				if running[r.Trigger+r.Subject]++; running[r.Trigger+r.Subject] > 1 {
					m.Fatalf("%s runs beside another of its key", name(r))
				}
			}
		case r.State == queue.Routing:
			if routing[r.Trigger+r.Subject]++; routing[r.Trigger+r.Subject] > 1 || r.Kind != queue.FollowUp {
				m.Fatalf("%s, a %s, is handed over beside another", name(r), r.Kind)
			}
		case r.State == queue.Dropped && r.Reason == queue.ReasonSuperseded && r.Trigger != "latest":
			m.Fatalf("%s was superseded", name(r))
		}
	}
	for _, t := range modelTriggers { // a reload takes nothing away from what runs already
		if n := running[t.rule.Trigger]; n > maxConcurrency {
			m.Fatalf("%d runs of %s run at once", n, t.rule.Trigger)
		}
	}
}

// sessionLaws: one open session a subject, and a hand-over goes to its own subject's.
func (m *model) sessionLaws(runs []queue.Run) {
	open := map[string]string{} // by subject, the run that opened it
	for _, r := range runs {
		if r.Trigger != "chat" || r.StartedAt.IsZero() {
			continue
		}
		s := m.run(r.ID).SessionDetail
		if s == nil {
			continue
		}
		if s.SubjectKey != r.SubjectKey() {
			m.Fatalf("%s, about %s, has a session about %s", name(r), r.SubjectKey(), s.SubjectKey)
		}
		if s.State == queue.SessionEnded {
			continue
		}
		if other := open[s.SubjectKey]; other != "" && other != s.RunID {
			m.Fatalf("%s has two open sessions", s.SubjectKey)
		}
		open[s.SubjectKey] = s.RunID
	}
}

// admittedWithin checks the cap: before are the runs that were there when the delivery was settled.
func (m *model) admittedWithin(before []queue.Run, asked []queue.Admission, got queue.Settled) {
	for _, a := range asked {
		places, sure := 0, true
		for _, r := range before {
			if r.Trigger != a.Trigger || r.State != queue.Waiting && r.State != queue.Routing {
				continue
			}
			left := time.Until(r.ExpiresAt)
			if r.ExpiresAt.IsZero() || r.State == queue.Routing || left > 0 {
				places++
			}
			sure = sure && (r.ExpiresAt.IsZero() || left.Abs() > blur)
		}
		for _, r := range got.Runs {
			if r.Trigger != a.Trigger || !sure {
				continue
			}
			full := places >= a.QueueSize
			if a.Coalesce && r.State == queue.Waiting && r.Subject != "" {
				continue // it may have taken the place of an older one
			}
			if full && r.State == queue.Waiting || !full && r.Reason == queue.ReasonQueueFull {
				m.Fatalf("with %d of %d places taken, %s is %s", places, a.QueueSize, name(r), r.State)
			}
		}
	}
	for _, d := range got.Decisions {
		matched := d.Verdict == queue.Matched
		if matched != (d.RunID != "") {
			m.Fatalf("the decision of %s is %s with run %v", d.Trigger, d.Verdict, d.RunID != "")
		}
	}
}

// startedInOrder checks a dispatch by these rules: what has started was first, within its
// concurrency, and if there was room for more, nothing that could start was left.
func (m *model) startedInOrder(rules []queue.DispatchRule, claims []queue.RunClaim, room bool) {
	runs := m.listRuns(queue.RunFilter{Limit: 500})
	for _, c := range claims {
		if !slices.ContainsFunc(rules, func(r queue.DispatchRule) bool { return r.Trigger == c.Trigger }) {
			m.Fatalf("%s was claimed by a node that does not know its trigger", name(c.Run))
		}
	}
	for _, rule := range rules {
		trigger := rule.Trigger
		var newest *queue.RunClaim
		for i, c := range claims {
			if c.Trigger != trigger {
				continue
			}
			if m.paused[trigger] {
				m.Fatalf("%s was claimed though its trigger is paused", name(c.Run))
			}
			if c.State == queue.Running && (newest == nil || later(c.Run, newest.Run)) {
				newest = &claims[i]
			}
		}
		if m.paused[trigger] {
			continue
		}
		running := 0 // a lowered concurrency may be exceeded by what ran before, and by nothing new
		for _, r := range runs {
			if r.Trigger == trigger && r.State == queue.Running {
				running++
			}
		}
		if newest != nil && running > rule.Concurrency {
			m.Fatalf("%s was started, and %d of %s run at once", name(newest.Run), running, trigger)
		}
		for _, r := range runs {
			if room && r.Trigger == trigger && r.State == queue.Waiting && r.Kind == queue.FollowUp && r.NextAttempt.IsZero() && !slices.ContainsFunc(runs, func(o queue.Run) bool { return leads(o, r) }) {
				m.Fatalf("%s waits to follow nothing: it should have been handed over or become a start", name(r))
			}
			if r.Trigger != trigger || r.State != queue.Waiting || r.Kind != queue.Start || !r.NextAttempt.IsZero() && time.Until(r.NextAttempt) > -blur || blocked(r, runs) {
				continue
			}
			if newest != nil && later(newest.Run, r) {
				m.Fatalf("%s was started before %s", name(newest.Run), name(r))
			}
			if room && running < rule.Concurrency {
				m.Fatalf("%s was not started, with %d of %d slots taken", name(r), running, rule.Concurrency)
			}
		}
	}
}

// leads reports whether o is a reason for the follow-up r to wait.
func leads(o, r queue.Run) bool {
	return o.Trigger == r.Trigger && o.Subject == r.Subject && (o.State == queue.Running || o.State == queue.Routing || o.State == queue.Waiting && o.Kind == queue.Start)
}

// blocked reports whether a waiting start has to let others of its key or subject go first.
func blocked(r queue.Run, runs []queue.Run) bool {
	if r.Trigger != "serial" && r.Trigger != "chat" || r.Subject == "" {
		return false
	}
	return slices.ContainsFunc(runs, func(o queue.Run) bool {
		return o.ID != r.ID && o.Trigger == r.Trigger && o.Subject == r.Subject && (o.State == queue.Running || o.State == queue.Waiting && later(r, o))
	})
}

// later reports whether a starts after b.
func later(a, b queue.Run) bool {
	if a.DeliverySeq != b.DeliverySeq {
		return a.DeliverySeq > b.DeliverySeq
	}
	return a.Generation > b.Generation
}

// finish drives everything forward: in bounded steps each row reaches its end, and then goes.
func (m *model) finish() {
	for _, t := range modelTriggers {
		m.must(m.store.ResumeTrigger(m.ctx, t.rule.Trigger), "resuming")
	}
	m.crash()
	m.nodes = [2]modelNode{} // they stop, and soon count as gone
	for round := 0; !m.ended(); round++ {
		if round == 40 {
			m.Fatalf("after %d rounds there are still %v", round, m.unended())
		}
		m.pass(m.settings.Lease + time.Second)
		if round%10 == 9 { // what waits for an operator gives up
			m.pass(25 * time.Hour)
		}
		m.sweep()
		for _, c := range m.claims(100) {
			m.settle(c.Lease, queue.Settlement{Kind: queue.SettleDone})
		}
		for _, c := range m.start(allRules()...) {
			m.settleRun(c.Lease, queue.Outcome{State: queue.Happened(c.Kind)})
		}
	}
	m.recount()
	m.pass(m.settings.SessionTTL + time.Second)
	m.sweep()
	m.pass(m.settings.Keep + time.Second)
	for range 1000 {
		if n, err := m.store.Prune(m.ctx, 7); err != nil || n == 0 {
			m.must(err, "pruning")
			break
		}
	}
	if d, r := m.listDeliveries(queue.DeliveryFilter{}), m.listRuns(queue.RunFilter{}); len(d)+len(r) != 0 {
		m.Fatalf("%d deliveries and %d runs can never be pruned", len(d), len(r))
	}
	m.recount()
}

func (m *model) ended() bool { return len(m.unended()) == 0 }

func (m *model) unended() (left []string) {
	for _, d := range m.listDeliveries(queue.DeliveryFilter{Limit: 500}) {
		if !d.State.Terminal() {
			left = append(left, d.ID+" "+string(d.State))
		}
	}
	for _, r := range m.listRuns(queue.RunFilter{Limit: 500}) {
		if !r.State.Ended() {
			left = append(left, name(r)+" "+string(r.State))
		}
	}
	return left
}
