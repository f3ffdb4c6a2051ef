package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// PauseTrigger implements queue.Triggers.
func (s *Store) PauseTrigger(ctx context.Context, name string) error {
	return s.write(ctx, func(t *tx) error {
		n, err := t.exec(`INSERT INTO triggers (name, paused_since) VALUES (?1, ?2)
			ON CONFLICT (name) DO UPDATE SET paused_since = excluded.paused_since WHERE paused_since IS NULL`, name, t.now)
		if err != nil || n == 0 {
			return err
		}
		_, err = t.exec(`INSERT INTO pauses (trigger, since) VALUES (?, ?)`, name, t.now)
		return err
	})
}

// ResumeTrigger implements queue.Triggers.
func (s *Store) ResumeTrigger(ctx context.Context, name string) error {
	return s.write(ctx, func(t *tx) error {
		t.wakes = true
		if _, err := t.exec(`UPDATE triggers SET paused_since = NULL WHERE name = ?`, name); err != nil {
			return err
		}
		_, err := t.exec(`UPDATE pauses SET until = ?2 WHERE trigger = ?1 AND until IS NULL`, name, t.now)
		return err
	})
}

// TriggerStats implements queue.Triggers.
func (s *Store) TriggerStats(ctx context.Context) (map[string]queue.TriggerStats, error) {
	stats := map[string]queue.TriggerStats{}
	read := func(q string, args []any, scan func(*sql.Rows) error) error {
		rows, err := s.readers.QueryContext(ctx, q, args...)
		if err := each(rows, err, scan); err != nil {
			return s.explain("reading the triggers' state from", err)
		}
		return nil
	}
	err := read(`SELECT name, COALESCE(paused_since, 0) FROM triggers`, nil, func(r *sql.Rows) error {
		var name string
		var since int64
		err := r.Scan(&name, &since)
		st := stats[name]
		st.PausedSince = at(since)
		stats[name] = st
		return err
	})
	if err != nil {
		return nil, err
	}
	err = read(`SELECT trigger, state, COUNT(*) FROM runs WHERE state IN ('waiting', 'running', 'routing', 'uncertain') GROUP BY trigger, state`, nil, func(r *sql.Rows) error {
		var name, state string
		var n int
		err := r.Scan(&name, &state, &n)
		st := stats[name]
		switch queue.RunState(state) {
		case queue.Waiting:
			st.Waiting = n
		case queue.Running:
			st.Running = n
		case queue.Routing:
			st.Routing = n
		case queue.Uncertain:
			st.Uncertain = n
		}
		stats[name] = st
		return err
	})
	if err != nil {
		return nil, err
	}
	err = read(`SELECT trigger, COUNT(*) FROM runs WHERE state = 'dropped' AND finished_at > ? GROUP BY trigger`, []any{time.Now().Add(-24 * time.Hour).UnixMicro()}, func(r *sql.Rows) error {
		var name string
		var n int
		err := r.Scan(&name, &n)
		st := stats[name]
		st.Dropped24h = n
		stats[name] = st
		return err
	})
	if err != nil {
		return nil, err
	}
	// The other triggers that ever ran, by hopping through the index, with the newest runs of each.
	for name := ""; ; {
		found := false
		err := read(`SELECT trigger FROM runs WHERE trigger > ? ORDER BY trigger LIMIT 1`, []any{name}, func(r *sql.Rows) error {
			found = true
			return r.Scan(&name)
		})
		if err != nil || !found {
			return stats, err
		}
		st := stats[name]
		if err := read(`SELECT started_at FROM runs WHERE trigger = ? AND started_at IS NOT NULL ORDER BY id DESC LIMIT 1`, []any{name}, func(r *sql.Rows) error {
			var n int64
			err := r.Scan(&n)
			st.LastRunAt = at(n)
			return err
		}); err != nil {
			return nil, err
		}
		streak := true
		if err := read(`SELECT state FROM runs WHERE trigger = ? AND kind = 'start' AND state IN ('succeeded', 'failed') ORDER BY id DESC LIMIT 5`, []any{name}, func(r *sql.Rows) error {
			var state string
			err := r.Scan(&state)
			if streak = streak && state == "failed"; streak {
				st.LastFailed++
			}
			return err
		}); err != nil {
			return nil, err
		}
		stats[name] = st
	}
}
