package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/codec"
)

// filter gathers a WHERE clause.
type filter struct {
	where []string
	args  []any
}

// add adds a clause, in which each ? stands for one more argument.
func (f *filter) add(clause string, args ...any) {
	for _, a := range args {
		f.args = append(f.args, a)
		clause = strings.Replace(clause, "?", "$"+strconv.Itoa(len(f.args)), 1)
	}
	f.where = append(f.where, clause)
}

// limit returns a LIMIT clause, the last one.
func (f *filter) limit(n int) string {
	f.args = append(f.args, n)
	return " LIMIT $" + strconv.Itoa(len(f.args))
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

func words[S ~string](states []S) []string {
	out := make([]string, len(states))
	for i, s := range states {
		out[i] = string(s)
	}
	return out
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
		w.add("state = ANY(?::text[])", words(f.States))
		// Says what the index on what is not finished, or on dead letters, can be used for.
		switch {
		case len(f.States) == 1 && f.States[0] == queue.Failed:
			w.add("dead")
		case !contains(f.States, queue.Done) && !contains(f.States, queue.Failed):
			w.add("finished_at IS NULL")
		}
	}
	if f.Event != "" {
		w.add("event = ?", f.Event)
	}
	if f.Repo != "" {
		w.add("lower(repo) = lower(?)", f.Repo)
	}
	if f.Source != "" {
		w.add("(source = ? OR source_name = ?)", f.Source, f.Source)
	}
	if f.Trigger != "" {
		w.add("strpos(decisions, ?) > 0", `"trigger":`+toJSON(f.Trigger)+`,`)
	}
	if !f.Since.IsZero() {
		w.add("received_at >= ?", f.Since.UnixMicro())
	}
	if err := w.after("seq", f.Cursor); err != nil {
		return nil, "", err
	}
	n := limitOr50(f.Limit)
	q := `SELECT ` + deliveryColumns + ` FROM deliveries AS d` + w.String() + ` ORDER BY seq DESC` + w.limit(n+1)
	err = s.read(ctx, "listing deliveries in", q, w.args, func(r pgx.Rows) error {
		d, err := scanDelivery(r)
		list = append(list, d)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	if len(list) > n {
		list = list[:n]
		next = strconv.FormatInt(list[n-1].Seq, 10)
	}
	return list, next, nil
}

func contains[T comparable](list []T, v T) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

// find returns the number of the delivery that ref names. q reads one column of all matches.
func find(ref string, q func(query string, args []any, scan func(pgx.Rows) error) error) (seq int64, err error) {
	source, id := splitRef(ref)
	var seqs []int64
	err = q(`SELECT seq FROM deliveries WHERE guid = $1 AND ($2::text = '' OR source = $2 OR source_name = $2) LIMIT 2`, []any{id, source}, func(r pgx.Rows) error {
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
	return find(ref, func(q string, args []any, scan func(pgx.Rows) error) error {
		return s.read(ctx, "finding a delivery in", q, args, scan)
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
	err = s.readRow(ctx, "reading a delivery from", `SELECT `+deliveryColumns+`, history, decisions, node, COALESCE(started_at, 0) FROM deliveries AS d WHERE seq = $1`, []any{seq}, func(r scanner) (err error) {
		d.Delivery, err = scanDelivery(r, &history, &decisions, &node, &started)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("delivery %s: %w", ref, queue.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	if err := errors.Join(fromJSON(history, &d.History), fromJSON(decisions, &d.Decisions)); err != nil {
		return nil, err
	}
	if d.State == queue.Processing { // the attempt under way, without an end
		d.History = append(d.History, queue.Attempt{Generation: d.Generation, Attempt: d.Attempts, Node: node, StartedAt: at(started)})
	}
	err = s.read(ctx, "reading runs from", `SELECT `+runColumns+` FROM runs WHERE delivery_seq = $1 ORDER BY id`, []any{seq}, func(r pgx.Rows) error {
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
	err = s.readRow(ctx, "reading a payload from", `SELECT codec, body FROM payloads WHERE seq = $1`, []any{seq}, func(r scanner) error { return r.Scan(&p.codec, &p.body) })
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("the payload of %s: %w", ref, queue.ErrNotFound)
	}
	if err != nil {
		return nil, err
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
		const one = `SELECT ` + deliveryColumns + ` FROM deliveries AS d WHERE seq = $1 FOR UPDATE`
		d, err := scanDelivery(t.queryRow(one, seq))
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, fmt.Errorf("delivery %s: %w", ref, queue.ErrNotFound)
		}
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
		if _, err := t.exec(`UPDATE deliveries SET state = 'received', attempts = 0, outages = 0, generation = generation + 1, queued_at = $2, due_at = $2, finished_at = NULL, forced = $3, only_triggers = $4 WHERE seq = $1`,
			seq, t.now, flag(o.Force), only); err != nil {
			return nil, err
		}
		t.tally("delivery:"+string(d.State), -1)
		t.wakes = true
		d, err = scanDelivery(t.queryRow(one, seq))
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
		w.add("state = ANY(?::text[])", words(f.States))
	}
	if f.Subject != "" {
		w.add("lower(subject) = lower(?)", f.Subject)
	}
	if f.DeliveryID != "" {
		source, id := splitRef(f.DeliveryID)
		w.add("guid = ?", id)
		if source != "" {
			w.add("(source = ? OR source_name = ?)", source, source)
		}
	}
	if !f.Since.IsZero() {
		w.add("created_at >= ?", f.Since.UnixMicro())
	}
	if err := w.after("id", f.Cursor); err != nil {
		return nil, "", err
	}
	n := limitOr50(f.Limit)
	var ids []int64
	q := `SELECT ` + runColumns + ` FROM runs` + w.String() + ` ORDER BY id DESC` + w.limit(n+1)
	err = s.read(ctx, "listing runs in", q, w.args, func(r pgx.Rows) error {
		id, run, err := scanRun(r)
		list, ids = append(list, run), append(ids, id)
		return err
	})
	if err != nil {
		return nil, "", err
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
	var num int64
	err := s.readRow(ctx, "reading a run from", `SELECT `+runColumns+`, history, idempotent = 1, cancel_asked = 1, CASE WHEN state = 'uncertain' THEN COALESCE(deadline_at, 0) ELSE 0 END FROM runs WHERE run_id = $1`, []any{id}, func(r scanner) (err error) {
		num, d.Run, err = scanRun(r, &history, &d.Idempotent, &d.CancelAsked, &deadline)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("run %s: %w", id, queue.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	d.UncertainUntil = at(deadline)
	if err := fromJSON(history, &d.History); err != nil {
		return nil, err
	}
	err = s.readRow(ctx, "reading a run's output from", `SELECT output FROM run_outputs WHERE id = $1`, []any{num}, func(r scanner) error { return r.Scan(&d.Output) })
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, err
	}
	var se queue.Session
	var created, expires int64
	err = s.readRow(ctx, "reading a session from", `SELECT trigger, subject_key, subject, run_id, session, state, reported = 1, created_at, COALESCE(expires_at, 0) FROM sessions
		WHERE run_id = $1 OR (trigger = $2 AND session = $3 AND $3 <> '') ORDER BY (run_id = $1) DESC, id DESC LIMIT 1`, []any{id, d.Trigger, d.Session}, func(r scanner) error {
		return r.Scan(&se.Trigger, &se.SubjectKey, &se.Subject, &se.RunID, &se.ID, &se.State, &se.Reported, &created, &expires)
	})
	switch {
	case err == nil:
		se.CreatedAt, se.ExpiresAt = at(created), at(expires)
		d.SessionDetail = &se
	case !errors.Is(err, pgx.ErrNoRows):
		return nil, err
	}
	return &d, nil
}
