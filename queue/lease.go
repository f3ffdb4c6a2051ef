package queue

import (
	"errors"
	"time"
)

// Lease is the right to work on a row until a deadline, proved by a token that rises with every
// claim of that row: whoever claims later can never be overwritten by whoever claimed earlier.
type Lease struct {
	Row   int64 // Delivery.Seq, or the store's own number of a run
	Token int64
	Until time.Time // by this process's clock
}

// Same reports whether both are one claim of one row, whatever became of the deadline meanwhile.
func (l Lease) Same(o Lease) bool { return l.Row == o.Row && l.Token == o.Token }

// What stops work that is under way. They are causes of the work's context (context.Cause).
var (
	// ErrLeaseLost: the lease has passed on or could not be renewed in time. Nothing may be written.
	ErrLeaseLost = errors.New("the lease was lost")
	// ErrCanceled: an operator canceled the run.
	ErrCanceled = errors.New("canceled by an operator")
	// ErrShutdown: this node stops and the grace period is over.
	ErrShutdown = errors.New("the node is shutting down")
)

// What a store answers to a request that the row's state does not allow. A store returns them
// wrapped, having written nothing.
var (
	ErrNotFound  = errors.New("not found")
	ErrConflict  = errors.New("not possible in this state")
	ErrAmbiguous = errors.New("more than one delivery has this id; write SOURCE/ID")
	ErrInvalid   = errors.New("invalid")
	// ErrNewerSchema: the store was written by a newer preloop.
	ErrNewerSchema = errors.New("the store has a newer schema than this preloop knows")
	// ErrInUse: another process serves this single-node store, or nodes are live that must not be.
	ErrInUse = errors.New("the store is in use")
)
