package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// maxBatch bounds how many writes one commit takes along, and maxBeside how many of them may be
// other writes than enqueues while enqueues wait: GitHub is waiting for those, workers can.
const (
	maxBatch  = 256
	maxBeside = 8
)

// op is a write on its way through the writer. Its fields are the writer's until done is closed.
type op struct {
	ctx  context.Context
	fn   func(*tx) error
	err  error
	done chan struct{}
}

// writer owns the only connection that writes.
type writer struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

// tx is one transaction: of one write, or of all that waited together.
type tx struct {
	w       *writer
	now     int64 // one time for everything that is written together
	lastSeq int64
	lastRun int64
	wakes   bool // something may have become claimable
	tallies map[string]int64
	secrets map[[2]string]int64
}

// clean marks the errors after which the transaction can go on, because the write that
// returned them has changed nothing.
func clean(err error) bool {
	return errors.Is(err, queue.ErrNotFound) || errors.Is(err, queue.ErrConflict) || errors.Is(err, queue.ErrAmbiguous) ||
		errors.Is(err, queue.ErrInvalid) || errors.Is(err, queue.ErrLeaseLost)
}

// write runs fn in a transaction, possibly together with others, and returns when it is flushed
// to disk. fn may be run twice; it must assign its results anew each time, to variables that the
// caller reads only when write returned no error or a clean one. When ctx ends first the write may
// or may not happen.
func (s *Store) write(ctx context.Context, fn func(*tx) error) error {
	return s.submit(ctx, s.ops, fn)
}

// submit is write through one of the two lanes.
func (s *Store) submit(ctx context.Context, lane chan<- *op, fn func(*tx) error) error {
	o := &op{ctx: ctx, fn: fn, done: make(chan struct{})}
	select {
	case lane <- o:
	case <-ctx.Done():
		return fmt.Errorf("waiting for the store: %w", context.Cause(ctx))
	case <-s.stop:
		return errors.New("the store is closed")
	}
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		return fmt.Errorf("writing to the store: %w", context.Cause(ctx))
	case <-s.stopped:
		select {
		case <-o.done:
			return o.err
		default:
			return errors.New("the store is closed")
		}
	}
}

// get is write for what has a result. The result is read only once the writer is done with it.
func get[T any](ctx context.Context, s *Store, fn func(*tx) (T, error)) (T, error) {
	return getBy(ctx, s, s.ops, fn)
}

func getBy[T any](ctx context.Context, s *Store, lane chan<- *op, fn func(*tx) (T, error)) (T, error) {
	v := new(T)
	err := s.submit(ctx, lane, func(t *tx) (err error) {
		*v, err = fn(t)
		return err
	})
	if err != nil && !clean(err) {
		return *new(T), err
	}
	return *v, err
}

// run commits batches until the store is closed. While one commit flushes, the next batch gathers.
func (s *Store) run(w *writer) {
	defer close(s.stopped)
	defer w.close()
	batch := make([]*op, 0, maxBatch)
	for {
		select {
		case o := <-s.enqueues:
			batch = append(batch[:0], o)
		case o := <-s.ops:
			batch = append(batch[:0], o)
		case <-s.stop:
			for { // what was taken in before the stop is still written
				select {
				case o := <-s.enqueues:
					s.commit(w, []*op{o})
				case o := <-s.ops:
					s.commit(w, []*op{o})
				default:
					return
				}
			}
		}
		batch = gather(batch, s.enqueues, maxBatch)
		beside := maxBatch
		if len(batch) > 1 {
			beside = len(batch) + maxBeside
		}
		s.commit(w, gather(batch, s.ops, min(beside, maxBatch)))
	}
}

// gather adds what waits in a lane to a batch, up to limit in all.
func gather(batch []*op, lane <-chan *op, limit int) []*op {
	for len(batch) < limit {
		select {
		case o := <-lane:
			batch = append(batch, o)
			continue
		default:
		}
		break
	}
	return batch
}

// commit writes a batch as one transaction. If one of the writes fails, each is tried in a
// transaction of its own, so that it fails alone; if the store itself does, they fail together.
func (s *Store) commit(w *writer, batch []*op) {
	wakes, err := w.transact(batch)
	var bad *badWrite
	switch {
	case errors.As(err, &bad) && len(batch) > 1:
		for _, o := range batch {
			alone, err := w.transact([]*op{o})
			if err != nil {
				o.err = err
			}
			wakes = wakes || alone
		}
	case err != nil:
		for _, o := range batch {
			o.err = err
		}
	}
	for _, o := range batch {
		if o.err != nil && !clean(o.err) {
			o.err = s.explain("writing to", o.err)
		}
		close(o.done)
	}
	if wakes {
		s.wake()
	}
}

// badWrite is an error of one of a transaction's writes, not of the store as a whole.
type badWrite struct{ error }

func (e *badWrite) Unwrap() error { return e.error }

