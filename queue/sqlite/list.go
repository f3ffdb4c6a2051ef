package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/codec"
)

// filter gathers a WHERE clause.
type filter struct {
	where []string
	args  []any
}

func (f *filter) add(clause string, args ...any) {
	f.where = append(f.where, clause)
	f.args = append(f.args, args...)
}

func (f *filter) String() string {
	if len(f.where) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(f.where, " AND ")
}

// after continues behind a cursor, which is the last row's number.
func (f *filter) after(column, cursor string) error {
	if cursor == "" {
		return nil
	}
	n, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil {
		return fmt.Errorf("listing: %w: the cursor is not one that a list returned", queue.ErrInvalid)
	}
	f.add(column+" < ?", n)
	return nil
}

func in[S ~string](column string, states []S) (string, []any) {
	args := make([]any, len(states))
	for i, s := range states {
		args[i] = string(s)
	}
	return column + " IN (?" + strings.Repeat(", ?", len(states)-1) + ")", args
}

func limitOr50(n int) int {
	if n <= 0 {
		return 50
	}
	return n
}

// ListDeliveries implements queue.Deliveries.
func (s *Store) ListDeliveries(ctx context.Context, f queue.DeliveryFilter) (list []queue.Delivery, next string, err error) {
	var w filter
	if len(f.States) > 0 {
		clause, args := in("state", f.States)
		w.add(clause, args...)
		// Says what the index on what is not finished, or on dead letters, can be used for.
		switch {
		case len(f.States) == 1 && f.States[0] == queue.Failed:
			w.add("state = 'failed'")
		case !slices.Contains(f.States, queue.Done) && !slices.Contains(f.States, queue.Failed):
			w.add("due_at IS NOT NULL")
		}
	}
	if f.Event != "" {
		w.add("event = ?", f.Event)
	}
	if f.Repo != "" {
		w.add("repo = ? COLLATE NOCASE", f.Repo)
	}
	if f.Source != "" {
		w.add("(source = ? OR source_name = ?)", f.Source, f.Source)
	}
	if f.Trigger != "" {
		w.add("instr(decisions, ?) > 0", `"trigger":`+toJSON(f.Trigger)+`,`)
	}
	if !f.Since.IsZero() {
		w.add("seq >= ? AND received_at >= ?", f.Since.UnixMicro(), f.Since.UnixMicro())
	}
	if err := w.after("seq", f.Cursor); err != nil {
		return nil, "", err
	}
	n := limitOr50(f.Limit)
	q := `SELECT ` + deliveryColumns + ` FROM deliveries` + w.String() + ` ORDER BY seq DESC LIMIT ?`
	args := append(w.args, n+1)
	if f.Repo != "" || f.Event != "" {
		// The indexes on these hold what is finished; the rest is read through its own index.
		arm := func(due string) string {
			return `SELECT * FROM (SELECT ` + deliveryColumns + ` FROM deliveries` + w.String() + ` AND due_at IS ` + due + ` ORDER BY seq DESC LIMIT ?)`
		}
		q = arm("NULL") + ` UNION ALL ` + arm("NOT NULL") + ` ORDER BY 1 DESC LIMIT ?`
		args = append(append(slices.Clone(args), args...), n+1)
	}
	rows, err := s.readers.QueryContext(ctx, q, args...)
	err = each(rows, err, func(r *sql.Rows) error {
		d, err := scanDelivery(r)
		list = append(list, d)
		return err
	})
	if err != nil {
		return nil, "", s.explain("listing deliveries in", err)
	}
	if len(list) > n {
		list = list[:n]
		next = strconv.FormatInt(list[n-1].Seq, 10)
	}
	return list, next, nil
}

