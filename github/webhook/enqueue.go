package webhook

import (
	"context"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// enqueue tries to store the delivery within the budget. A failed attempt may have stored it all the
// same; the next one then finds a duplicate, and that is as good. The attempts do not end with the
// request: a client that hangs up is no reason to lose what it sent.
func (rc *Receiver) enqueue(d queue.Delivery, payload []byte, budget time.Duration) (queue.EnqueueResult, error) {
	deadline := time.Now().Add(budget)
	for attempt := 1; ; attempt++ {
		result, err := rc.attempt(d, payload, deadline)
		if err == nil || attempt == rc.cfg.Attempts || time.Until(deadline) <= rc.cfg.RetryDelay {
			return result, err
		}
		time.Sleep(rc.cfg.RetryDelay)
	}
}

func (rc *Receiver) attempt(d queue.Delivery, payload []byte, deadline time.Time) (queue.EnqueueResult, error) {
	if end := time.Now().Add(rc.cfg.AttemptTimeout); end.Before(deadline) {
		deadline = end
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	return rc.queue.Enqueue(ctx, d, payload)
}
