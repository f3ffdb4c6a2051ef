package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// clock is the database's time in microseconds when a statement arrived: stable, so that an index
// can be searched by it, and a subquery, so that it is not computed anew for every row.
const clock = `(SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)`

// ago is the database's time less d.
func ago(d time.Duration) string {
	return `(` + clock + ` - ` + strconv.FormatInt(d.Microseconds(), 10) + `)`
}

// retries bounds how often a transaction is repeated that lost a race.
const retries = 8

// tx is one transaction.
type tx struct {
	ctx     context.Context
	conn    *pgxpool.Conn
	now     int64     // the database's; one time for everything that is written together
	began   time.Time // this process's time, not later than now
	wakes   bool      // something may have become claimable
	tallies map[string]int64
	writer  string    // of the tallies; empty: any
	final   pgx.Batch // see last
}

// bounded gives a call an end.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callTimeout)
}

// write runs fn in a transaction and returns when it is flushed to disk. fn may be run several
// times; it must assign its results anew each time. When ctx ends during the commit it may or may
// not have happened.
func (s *Store) write(ctx context.Context, fn func(*tx) error) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	wakes, err := s.transact(ctx, fn)
	if err != nil && !clean(err) {
		return s.explain("writing to", err)
	}
	if wakes {
		s.woken()
	}
	return err
}

// get is write for what has a result.
func get[T any](ctx context.Context, s *Store, fn func(*tx) (T, error)) (T, error) {
	var v T
	err := s.write(ctx, func(t *tx) (err error) {
		v, err = fn(t)
		return err
	})
	if err != nil {
		return *new(T), err
	}
	return v, nil
}

// transact is write without words and wakes.
func (s *Store) transact(ctx context.Context, fn func(*tx) error) (wakes bool, err error) {
	return retried(ctx, s, func() (bool, error) { return s.once(ctx, nil, fn) })
}

// retried repeats what lost a race, and what met a dead connection: the pool's others are then as
// old, and are replaced. Everything that a store does may be repeated, see queue.Store.
func retried[T any](ctx context.Context, s *Store, call func() (T, error)) (v T, err error) {
	for try, dead := 1, 0; ; try++ {
		v, err = call()
		switch {
		case err == nil || try == retries || ctx.Err() != nil:
			return v, err
		case lost(err) && dead < 2:
			dead++
			s.pool.Reset()
		case !again(err):
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, err
		case <-time.After(rand.N(time.Duration(try) * 5 * time.Millisecond)):
		}
	}
}

func (s *Store) once(ctx context.Context, first *reading, fn func(*tx) error) (wakes bool, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Release() // a connection that is still in a transaction is closed, not reused
	t := &tx{ctx: ctx, conn: conn, began: time.Now()}
	if err = t.begin(s.flush, first); err == nil {
		err = fn(t)
	}
	if err == nil {
		err = t.commit()
	}
	if err != nil {
		if ctx.Err() == nil && !conn.Conn().IsClosed() {
			_, _ = conn.Conn().PgConn().Exec(ctx, "ROLLBACK").ReadAll()
		}
		return false, err
	}
	return t.wakes, nil
}

// reading is a transaction's first statement, sent along with its BEGIN.
type reading struct {
	plan string // a statement before it, or empty
	q    string
	args []any
	scan func(*tx, pgx.Rows) error
}

