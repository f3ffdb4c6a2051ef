package queue

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
	"time"
)

// Copier is the side of a store on which Copy works: rows as they are kept, table by table.
type Copier interface {
	Kind() string
	Nodes(ctx context.Context) ([]Node, error)
	CountRows(ctx context.Context, t *Table) (int, error)
	// ReadRows returns up to limit rows that come behind the key after (nil: from the first one),
	// in the order of t.Key.
	ReadRows(ctx context.Context, t *Table, after []any, limit int) ([]Row, error)
	// WriteRows inserts rows durably, all or none. A row whose key is there already stays as it
	// is. Numbers that the store gives afterwards come behind those of the rows.
	WriteRows(ctx context.Context, t *Table, rows []Row) error
	// StoredText is s as this store can keep it.
	StoredText(s string) string
}

// ErrCopyDiffers: the target does not hold what the source does, and nothing else.
var ErrCopyDiffers = errors.New("the target is no copy of the source")

// Copied says what became of a table. Its rows and their checksum are the same in both stores.
type Copied struct {
	Table    string `json:"table"`
	Rows     int    `json:"rows"`
	Copied   int    `json:"copied"` // in this pass; the others were there
	Checksum string `json:"checksum"`
}

// Copy moves everything but what nodes know of each other, and then compares the two stores row by
// row. Where the target holds the beginning of the source's rows, as an interrupted copy leaves
// it, it goes on from there. ErrInUse while a node is live on either store, ErrCopyDiffers where
// the target holds something else; nothing is written then. progress may be nil.
func Copy(ctx context.Context, from, to Copier, progress func(step string, done, total int)) ([]Copied, error) {
	if progress == nil {
		progress = func(string, int, int) {}
	}
	c := &copying{from: from, to: to, progress: progress}
	if err := c.idle(ctx); err != nil {
		return nil, err
	}
	for _, t := range Tables {
		n, err := from.CountRows(ctx, t)
		if err != nil {
			return nil, err
		}
		c.total += n
	}
	if err := c.renumber(ctx); err != nil {
		return nil, err
	}
	// Every table is judged before the first row is written.
	starts := make([]reading, len(Tables))
	for i, t := range Tables {
		var err error
		if starts[i], err = c.begun(ctx, t); err != nil {
			return nil, err
		}
	}
	c.start("copying")
	out := make([]Copied, len(Tables))
	for i, t := range Tables {
		c.at(starts[i].rows)
		n, err := c.move(ctx, t, starts[i].last)
		if err != nil {
			return nil, fmt.Errorf("%w (what is copied stays; the same command goes on from there)", err)
		}
		out[i] = Copied{Table: t.Name, Copied: n}
	}
	c.start("verifying")
	for i, t := range Tables {
		sum, err := c.verify(ctx, t)
		if err != nil {
			return nil, err
		}
		out[i].Rows, out[i].Checksum = sum.rows, sum.sum
	}
	// A node that started meanwhile may have changed what was compared already.
	return out, c.idle(ctx)
}

// A page of rows. Payloads may be megabytes each.
const (
	copyRows  = 256
	copyBytes = 32
)

type copying struct {
	from, to Copier
	numbers  map[Numbered]numbering
	progress func(step string, done, total int)
	step     string
	done     int
	total    int
}

func (c *copying) start(step string) { c.step, c.done = step, 0 }

func (c *copying) at(more int) {
	c.done += more
	c.progress(c.step, c.done, c.total)
}

// idle refuses while a node is live: its rows would change under the copy.
func (c *copying) idle(ctx context.Context) error {
	for _, side := range []struct {
		name  string
		store Copier
	}{{"source", c.from}, {"target", c.to}} {
		nodes, err := side.store.Nodes(ctx)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			if !n.Gone {
				return fmt.Errorf("copying: %w: node %s is live on the %s; stop it first (one that was killed counts as live for a minute after its last heartbeat, %s)",
					ErrInUse, n.ID, side.name, n.HeartbeatAt.UTC().Format(time.RFC3339))
			}
		}
	}
	return nil
}

// reading is what has been read of a table from its first row on.
type reading struct {
	rows int
	sum  string
	last []any // the last row's key as the store has it
}

