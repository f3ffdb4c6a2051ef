package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"

	"github.com/seed-de999ace/preloop/queue"
)

// migrationLock is the key of the advisory lock under which the schema changes: "preloop" in bytes.
const migrationLock = 0x7072656c6f6f70

// migrate applies the migrations that the database lacks, all of them in one transaction under an
// advisory lock: several nodes that start at once wait for each other. The lock is the
// transaction's, since a pooler hands sessions around. The number of the last migration is the one
// row of preloop_schema.
func (s *Store) migrate(ctx context.Context) error {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	have, err := version(ctx, s.pool)
	if err != nil {
		return err
	}
	if have > len(files) {
		return newer(have, len(files))
	}
	if have == len(files) {
		return nil
	}
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock)); err != nil {
			return err
		}
		have, err := version(ctx, tx)
		if err != nil {
			return err
		}
		if have > len(files) {
			return newer(have, len(files))
		}
		if have == 0 {
			if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS preloop_schema (version integer NOT NULL)`); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `INSERT INTO preloop_schema (version) VALUES (0)`); err != nil {
				return err
			}
		}
		for _, name := range files[have:] {
			text, err := migrations.ReadFile(name)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, string(text), pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("applying %s: %w", name, err)
			}
		}
		_, err = tx.Exec(ctx, `UPDATE preloop_schema SET version = $1`, len(files))
		return err
	})
}

// version is the number of the last migration, 0 in an empty database. The two questions are two
// statements because one that names a missing table is refused before it runs. The first one reads
// the catalog and not to_regclass, which may still say what was true before the lock was waited
// for.
func version(ctx context.Context, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
},
) (v int, err error) {
	var there bool
	if err := q.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_class WHERE relname = 'preloop_schema' AND pg_table_is_visible(oid))`).Scan(&there); err != nil || !there {
		return 0, err
	}
	err = q.QueryRow(ctx, `SELECT version FROM preloop_schema`).Scan(&v)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return v, err
}

func newer(have, known int) error {
	return fmt.Errorf("%w (%d, this one knows %d); upgrade preloop", queue.ErrNewerSchema, have, known)
}
