package postgres

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-de999ace/preloop/queue"
)

// Heartbeat implements queue.Fleet.
func (s *Store) Heartbeat(ctx context.Context, n queue.Node) error {
	if note := s.Note(); note != "" && n.Note != "" {
		n.Note += "; " + note
	} else if note != "" {
		n.Note = note
	}
	_, err := s.do(ctx, "writing to", `WITH gone AS (DELETE FROM nodes WHERE heartbeat_at < `+ago(24*time.Hour)+` AND id <> $1)
		INSERT INTO nodes (id, host, pid, version, components, triggers_hash, triggers_loaded_at, started_at, heartbeat_at, note)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, `+clock+`, $9)
		ON CONFLICT (id) DO UPDATE SET triggers_hash = excluded.triggers_hash, triggers_loaded_at = excluded.triggers_loaded_at, components = excluded.components,
			heartbeat_at = excluded.heartbeat_at, note = excluded.note`,
		n.ID, n.Host, n.PID, n.Version, toJSON(n.Components), n.TriggersHash, n.TriggersLoadedAt.UnixMicro(), n.StartedAt.UnixMicro(), n.Note)
	return err
}

// Leave implements queue.Fleet.
func (s *Store) Leave(ctx context.Context, node string) error {
	_, err := s.do(ctx, "writing to", `DELETE FROM nodes WHERE id = $1`, node)
	return err
}

// Nodes implements queue.Fleet.
func (s *Store) Nodes(ctx context.Context) (nodes []queue.Node, err error) {
	err = s.read(ctx, "reading the nodes from", `SELECT id, host, pid, version, components, triggers_hash, triggers_loaded_at, started_at, heartbeat_at, heartbeat_at < `+ago(s.DeadNode)+`, note FROM nodes
		WHERE heartbeat_at > `+ago(24*time.Hour)+` ORDER BY started_at, id`, nil, func(r pgx.Rows) error {
		var n queue.Node
		var components string
		var loaded, started, beat int64
		if err := r.Scan(&n.ID, &n.Host, &n.PID, &n.Version, &components, &n.TriggersHash, &loaded, &started, &beat, &n.Gone, &n.Note); err != nil {
			return err
		}
		n.TriggersLoadedAt, n.StartedAt, n.HeartbeatAt = at(loaded), at(started), at(beat)
		err := fromJSON(components, &n.Components)
		nodes = append(nodes, n)
		return err
	})
	return nodes, err
}

// Counts implements queue.Fleet.
func (s *Store) Counts(ctx context.Context) (c queue.Counts, err error) {
	c = queue.Counts{Deliveries: map[queue.DeliveryState]int{}, Runs: map[queue.RunState]int{}, Dropped24h: map[string]int{}, Dropped1h: map[string]int{}}
	read := func(q string, args []any, scan func(pgx.Rows) error) {
		if err == nil {
			err = s.read(ctx, "counting in", q, args, scan)
		}
	}
	read(`SELECT state, COUNT(*) FROM deliveries WHERE finished_at IS NULL GROUP BY state`, nil, func(r pgx.Rows) error {
		var state string
		var n int
		err := r.Scan(&state, &n)
		c.Deliveries[queue.DeliveryState(state)] = n
		return err
	})
	read(`SELECT state, COUNT(*) FROM runs WHERE state IN ('waiting', 'running', 'routing', 'uncertain') GROUP BY state`, nil, func(r pgx.Rows) error {
		var state string
		var n int
		err := r.Scan(&state, &n)
		c.Runs[queue.RunState(state)] = n
		return err
	})
	read(`SELECT word, SUM(n)::bigint FROM tallies GROUP BY word`, nil, func(r pgx.Rows) error {
		var word string
		var n int
		err := r.Scan(&word, &n)
		if state, ok := strings.CutPrefix(word, "delivery:"); ok {
			c.Deliveries[queue.DeliveryState(state)] = n
		} else if state, ok := strings.CutPrefix(word, "run:"); ok {
			c.Runs[queue.RunState(state)] = n
		}
		return err
	})
	read(`SELECT reason, COUNT(*), COUNT(*) FILTER (WHERE finished_at > `+ago(time.Hour)+`) FROM runs WHERE state = 'dropped' AND finished_at > `+ago(24*time.Hour)+` GROUP BY reason`,
		nil, func(r pgx.Rows) error {
			var reason string
			var day, hour int
			err := r.Scan(&reason, &day, &hour)
			c.Dropped24h[reason] = day
			if hour > 0 {
				c.Dropped1h[reason] = hour
			}
			return err
		})
	one := func(q string, dest *time.Time) {
		read(q, nil, func(r pgx.Rows) error {
			var n int64
			err := r.Scan(&n)
			*dest = at(n)
			return err
		})
	}
	one(`SELECT received_at FROM deliveries WHERE finished_at IS NULL AND (due_at <= `+clock+` OR state = 'processing') ORDER BY seq + 0 LIMIT 1`, &c.OldestPending)
	one(`SELECT COALESCE(MIN(due_at), 0) FROM deliveries WHERE finished_at IS NULL AND due_at <= `+clock, &c.OldestClaimable)
	one(`SELECT COALESCE(MIN(deadline_at - uncertain_after), 0) FROM runs WHERE state = 'uncertain'`, &c.OldestUncertain)
	one(`SELECT finished_at FROM deliveries WHERE dead ORDER BY seq LIMIT 1`, &c.OldestDead)
	return c, err
}

