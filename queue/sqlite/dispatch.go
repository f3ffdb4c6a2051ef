package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/codec"
)

type dispatched struct {
	claims []queue.RunClaim
	bodies []stored
	next   int64
}

// ClaimRuns implements queue.Runs.
func (s *Store) ClaimRuns(ctx context.Context, node string, rules []queue.DispatchRule, limit int) ([]queue.RunClaim, time.Time, error) {
	busy, err := s.busyTriggers(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	var todo []queue.DispatchRule
	for _, r := range rules {
		if busy[r.Trigger] {
			todo = append(todo, r)
		}
	}
	if len(todo) == 0 || limit <= 0 {
		return nil, time.Time{}, nil
	}
	c, err := get(ctx, s, func(t *tx) (c dispatched, err error) {
		for _, r := range todo {
			if err := t.dispatch(s, node, r, limit-len(c.claims), &c); err != nil {
				return c, fmt.Errorf("starting runs of %s: %w", r.Trigger, err)
			}
		}
		return c, nil
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	return c.decode(ctx, s), at(c.next), nil
}

// decode fills in the payloads. A run whose payload is damaged fails alone.
func (c *dispatched) decode(ctx context.Context, s *Store) []queue.RunClaim {
	sound := c.claims[:0]
	for i, claim := range c.claims {
		var err error
		if claim.Payload, err = codec.Decode(c.bodies[i].codec, c.bodies[i].body); err == nil {
			sound = append(sound, claim)
			continue
		}
		// Without an answer the lease expires, and the run is swept.
		_, _ = s.SettleRun(ctx, claim.Lease, queue.Outcome{State: queue.RunFailed, Reason: queue.ReasonStartFailed, Error: err.Error()})
	}
	return sound
}

// busyTriggers lists the triggers that have something to start or hand over, by hopping from one
// to the next in the index: a long queue costs one hop.
func (s *Store) busyTriggers(ctx context.Context) (map[string]bool, error) {
	busy := map[string]bool{}
	last := ""
	for {
		err := s.readers.QueryRowContext(ctx, `SELECT trigger FROM runs INDEXED BY runs_live WHERE state IN ('waiting', 'running', 'routing', 'uncertain') AND trigger > ? ORDER BY trigger LIMIT 1`, last).Scan(&last)
		if errors.Is(err, sql.ErrNoRows) {
			return busy, nil
		}
		if err != nil {
			return nil, s.explain("reading", err)
		}
		busy[last] = true
	}
}

// dispatch starts and hands over what one trigger allows.
func (t *tx) dispatch(s *Store, node string, rule queue.DispatchRule, limit int, c *dispatched) error {
	if err := t.expire(rule.Trigger); err != nil {
		return err
	}
	paused, err := t.exists(`SELECT 1 FROM triggers WHERE name = ? AND paused_since IS NOT NULL`, rule.Trigger)
	if err != nil {
		return err
	}
	if !paused {
		n, err := t.handOver(s, node, rule, limit, c)
		if err != nil {
			return err
		}
		if err := t.start(s, node, rule, limit-n, c); err != nil {
			return err
		}
	}
	// The next moment at which this trigger may have something to do without a wake.
	var next int64
	if err := t.row(`SELECT COALESCE(MIN(MIN(COALESCE(due_at, 9e18), COALESCE(expires_at, 9e18))), 0) FROM runs
		WHERE trigger = ? AND state IN ('waiting', 'routing') AND lease_until IS NULL AND (due_at > ? OR expires_at IS NOT NULL)`,
		[]any{rule.Trigger, t.now}, &next); err != nil {
		return err
	}
	if next > 0 && next < 8e18 && (c.next == 0 || next < c.next) {
		c.next = next
	}
	return nil
}

// expire drops what has waited too long for its first attempt.
func (t *tx) expire(trigger string) error {
	n, err := t.exec(`UPDATE runs SET state = 'dropped', reason = 'expired', finished_at = ?2, expires_at = NULL, due_at = NULL
		WHERE trigger = ?1 AND state = 'waiting' AND tries = 0 AND expires_at IS NOT NULL AND expires_at <= ?2`, trigger, t.now)
	t.tally("run:dropped", n)
	return err
}

// start fills the trigger's free slots with its oldest runs.
func (t *tx) start(s *Store, node string, rule queue.DispatchRule, limit int, c *dispatched) error {
	var running int
	if err := t.row(`SELECT COUNT(*) FROM runs WHERE trigger = ? AND state = 'running'`, []any{rule.Trigger}, &running); err != nil {
		return err
	}
	free := min(rule.Concurrency-running, limit)
	if free <= 0 {
		return nil
	}
	var ids []int64
	err := t.rows(`SELECT id FROM runs AS r WHERE trigger = ?1 AND state = 'waiting' AND kind = 'start' AND (due_at IS NULL OR due_at <= ?2)
			AND (serialize_key = '' OR NOT EXISTS (
				SELECT 1 FROM runs AS o WHERE o.trigger = ?1 AND o.serialize_key = r.serialize_key AND o.serialize_key <> '' AND o.state IN ('waiting', 'running')
					AND (o.state = 'running' OR o.kind = 'start' AND (o.delivery_seq, o.generation) < (r.delivery_seq, r.generation))))
			AND (follows = 0 OR NOT EXISTS (
				SELECT 1 FROM runs AS o WHERE o.trigger = ?1 AND o.subject_key = r.subject_key AND o.follows = 1 AND o.state IN ('waiting', 'running', 'routing')
					AND o.kind = 'start' AND (o.state = 'running' OR (o.delivery_seq, o.generation) < (r.delivery_seq, r.generation))))
		ORDER BY delivery_seq, generation LIMIT ?3`, []any{rule.Trigger, t.now, free},
		func(r *sql.Rows) error {
			var id int64
			err := r.Scan(&id)
			ids = append(ids, id)
			return err
		})
	if err != nil {
		return err
	}
	for _, id := range ids {
		if rule.FollowUp {
			if err := t.openSession(id); err != nil {
				return err
			}
		}
		if err := t.take(s, node, id, queue.Running, "", c); err != nil {
			return err
		}
	}
	return nil
}

// take charges an attempt of a run and leases it. session is what a hand-over goes to.
func (t *tx) take(s *Store, node string, id int64, state queue.RunState, session string, c *dispatched) error {
	until := t.now + s.Lease.Microseconds()
	if _, err := t.exec(`UPDATE runs SET state = ?2, attempts = attempts + 1, tries = tries + 1, token = token + 1, node = ?3, lease_until = ?4, attempt_at = ?5,
			started_at = COALESCE(started_at, ?5), due_at = NULL, expires_at = NULL, reason = '', cancel_asked = 0, session = CASE WHEN ?6 <> '' THEN ?6 ELSE session END
		WHERE id = ?1`, id, string(state), node, until, t.now, session); err != nil {
		return err
	}
	return t.claimRun(id, c)
}

// claimRun adds a leased run with its payload to c.
func (t *tx) claimRun(id int64, c *dispatched) error {
	stmt, err := t.w.prepare(`SELECT ` + runColumns + `, token FROM runs WHERE id = ?`)
	if err != nil {
		return err
	}
	var claim queue.RunClaim
	var token int64
	_, claim.Run, err = scanRun(stmt.QueryRow(id), &token)
	if err != nil {
		return err
	}
	claim.Lease = queue.Lease{Row: id, Token: token, Until: claim.LeaseUntil}
	var headers string
	var p stored
	if err := t.row(`SELECT d.headers, p.codec, p.body FROM deliveries d JOIN payloads p ON p.seq = d.seq WHERE d.seq = ?`, []any{claim.DeliverySeq}, &headers, &p.codec, &p.body); err != nil {
		return fmt.Errorf("reading the payload of run %s: %w", claim.ID, err)
	}
	if err := fromJSON(headers, &claim.Headers); err != nil {
		return err
	}
	c.claims, c.bodies = append(c.claims, claim), append(c.bodies, p)
	return nil
}

// RenewRuns implements queue.Runs.
func (s *Store) RenewRuns(ctx context.Context, leases []queue.Lease) (held, cancel []queue.Lease, err error) {
	type both struct{ held, cancel []queue.Lease }
	b, err := get(ctx, s, func(t *tx) (b both, err error) {
		until := t.now + s.Lease.Microseconds()
		for _, l := range leases {
			var asked bool
			err := t.row(`UPDATE runs SET lease_until = ?3 WHERE id = ?1 AND token = ?2 AND lease_until > ?4 RETURNING cancel_asked`, []any{l.Row, l.Token, until, t.now}, &asked)
			if errors.Is(err, sql.ErrNoRows) {
				continue
			}
			if err != nil {
				return b, err
			}
			l.Until = at(until)
			b.held = append(b.held, l)
			if asked {
				b.cancel = append(b.cancel, l)
			}
		}
		return b, nil
	})
	return b.held, b.cancel, err
}