// read gives visit a table's rows, page by page, up to limit rows in all (negative: all of them).
func (c *copying) read(ctx context.Context, store Copier, t *Table, after []any, limit int, visit func([]Row) error) (last []any, err error) {
	page := copyRows
	if len(t.Bytes) > 0 {
		page = copyBytes
	}
	for limit != 0 {
		n := page
		if limit > 0 {
			n = min(n, limit)
		}
		rows, err := store.ReadRows(ctx, t, after, n)
		if err != nil {
			return nil, err
		}
		if len(rows) == 0 {
			return after, nil
		}
		after = t.KeyOf(rows[len(rows)-1])
		if store == c.from {
			if err := c.fit(t, rows); err != nil {
				return nil, err
			}
		}
		if err := visit(rows); err != nil {
			return nil, err
		}
		if limit > 0 {
			limit -= len(rows)
		}
	}
	return after, nil
}

// fit makes the source's rows what the target can hold.
func (c *copying) fit(t *Table, rows []Row) error {
	for i, name := range t.Columns() {
		numbers, numbered := c.numbers[t.Numbers[name]]
		for _, r := range rows {
			switch v := r[i].(type) {
			case string:
				r[i] = c.to.StoredText(v)
			case int64:
				if !numbered {
					continue
				}
				n, ok := numbers.of(v)
				if !ok {
					return fmt.Errorf("copying %s: its row with %s %d belongs to no %s: the source is damaged", t.Name, name, v, t.Numbers[name])
				}
				r[i] = n
			}
		}
	}
	return nil
}

// digest sums up the first rows of a table (negative: all).
func (c *copying) digest(ctx context.Context, store Copier, t *Table, limit int) (reading, error) {
	var got reading
	h := sha256.New()
	last, err := c.read(ctx, store, t, nil, limit, func(rows []Row) error {
		for _, r := range rows {
			r.hash(h)
		}
		got.rows += len(rows)
		if store == c.to {
			c.at(len(rows))
		}
		return nil
	})
	got.last, got.sum = last, hex.EncodeToString(h.Sum(nil))
	return got, err
}

// begun finds how far an earlier copy came with a table: what the target holds must be the
// source's first rows.
func (c *copying) begun(ctx context.Context, t *Table) (reading, error) {
	n, err := c.to.CountRows(ctx, t)
	if err != nil || n == 0 {
		return reading{}, err
	}
	c.step = "comparing"
	theirs, err := c.digest(ctx, c.to, t, -1)
	if err != nil {
		return reading{}, err
	}
	ours, err := c.digest(ctx, c.from, t, n)
	if err != nil {
		return reading{}, err
	}
	if ours.rows != theirs.rows || ours.sum != theirs.sum {
		return reading{}, fmt.Errorf("copying: %w: its %d rows of the table %s are not the first ones of the source's; copy into an empty store", ErrCopyDiffers, n, t.Name)
	}
	return ours, nil
}

func (c *copying) move(ctx context.Context, t *Table, after []any) (copied int, err error) {
	_, err = c.read(ctx, c.from, t, after, -1, func(rows []Row) error {
		if err := c.to.WriteRows(ctx, t, rows); err != nil {
			return err
		}
		copied += len(rows)
		c.at(len(rows))
		return nil
	})
	return copied, err
}

func (c *copying) verify(ctx context.Context, t *Table) (reading, error) {
	ours, err := c.digest(ctx, c.from, t, -1)
	if err != nil {
		return ours, err
	}
	theirs, err := c.digest(ctx, c.to, t, -1)
	if err != nil {
		return ours, err
	}
	switch {
	case ours.rows != theirs.rows:
		return ours, fmt.Errorf("verifying: %w: the table %s has %d rows and should have %d; copy again into an empty store", ErrCopyDiffers, t.Name, theirs.rows, ours.rows)
	case ours.sum != theirs.sum:
		return ours, fmt.Errorf("verifying: %w: the checksums of the table %s differ; copy again into an empty store", ErrCopyDiffers, t.Name)
	}
	return ours, nil
}

// hash adds the row so that no two rows look alike: each value with its kind and length.
func (r Row) hash(h hash.Hash) {
	put := func(kind byte, n uint64) {
		var head [9]byte
		head[0] = kind
		binary.BigEndian.PutUint64(head[1:], n)
		_, _ = h.Write(head[:]) // a hash never fails
	}
	for _, v := range r {
		switch v := v.(type) {
		case nil:
			put('n', 0)
		case int64:
			put('i', uint64(v))
		case string:
			put('s', uint64(len(v)))
			_, _ = strings.NewReader(v).WriteTo(h)
		case []byte:
			put('b', uint64(len(v)))
			_, _ = h.Write(v)
		default:
			panic(fmt.Sprintf("a %T in a row", v)) // a Copier's mistake
		}
	}
}
