package postgres_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/postgres"
	"github.com/seed-de999ace/preloop/queue/queuetest"
)

// TestConformance judges the store by its contract, on a database of its own for each test.
func TestConformance(t *testing.T) {
	queuetest.RunServer(t, func(t *testing.T, s queue.Settings) queuetest.Opened {
		db := newDatabase(t)
		another := func(t *testing.T) queue.Store { return open(t, db, postgres.Options{Settings: s}) }
		return queuetest.Opened{Store: open(t, db, postgres.Options{Settings: s, Serve: true}), Another: another, Pass: func(d time.Duration) { pass(t, db, d) }}
	})
}

func open(t testing.TB, db string, o postgres.Options) *postgres.Store {
	t.Helper()
	if o.Settings.Lease == 0 {
		o.Settings = queue.DefaultSettings()
	}
	s, err := postgres.Open(t.Context(), db, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// server is the URL of a server on which the tests may create databases.
func server(t testing.TB) string {
	t.Helper()
	url := os.Getenv("PRELOOP_TEST_POSTGRES")
	if url == "" {
		t.Fatal(`PRELOOP_TEST_POSTGRES is not set: scripts/postgres start, then eval "$(scripts/postgres env)"`)
	}
	return url
}

// with is the server's URL for another database.
func with(t testing.TB, server, database string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + database
	return u.String()
}

// template is a database whose schema is up to date, from which each test gets a copy; copies that
// are emptied again go to the next test, since creating and dropping one costs a second.
var template struct {
	once sync.Once
	name string
	mu   sync.Mutex // guards what follows; and one copy at a time: the server refuses a second one of the same template
	all  []string   // to be dropped at the end
	free []string
}

func TestMain(m *testing.M) {
	code := m.Run()
	if template.name != "" {
		if conn, err := pgx.Connect(context.Background(), os.Getenv("PRELOOP_TEST_POSTGRES")); err == nil {
			for _, name := range append(template.all, template.name) {
				_, _ = conn.Exec(context.Background(), `DROP DATABASE IF EXISTS `+name+` WITH (FORCE)`)
			}
			_ = conn.Close(context.Background())
		}
	}
	os.Exit(code)
}

// newDatabase creates an empty store and returns its URL.
func newDatabase(t testing.TB) string {
	t.Helper()
	at := server(t)
	template.once.Do(func() {
		name := create(t, at, "")
		s, err := postgres.Open(t.Context(), with(t, at, name), postgres.Options{Settings: queue.DefaultSettings()})
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		template.name = name
	})
	template.mu.Lock()
	defer template.mu.Unlock()
	var name string
	if n := len(template.free); n > 0 {
		name, template.free = template.free[n-1], template.free[:n-1]
	} else {
		name = create(t, at, " TEMPLATE "+template.name)
		template.all = append(template.all, name)
	}
	t.Cleanup(func() {
		if t.Failed() {
			return // who knows what is in it
		}
		var q strings.Builder
		for _, table := range tables {
			fmt.Fprintf(&q, "DELETE FROM %s;\n", table)
		}
		admin(t, with(t, at, name), q.String(), pgx.QueryExecModeSimpleProtocol)
		template.mu.Lock()
		defer template.mu.Unlock()
		template.free = append(template.free, name)
	})
	return with(t, at, name)
}

var tables = []string{
	"deliveries", "payloads", "runs", "run_outputs", "sessions", "triggers", "pauses", "double_subscriptions", "tallies", "secret_uses", "nodes", "docs", "locks", "repairs",
}

func create(t testing.TB, at, from string) string {
	t.Helper()
	name := "preloop_test_" + strings.ToLower(rand.Text()[:12])
	admin(t, at, `CREATE DATABASE `+name+from)
	return name
}

// admin runs a statement on a connection of its own.
func admin(t testing.TB, at, q string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx) //nolint:errcheck // the test's own
	if _, err := conn.Exec(ctx, q, args...); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
}

// count reads one number.
func count(t testing.TB, at, q string, args ...any) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // the test's own
	if err := conn.QueryRow(t.Context(), q, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return n
}

var times = map[string][]string{
	"deliveries":           {"received_at", "queued_at", "due_at", "started_at", "finished_at"},
	"runs":                 {"created_at", "due_at", "expires_at", "deadline_at", "started_at", "attempt_at", "finished_at", "lease_until"},
	"sessions":             {"created_at", "expires_at"},
	"triggers":             {"paused_since"},
	"pauses":               {"since", "until"},
	"double_subscriptions": {"last_at"},
	"secret_uses":          {"last_used_at"},
	"nodes":                {"triggers_loaded_at", "started_at", "heartbeat_at"},
	"docs":                 {"updated_at"},
	"locks":                {"until"},
	"repairs":              {"delivered_at", "found_at", "next_attempt", "last_attempt", "closed_at"},
}

// pass lets d go by: to the rows it is the same as shifting them back.
func pass(t testing.TB, db string, d time.Duration) {
	t.Helper()
	var q strings.Builder
	for table, columns := range times {
		fmt.Fprintf(&q, "UPDATE %s SET ", table)
		for i, c := range columns {
			if i > 0 {
				q.WriteString(", ")
			}
			fmt.Fprintf(&q, "%[1]s = CASE WHEN %[1]s > 0 THEN %[1]s - %[2]d ELSE %[1]s END", c, d.Microseconds())
		}
		q.WriteString(";\n")
	}
	admin(t, db, q.String(), pgx.QueryExecModeSimpleProtocol)
}
