package sqlite

import (
	"context"
	"database/sql"
	"os"
	"strings"

	"github.com/seed-de999ace/preloop/queue"
)

var _ queue.Copier = (*Store)(nil)

// OpenToCopy opens the store in the file at path and keeps nodes away from it until it is closed:
// queue.ErrInUse while one serves it. What is in it stays as it is. create makes a file that is not
// there yet.
func OpenToCopy(ctx context.Context, path string, settings queue.Settings, create bool) (*Store, error) {
	if _, err := os.Stat(path); err != nil && !create {
		return Open(ctx, path, Options{Settings: settings}) // says what is wrong
	}
	holder := &Store{path: path}
	if err := holder.own(); err != nil {
		return nil, err
	}
	s, err := Open(ctx, path, Options{Settings: settings})
	if err != nil {
		_ = holder.release()
		return nil, err
	}
	s.lock = holder.lock
	return s, nil
}

// CountRows implements queue.Copier.
func (s *Store) CountRows(ctx context.Context, t *queue.Table) (n int, err error) {
	if err := s.readers.QueryRowContext(ctx, `SELECT COUNT(*) FROM `+t.Name).Scan(&n); err != nil {
		return 0, s.explain("counting in", err)
	}
	return n, nil
}

// ReadRows implements queue.Copier.
func (s *Store) ReadRows(ctx context.Context, t *queue.Table, after []any, limit int) (list []queue.Row, err error) {
	columns := t.Columns()
	key := strings.Join(t.Key, ", ")
	q := `SELECT ` + strings.Join(columns, ", ") + ` FROM ` + t.Name
	if after != nil {
		q += ` WHERE (` + key + `) > (?` + strings.Repeat(", ?", len(after)-1) + `)`
	}
	rows, err := s.readers.QueryContext(ctx, q+` ORDER BY `+key+` LIMIT ?`, append(after[:len(after):len(after)], limit)...)
	err = each(rows, err, func(r *sql.Rows) error {
		row := make(queue.Row, len(columns))
		dest := make([]any, len(columns))
		for i := range row {
			dest[i] = &row[i]
		}
		if err := r.Scan(dest...); err != nil {
			return err
		}
		for i := len(t.Int) + len(t.Text); i < len(row); i++ {
			if b, _ := row[i].([]byte); b == nil {
				row[i] = []byte{}
			}
		}
		list = append(list, row)
		return nil
	})
	if err != nil {
		return nil, s.explain("reading "+t.Name+" from", err)
	}
	return list, nil
}

// WriteRows implements queue.Copier.
func (s *Store) WriteRows(ctx context.Context, t *queue.Table, rows []queue.Row) error {
	columns := t.Columns()
	q := `INSERT INTO ` + t.Name + ` (` + strings.Join(columns, ", ") + `) VALUES (?` + strings.Repeat(", ?", len(columns)-1) + `) ON CONFLICT DO NOTHING`
	return s.write(ctx, func(tx *tx) error {
		for _, r := range rows {
			if _, err := tx.exec(q, r...); err != nil {
				return err
			}
		}
		return nil
	})
}

// StoredText implements queue.Copier: SQLite keeps any text.
func (s *Store) StoredText(text string) string { return text }