// find returns the number of the delivery that ref names. q reads one column of all matches.
func find(ref string, q func(query string, args []any, scan func(*sql.Rows) error) error) (seq int64, err error) {
	source, id := splitRef(ref)
	var seqs []int64
	err = q(`SELECT seq FROM deliveries WHERE guid = ?1 AND (?2 = '' OR source = ?2 OR source_name = ?2) LIMIT 2`, []any{id, source}, func(r *sql.Rows) error {
		var n int64
		err := r.Scan(&n)
		seqs = append(seqs, n)
		return err
	})
	switch {
	case err != nil:
		return 0, err
	case len(seqs) == 0:
		return 0, fmt.Errorf("delivery %s: %w", ref, queue.ErrNotFound)
	case len(seqs) > 1:
		return 0, fmt.Errorf("delivery %s: %w", ref, queue.ErrAmbiguous)
	}
	return seqs[0], nil
}

func (s *Store) find(ctx context.Context, ref string) (int64, error) {
	return find(ref, func(q string, args []any, scan func(*sql.Rows) error) error {
		rows, err := s.readers.QueryContext(ctx, q, args...)
		return each(rows, err, scan)
	})
}

// Delivery implements queue.Deliveries.
func (s *Store) Delivery(ctx context.Context, ref string) (*queue.DeliveryDetail, error) {
	seq, err := s.find(ctx, ref)
	if err != nil {
		return nil, err
	}
	var d queue.DeliveryDetail
	var history, decisions, node string
	var started int64
	d.Delivery, err = scanDelivery(s.readers.QueryRowContext(ctx, `SELECT `+deliveryColumns+`, history, decisions, node, COALESCE(started_at, 0) FROM deliveries WHERE seq = ?`, seq), &history, &decisions, &node, &started)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("delivery %s: %w", ref, queue.ErrNotFound)
	}
	if err != nil {
		return nil, s.explain("reading a delivery from", err)
	}
	if err := errors.Join(fromJSON(history, &d.History), fromJSON(decisions, &d.Decisions)); err != nil {
		return nil, err
	}
	if d.State == queue.Processing { // the attempt under way, without an end
		d.History = append(d.History, queue.Attempt{Generation: d.Generation, Attempt: d.Attempts, Node: node, StartedAt: at(started)})
	}
	rows, err := s.readers.QueryContext(ctx, `SELECT `+runColumns+` FROM runs WHERE delivery_seq = ? ORDER BY id`, seq)
	err = each(rows, err, func(r *sql.Rows) error {
		_, run, err := scanRun(r)
		d.Runs = append(d.Runs, run)
		return err
	})
	return &d, err
}

// Payload implements queue.Deliveries.
func (s *Store) Payload(ctx context.Context, ref string) ([]byte, error) {
	seq, err := s.find(ctx, ref)
	if err != nil {
		return nil, err
	}
	var p stored
	if err := s.readers.QueryRowContext(ctx, `SELECT codec, body FROM payloads WHERE seq = ?`, seq).Scan(&p.codec, &p.body); err != nil {
		return nil, s.explain("reading a payload from", err)
	}
	return codec.Decode(p.codec, p.body)
}

// Replay implements queue.Deliveries.
func (s *Store) Replay(ctx context.Context, ref string, o queue.ReplayOptions) (*queue.Delivery, error) {
	return get(ctx, s, func(t *tx) (*queue.Delivery, error) {
		seq, err := find(ref, t.rows)
		if err != nil {
			return nil, err
		}
		stmt, err := t.w.prepare(`SELECT ` + deliveryColumns + ` FROM deliveries WHERE seq = ?`)
		if err != nil {
			return nil, err
		}
		d, err := scanDelivery(stmt.QueryRow(seq))
		if err != nil {
			return nil, err
		}
		if !d.State.Terminal() {
			return nil, fmt.Errorf("replaying %s: %w: it is %s", ref, queue.ErrConflict, d.State)
		}
		only := ""
		if len(o.Triggers) > 0 {
			only = toJSON(o.Triggers)
		}
		if _, err := t.exec(`UPDATE deliveries SET state = 'received', attempts = 0, outages = 0, generation = generation + 1, queued_at = ?2, due_at = ?2, finished_at = NULL, forced = ?3, only_triggers = ?4 WHERE seq = ?1`,
			seq, t.now, o.Force, only); err != nil {
			return nil, err
		}
		t.tally("delivery:"+string(d.State), -1)
		t.wakes = true
		d, err = scanDelivery(stmt.QueryRow(seq))
		return &d, err
	})
}

