package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/codec"
)

type dispatched struct {
	claims []queue.RunClaim
	bodies []stored
	next   time.Time // by this process's clock
}

// ClaimRuns implements queue.Runs.
func (s *Store) ClaimRuns(ctx context.Context, node string, rules []queue.DispatchRule, limit int) ([]queue.RunClaim, time.Time, error) {
	if len(rules) == 0 || limit <= 0 || s.rests() {
		return nil, time.Time{}, nil
	}
	busy, err := s.busyTriggers(ctx, rules)
	if err != nil {
		return nil, time.Time{}, err
	}
	var c dispatched
	for _, r := range rules {
		if !busy[r.Trigger] {
			continue
		}
		// A transaction a trigger: it holds the lock of no other one's row.
		one, err := get(ctx, s, func(t *tx) (c2 dispatched, err error) { return c2, t.dispatch(s, node, r, limit-len(c.claims), &c2) })
		if err != nil {
			// What is leased already has to be worked on.
			return c.decode(ctx, s), time.Time{}, fmt.Errorf("starting runs of %s: %w", r.Trigger, err)
		}
		c.claims, c.bodies = append(c.claims, one.claims...), append(c.bodies, one.bodies...)
		c.soon(one.next)
	}
	return c.decode(ctx, s), c.next, nil
}

// soon keeps the earlier time; zero is none.
func (c *dispatched) soon(next time.Time) {
	if !next.IsZero() && (c.next.IsZero() || next.Before(c.next)) {
		c.next = next
	}
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

// busyTriggers lists the triggers that have something to start or hand over, one look into the
// index for each: a long queue costs no more than a short one.
func (s *Store) busyTriggers(ctx context.Context, rules []queue.DispatchRule) (map[string]bool, error) {
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = r.Trigger
	}
	busy := map[string]bool{}
	err := s.read(ctx, "reading", `SELECT name FROM unnest($1::text[]) AS g (name)
		WHERE EXISTS (SELECT 1 FROM runs WHERE trigger = name AND state IN ('waiting', 'routing') AND state IN ('waiting', 'running', 'routing', 'uncertain'))`, []any{names},
		func(r pgx.Rows) error {
			var name string
			err := r.Scan(&name)
			busy[name] = true
			return err
		})
	return busy, err
}

// dispatch starts and hands over what one trigger allows.
func (t *tx) dispatch(s *Store, node string, rule queue.DispatchRule, limit int, c *dispatched) error {
	if err := t.lock(rule.Trigger); err != nil {
		return err
	}
	if err := t.expire(rule.Trigger); err != nil {
		return err
	}
	paused, err := t.exists(`SELECT 1 FROM triggers WHERE name = $1 AND paused_since IS NOT NULL`, rule.Trigger)
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
	if err := t.row(`SELECT COALESCE(MIN(LEAST(due_at, expires_at)), 0) FROM runs
		WHERE trigger = $1 AND state IN ('waiting', 'routing') AND lease_until IS NULL AND (due_at > $2 OR expires_at IS NOT NULL)`,
		[]any{rule.Trigger, t.now}, &next); err != nil {
		return err
	}
	if next > 0 {
		c.soon(t.local(next))
	}
	return nil
}

// expire drops what has waited too long for its first attempt.
func (t *tx) expire(trigger string) error {
	n, err := t.exec(`UPDATE runs SET state = 'dropped', reason = 'expired', finished_at = $2, expires_at = NULL, due_at = NULL
		WHERE trigger = $1 AND state = 'waiting' AND tries = 0 AND expires_at IS NOT NULL AND expires_at <= $2`, trigger, t.now)
	t.tally("run:dropped", n)
	return err
}

