package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// Heartbeat implements queue.Fleet.
func (s *Store) Heartbeat(ctx context.Context, n queue.Node) error {
	return s.write(ctx, func(t *tx) error {
		_, err := t.exec(`INSERT INTO nodes (id, host, pid, version, components, triggers_hash, triggers_loaded_at, started_at, heartbeat_at, note)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET triggers_hash = excluded.triggers_hash, triggers_loaded_at = excluded.triggers_loaded_at, components = excluded.components,
				heartbeat_at = excluded.heartbeat_at, note = excluded.note`,
			n.ID, n.Host, n.PID, n.Version, toJSON(n.Components), n.TriggersHash, n.TriggersLoadedAt.UnixMicro(), n.StartedAt.UnixMicro(), t.now, n.Note)
		if err != nil {
			return err
		}
		_, err = t.exec(`DELETE FROM nodes WHERE heartbeat_at < ?`, t.now-(24*time.Hour).Microseconds())
		return err
	})
}

// Leave implements queue.Fleet.
func (s *Store) Leave(ctx context.Context, node string) error {
	return s.write(ctx, func(t *tx) error {
		_, err := t.exec(`DELETE FROM nodes WHERE id = ?`, node)
		return err
	})
}

// Nodes implements queue.Fleet.
func (s *Store) Nodes(ctx context.Context) (nodes []queue.Node, err error) {
	dead := time.Now().Add(-s.DeadNode)
	rows, err := s.readers.QueryContext(ctx, `SELECT id, host, pid, version, components, triggers_hash, triggers_loaded_at, started_at, heartbeat_at, note FROM nodes
		WHERE heartbeat_at > ? ORDER BY started_at, id`, time.Now().Add(-24*time.Hour).UnixMicro())
	err = each(rows, err, func(r *sql.Rows) error {
		var n queue.Node
		var components string
		var loaded, started, beat int64
		if err := r.Scan(&n.ID, &n.Host, &n.PID, &n.Version, &components, &n.TriggersHash, &loaded, &started, &beat, &n.Note); err != nil {
			return err
		}
		n.TriggersLoadedAt, n.StartedAt, n.HeartbeatAt = at(loaded), at(started), at(beat)
		n.Gone = n.HeartbeatAt.Before(dead)
		err := fromJSON(components, &n.Components)
		nodes = append(nodes, n)
		return err
	})
	return nodes, err
}

// Counts implements queue.Fleet.
func (s *Store) Counts(ctx context.Context) (c queue.Counts, err error) {
	c = queue.Counts{Deliveries: map[queue.DeliveryState]int{}, Runs: map[queue.RunState]int{}, Dropped24h: map[string]int{}, Dropped1h: map[string]int{}}
	now := time.Now()
	read := func(q string, args []any, scan func(*sql.Rows) error) {
		if err != nil {
			return
		}
		rows, e := s.readers.QueryContext(ctx, q, args...)
		if e := each(rows, e, scan); e != nil {
			err = s.explain("counting in", e)
		}
	}
	read(`SELECT state, COUNT(*) FROM deliveries WHERE due_at IS NOT NULL GROUP BY state`, nil, func(r *sql.Rows) error {
		var state string
		var n int
		err := r.Scan(&state, &n)
		c.Deliveries[queue.DeliveryState(state)] = n
		return err
	})
	read(`SELECT state, COUNT(*) FROM runs WHERE state IN ('waiting', 'running', 'routing', 'uncertain') GROUP BY state`, nil, func(r *sql.Rows) error {
		var state string
		var n int
		err := r.Scan(&state, &n)
		c.Runs[queue.RunState(state)] = n
		return err
	})
	read(`SELECT word, SUM(n) FROM tallies GROUP BY word`, nil, func(r *sql.Rows) error {
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
	read(`SELECT reason, COUNT(*), SUM(finished_at > ?2) FROM runs WHERE state = 'dropped' AND finished_at > ?1 GROUP BY reason`,
		[]any{now.Add(-24 * time.Hour).UnixMicro(), now.Add(-time.Hour).UnixMicro()}, func(r *sql.Rows) error {
			var reason string
			var day, hour int
			err := r.Scan(&reason, &day, &hour)
			c.Dropped24h[reason] = day
			if hour > 0 {
				c.Dropped1h[reason] = hour
			}
			return err
		})
	one := func(q string, dest *time.Time, args ...any) {
		read(q, args, func(r *sql.Rows) error {
			var n int64
			err := r.Scan(&n)
			*dest = at(n)
			return err
		})
	}
	one(`SELECT received_at FROM deliveries WHERE due_at IS NOT NULL AND (due_at <= ? OR state = 'processing') ORDER BY seq LIMIT 1`, &c.OldestPending, now.UnixMicro())
	one(`SELECT COALESCE(MIN(due_at), 0) FROM deliveries WHERE due_at IS NOT NULL AND due_at <= ?`, &c.OldestClaimable, now.UnixMicro())
	one(`SELECT COALESCE(MIN(deadline_at - uncertain_after), 0) FROM runs WHERE state = 'uncertain'`, &c.OldestUncertain)
	one(`SELECT finished_at FROM deliveries WHERE state = 'failed' ORDER BY seq LIMIT 1`, &c.OldestDead)
	return c, err
}

// SecretUses implements queue.Fleet.
func (s *Store) SecretUses(ctx context.Context) (uses []queue.SecretUse, err error) {
	rows, err := s.readers.QueryContext(ctx, `SELECT source, name, deliveries, last_used_at FROM secret_uses ORDER BY source, name`)
	err = each(rows, err, func(r *sql.Rows) error {
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
	rows, err := s.readers.QueryContext(ctx, `SELECT trigger, owner, other, last_at FROM double_subscriptions WHERE last_at > ? ORDER BY trigger, owner, other`, time.Now().Add(-24*time.Hour).UnixMicro())
	err = each(rows, err, func(r *sql.Rows) error {
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
	rows, err := s.readers.QueryContext(ctx, `SELECT key, version, updated_at, body FROM docs WHERE kind = ?`, kind)
	err = each(rows, err, func(r *sql.Rows) error {
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
	return get(ctx, s, func(t *tx) (bool, error) {
		q := `UPDATE docs SET version = version + 1, updated_at = ?4, body = ?5 WHERE kind = ?1 AND key = ?2 AND version = ?3`
		if old == 0 {
			q = `INSERT INTO docs (kind, key, version, updated_at, body) VALUES (?1, ?2, ?3 + 1, ?4, ?5) ON CONFLICT (kind, key) DO NOTHING`
		}
		n, err := t.exec(q, kind, key, old, t.now, string(body))
		return n == 1, err
	})
}

// Lock implements queue.Fleet.
func (s *Store) Lock(ctx context.Context, name, owner string, ttl time.Duration) (bool, error) {
	return get(ctx, s, func(t *tx) (bool, error) {
		n, err := t.exec(`INSERT INTO locks (name, owner, until) VALUES (?1, ?2, ?3)
			ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until WHERE owner = excluded.owner OR until <= ?4`,
			name, owner, t.now+ttl.Microseconds(), t.now)
		return n == 1, err
	})
}

// Unlock implements queue.Fleet.
func (s *Store) Unlock(ctx context.Context, name, owner string) error {
	return s.write(ctx, func(t *tx) error {
		_, err := t.exec(`DELETE FROM locks WHERE name = ? AND owner = ?`, name, owner)
		return err
	})
}
