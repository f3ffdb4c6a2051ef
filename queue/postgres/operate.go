package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/seed-de999ace/preloop/queue"
)

// act runs an operator's action on one run: allowed says whether the run's state permits it.
func (s *Store) act(ctx context.Context, id, doing string, allowed func(heldRun) bool, change func(*tx, heldRun) error) (*queue.Run, error) {
	return get(ctx, s, func(t *tx) (*queue.Run, error) {
		var trigger string
		err := t.row(`SELECT trigger FROM runs WHERE run_id = $1`, []any{id}, &trigger)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, fmt.Errorf("%s run %s: %w", doing, id, queue.ErrNotFound)
		}
		if err != nil {
			return nil, err
		}
		if err := t.lock(trigger); err != nil {
			return nil, err
		}
		h, err := t.held(`run_id = $1`, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, fmt.Errorf("%s run %s: %w", doing, id, queue.ErrNotFound)
		}
		if err != nil {
			return nil, err
		}
		if !allowed(h) {
			return nil, fmt.Errorf("%s run %s: %w: it is %s", doing, id, queue.ErrConflict, h.State)
		}
		t.wakes = true
		if err := change(t, h); err != nil {
			return nil, err
		}
		return t.run(h.id)
	})
}

// CancelRun implements queue.Runs.
func (s *Store) CancelRun(ctx context.Context, id string) (*queue.Run, error) {
	return s.act(ctx, id, "canceling",
		func(h heldRun) bool {
			return h.State == queue.Waiting || h.State == queue.Running || h.State == queue.Routing || h.State == queue.Uncertain
		},
		func(t *tx, h heldRun) error {
			if (h.State == queue.Running || h.State == queue.Routing) && h.leaseUntil > t.now {
				_, err := t.exec(`UPDATE runs SET cancel_asked = 1 WHERE id = $1`, h.id)
				return err
			}
			t.tally("run:canceled", 1)
			if _, err := t.exec(`UPDATE runs SET state = 'canceled', reason = '', finished_at = $2, due_at = NULL, expires_at = NULL, deadline_at = NULL, lease_until = NULL, cancel_asked = 0, token = token + 1 WHERE id = $1`, h.id, t.now); err != nil {
				return err
			}
			if h.State == queue.Running && h.follows {
				return t.runEnded(h.ID)
			}
			return nil
		})
}

// RetryRun implements queue.Runs.
func (s *Store) RetryRun(ctx context.Context, id string) (*queue.Run, error) {
	return s.act(ctx, id, "retrying",
		func(h heldRun) bool {
			return h.State == queue.RunFailed || h.State == queue.Uncertain || h.State == queue.Canceled || h.State == queue.Dropped
		},
		func(t *tx, h heldRun) error {
			if h.State.Ended() {
				t.tally("run:"+string(h.State), -1)
			}
			_, err := t.exec(`UPDATE runs SET state = 'waiting', reason = '', error = '', attempts = 0, outages = 0, due_at = NULL, expires_at = NULL, deadline_at = NULL, finished_at = NULL,
				lease_until = NULL, cancel_asked = 0, exit_code = NULL, http_status = NULL, token = token + 1 WHERE id = $1`, h.id)
			return err
		})
}

// ResolveRun implements queue.Runs.
func (s *Store) ResolveRun(ctx context.Context, id string, as queue.RunState) (*queue.Run, error) {
	if as != queue.Succeeded && as != queue.RunFailed {
		return nil, fmt.Errorf("resolving run %s: %w: as must be succeeded or failed", id, queue.ErrInvalid)
	}
	return s.act(ctx, id, "resolving",
		func(h heldRun) bool { return h.State == queue.Uncertain },
		func(t *tx, h heldRun) error {
			if as == queue.Succeeded {
				as = queue.Happened(h.Kind)
			}
			return t.resolve(h, as, queue.ReasonResolved, "an operator says that it failed")
		})
}

// FinishRun implements queue.Runs. A target may finish before the answer that accepted the run has
// been recorded: its word then counts, and the worker finds its lease gone.
func (s *Store) FinishRun(ctx context.Context, id string, f queue.Finish) (*queue.Run, error) {
	if f.As != queue.Succeeded && f.As != queue.RunFailed {
		return nil, fmt.Errorf("finishing run %s: %w: as must be succeeded or failed", id, queue.ErrInvalid)
	}
	return s.act(ctx, id, "finishing",
		func(h heldRun) bool { return h.State == queue.Running || h.State == queue.Uncertain },
		func(t *tx, h heldRun) error {
			as := f.As
			if as == queue.Succeeded {
				as = queue.Happened(h.Kind)
			}
			t.tally("run:"+string(as), 1)
			if _, err := t.exec(`UPDATE runs SET state = $2, reason = '', error = $3, finished_at = $4, due_at = NULL, deadline_at = NULL, lease_until = NULL, cancel_asked = 0, token = token + 1 WHERE id = $1`,
				h.id, string(as), f.Error, t.now); err != nil {
				return err
			}
			if !h.follows || h.Kind != queue.Start {
				return nil
			}
			if err := t.report(s, h.ID, f.Session, f.SessionState); err != nil {
				return err
			}
			return t.runEnded(h.ID)
		})
}