// ListRuns implements queue.Runs.
func (s *Store) ListRuns(ctx context.Context, f queue.RunFilter) (list []queue.Run, next string, err error) {
	var w filter
	if f.Trigger != "" {
		w.add("trigger = ?", f.Trigger)
	}
	if len(f.States) > 0 {
		clause, args := in("state", f.States)
		w.add(clause, args...)
	}
	if f.Subject != "" {
		w.add("subject = ? COLLATE NOCASE", f.Subject)
	}
	if f.DeliveryID != "" {
		source, id := splitRef(f.DeliveryID)
		w.add("guid = ?", id)
		if source != "" {
			w.add("(source = ? OR source_name = ?)", source, source)
		}
	}
	if !f.Since.IsZero() {
		w.add("id >= ? AND created_at >= ?", f.Since.UnixMicro(), f.Since.UnixMicro())
	}
	if err := w.after("id", f.Cursor); err != nil {
		return nil, "", err
	}
	n := limitOr50(f.Limit)
	var ids []int64
	rows, err := s.readers.QueryContext(ctx, `SELECT `+runColumns+` FROM runs`+w.String()+` ORDER BY id DESC LIMIT ?`, append(w.args, n+1)...)
	err = each(rows, err, func(r *sql.Rows) error {
		id, run, err := scanRun(r)
		list, ids = append(list, run), append(ids, id)
		return err
	})
	if err != nil {
		return nil, "", s.explain("listing runs in", err)
	}
	if len(list) > n {
		list = list[:n]
		next = strconv.FormatInt(ids[n-1], 10)
	}
	return list, next, nil
}

// Run implements queue.Runs.
func (s *Store) Run(ctx context.Context, id string) (*queue.RunDetail, error) {
	var d queue.RunDetail
	var history string
	var deadline int64
	num, run, err := scanRun(s.readers.QueryRowContext(ctx, `SELECT `+runColumns+`, history, idempotent, cancel_asked, CASE WHEN state = 'uncertain' THEN COALESCE(deadline_at, 0) ELSE 0 END FROM runs WHERE run_id = ?`, id),
		&history, &d.Idempotent, &d.CancelAsked, &deadline)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("run %s: %w", id, queue.ErrNotFound)
	}
	if err != nil {
		return nil, s.explain("reading a run from", err)
	}
	d.Run, d.UncertainUntil = run, at(deadline)
	if err := fromJSON(history, &d.History); err != nil {
		return nil, err
	}
	err = s.readers.QueryRowContext(ctx, `SELECT output FROM run_outputs WHERE id = ?`, num).Scan(&d.Output)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, s.explain("reading a run's output from", err)
	}
	var se queue.Session
	var created, expires int64
	err = s.readers.QueryRowContext(ctx, `SELECT trigger, subject_key, subject, run_id, session, state, reported, created_at, COALESCE(expires_at, 0) FROM sessions
		WHERE run_id = ?1 OR (trigger = ?2 AND session = ?3 AND ?3 <> '') ORDER BY run_id = ?1 DESC, id DESC LIMIT 1`, id, run.Trigger, run.Session).
		Scan(&se.Trigger, &se.SubjectKey, &se.Subject, &se.RunID, &se.ID, &se.State, &se.Reported, &created, &expires)
	switch {
	case err == nil:
		se.CreatedAt, se.ExpiresAt = at(created), at(expires)
		d.SessionDetail = &se
	case !errors.Is(err, sql.ErrNoRows):
		return nil, s.explain("reading a session from", err)
	}
	return &d, nil
}
