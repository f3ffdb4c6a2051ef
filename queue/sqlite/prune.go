package sqlite

import (
	"context"
	"database/sql"
	"time"
)

const prunable = `state IN ('done', 'failed') AND finished_at IS NOT NULL AND finished_at < ?1
	AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.delivery_seq = deliveries.seq AND (r.finished_at IS NULL OR r.finished_at >= ?1
		OR EXISTS (SELECT 1 FROM sessions s WHERE s.run_id = r.run_id AND s.state <> 'ended')))`

// Prune implements queue.Store.
func (s *Store) Prune(ctx context.Context, limit int) (int, error) {
	cutoff := time.Now().Add(-s.Keep).UnixMicro()
	seqs, err := s.prunable(ctx, cutoff, limit)
	if err != nil || len(seqs) == 0 {
		return 0, err
	}
	return get(ctx, s, func(t *tx) (deleted int, err error) {
		for _, seq := range seqs {
			var state string
			err := t.rows(`DELETE FROM deliveries WHERE seq = ?2 AND `+prunable+` RETURNING state`, []any{cutoff, seq}, func(r *sql.Rows) error { return r.Scan(&state) })
			if err != nil {
				return 0, err
			}
			if state == "" {
				continue // replayed meanwhile
			}
			deleted++
			t.tally("delivery:"+state, -1)
			if err := t.pruneRuns(seq); err != nil {
				return 0, err
			}
			if _, err := t.exec(`DELETE FROM payloads WHERE seq = ?`, seq); err != nil {
				return 0, err
			}
		}
		return deleted, nil
	})
}

func (t *tx) pruneRuns(seq int64) error {
	if _, err := t.exec(`DELETE FROM run_outputs WHERE id IN (SELECT id FROM runs WHERE delivery_seq = ?)`, seq); err != nil {
		return err
	}
	if _, err := t.exec(`DELETE FROM sessions WHERE run_id IN (SELECT run_id FROM runs WHERE delivery_seq = ?)`, seq); err != nil {
		return err
	}
	return t.rows(`DELETE FROM runs WHERE delivery_seq = ? RETURNING state`, []any{seq}, func(r *sql.Rows) error {
		var state string
		err := r.Scan(&state)
		t.tally("run:"+state, -1)
		return err
	})
}

// prunable reads, outside the writer, what may be deleted.
func (s *Store) prunable(ctx context.Context, cutoff int64, limit int) (seqs []int64, err error) {
	rows, err := s.readers.QueryContext(ctx, `SELECT seq FROM deliveries WHERE `+prunable+` ORDER BY finished_at LIMIT ?2`, cutoff, limit)
	err = each(rows, err, func(r *sql.Rows) error {
		var seq int64
		err := r.Scan(&seq)
		seqs = append(seqs, seq)
		return err
	})
	return seqs, err
}

// Prunable implements queue.Store.
func (s *Store) Prunable(ctx context.Context) (n int, err error) {
	err = s.readers.QueryRowContext(ctx, `SELECT COUNT(*) FROM deliveries WHERE `+prunable, time.Now().Add(-s.Keep).UnixMicro()).Scan(&n)
	return n, err
}

// Compact implements queue.Store: a few hundred free pages a call, so that ingest does not notice.
func (s *Store) Compact(ctx context.Context) error {
	for range 64 {
		more, err := get(ctx, s, func(t *tx) (more bool, err error) {
			var free int
			if err := t.row(`PRAGMA freelist_count`, nil, &free); err != nil || free == 0 {
				return false, err
			}
			_, err = t.exec(`PRAGMA incremental_vacuum(256)`)
			return free > 256, err
		})
		if err != nil || !more {
			return err
		}
	}
	return nil
}
