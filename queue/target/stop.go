package target

import (
	"context"
	"errors"

	"github.com/seed-de999ace/preloop/queue"
)

// stop says who ended an attempt before it ended by itself.
type stop int

const (
	notStopped stop = iota
	timedOut
	canceled
	shutdown
	leaseLost
)

// stopOf reads the cause of a context. One that says nothing known is a shutdown: whoever ended
// it, the attempt was interrupted and nobody asked for it to be forgotten.
func stopOf(ctx context.Context) stop {
	cause := context.Cause(ctx)
	switch {
	case cause == nil:
		return notStopped
	case errors.Is(cause, errTimedOut):
		return timedOut
	case errors.Is(cause, queue.ErrCanceled):
		return canceled
	case errors.Is(cause, queue.ErrLeaseLost):
		return leaseLost
	}
	return shutdown
}

// errTimedOut is the cause of the context that bounds an HTTP attempt.
var errTimedOut = errors.New("timeout")

// notStarted is the outcome of an attempt that was stopped before it did anything at all.
func notStarted(s stop) queue.Outcome {
	switch s {
	case canceled:
		return queue.Outcome{State: queue.Canceled}
	case leaseLost:
		return stopped(leaseLost)
	}
	return queue.Outcome{State: queue.Waiting, Refund: true, Error: "the node shut down before the start"}
}

// stopped is the outcome of an attempt that was under way and may or may not have done its work.
func stopped(s stop) queue.Outcome {
	switch s {
	case canceled:
		return queue.Outcome{State: queue.Canceled}
	case leaseLost:
		return queue.Outcome{
			State: queue.Uncertain, Reason: queue.ReasonWorkerLost,
			Error: "the node lost its lease while the target was at work",
		}
	}
	return queue.Outcome{
		State: queue.Uncertain, Reason: queue.ReasonInterrupted,
		Error: "the node shut down while the target was at work",
	}
}
