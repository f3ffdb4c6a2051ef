package sqlite_test

import (
	"database/sql"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/sqlite"
)

// A column that a migration adds must not be forgotten by a copy.
func TestCopyKnowsEveryColumn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "preloop.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{Settings: queue.DefaultSettings(), Serve: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // a test's store
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // a test's store
	rows, err := db.QueryContext(t.Context(), `SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c
		WHERE m.type = 'table' AND m.name NOT IN ('nodes', 'locks') AND m.name NOT LIKE 'sqlite_%'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close() //nolint:errcheck // Err below
	have := map[string][]string{}
	for rows.Next() {
		var table, column string
		if err := rows.Scan(&table, &column); err != nil {
			t.Fatal(err)
		}
		have[table] = append(have[table], column)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if len(have) != len(queue.Tables) {
		t.Errorf("the store has %d tables to copy, a copy moves %d", len(have), len(queue.Tables))
	}
	for _, table := range queue.Tables {
		want, got := have[table.Name], table.Columns()
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			t.Errorf("table %s has the columns\n%v\na copy moves\n%v", table.Name, want, got)
		}
	}
}

func TestOpenToCopy(t *testing.T) { synctest.Test(t, openToCopy) }

func openToCopy(t *testing.T) {
	ctx, settings := t.Context(), queue.DefaultSettings()
	path := filepath.Join(t.TempDir(), "preloop.db")
	if _, err := sqlite.OpenToCopy(ctx, path, settings, false); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a source that is not there: %v", err)
	}
	s, err := sqlite.OpenToCopy(ctx, path, settings, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(ctx, path, sqlite.Options{Settings: settings, Serve: true}); !errors.Is(err, queue.ErrInUse) {
		t.Errorf("a node started on a store under a copy: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	node, err := sqlite.Open(ctx, path, sqlite.Options{Settings: settings, Serve: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.OpenToCopy(ctx, path, settings, false); !errors.Is(err, queue.ErrInUse) {
		t.Errorf("a copy opened a store that a node serves: %v", err)
	}
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
}
