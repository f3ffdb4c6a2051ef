package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// Present implements queue.Repairs.
func (s *Store) Present(ctx context.Context, source string, guids []string) (map[string]bool, error) {
	present := map[string]bool{}
	rows, err := s.readers.QueryContext(ctx, `SELECT guid FROM deliveries WHERE guid IN (SELECT value FROM json_each(?)) AND source = ?`, toJSON(guids), source)
	err = each(rows, err, func(r *sql.Rows) error {
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
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
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
	cutoff := time.Now().Add(-s.Keep).UnixMicro()
	return get(ctx, s, func(t *tx) (int, error) {
		n, err := t.exec(`DELETE FROM repairs WHERE (source, guid) IN (SELECT source, guid FROM repairs WHERE found_at < ?1 AND closed_at < ?1 ORDER BY found_at LIMIT ?2)`, cutoff, limit)
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
	limit := f.Limit
	if limit <= 0 {
		limit = -1
	}
	rows, err := s.readers.QueryContext(ctx, `SELECT source, guid, source_name, hook_id, event, action, reason, state, attempts, delivered_at, found_at,
		COALESCE(next_attempt, 0), COALESCE(last_attempt, 0), COALESCE(closed_at, 0), last_error FROM repairs`+w.String()+` ORDER BY found_at DESC, guid LIMIT ?`, append(w.args, limit)...)
	err = each(rows, err, func(row *sql.Rows) error {
		var r queue.Repair
		var delivered, found, next, last, closed int64
		err := row.Scan(&r.Source, &r.GUID, &r.SourceName, &r.HookID, &r.Event, &r.Action, &r.Reason, &r.State, &r.Attempts, &delivered, &found, &next, &last, &closed, &r.LastError)
		r.DeliveredAt, r.FoundAt, r.NextAttempt, r.LastAttempt, r.ClosedAt = at(delivered), at(found), at(next), at(last), at(closed)
		list = append(list, r)
		return err
	})
	return list, err
}
