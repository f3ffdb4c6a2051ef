package queue_test

import (
	"bytes"
	"context"
	"errors"
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

// fault is an arm of a failing call.
type fault int

const (
	refuse fault = iota + 1 // it failed and was not stored
	lose                    // it was stored and its answer was lost
	hang                    // no answer until the caller gives up; not stored
)

var errFault = errors.New("connection reset")

// faulty is a store whose methods can be made to fail, by name, and whose calls are noted.
type faulty struct {
	queue.Store
	began time.Time
	deaf  bool          // no wakes arrive
	skew  time.Duration // the holder of a delivery believes that its lease lasts so much longer

	mu     sync.Mutex
	faults map[string]fault
	calls  map[string][]time.Duration // when each call began
	before func(method string)
}

func (f *faulty) set(method string, arm fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[method] = arm
}

// down makes everything that workers and dispatchers call fail; 0 brings it back.
func (f *faulty) down(arm fault) {
	for _, m := range []string{
		"ClaimDeliveries", "RenewDeliveries", "SettleDelivery", "ClaimRuns", "RenewRuns", "SettleRun",
		"ReportSession", "ReleaseRun", "SweepRuns", "ClaimProbes", "SettleProbe", "Prune", "Compact",
	} {
		f.set(m, arm)
	}
}

// times are when a method was called, in whole seconds.
func (f *faulty) times(method string) (list []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, at := range f.calls[method] {
		list = append(list, int(at.Round(time.Second)/time.Second))
	}
	return list
}

func (f *faulty) do(ctx context.Context, method string, call func() error) error {
	f.mu.Lock()
	arm, before := f.faults[method], f.before
	f.calls[method] = append(f.calls[method], time.Since(f.began))
	f.mu.Unlock()
	if before != nil {
		before(method)
	}
	switch arm {
	case refuse:
		return errFault
	case hang:
		<-ctx.Done()
		return ctx.Err()
	}
	if err := call(); err != nil {
		return err
	}
	if arm == lose {
		return errFault
	}
	return nil
}

func fetch[T any](ctx context.Context, f *faulty, method string, call func() (T, error)) (T, error) {
	var v, none T
	err := f.do(ctx, method, func() (err error) {
		v, err = call()
		return err
	})
	if err != nil {
		return none, err
	}
	return v, nil
}

func (f *faulty) Wakes() (<-chan struct{}, func()) {
	if f.deaf {
		return nil, func() {}
	}
	return f.Store.Wakes()
}

func (f *faulty) ClaimDeliveries(ctx context.Context, node string, n int) ([]queue.DeliveryClaim, error) {
	return fetch(ctx, f, "ClaimDeliveries", func() ([]queue.DeliveryClaim, error) {
		claims, err := f.Store.ClaimDeliveries(ctx, node, n)
		for i := range claims {
			claims[i].Lease.Until = claims[i].Lease.Until.Add(f.skew)
		}
		return claims, err
	})
}

func (f *faulty) RenewDeliveries(ctx context.Context, l []queue.Lease) ([]queue.Lease, error) {
	return fetch(ctx, f, "RenewDeliveries", func() ([]queue.Lease, error) { return f.Store.RenewDeliveries(ctx, l) })
}

func (f *faulty) SettleDelivery(ctx context.Context, l queue.Lease, s queue.Settlement) (queue.Settled, error) {
	return fetch(ctx, f, "SettleDelivery", func() (queue.Settled, error) { return f.Store.SettleDelivery(ctx, l, s) })
}

func (f *faulty) ClaimRuns(ctx context.Context, node string, rules []queue.DispatchRule, limit int) (claims []queue.RunClaim, next time.Time, err error) {
	claims, err = fetch(ctx, f, "ClaimRuns", func() (_ []queue.RunClaim, err error) {
		claims, next, err = f.Store.ClaimRuns(ctx, node, rules, limit)
		return claims, err
	})
	return claims, next, err
}

func (f *faulty) RenewRuns(ctx context.Context, l []queue.Lease) (held, cancel []queue.Lease, err error) {
	held, err = fetch(ctx, f, "RenewRuns", func() (_ []queue.Lease, err error) {
		held, cancel, err = f.Store.RenewRuns(ctx, l)
		return held, err
	})
	return held, cancel, err
}

func (f *faulty) SettleRun(ctx context.Context, l queue.Lease, o queue.Outcome) (*queue.Run, error) {
	return fetch(ctx, f, "SettleRun", func() (*queue.Run, error) { return f.Store.SettleRun(ctx, l, o) })
}

func (f *faulty) ReportSession(ctx context.Context, l queue.Lease, session string, state queue.SessionState) error {
	return f.do(ctx, "ReportSession", func() error { return f.Store.ReportSession(ctx, l, session, state) })
}

func (f *faulty) ReleaseRun(ctx context.Context, l queue.Lease) error {
	return f.do(ctx, "ReleaseRun", func() error { return f.Store.ReleaseRun(ctx, l) })
}

func (f *faulty) SweepRuns(ctx context.Context) (int, error) {
	return fetch(ctx, f, "SweepRuns", func() (int, error) { return f.Store.SweepRuns(ctx) })
}

func (f *faulty) ClaimProbes(ctx context.Context, node string, triggers []string, limit int) ([]queue.RunClaim, error) {
	return fetch(ctx, f, "ClaimProbes", func() ([]queue.RunClaim, error) { return f.Store.ClaimProbes(ctx, node, triggers, limit) })
}

func (f *faulty) SettleProbe(ctx context.Context, l queue.Lease, a queue.ProbeAnswer) (*queue.Run, error) {
	return fetch(ctx, f, "SettleProbe", func() (*queue.Run, error) { return f.Store.SettleProbe(ctx, l, a) })
}

func (f *faulty) Prune(ctx context.Context, limit int) (int, error) {
	return fetch(ctx, f, "Prune", func() (int, error) { return f.Store.Prune(ctx, limit) })
}

func (f *faulty) Compact(ctx context.Context) error {
	return f.do(ctx, "Compact", func() error { return f.Store.Compact(ctx) })
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
