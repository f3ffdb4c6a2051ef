package postgres

import (
	"context"
	"encoding/json"
	"fmt"
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

// countAll is what Counts counts, in one statement: what is read, under which word, how many.
const countAll = `SELECT 'delivery', state, COUNT(*), 0 FROM deliveries WHERE finished_at IS NULL GROUP BY state
	UNION ALL SELECT 'run', state, COUNT(*), 0 FROM runs WHERE state IN ('waiting', 'running', 'routing', 'uncertain') GROUP BY state
	UNION ALL SELECT 'ended', word, SUM(n)::bigint, 0 FROM tallies GROUP BY word
	UNION ALL SELECT 'dropped', reason, COUNT(*), COUNT(*) FILTER (WHERE finished_at > %s) FROM runs WHERE state = 'dropped' AND finished_at > %s GROUP BY reason
	UNION ALL (SELECT 'pending', '', received_at, 0 FROM deliveries WHERE finished_at IS NULL AND (due_at <= ` + clock + ` OR state = 'processing') ORDER BY seq + 0 LIMIT 1)
	UNION ALL SELECT 'claimable', '', COALESCE(MIN(due_at), 0), 0 FROM deliveries WHERE finished_at IS NULL AND due_at <= ` + clock + `
	UNION ALL SELECT 'uncertain', '', COALESCE(MIN(deadline_at - uncertain_after), 0), 0 FROM runs WHERE state = 'uncertain'
	UNION ALL (SELECT 'dead', '', finished_at, 0 FROM deliveries WHERE dead ORDER BY seq LIMIT 1)`

// Counts implements queue.Fleet.
func (s *Store) Counts(ctx context.Context) (c queue.Counts, err error) {
	c = queue.Counts{Deliveries: map[queue.DeliveryState]int{}, Runs: map[queue.RunState]int{}, Dropped24h: map[string]int{}, Dropped1h: map[string]int{}}
	err = s.read(ctx, "counting in", fmt.Sprintf(countAll, ago(time.Hour), ago(24*time.Hour)), nil, func(r pgx.Rows) error {
		var what, word string
		var n, lately int64
		err := r.Scan(&what, &word, &n, &lately)
		switch what {
		case "delivery":
			c.Deliveries[queue.DeliveryState(word)] = int(n)
		case "run":
			c.Runs[queue.RunState(word)] = int(n)
		case "ended":
			if state, ok := strings.CutPrefix(word, "delivery:"); ok {
				c.Deliveries[queue.DeliveryState(state)] = int(n)
			} else if state, ok := strings.CutPrefix(word, "run:"); ok {
				c.Runs[queue.RunState(state)] = int(n)
			}
		case "dropped":
			if c.Dropped24h[word] = int(n); lately > 0 {
				c.Dropped1h[word] = int(lately)
			}
		case "pending":
			c.OldestPending = at(n)
		case "claimable":
			c.OldestClaimable = at(n)
		case "uncertain":
			c.OldestUncertain = at(n)
		case "dead":
			c.OldestDead = at(n)
		}
		return err
	})
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
