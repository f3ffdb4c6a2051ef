package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// prunable selects from deliveries AS d what has been terminal since before $1 and is kept by
// nothing.
const prunable = `d.finished_at < $1 AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.delivery_seq = d.seq AND (r.finished_at IS NULL OR r.finished_at >= $1
	OR EXISTS (SELECT 1 FROM sessions AS s WHERE s.run_id = r.run_id AND s.state <> 'ended')))`

// Prune implements queue.Store. What a replay or an operator's retry is about to bring back is
// passed over: candidates are locked, with their runs, and then judged once more.
func (s *Store) Prune(ctx context.Context, limit int) (deleted int, err error) {
	for limit > 0 && err == nil {
		var n int
		// Small transactions: none of them holds its locks for long.
		n, err = get(ctx, s, func(t *tx) (int, error) { return t.prune(t.now-s.Keep.Microseconds(), min(limit, pruneStep)) })
		if deleted += n; n == 0 {
			break
		}
		limit -= n
	}
	if deleted > 0 { // these are gone; what failed is tried again by the next call
		err = nil
	}
	return deleted, err
}

// pruneStep is how many deliveries one transaction deletes: its locks are held for some 20 ms.
const pruneStep = 128

func (t *tx) prune(cutoff int64, limit int) (int, error) {
	t.writer = "prune" // so much takes long to flush: no other transaction waits for its tallies
	var seqs []int64
	collect := func(r pgx.Rows) error {
		var seq int64
		err := r.Scan(&seq)
		seqs = append(seqs, seq)
		return err
	}
	if err := t.rows(`SELECT d.seq FROM deliveries AS d WHERE `+prunable+` ORDER BY d.finished_at LIMIT $2 FOR UPDATE OF d SKIP LOCKED`, []any{cutoff, limit}, collect); err != nil || len(seqs) == 0 {
		return 0, err
	}
	if _, err := t.exec(`SELECT 1 FROM runs WHERE delivery_seq = ANY($1::bigint[]) ORDER BY id FOR UPDATE`, seqs); err != nil {
		return 0, err
	}
	locked := seqs
	seqs = nil
	states := map[string]int64{}
	err := t.rows(`DELETE FROM deliveries AS d WHERE d.seq = ANY($2::bigint[]) AND `+prunable+` RETURNING d.seq, d.state`, []any{cutoff, locked}, func(r pgx.Rows) error {
		var seq int64
		var state string
		err := r.Scan(&seq, &state)
		seqs = append(seqs, seq)
		states["delivery:"+state]++
		return err
	})
	if err != nil || len(seqs) == 0 {
		return 0, err
	}
	for _, q := range []string{
		`DELETE FROM payloads WHERE seq = ANY($1::bigint[])`,
		`DELETE FROM run_outputs WHERE id IN (SELECT id FROM runs WHERE delivery_seq = ANY($1::bigint[]))`,
		`DELETE FROM sessions WHERE run_id IN (SELECT run_id FROM runs WHERE delivery_seq = ANY($1::bigint[]))`,
	} {
		if _, err := t.exec(q, seqs); err != nil {
			return 0, err
		}
	}
	err = t.rows(`DELETE FROM runs WHERE delivery_seq = ANY($1::bigint[]) RETURNING state`, []any{seqs}, func(r pgx.Rows) error {
		var state string
		err := r.Scan(&state)
		states["run:"+state]++
		return err
	})
	for word, n := range states {
		t.tally(word, -n)
	}
	return len(seqs), err
}

// Prunable implements queue.Store.
func (s *Store) Prunable(ctx context.Context) (n int, err error) {
	var cutoff int64
	if err := s.readRow(ctx, "counting in", `SELECT `+ago(s.Keep), nil, func(r scanner) error { return r.Scan(&cutoff) }); err != nil {
		return 0, err
	}
	err = s.readRow(ctx, "counting in", `SELECT COUNT(*) FROM deliveries AS d WHERE `+prunable, []any{cutoff}, func(r scanner) error { return r.Scan(&n) })
	return n, err
}

// Compact implements queue.Store. Postgres reuses the space by itself (autovacuum).
func (s *Store) Compact(context.Context) error { return nil }