// SecretUses implements queue.Fleet.
func (s *Store) SecretUses(ctx context.Context) (uses []queue.SecretUse, err error) {
	err = s.read(ctx, "reading the secrets' uses from", `SELECT source, name, deliveries, last_used_at FROM secret_uses ORDER BY source, name`, nil, func(r pgx.Rows) error {
		var u queue.SecretUse
		var last int64
		err := r.Scan(&u.Source, &u.Name, &u.Deliveries, &last)
		u.LastUsedAt = at(last)
		uses = append(uses, u)
		return err
	})
	return uses, err
}

// DoubleSubscriptions implements queue.Fleet.
func (s *Store) DoubleSubscriptions(ctx context.Context) (list []queue.DoubleSubscription, err error) {
	err = s.read(ctx, "reading from", `SELECT trigger, owner, other, last_at FROM double_subscriptions WHERE last_at > `+ago(24*time.Hour)+` ORDER BY trigger, owner, other`, nil, func(r pgx.Rows) error {
		var d queue.DoubleSubscription
		var last int64
		err := r.Scan(&d.Trigger, &d.Owner, &d.Other, &last)
		d.LastAt = at(last)
		list = append(list, d)
		return err
	})
	return list, err
}

// LoadDocs implements queue.Fleet.
func (s *Store) LoadDocs(ctx context.Context, kind string) (map[string]queue.Doc, error) {
	docs := map[string]queue.Doc{}
	err := s.read(ctx, "reading from", `SELECT key, version, updated_at, body FROM docs WHERE kind = $1`, []any{kind}, func(r pgx.Rows) error {
		var key, body string
		var d queue.Doc
		var updated int64
		err := r.Scan(&key, &d.Version, &updated, &body)
		d.UpdatedAt, d.Body = at(updated), json.RawMessage(body)
		docs[key] = d
		return err
	})
	return docs, err
}

// SwapDoc implements queue.Fleet.
func (s *Store) SwapDoc(ctx context.Context, kind, key string, old int64, body json.RawMessage) (bool, error) {
	q := `UPDATE docs SET version = version + 1, updated_at = ` + clock + `, body = $4 WHERE kind = $1 AND key = $2 AND version = $3`
	if old == 0 {
		q = `INSERT INTO docs (kind, key, version, updated_at, body) VALUES ($1, $2, $3::bigint + 1, ` + clock + `, $4) ON CONFLICT (kind, key) DO NOTHING`
	}
	n, err := s.do(ctx, "writing to", q, kind, key, old, string(body))
	return n == 1, err
}

// Lock implements queue.Fleet.
func (s *Store) Lock(ctx context.Context, name, owner string, ttl time.Duration) (bool, error) {
	n, err := s.do(ctx, "writing to", `INSERT INTO locks (name, owner, until) VALUES ($1, $2, `+clock+` + $3)
		ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until WHERE locks.owner = excluded.owner OR locks.until <= `+clock,
		name, owner, ttl.Microseconds())
	return n == 1, err
}

// Unlock implements queue.Fleet.
func (s *Store) Unlock(ctx context.Context, name, owner string) error {
	_, err := s.do(ctx, "writing to", `DELETE FROM locks WHERE name = $1 AND owner = $2`, name, owner)
	return err
}
