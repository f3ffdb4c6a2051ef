package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-de999ace/preloop/queue"
)

// PauseTrigger implements queue.Triggers.
func (s *Store) PauseTrigger(ctx context.Context, name string) error {
	return s.write(ctx, func(t *tx) error {
		if err := t.lock(name); err != nil {
			return err
		}
		n, err := t.exec(`INSERT INTO triggers (name, paused_since) VALUES ($1, $2)
			ON CONFLICT (name) DO UPDATE SET paused_since = excluded.paused_since WHERE triggers.paused_since IS NULL`, name, t.now)
		if err != nil || n == 0 {
			return err
		}
		_, err = t.exec(`INSERT INTO pauses (trigger, since) VALUES ($1, $2)`, name, t.now)
		return err
	})
}

// ResumeTrigger implements queue.Triggers.
func (s *Store) ResumeTrigger(ctx context.Context, name string) error {
	return s.write(ctx, func(t *tx) error {
		t.wakes = true
		if err := t.lock(name); err != nil {
			return err
		}
		if _, err := t.exec(`UPDATE triggers SET paused_since = NULL WHERE name = $1`, name); err != nil {
			return err
		}
		_, err := t.exec(`UPDATE pauses SET until = $2 WHERE trigger = $1 AND until IS NULL`, name, t.now)
		return err
	})
}

// TriggerStats implements queue.Triggers.
func (s *Store) TriggerStats(ctx context.Context) (map[string]queue.TriggerStats, error) {
	stats := map[string]queue.TriggerStats{}
	read := func(q string, args []any, scan func(pgx.Rows) error) error {
		return s.read(ctx, "reading the triggers' state from", q, args, scan)
	}
	err := read(`SELECT name, COALESCE(paused_since, 0) FROM triggers`, nil, func(r pgx.Rows) error {
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
	err = read(`SELECT trigger, state, COUNT(*) FROM runs WHERE state IN ('waiting', 'running', 'routing', 'uncertain') GROUP BY trigger, state`, nil, func(r pgx.Rows) error {
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
	err = read(`SELECT trigger, COUNT(*) FROM runs WHERE state = 'dropped' AND finished_at > `+ago(24*time.Hour)+` GROUP BY trigger`, nil, func(r pgx.Rows) error {
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
		err := read(`SELECT trigger FROM runs WHERE trigger > $1 ORDER BY trigger LIMIT 1`, []any{name}, func(r pgx.Rows) error {
			found = true
			return r.Scan(&name)
		})
		if err != nil || !found {
			return stats, err
		}
		st := stats[name]
		if err := read(`SELECT started_at FROM runs WHERE trigger = $1 AND started_at IS NOT NULL ORDER BY id DESC LIMIT 1`, []any{name}, func(r pgx.Rows) error {
			var n int64
			err := r.Scan(&n)
			st.LastRunAt = at(n)
			return err
		}); err != nil {
			return nil, err
		}
		streak := true
		if err := read(`SELECT state FROM runs WHERE trigger = $1 AND kind = 'start' AND state IN ('succeeded', 'failed') ORDER BY id DESC LIMIT 5`, []any{name}, func(r pgx.Rows) error {
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
