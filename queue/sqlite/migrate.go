package sqlite

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/seed-de999ace/preloop/queue"
)

// migrate applies the migrations that the file lacks, all of them in one transaction: several
// processes that start at once wait for each other at BEGIN IMMEDIATE. The number of the last one
// is the file's user_version. A library for this was left out: it would bring a version table and
// connections of its own for what are these few lines.
func (w *writer) migrate() error {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	ctx := context.Background()
	have, err := w.version()
	if err != nil {
		return err
	}
	if have > len(files) {
		return newer(have, len(files))
	}
	if have == len(files) {
		return nil
	}
	if _, err := w.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer w.conn.ExecContext(ctx, "ROLLBACK") //nolint:errcheck // after a commit there is nothing to roll back
	if have, err = w.version(); err != nil {
		return err
	}
	if have > len(files) {
		return newer(have, len(files))
	}
	for _, name := range files[have:] {
		text, err := migrations.ReadFile(name)
		if err != nil {
			return err
		}
		if _, err := w.conn.ExecContext(ctx, string(text)); err != nil {
			return fmt.Errorf("applying %s: %w", name, err)
		}
	}
	if _, err := w.conn.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(files))); err != nil {
		return err
	}
	_, err = w.conn.ExecContext(ctx, "COMMIT")
	return err
}

func (w *writer) version() (v int, err error) {
	err = w.conn.QueryRowContext(context.Background(), "PRAGMA user_version").Scan(&v)
	return v, err
}

func newer(have, known int) error {
	return fmt.Errorf("%w (%d, this one knows %d); upgrade preloop", queue.ErrNewerSchema, have, known)
}
