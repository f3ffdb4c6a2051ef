package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// PruneStore is what pruning asks of a store.
type PruneStore interface {
	Prune(ctx context.Context, limit int) (deleted int, err error)
	PruneRepairs(ctx context.Context, limit int) (deleted int, err error)
	Compact(ctx context.Context) error
}

// Pruner deletes what is older than the store keeps, every so often. Any number of nodes may
// prune the same store.
type Pruner struct {
	Store   PruneStore
	Every   time.Duration // between two passes; 0: 5 min
	Batch   int           // deliveries deleted in one transaction; 0: 256
	Observe func(deleted int)
	Logger  *slog.Logger // nil: none
}

// Run prunes at once and then every so often, until ctx is done; it returns nil. A pass that
// fails is made up for by the next one.
func (p *Pruner) Run(ctx context.Context) error {
	if p.Store == nil {
		return errors.New("starting to prune: a Store is needed")
	}
	log := orNoLogger(p.Logger)
	away := outage{log: log, gone: "pruning fails", back: "pruning works again"}
	for {
		deleted, err := PruneOnce(ctx, p.Store, p.Batch, nil)
		if deleted > 0 {
			log.Info("pruned", slog.Int("deliveries", deleted))
		}
		if deleted > 0 && p.Observe != nil {
			p.Observe(deleted)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			away.failed(err)
		default:
			away.over()
		}
		if !sleep(ctx, or(p.Every, 5*time.Minute)) {
			return nil
		}
	}
}

// PruneOnce deletes deliveries and closed repairs in batches (0: 256) until nothing is left that is
// older than the store keeps, then gives the space back. progress, if set, is told the sum of
// deliveries so far after each batch. It returns that sum, with an error too.
func PruneOnce(ctx context.Context, store PruneStore, batch int, progress func(done int)) (int, error) {
	batch = or(batch, 256)
	done, err := inBatches(ctx, batch, store.Prune, progress)
	if err != nil {
		return done, fmt.Errorf("pruning: %w", err)
	}
	if _, err := inBatches(ctx, batch, store.PruneRepairs, nil); err != nil {
		return done, fmt.Errorf("pruning repairs: %w", err)
	}
	if err := store.Compact(ctx); err != nil {
		return done, fmt.Errorf("giving space back to the file system: %w", err)
	}
	return done, nil
}

// inBatches calls prune until it deletes nothing. Between two batches it leaves the store alone for
// as long as the last one took, so that other writes get their turn.
func inBatches(ctx context.Context, batch int, prune func(context.Context, int) (int, error), progress func(done int)) (int, error) {
	done := 0
	for {
		began := time.Now()
		deleted, err := prune(ctx, batch)
		if done += deleted; err != nil || deleted == 0 {
			return done, err
		}
		if progress != nil {
			progress(done)
		}
		if !sleep(ctx, min(time.Since(began), time.Second)) {
			return done, context.Cause(ctx)
		}
	}
}
