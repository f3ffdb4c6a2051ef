package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/seed-de999ace/preloop/queue"
)

var _ queue.Copier = (*Store)(nil)

// CountRows implements queue.Copier.
func (s *Store) CountRows(ctx context.Context, t *queue.Table) (n int, err error) {
	err = s.readRow(ctx, "counting in", `SELECT COUNT(*) FROM `+t.Name, nil, func(r scanner) error { return r.Scan(&n) })
	return n, err
}

// ReadRows implements queue.Copier.
func (s *Store) ReadRows(ctx context.Context, t *queue.Table, after []any, limit int) (list []queue.Row, err error) {
	key := strings.Join(t.Key, ", ")
	q := `SELECT ` + strings.Join(t.Columns(), ", ") + ` FROM ` + t.Name
	if after != nil {
		q += ` WHERE (` + key + `) > (` + places(len(after)) + `)`
	}
	q += ` ORDER BY ` + key + ` LIMIT ` + strconv.Itoa(limit)
	err = s.read(ctx, "reading "+t.Name+" from", q, append([]any(nil), after...), func(r pgx.Rows) error {
		values, err := r.Values()
		if err != nil {
			return err
		}
		for i, v := range values {
			switch v := v.(type) {
			case int16:
				values[i] = int64(v)
			case int32:
				values[i] = int64(v)
			}
		}
		list = append(list, values)
		return nil
	})
	return list, err
}

// numbered are the tables whose rows Postgres numbers by itself, with the column.
var numbered = map[string]string{"deliveries": "seq", "runs": "id", "sessions": "id"}

// WriteRows implements queue.Copier.
func (s *Store) WriteRows(ctx context.Context, t *queue.Table, rows []queue.Row) error {
	columns := t.Columns()
	q := `INSERT INTO ` + t.Name + ` (` + strings.Join(columns, ", ") + `) VALUES (` + places(len(columns)) + `) ON CONFLICT DO NOTHING`
	return s.write(ctx, func(tx *tx) error {
		var b pgx.Batch
		for _, r := range rows {
			b.Queue(q, storable(append([]any(nil), r...))...)
		}
		if column := numbered[t.Name]; column != "" {
			b.Queue(fmt.Sprintf(`SELECT setval(pg_get_serial_sequence('%[1]s', '%[2]s'), MAX(%[2]s)) FROM %[1]s`, t.Name, column))
		}
		return tx.conn.SendBatch(tx.ctx, &b).Close()
	})
}

// StoredText implements queue.Copier: Postgres keeps neither NUL nor invalid UTF-8.
func (s *Store) StoredText(v string) string { return text(v) }

func places(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = "$" + strconv.Itoa(i+1)
	}
	return strings.Join(list, ", ")
}
