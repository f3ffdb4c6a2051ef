package postgres_test

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-de999ace/preloop/queue"
)

// A column that a migration adds must not be forgotten by a copy.
func TestCopyKnowsEveryColumn(t *testing.T) {
	conn, err := pgx.Connect(t.Context(), newDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // the test's own
	rows, err := conn.Query(t.Context(), `SELECT table_name::text, array_agg(column_name::text) FROM information_schema.columns
		WHERE table_schema = current_schema() AND is_generated = 'NEVER' AND table_name NOT IN ('nodes', 'locks', 'preloop_schema') GROUP BY table_name`)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string][]string{}
	var table string
	var columns []string
	if _, err := pgx.ForEachRow(rows, []any{&table, &columns}, func() error {
		have[table] = slices.Clone(columns)
		return nil
	}); err != nil {
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