// begin starts the transaction, reads the clock and does the first reading, in one round trip.
func (t *tx) begin(flush bool, first *reading) error {
	var b pgx.Batch
	b.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`)
	if flush {
		b.Queue(flushing)
	}
	b.Queue(`SELECT ` + clock).QueryRow(func(r pgx.Row) error { return r.Scan(&t.now) })
	if first != nil && first.plan != "" {
		b.Queue(first.plan)
	}
	if first != nil {
		b.Queue(first.q, storable(first.args)...).Query(func(rows pgx.Rows) error {
			return each(rows, nil, func(r pgx.Rows) error { return first.scan(t, r) })
		})
	}
	return t.conn.SendBatch(t.ctx, &b).Close()
}

// flushing makes a transaction's commit durable where the server's default does not.
const flushing = `SELECT set_config('synchronous_commit', 'on', true)`

// last puts a statement off until the commit, with which it is sent.
func (t *tx) last(q string, args ...any) { t.final.Queue(q, storable(args)...) }

// commit sends what was put off, the sums and the COMMIT, in one round trip.
func (t *tx) commit() error {
	t.sum()
	done := false
	t.final.Queue(`COMMIT`).Exec(func(tag pgconn.CommandTag) error {
		done = tag.String() == "COMMIT"
		return nil
	})
	err := t.conn.SendBatch(t.ctx, &t.final).Close()
	switch c := code(err); {
	case err != nil && (c == "" || strings.HasPrefix(c, "57") || strings.HasPrefix(c, "08")):
		return &uncommitted{err}
	case err == nil && !done:
		return errors.New("committing: the server rolled the transaction back")
	}
	return err
}

// lock takes the rows of triggers until the end of the transaction, in the order of their names.
// Whoever admits, starts, hands over, settles or sweeps runs of a trigger holds its row: what is
// counted from rows then stays true until the commit.
func (t *tx) lock(names ...string) error {
	names = slices.Clone(names)
	slices.Sort(names)
	names = slices.Compact(names)
	for {
		n := 0
		err := t.rows(`SELECT 1 FROM triggers WHERE name = ANY($1::text[]) ORDER BY name FOR UPDATE`, []any{names}, func(pgx.Rows) error {
			n++
			return nil
		})
		if err != nil || n == len(names) {
			return err
		}
		if _, err := t.exec(`INSERT INTO triggers (name) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING`, names); err != nil {
			return err
		}
	}
}

// local is a time of the database by this process's clock, not later than it will be there.
func (t *tx) local(us int64) time.Time {
	return t.began.Add(time.Duration(us-t.now) * time.Microsecond)
}

// exec runs a statement and says how many rows it changed.
func (t *tx) exec(q string, args ...any) (int64, error) {
	tag, err := t.conn.Exec(t.ctx, q, storable(args)...)
	return tag.RowsAffected(), err
}

// row reads one row; pgx.ErrNoRows when there is none.
func (t *tx) row(q string, args []any, dest ...any) error {
	return t.queryRow(q, args...).Scan(dest...)
}

func (t *tx) queryRow(q string, args ...any) pgx.Row {
	return t.conn.QueryRow(t.ctx, q, storable(args)...)
}

// rows reads all rows through scan.
func (t *tx) rows(q string, args []any, scan func(pgx.Rows) error) error {
	rows, err := t.conn.Query(t.ctx, q, storable(args)...)
	return each(rows, err, scan)
}

// exists reports whether a query has a row.
func (t *tx) exists(q string, args ...any) (bool, error) {
	var one int
	err := t.row(q, args, &one)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func each(rows pgx.Rows, err error, scan func(pgx.Rows) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// read reads all rows through scan, outside of a transaction.
func (s *Store) read(ctx context.Context, doing, q string, args []any, scan func(pgx.Rows) error) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	seen := false
	_, err := retried(ctx, s, func() (_ struct{}, err error) {
		rows, err := s.pool.Query(ctx, q, storable(args)...)
		if err = each(rows, err, func(r pgx.Rows) error { seen = true; return scan(r) }); err != nil && seen {
			err = &uncommitted{err} // what was scanned cannot be taken back
		}
		return struct{}{}, err
	})
	if err != nil {
		return s.explain(doing, err)
	}
	return nil
}

// readRow reads one row; pgx.ErrNoRows when there is none.
func (s *Store) readRow(ctx context.Context, doing, q string, args []any, scan func(scanner) error) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	_, err := retried(ctx, s, func() (struct{}, error) { return struct{}{}, scan(s.pool.QueryRow(ctx, q, storable(args)...)) })
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return s.explain(doing, err)
	}
	return err
}

// do runs one statement as a transaction of its own and says how many rows it changed. It is for
// what can be repeated.
func (s *Store) do(ctx context.Context, doing, q string, args ...any) (int64, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	tag, err := retried(ctx, s, func() (pgconn.CommandTag, error) { return s.pool.Exec(ctx, q, storable(args)...) })
	if err != nil {
		return 0, s.explain(doing, err)
	}
	return tag.RowsAffected(), nil
}

// storable replaces what Postgres cannot keep as text, as a payload's strings may hold it: NUL and
// invalid UTF-8.
func storable(args []any) []any {
	for i, a := range args {
		switch v := a.(type) {
		case string:
			args[i] = text(v)
		case []string:
			for j, s := range v {
				v[j] = text(s)
			}
		}
	}
	return args
}

func text(s string) string {
	if strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// tally counts rows that enter (1) or leave (-1) a terminal state.
func (t *tx) tally(word string, n int64) {
	if t.tallies == nil {
		t.tallies = map[string]int64{}
	}
	t.tallies[word] += n
}

// writers is over how many rows a word's tally is spread, so that transactions seldom wait for
// each other's.
const writers = 16

// sum puts the tallies at the transaction's end: their rows are locked no longer than the commit
// takes.
func (t *tx) sum() {
	var words []string
	for word, n := range t.tallies {
		if n != 0 {
			words = append(words, word)
		}
	}
	if len(words) == 0 {
		return
	}
	slices.Sort(words)
	counts := make([]int64, len(words))
	for i, word := range words {
		counts[i] = t.tallies[word]
	}
	writer := t.writer
	if writer == "" {
		writer = strconv.Itoa(rand.IntN(writers))
	}
	t.last(`INSERT INTO tallies (writer, word, n) SELECT $1, word, n FROM unnest($2::text[], $3::bigint[]) AS g (word, n) ORDER BY word
		ON CONFLICT (writer, word) DO UPDATE SET n = tallies.n + excluded.n`, writer, words, counts)
}
