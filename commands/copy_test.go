package commands

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/seed-de999ace/preloop/commands/config"
	"github.com/seed-de999ace/preloop/queue"
)

// oddPayloads are bytes that some text column or JSON type would change.
var oddPayloads = [][]byte{
	[]byte(`{"a":"\u0000","b":"\ud800"}`), []byte("{\"a\":\"\x00\xff\xfe\"}"), {}, {0}, []byte(" { } \r\n"), bytes.Repeat([]byte("é\x80"), 10_000),
}

// populate fills every table that a copy moves, with n deliveries and one more.
func populate(t *testing.T, s queue.Store, n int) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	facts := queue.Facts{Repo: "acme/widgets", RepoID: 7, Subject: "acme/widgets#1", SubjectNum: 1, Sender: "nul\x00 and \xff", SenderBot: true, Org: "acme", Installation: 9}
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() {
			d := queue.Delivery{ID: fmt.Sprintf("guid-%03d", i), Source: "app-1", SourceName: "acme", Event: "issues", Facts: facts, Headers: map[string]string{"X-Github-Event": "issues"}, Secret: "current"}
			payload := oddPayloads[i%len(oddPayloads)]
			d.Size = len(payload)
			if _, err := s.Enqueue(ctx, d, payload); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	// The same event through another source.
	_, err := s.Enqueue(ctx, queue.Delivery{ID: "guid-000", Source: "hook-2", SourceName: "widgets", Event: "issues", Facts: facts}, []byte(`{}`))
	must(err)
	claims, err := s.ClaimDeliveries(ctx, "node-1", n)
	must(err)
	more, err := s.ClaimDeliveries(ctx, "node-1", n)
	must(err)
	claims = append(claims, more...)
	admission := queue.Admission{Trigger: "triage", QueueSize: 3, QueueWait: time.Hour, FollowUp: true, UncertainAfter: time.Hour}
	for i, c := range claims {
		settlement := queue.Settlement{Kind: queue.SettleDone, Decisions: []queue.Decision{{Trigger: "triage", Verdict: queue.Matched, Reason: "if: true"}}, Admissions: []queue.Admission{admission}}
		switch {
		case c.ID == "guid-000": // both of them are decided
		case i%50 == 7:
			settlement = queue.Settlement{Kind: queue.SettleFail, Error: "it panicked: \x00\xff"}
		case i%50 == 8:
			settlement = queue.Settlement{Kind: queue.SettlePark, Wait: time.Hour, Error: "GitHub is away"}
		case i%50 == 9:
			continue // the worker was killed: its lease stays
		case i%10 != 0:
			settlement = queue.Settlement{Kind: queue.SettleDone}
		}
		wait.Go(func() {
			if _, err := s.SettleDelivery(ctx, c.Lease, settlement); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	runs, _, err := s.ClaimRuns(ctx, "node-1", []queue.DispatchRule{{Trigger: "triage", Concurrency: 2, FollowUp: true}}, 10)
	must(err)
	if len(runs) == 0 {
		t.Fatal("nothing runs")
	}
	code := 3
	_, err = s.SettleRun(ctx, runs[0].Lease, queue.Outcome{State: queue.RunFailed, ExitCode: &code, Error: "exit 3", Output: []byte("out\x00\xff")})
	must(err)
	must(s.PauseTrigger(ctx, "deploy"))
	must(s.ResumeTrigger(ctx, "deploy"))
	must(s.PauseTrigger(ctx, "triage"))
	_, err = s.SwapDoc(ctx, "breaker", "host:api.github.com", 0, json.RawMessage(`{"open":true}`))
	must(err)
	must(s.SaveRepairs(ctx, []queue.Repair{{
		Source: "app-1", SourceName: "acme", GUID: "lost", HookID: 1 << 40, Event: "push", Reason: "remote_failure", State: "open",
		DeliveredAt: time.Now(), FoundAt: time.Now(), NextAttempt: time.Now().Add(time.Minute),
	}}))
	_, err = s.Lock(ctx, "watchdog:app-1", "a dead node", time.Hour)
	must(err)
	for _, table := range queue.Tables {
		n, err := s.(queue.Copier).CountRows(ctx, table)
		must(err)
		if n == 0 {
			t.Fatalf("the table %s is empty: nothing is learned of its copy", table.Name)
		}
	}
}

// copyPlace is where a test's stores are made.
type copyPlace func(t *testing.T) string

func sqlitePlace(t *testing.T) string {
	t.Helper()
	return "sqlite://" + filepath.Join(t.TempDir(), "preloop.db")
}

func openCopier(t *testing.T, url string) interface {
	queue.Store
	queue.Copier
} {
	t.Helper()
	u, err := config.ParseStoreURL(url, "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := openToCopy(t.Context(), u, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.(interface {
		queue.Store
		queue.Copier
	})
}

// story is what a store shows of everything in it, without the numbers that it gives by itself.
func story(t *testing.T, s queue.Store, text func(string) string) map[string]any {
	t.Helper()
	ctx := t.Context()
	all := map[string]any{}
	deliveries, next, err := s.ListDeliveries(ctx, queue.DeliveryFilter{Limit: 1000})
	if err != nil || next != "" {
		t.Fatal(err, next)
	}
	var order []string
	for _, d := range deliveries {
		ref := d.Source + "/" + d.ID
		order = append(order, ref)
		detail, err := s.Delivery(ctx, ref)
		if err != nil {
			t.Fatal(err)
		}
		detail.Seq, detail.Sender, detail.LastError = 0, text(detail.Sender), text(detail.LastError)
		for i := range detail.Runs {
			detail.Runs[i].DeliverySeq, detail.Runs[i].Sender = 0, text(detail.Runs[i].Sender)
			run, err := s.Run(ctx, detail.Runs[i].ID)
			if err != nil {
				t.Fatal(err)
			}
			run.DeliverySeq, run.Sender = 0, text(run.Sender)
			all["run "+run.ID] = run
		}
		payload, err := s.Payload(ctx, ref)
		if err != nil {
			t.Fatal(err)
		}
		all["delivery "+ref], all["payload "+ref] = detail, sha256.Sum256(payload)
	}
	all["order"] = order
	counts, err := s.Counts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	stats, err := s.TriggerStats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	repairs, err := s.ListRepairs(ctx, queue.RepairFilter{})
	if err != nil {
		t.Fatal(err)
	}
	all["counts"], all["stats"], all["repairs"] = counts, stats, repairs
	recent, _, err := s.ListDeliveries(ctx, queue.DeliveryFilter{Since: time.Now().Add(-time.Hour), Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	recentRuns, _, err := s.ListRuns(ctx, queue.RunFilter{Since: time.Now().Add(-time.Hour), Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	all["recent"], all["recent runs"] = len(recent), len(recentRuns)
	return all
}

func same(t *testing.T, source, target map[string]any) {
	t.Helper()
	if !reflect.DeepEqual(source, target) { // in no time, where a diff takes seconds
		t.Errorf("the copy tells another story (-source +target):\n%s", cmp.Diff(source, target))
	}
}

func TestCopySQLite(t *testing.T) { testCopy(t, sqlitePlace, sqlitePlace) }

func TestCopyPostgres(t *testing.T) {
	place := postgresPlace(t)
	t.Run("sqlite to postgres", func(t *testing.T) { testCopy(t, sqlitePlace, place) })
	t.Run("postgres to sqlite", func(t *testing.T) { testCopy(t, place, sqlitePlace) })
}

func testCopy(t *testing.T, from, to copyPlace) {
	source, target := from(t), to(t)
	s := openCopier(t, source)
	populate(t, s, 270) // more than a page holds
	text := func(v string) string {
		return strings.ReplaceAll(strings.ToValidUTF8(v, "\uFFFD"), "\x00", "\uFFFD")
	}
	want := story(t, s, text)
	tables := map[string]int{}
	for _, table := range queue.Tables {
		n, err := s.CountRows(t.Context(), table)
		if err != nil {
			t.Fatal(err)
		}
		tables[table.Name] = n
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	for pass, copied := range []bool{true, false} { // the second pass finds nothing to do
		code, out, errs := runCopy(t.Context(), source, target, "--json")
		if code != exitDone {
			t.Fatalf("pass %d: exit %d: %s", pass, code, errs)
		}
		for line := range strings.Lines(out) {
			var r queue.Copied
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			if r.Rows != tables[r.Table] || len(r.Checksum) != 64 || r.Copied != 0 != copied {
				t.Errorf("pass %d: %+v, want %d rows", pass, r, tables[r.Table])
			}
		}
	}
	c := openCopier(t, target)
	same(t, want, story(t, c, text))
	if ok, err := c.Lock(t.Context(), "watchdog:app-1", "somebody", time.Minute); err != nil || !ok {
		t.Errorf("a lock was copied: %v, %v", ok, err)
	}

	// What comes afterwards is the newest.
	if r, err := c.Enqueue(t.Context(), queue.Delivery{ID: "after", Source: "app-1", SourceName: "acme", Event: "push"}, []byte(`{}`)); err != nil || r != queue.Accepted {
		t.Fatal(r, err)
	}
	list, _, err := c.ListDeliveries(t.Context(), queue.DeliveryFilter{Limit: 1})
	if err != nil || len(list) != 1 || list[0].ID != "after" {
		t.Errorf("the newest delivery is %+v, %v", list, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	// The target is not the source's beginning any more.
	code, _, errs := runCopy(t.Context(), source, target)
	if code != exitFound || !strings.Contains(errs, queue.ErrCopyDiffers.Error()) || !strings.Contains(errs, "empty store") {
		t.Errorf("a copy onto another store's rows: exit %d: %s", code, errs)
	}
}

func runCopy(ctx context.Context, from, to string, flags ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = run(ctx, append([]string{"copy", "--from", from, "--to", to}, flags...), streams{strings.NewReader(""), &o, &e})
	return code, o.String(), e.String()
}

// faulty is a target that fails, or damages what it is given, at one write.
type faulty struct {
	queue.Copier
	writes int
	at     int
	do     func(rows []queue.Row) error
}

func (f *faulty) WriteRows(ctx context.Context, t *queue.Table, rows []queue.Row) error {
	if f.writes++; f.writes == f.at {
		if err := f.do(rows); err != nil {
			return err
		}
	}
	return f.Copier.WriteRows(ctx, t, rows)
}

func TestCopyGoesOn(t *testing.T) {
	s := openCopier(t, sqlitePlace(t))
	populate(t, s, 70)
	c := openCopier(t, sqlitePlace(t))
	cut := errors.New("the connection was lost")
	stops := 0
	for at := 1; ; at = 2 { // each pass writes one page more and is cut
		f := &faulty{Copier: c, at: at, do: func([]queue.Row) error { return cut }}
		at, all := 0, -1
		_, err := queue.Copy(t.Context(), s, f, func(_ string, done, total int) { at, all = done, total })
		if err == nil {
			if at != all {
				t.Errorf("the last progress was %d of %d", at, all)
			}
			break
		}
		if !errors.Is(err, cut) || !strings.Contains(err.Error(), "goes on from there") {
			t.Fatalf("stop %d: %v", stops, err)
		}
		stops++
	}
	if stops < len(queue.Tables) {
		t.Errorf("the copy was cut %d times only", stops)
	}
	same(t, story(t, s, plain), story(t, c, plain))
}

// Whatever is wrong with one value, the comparison finds it.
func TestCopyFindsDamage(t *testing.T) {
	s := openCopier(t, sqlitePlace(t))
	populate(t, s, 70)
	for _, table := range []string{"docs", "payloads", "deliveries", "runs"} {
		t.Run(table, func(t *testing.T) {
			c := openCopier(t, sqlitePlace(t))
			f := &damaging{Copier: c, table: table}
			_, err := queue.Copy(t.Context(), s, f, nil)
			if !errors.Is(err, queue.ErrCopyDiffers) || !strings.Contains(err.Error(), table) {
				t.Fatalf("%s was damaged on its way: %v", table, err)
			}
			if _, err := queue.Copy(t.Context(), s, c, nil); !errors.Is(err, queue.ErrCopyDiffers) || !strings.Contains(err.Error(), table) {
				t.Errorf("%s is damaged in the target: %v", table, err)
			}
		})
	}
}

// damaging changes the last value of the last row of one table.
type damaging struct {
	queue.Copier
	table string
}

func (d *damaging) WriteRows(ctx context.Context, t *queue.Table, rows []queue.Row) error {
	if t.Name == d.table {
		last := rows[len(rows)-1]
		switch v := last[len(last)-1].(type) {
		case string:
			last[len(last)-1] = v + " "
		case []byte:
			last[len(last)-1] = append(slices.Clone(v), 0)
		}
	}
	return d.Copier.WriteRows(ctx, t, rows)
}

func TestCopyRefuses(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return "sqlite://" + filepath.Join(dir, name) }
	live := openCopier(t, path("live"))
	if err := live.Heartbeat(t.Context(), queue.Node{ID: "node-1", StartedAt: time.Now(), TriggersLoadedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	_ = live.Close()
	_ = openCopier(t, path("idle")).Close()
	for name, c := range map[string]struct {
		from, to string
		flags    []string
		code     int
		says     string
	}{
		"a live node on the source":   {path("live"), path("new"), nil, exitUnreachable, "node-1 is live on the source"},
		"a live node on the target":   {path("idle"), path("live"), nil, exitUnreachable, "node-1 is live on the target"},
		"no source":                   {path("none"), path("new"), nil, exitUnreachable, "is the path right"},
		"the same store":              {path("idle"), path("idle"), nil, exitUsage, "the same store"},
		"a wrong URL":                 {"mysql://secret@h/d", path("new"), nil, exitUsage, "--from: want sqlite://"},
		"another place for the store": {path("idle"), path("new"), []string{"--store", path("x")}, exitUsage, "--from and --to alone"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := runCopy(t.Context(), c.from, c.to, c.flags...)
			if code != c.code || !strings.Contains(errs, c.says) || out != "" || strings.Contains(errs, "secret") {
				t.Errorf("exit %d, want %d and %q:\n%s%s", code, c.code, c.says, out, errs)
			}
		})
	}
}

// A node that was killed more than a minute ago does not hinder a copy; a table for people, and
// what was copied keeps its mode.
func TestCopyTable(t *testing.T) {
	from, to := sqlitePlace(t), sqlitePlace(t)
	s := openCopier(t, from)
	if err := s.Heartbeat(t.Context(), queue.Node{ID: "node-1", StartedAt: time.Now(), TriggersLoadedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Enqueue(t.Context(), queue.Delivery{ID: "one", Source: "app-1", SourceName: "acme", Event: "push"}, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	db, err := sql.Open("sqlite", strings.TrimPrefix(from, "sqlite://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `UPDATE nodes SET heartbeat_at = heartbeat_at - 61000000`); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	code, out, errs := runCopy(t.Context(), from, to)
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	if !strings.Contains(out, "deliveries\t1\t1\t") || !strings.Contains(errs, "counts and checksums agree") {
		t.Errorf("output:\n%s%s", out, errs)
	}
}

// postgresPlace makes empty databases on the server for tests and drops them when their test is over.
func postgresPlace(t *testing.T) copyPlace {
	t.Helper()
	server := os.Getenv("PRELOOP_TEST_POSTGRES")
	if server == "" {
		t.Fatal("PRELOOP_TEST_POSTGRES names no server; `eval \"$(scripts/postgres env)\"` starts a private one, and scripts/test does that by itself")
	}
	admin := func(t *testing.T, q string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, server)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx) //nolint:errcheck // the test is over with it
		if _, err := conn.Exec(ctx, q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	return func(t *testing.T) string {
		t.Helper()
		u, err := url.Parse(server)
		if err != nil {
			t.Fatal(err)
		}
		name := "copy_" + strings.ToLower(rand.Text())
		admin(t, "CREATE DATABASE "+name)
		t.Cleanup(func() { admin(t, "DROP DATABASE "+name+" WITH (FORCE)") })
		u.Path = "/" + name
		return u.String()
	}
}