// start fills the trigger's free slots with its oldest runs.
func (t *tx) start(s *Store, node string, rule queue.DispatchRule, limit int, c *dispatched) error {
	var running int
	if err := t.row(`SELECT COUNT(*) FROM runs WHERE trigger = $1 AND state = 'running'`, []any{rule.Trigger}, &running); err != nil {
		return err
	}
	free := min(rule.Concurrency-running, limit)
	if free <= 0 {
		return nil
	}
	var ids []int64
	err := t.rows(`SELECT id FROM runs AS r WHERE trigger = $1 AND state = 'waiting' AND kind = 'start' AND (due_at IS NULL OR due_at <= $2)
			AND (serialize_key = '' OR NOT EXISTS (
				SELECT 1 FROM runs AS o WHERE o.trigger = $1 AND o.serialize_key = r.serialize_key AND o.serialize_key <> '' AND o.state IN ('waiting', 'running')
					AND (o.state = 'running' OR o.kind = 'start' AND (o.delivery_seq, o.generation) < (r.delivery_seq, r.generation))))
			AND (follows = 0 OR NOT EXISTS (
				SELECT 1 FROM runs AS o WHERE o.trigger = $1 AND o.subject_key = r.subject_key AND o.follows = 1 AND o.state IN ('waiting', 'running', 'routing')
					AND o.kind = 'start' AND (o.state = 'running' OR (o.delivery_seq, o.generation) < (r.delivery_seq, r.generation))))
		ORDER BY delivery_seq, generation LIMIT $3`, []any{rule.Trigger, t.now, free},
		func(r pgx.Rows) error {
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
	if _, err := t.exec(`UPDATE runs SET state = $2, attempts = attempts + 1, tries = tries + 1, token = token + 1, node = $3, lease_until = $4, attempt_at = $5,
			started_at = COALESCE(started_at, $5), due_at = NULL, expires_at = NULL, reason = '', cancel_asked = 0, session = CASE WHEN $6::text <> '' THEN $6 ELSE session END
		WHERE id = $1`, id, string(state), node, until, t.now, session); err != nil {
		return err
	}
	return t.claimRun(id, c)
}

// claimRun adds a leased run with its payload to c.
func (t *tx) claimRun(id int64, c *dispatched) error {
	var claim queue.RunClaim
	var token int64
	var err error
	_, claim.Run, err = scanRun(t.queryRow(`SELECT `+runColumns+`, token FROM runs WHERE id = $1`, id), &token)
	if err != nil {
		return err
	}
	claim.Lease = queue.Lease{Row: id, Token: token, Until: t.local(claim.LeaseUntil.UnixMicro())}
	var headers string
	var p stored
	if err := t.row(`SELECT d.headers, p.codec, p.body FROM deliveries d JOIN payloads p ON p.seq = d.seq WHERE d.seq = $1`, []any{claim.DeliverySeq}, &headers, &p.codec, &p.body); err != nil {
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
	if len(leases) == 0 {
		return nil, nil, nil
	}
	type both struct{ held, cancel []queue.Lease }
	b, err := get(ctx, s, func(t *tx) (b both, err error) {
		until := t.now + s.Lease.Microseconds()
		rows, tokens := unzip(leases)
		err = t.rows(`WITH held AS (
				SELECT r.id FROM runs AS r JOIN unnest($1::bigint[], $2::bigint[]) AS g (id, token) ON r.id = g.id AND r.token = g.token
				WHERE r.lease_until > $4 ORDER BY r.id FOR UPDATE OF r
			)
			UPDATE runs AS r SET lease_until = $3 FROM held WHERE r.id = held.id RETURNING r.id, r.token, r.cancel_asked = 1`, []any{rows, tokens, until, t.now},
			func(r pgx.Rows) error {
				var asked bool
				l := queue.Lease{Until: t.local(until)}
				err := r.Scan(&l.Row, &l.Token, &asked)
				b.held = append(b.held, l)
				if asked {
					b.cancel = append(b.cancel, l)
				}
				return err
			})
		return b, err
	})
	return b.held, b.cancel, err
}
