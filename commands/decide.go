package commands

import (
	"context"
	"errors"
	"time"

	"github.com/seed-de999ace/preloop/github"
	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/trigger"
)

// decide is the worker's question: which triggers want this delivery. What it answers is settled
// in one transaction.
func (n *node) decide(ctx context.Context, c *queue.DeliveryClaim) (queue.Settlement, error) {
	results, err := n.current().set.Decide(ctx, trigger.NewEvent(&c.Delivery, c.Payload, time.Now()), n.hub.questions())
	if err != nil {
		var away *github.UnavailableError
		if errors.As(err, &away) {
			return queue.Settlement{}, &queue.ParkError{Err: err, Wait: away.RetryIn, Outage: !away.BreakerOpen && !away.RateLimited}
		}
		return queue.Settlement{}, err
	}
	s := queue.Settlement{Kind: queue.SettleDone}
	for _, r := range results {
		s.Decisions = append(s.Decisions, r.Decision)
		if r.Verdict == queue.Matched {
			s.Admissions = append(s.Admissions, admission(&r.Trigger.Spec, &c.Delivery))
		}
	}
	return s, nil
}

// admission is what a trigger asks of the store for one delivery.
func admission(t *trigger.Spec, d *queue.Delivery) queue.Admission {
	a := queue.Admission{
		Trigger: t.Name, QueueSize: t.QueueSize, QueueWait: t.QueueWait,
		LoopCount: t.LoopLimit.Count, LoopPer: t.LoopLimit.Per,
		Coalesce: t.Coalesce == "subject", Idempotent: t.Idempotent, UncertainAfter: t.UncertainAfter,
	}
	switch t.Serialize {
	case "subject":
		a.SerializeKey = d.SubjectKey()
	case "repo":
		a.SerializeKey = d.RepoKey()
	}
	if f := t.FollowUp; f != nil {
		a.FollowUp, a.FollowCount, a.FollowPer = true, f.Limit.Count, f.Limit.Per
	}
	return a
}
