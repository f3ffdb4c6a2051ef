package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A batch takes along at most so many rows, and closes once it holds so many bytes. One that admits
// is small: it asks about each of its rows, and holds the locks of their triggers meanwhile.
const (
	maxBatch      = 256
	maxAdmissions = 32
	maxBatchBytes = 8 << 20
)

// batchTimeout bounds the commit of a batch, whose members have ends of their own.
const batchTimeout = 4 * time.Second

// committers is how many batches are under way at once: while one flushes, the server works on
// the next, and the one after that gathers.
const committers = 2

// group commits together what waits together. There is no timer, a lone member goes at once.
type group[In, Out any] struct {
	store *Store
	ops   chan *op[In, Out]
	// commit writes a batch and fills its members' out and err. An error means that nothing of it
	// was written.
	commit  func(context.Context, []*op[In, Out]) error
	size    func(In) int
	most    int // members of a batch
	stopped chan struct{}
}

// op is a member on its way through a group. Its fields are the group's until done is closed.
type op[In, Out any] struct {
	ctx  context.Context
	in   In
	out  Out
	err  error
	done chan struct{}
}

func newGroup[In, Out any](s *Store, most int, commit func(context.Context, []*op[In, Out]) error, size func(In) int) *group[In, Out] {
	return &group[In, Out]{store: s, ops: make(chan *op[In, Out], maxBatch), commit: commit, size: size, most: most, stopped: make(chan struct{})}
}

var errClosed = errors.New("the store is closed")

// do hands in to the group and returns once it is committed. settled says that nobody holds in any
// more: after an end of ctx the group may still be reading it.
func (g *group[In, Out]) do(ctx context.Context, in In) (out Out, settled bool, err error) {
	o := &op[In, Out]{ctx: ctx, in: in, done: make(chan struct{})}
	select {
	case g.ops <- o:
	case <-ctx.Done():
		return out, true, fmt.Errorf("waiting for the store: %w", context.Cause(ctx))
	case <-g.store.stop.Done():
		return out, true, errClosed
	}
	select {
	case <-o.done:
		return o.out, true, o.err
	case <-ctx.Done():
		return out, false, fmt.Errorf("writing to the store: %w", context.Cause(ctx))
	case <-g.stopped:
		select {
		case <-o.done:
			return o.out, true, o.err
		default:
			return out, false, errClosed
		}
	}
}

// run commits batches until the store is closed; what was handed in before is still written.
func (g *group[In, Out]) run() {
	defer close(g.stopped)
	var all sync.WaitGroup
	for range committers {
		all.Go(g.commitAll)
	}
	all.Wait()
}

func (g *group[In, Out]) commitAll() {
	batch := make([]*op[In, Out], 0, g.most)
	for {
		batch = batch[:0]
		select {
		case o := <-g.ops:
			batch = append(batch, o)
		case <-g.store.stop.Done():
			select {
			case o := <-g.ops:
				batch = append(batch, o)
			default:
				return
			}
		}
		bytes := g.size(batch[0].in)
	gather:
		for len(batch) < g.most && bytes < maxBatchBytes {
			select {
			case o := <-g.ops:
				batch = append(batch, o)
				bytes += g.size(o.in)
			default:
				break gather
			}
		}
		g.write(batch)
	}
}

// write commits a batch. If a row of it is refused, each is written alone, so that it fails alone;
// if the database is away, they fail together.
func (g *group[In, Out]) write(batch []*op[In, Out]) {
	live := make([]*op[In, Out], 0, len(batch))
	for _, o := range batch {
		if o.ctx.Err() != nil {
			o.err = fmt.Errorf("waiting for the store: %w", context.Cause(o.ctx))
			close(o.done)
			continue
		}
		live = append(live, o)
	}
	if len(live) == 0 {
		return
	}
	err := g.attempt(live)
	if err != nil && poisoned(err) && len(live) > 1 {
		for _, o := range live {
			if err := g.attempt([]*op[In, Out]{o}); err != nil {
				o.err = err
			}
		}
		err = nil
	}
	for _, o := range live {
		if err != nil {
			o.err = err
		}
		if o.err != nil && !clean(o.err) {
			o.err = g.store.explain("writing to", o.err)
		}
		close(o.done)
	}
}

func (g *group[In, Out]) attempt(batch []*op[In, Out]) error {
	ctx, cancel := context.WithTimeout(context.Background(), batchTimeout)
	defer cancel()
	_, err := retried(ctx, g.store, func() (struct{}, error) { return struct{}{}, g.commit(ctx, batch) })
	return err
}
