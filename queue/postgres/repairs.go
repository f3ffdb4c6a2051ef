package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/seed-de999ace/preloop/queue"
)

// Present implements queue.Repairs.
func (s *Store) Present(ctx context.Context, source string, guids []string) (map[string]bool, error) {
	present := map[string]bool{}
	err := s.read(ctx, "reading from", `SELECT guid FROM deliveries WHERE guid = ANY($1::text[]) AND source = $2`, []any{slices.Clone(guids), source}, func(r pgx.Rows) error {
		var guid string
		err := r.Scan(&guid)
		present[guid] = true
		return err
	})
	return present, err
}

// SaveRepairs implements queue.Repairs.
func (s *Store) SaveRepairs(ctx context.Context, repairs []queue.Repair) error {
	return s.write(ctx, func(t *tx) error {
		for _, r := range repairs {
			if _, err := t.exec(`INSERT INTO repairs (source, guid, source_name, hook_id, event, action, reason, state, attempts, delivered_at, found_at, next_attempt, last_attempt, closed_at, last_error)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
				ON CONFLICT (source, guid) DO UPDATE SET source_name = excluded.source_name, hook_id = excluded.hook_id, event = excluded.event, action = excluded.action, reason = excluded.reason,
					state = excluded.state, attempts = excluded.attempts, delivered_at = excluded.delivered_at, found_at = excluded.found_at, next_attempt = excluded.next_attempt,
					last_attempt = excluded.last_attempt, closed_at = excluded.closed_at, last_error = excluded.last_error`,
				r.Source, r.GUID, r.SourceName, r.HookID, r.Event, r.Action, r.Reason, r.State, r.Attempts, r.DeliveredAt.UnixMicro(), r.FoundAt.UnixMicro(),
				us(r.NextAttempt), us(r.LastAttempt), us(r.ClosedAt), r.LastError); err != nil {
				return err
			}
		}
		return nil
	})
}

// PruneRepairs implements queue.Repairs. No repair is closed before it is found, and what was found
// when has an index.
func (s *Store) PruneRepairs(ctx context.Context, limit int) (int, error) {
	return get(ctx, s, func(t *tx) (int, error) {
		n, err := t.exec(`DELETE FROM repairs WHERE (source, guid) IN
			(SELECT source, guid FROM repairs WHERE found_at < $1 AND closed_at < $1 ORDER BY found_at LIMIT $2 FOR UPDATE SKIP LOCKED)`, t.now-s.Keep.Microseconds(), limit)
		return int(n), err
	})
}

// ListRepairs implements queue.Repairs.
func (s *Store) ListRepairs(ctx context.Context, f queue.RepairFilter) (list []queue.Repair, err error) {
	var w filter
	if f.Source != "" {
		w.add("(source = ? OR source_name = ?)", f.Source, f.Source)
	}
	if f.State != "" {
		w.add("state = ?", f.State)
	}
	q := `SELECT source, guid, source_name, hook_id, event, action, reason, state, attempts, delivered_at, found_at,
		COALESCE(next_attempt, 0), COALESCE(last_attempt, 0), COALESCE(closed_at, 0), last_error FROM repairs` + w.String() + ` ORDER BY found_at DESC, guid`
	if f.Limit > 0 {
		q += w.limit(f.Limit)
	}
	err = s.read(ctx, "listing repairs in", q, w.args, func(row pgx.Rows) error {
		var r queue.Repair
		var delivered, found, next, last, closed int64
		err := row.Scan(&r.Source, &r.GUID, &r.SourceName, &r.HookID, &r.Event, &r.Action, &r.Reason, &r.State, &r.Attempts, &delivered, &found, &next, &last, &closed, &r.LastError)
		r.DeliveredAt, r.FoundAt, r.NextAttempt, r.LastAttempt, r.ClosedAt = at(delivered), at(found), at(next), at(last), at(closed)
		list = append(list, r)
		return err
	})
	return list, err
}