// transact runs ops in one transaction. An error means that nothing of it was written; the ops'
// own clean errors stand in them.
func (w *writer) transact(ops []*op) (wakes bool, err error) {
	// The connection is never given a context that can end: SQLite would roll the transaction back
	// and go on in autocommit mode.
	if err := w.plain("BEGIN IMMEDIATE"); err != nil {
		return false, err
	}
	t := &tx{w: w, now: time.Now().UnixMicro()}
	defer func() {
		if err != nil {
			// FULL and IOERR may have rolled back already; then this fails, harmlessly.
			_ = w.plain("ROLLBACK")
		}
	}()
	for _, o := range ops {
		if o.err = o.ctx.Err(); o.err != nil {
			o.err = fmt.Errorf("waiting for the store: %w", context.Cause(o.ctx))
			continue
		}
		if o.err = o.fn(t); o.err != nil && !clean(o.err) {
			return false, &badWrite{o.err}
		}
	}
	if err := t.finish(); err != nil {
		return false, err
	}
	return t.wakes, w.plain("COMMIT")
}

// close gives the connection back. A statement that stays open would keep SQLite from emptying its
// log into the file when the database is closed.
func (w *writer) close() {
	for _, stmt := range w.stmts {
		_ = stmt.Close()
	}
	_ = w.conn.Close() // the database is closed next, and reports
}

func (w *writer) plain(q string) error {
	stmt, err := w.prepare(q)
	if err != nil {
		return err
	}
	_, err = stmt.Exec()
	return err
}

func (w *writer) prepare(q string) (*sql.Stmt, error) {
	if stmt := w.stmts[q]; stmt != nil {
		return stmt, nil
	}
	stmt, err := w.conn.PrepareContext(context.Background(), q)
	if err != nil {
		return nil, err
	}
	w.stmts[q] = stmt
	return stmt, nil
}

// exec runs a statement and says how many rows it changed.
func (t *tx) exec(q string, args ...any) (int64, error) {
	stmt, err := t.w.prepare(q)
	if err != nil {
		return 0, err
	}
	res, err := stmt.Exec(args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// row reads one row; sql.ErrNoRows when there is none.
func (t *tx) row(q string, args []any, dest ...any) error {
	stmt, err := t.w.prepare(q)
	if err != nil {
		return err
	}
	return stmt.QueryRow(args...).Scan(dest...)
}

// rows reads all rows through scan.
func (t *tx) rows(q string, args []any, scan func(*sql.Rows) error) error {
	stmt, err := t.w.prepare(q)
	if err != nil {
		return err
	}
	rows, err := stmt.Query(args...)
	return each(rows, err, scan)
}

func each(rows *sql.Rows, err error, scan func(*sql.Rows) error) error {
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // Err below says what went wrong
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// exists reports whether a query has a row.
func (t *tx) exists(q string, args ...any) (bool, error) {
	var one int
	err := t.row(q, args, &one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// nextSeq numbers a delivery: its time of receipt in microseconds, made unique and rising, so that
// a number also bounds a time.
func (t *tx) nextSeq() (int64, error) {
	if t.lastSeq == 0 {
		if err := t.row(`SELECT COALESCE(MAX(seq), 0) FROM deliveries`, nil, &t.lastSeq); err != nil {
			return 0, err
		}
	}
	t.lastSeq = max(t.lastSeq+1, t.now)
	return t.lastSeq, nil
}

// nextRun numbers a run likewise.
func (t *tx) nextRun() (int64, error) {
	if t.lastRun == 0 {
		if err := t.row(`SELECT COALESCE(MAX(id), 0) FROM runs`, nil, &t.lastRun); err != nil {
			return 0, err
		}
	}
	t.lastRun = max(t.lastRun+1, t.now)
	return t.lastRun, nil
}

// tally counts rows that enter (1) or leave (-1) a terminal state.
func (t *tx) tally(word string, n int64) {
	if t.tallies == nil {
		t.tallies = map[string]int64{}
	}
	t.tallies[word] += n
}

// finish writes what a transaction sums up over all its writes.
func (t *tx) finish() error {
	for word, n := range t.tallies {
		if n == 0 {
			continue
		}
		if _, err := t.exec(`INSERT INTO tallies (writer, word, n) VALUES ('', ?, ?)
			ON CONFLICT (writer, word) DO UPDATE SET n = n + excluded.n`, word, n); err != nil {
			return err
		}
	}
	for key, n := range t.secrets {
		if _, err := t.exec(`INSERT INTO secret_uses (source, name, deliveries, last_used_at) VALUES (?, ?, ?, ?)
			ON CONFLICT (source, name) DO UPDATE SET deliveries = deliveries + excluded.deliveries, last_used_at = excluded.last_used_at`,
			key[0], key[1], n, t.now); err != nil {
			return err
		}
	}
	return nil
}
