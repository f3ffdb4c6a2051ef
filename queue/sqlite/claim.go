package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/codec"
)

// stored is a payload as it is kept.
type stored struct {
	codec int
	body  []byte
}

type claimed struct {
	claims []queue.DeliveryClaim
	bodies []stored
}

// ClaimDeliveries implements queue.Deliveries.
func (s *Store) ClaimDeliveries(ctx context.Context, node string, n int) ([]queue.DeliveryClaim, error) {
	// A write costs a flush; an empty queue is seen by a read.
	var due int
	err := s.readers.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM deliveries WHERE due_at IS NOT NULL AND due_at <= ?)`, time.Now().UnixMicro()).Scan(&due)
	if err != nil {
		return nil, s.explain("reading", err)
	}
	if due == 0 {
		return nil, nil
	}
	c, err := get(ctx, s, func(t *tx) (claimed, error) { return t.claim(s, node, n) })
	if err != nil {
		return nil, err
	}
	sound := c.claims[:0]
	for i, claim := range c.claims {
		if claim.Payload, err = codec.Decode(c.bodies[i].codec, c.bodies[i].body); err == nil {
			sound = append(sound, claim)
			continue
		}
		// A damaged row fails alone.
		if _, err := s.SettleDelivery(ctx, claim.Lease, queue.Settlement{Kind: queue.SettleFail, Error: err.Error()}); err != nil {
			return sound, nil // its lease will expire; what was claimed with it goes on
		}
	}
	return sound, nil
}

// maxClaim bounds, in bytes of payload, what one claim takes beyond its first delivery.
const maxClaim = 32 << 20

// current says whether no other live node has loaded a different set of triggers later.
func (t *tx) current(s *Store, node string) (bool, error) {
	stale, err := t.exists(`SELECT 1 FROM nodes mine JOIN nodes other ON other.id <> mine.id
		WHERE mine.id = ? AND other.triggers_hash <> mine.triggers_hash AND other.triggers_loaded_at > mine.triggers_loaded_at AND other.heartbeat_at > ?`,
		node, t.now-s.DeadNode.Microseconds())
	return !stale, err
}

func (t *tx) claim(s *Store, node string, n int) (c claimed, err error) {
	if ok, err := t.current(s, node); err != nil || !ok {
		return c, err
	}
	type old struct {
		history   string
		startedAt int64
		node      string
		token     int64
	}
	var olds []old
	var rows []queue.Delivery
	err = t.rows(`SELECT `+deliveryColumns+`, history, COALESCE(started_at, 0), node, token FROM deliveries INDEXED BY deliveries_due
		WHERE due_at IS NOT NULL AND due_at <= ? ORDER BY seq LIMIT ?`, []any{t.now, n},
		func(r *sql.Rows) error {
			var o old
			d, err := scanDelivery(r, &o.history, &o.startedAt, &o.node, &o.token)
			rows, olds = append(rows, d), append(olds, o)
			return err
		})
	if err != nil {
		return c, err
	}
	until := t.now + s.Lease.Microseconds()
	size := 0
	for i, d := range rows {
		o := olds[i]
		if size += d.Size; size > maxClaim && len(c.claims) > 0 {
			t.wakes = true // for the rest
			break
		}
		if d.State == queue.Processing {
			var history []queue.Attempt
			if err := fromJSON(o.history, &history); err != nil {
				return c, err
			}
			a := queue.Attempt{
				Generation: d.Generation, Attempt: d.Attempts, Node: o.node, StartedAt: at(o.startedAt), FinishedAt: at(t.now),
				Outcome: "lease_expired", Error: "the worker's lease expired before it said how the attempt ended",
			}
			o.history = toJSON(queue.AppendAttempt(history, a))
			if d.Attempts >= s.MaxAttempts {
				if _, err := t.exec(`UPDATE deliveries SET state = 'failed', due_at = NULL, finished_at = ?2, history = ?3, last_error = ?4, token = token + 1 WHERE seq = ?1`,
					d.Seq, t.now, o.history, a.Error); err != nil {
					return c, err
				}
				t.tally("delivery:failed", 1)
				continue
			}
		}
		if _, err := t.exec(`UPDATE deliveries SET state = 'processing', attempts = attempts + 1, token = token + 1, node = ?2, started_at = ?3, due_at = ?4, history = ?5 WHERE seq = ?1`,
			d.Seq, node, t.now, until, o.history); err != nil {
			return c, err
		}
		var p stored
		if err := t.row(`SELECT codec, body FROM payloads WHERE seq = ?`, []any{d.Seq}, &p.codec, &p.body); err != nil {
			return c, fmt.Errorf("reading the payload of %s: %w", d.Key(), err)
		}
		d.State, d.NextAttempt, d.LeaseUntil = queue.Processing, time.Time{}, at(until)
		d.Attempts++
		c.claims = append(c.claims, queue.DeliveryClaim{Delivery: d, Lease: queue.Lease{Row: d.Seq, Token: o.token + 1, Until: at(until)}})
		c.bodies = append(c.bodies, p)
	}
	return c, nil
}

// RenewDeliveries implements queue.Deliveries.
func (s *Store) RenewDeliveries(ctx context.Context, leases []queue.Lease) ([]queue.Lease, error) {
	return get(ctx, s, func(t *tx) ([]queue.Lease, error) {
		until := t.now + s.Lease.Microseconds()
		var held []queue.Lease
		for _, l := range leases {
			n, err := t.exec(`UPDATE deliveries SET due_at = ?3 WHERE seq = ?1 AND token = ?2 AND state = 'processing' AND due_at > ?4`, l.Row, l.Token, until, t.now)
			if err != nil {
				return nil, err
			}
			if n == 1 {
				l.Until = at(until)
				held = append(held, l)
			}
		}
		return held, nil
	})
}
