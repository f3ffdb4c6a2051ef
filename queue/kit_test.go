package queue_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/codec"
	"github.com/seed-de999ace/preloop/queue/sqlite"
)

// blank is the file of an empty store: making its tables takes longer than many a test.
var blank []byte

// TestMain also uses the decompressor once. It keeps channels that it makes then, and they must
// not belong to a bubble, or no other one could use them.
func TestMain(m *testing.M) {
	body, kind := codec.Encode(nil, bytes.Repeat([]byte("preloop "), 100))
	if _, err := codec.Decode(kind, body); err != nil {
		panic(err)
	}
	var err error
	if blank, err = emptyStore(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func emptyStore() ([]byte, error) {
	dir, err := os.MkdirTemp("", "preloop-queue")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a few kilobytes
	path := filepath.Join(dir, "blank.db")
	store, err := sqlite.Open(context.Background(), path, sqlite.Options{Settings: queue.DefaultSettings(), Serve: true})
	if err != nil {
		return nil, err
	}
	if err := store.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// bubble is a test's world: a real SQLite store behind a switch for faults, and time that passes
// only while everybody waits.
type bubble struct {
	*testing.T
	*faulty
	began time.Time
	logs  *logs
	made  int
}

// in runs a test in a bubble.
func in(t *testing.T, test func(b *bubble)) {
	t.Helper()
	// The compressors' channels likewise. They are pooled, and two collections empty a pool.
	runtime.GC()
	runtime.GC()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "preloop.db")
		if err := os.WriteFile(path, blank, 0o600); err != nil {
			t.Fatal(err)
		}
		store, err := sqlite.Open(t.Context(), path, sqlite.Options{Settings: queue.DefaultSettings(), Serve: true})
		if err != nil {
			t.Fatalf("opening the store: %v", err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Errorf("closing the store: %v", err)
			}
		})
		test(&bubble{T: t, began: time.Now(), logs: &logs{}, faulty: &faulty{
			Store: store, began: time.Now(), faults: map[string]fault{}, calls: map[string][]time.Duration{},
		}})
	})
}

// now is the time since the bubble began, without the few milliseconds that wakes are late on purpose.
func (b *bubble) now() time.Duration { return time.Since(b.began).Round(100 * time.Millisecond) }

// pass lets time pass, and then everybody come to rest.
func (b *bubble) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// service runs something until the returned function is called, which waits for its end.
func (b *bubble) service(run func(context.Context) error) (stop func()) {
	b.Helper()
	synctest.Wait() // the wakes of what was written before have gone by
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				b.Errorf("Run: %v", err)
			}
		})
	}
	b.Cleanup(stop)
	return stop
}

// enqueue makes the store own a delivery and returns its id.
func (b *bubble) enqueue(with ...func(*queue.Delivery)) string {
	b.Helper()
	b.made++
	d := queue.Delivery{
		ID: fmt.Sprintf("guid-%05d", b.made), Source: "app-1", SourceName: "acme-bot", Event: "push",
		Facts: queue.Facts{Repo: "acme/widgets", RepoID: 100, Sender: "octocat"},
	}
	for _, w := range with {
		w(&d)
	}
	if r, err := b.Store.Enqueue(b.Context(), d, []byte(`{"secret":"s3cr3t"}`)); err != nil || r != queue.Accepted {
		b.Fatalf("enqueueing: %v, %v", r, err)
	}
	return d.ID
}

func subject(n int64) func(*queue.Delivery) {
	return func(d *queue.Delivery) {
		d.Event, d.Subject, d.SubjectNum = "issues", fmt.Sprintf("acme/widgets#%d", n), n
	}
}

// admit enqueues a delivery and decides it at once with one run for each trigger.
func (b *bubble) admit(with func(*queue.Delivery), admissions ...queue.Admission) []queue.Run {
	b.Helper()
	b.enqueue(with)
	claims, err := b.Store.ClaimDeliveries(b.Context(), "test", 1)
	if err != nil || len(claims) != 1 {
		b.Fatalf("claiming: %d, %v", len(claims), err)
	}
	settled, err := b.Store.SettleDelivery(b.Context(), claims[0].Lease, matched(admissions...))
	if err != nil {
		b.Fatalf("settling: %v", err)
	}
	return settled.Runs
}

func anything(*queue.Delivery) {}

func admission(trigger string) queue.Admission {
	return queue.Admission{Trigger: trigger, QueueSize: 100_000, QueueWait: 24 * time.Hour, UncertainAfter: 24 * time.Hour}
}

func matched(as ...queue.Admission) queue.Settlement {
	s := queue.Settlement{Kind: queue.SettleDone, Admissions: as}
	for _, a := range as {
		s.Decisions = append(s.Decisions, queue.Decision{Trigger: a.Trigger, Verdict: queue.Matched, Reason: "matched"})
	}
	return s
}

func (b *bubble) delivery(id string) *queue.DeliveryDetail {
	b.Helper()
	d, err := b.Store.Delivery(b.Context(), id)
	if err != nil {
		b.Fatalf("reading %s: %v", id, err)
	}
	return d
}

func (b *bubble) run(id string) *queue.RunDetail {
	b.Helper()
	r, err := b.Store.Run(b.Context(), id)
	if err != nil {
		b.Fatalf("reading run %s: %v", id, err)
	}
	return r
}

func (b *bubble) wantDelivery(id string, state queue.DeliveryState, attempts int, outcomes ...string) *queue.DeliveryDetail {
	b.Helper()
	d := b.delivery(id)
	var got []string
	for _, a := range d.History {
		got = append(got, a.Outcome)
	}
	if d.State != state || d.Attempts != attempts || !slices.Equal(got, outcomes) {
		b.Errorf("%s is %s after %d attempts %v, want %s after %d %v (last error %q)", id, d.State, d.Attempts, got, state, attempts, outcomes, d.LastError)
	}
	return d
}

func (b *bubble) wantRun(id string, state queue.RunState, reason string, attempts int) *queue.RunDetail {
	b.Helper()
	r := b.run(id)
	if r.State != state || r.Reason != reason || r.Attempts != attempts {
		b.Errorf("the run is %s %q after %d attempts, want %s %q after %d (error %q)", r.State, r.Reason, r.Attempts, state, reason, attempts, r.Error)
	}
	return r
}

func want(t testing.TB, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// list is what goroutines noted.
type list[T any] struct {
	mu    sync.Mutex
	items []T
}

func (l *list[T]) add(item T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.items = append(l.items, item)
}

func (l *list[T]) all() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.items)
}

// logs keeps what was logged.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// count is how many lines hold text.
func (l *logs) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}
