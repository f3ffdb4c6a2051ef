package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/postgres"
)

func push(id string) queue.Delivery {
	return queue.Delivery{
		ID: id, Source: "app-1", SourceName: "acme", Event: "push", Secret: "current",
		Facts: queue.Facts{Repo: "acme/widgets", RepoID: 1, Sender: "ann"}, Headers: map[string]string{"X-GitHub-Event": "push"},
	}
}

func enqueue(t testing.TB, s queue.Store, d queue.Delivery) queue.EnqueueResult {
	t.Helper()
	r, err := s.Enqueue(context.Background(), d, []byte(`{"a":1}`))
	if err != nil {
		t.Error(err)
	}
	return r
}

// process admits a run for whatever is claimable, until nothing is.
func process(t testing.TB, s queue.Store, a queue.Admission) {
	t.Helper()
	for {
		claims, err := s.ClaimDeliveries(t.Context(), "node", 16)
		if err != nil {
			t.Error(err)
			return
		}
		if len(claims) == 0 {
			return
		}
		for _, c := range claims {
			if _, err := s.SettleDelivery(t.Context(), c.Lease, queue.Settlement{
				Decisions:  []queue.Decision{{Trigger: a.Trigger, Verdict: queue.Matched, Reason: "matched"}},
				Admissions: []queue.Admission{a},
			}); err != nil {
				t.Error(err)
			}
		}
	}
}

func handles(t testing.TB, db string, n int) []*postgres.Store {
	stores := make([]*postgres.Store, n)
	for i := range stores {
		stores[i] = open(t, db, postgres.Options{})
	}
	return stores
}

func TestMigrationsAreRacedByNodes(t *testing.T) {
	at := server(t)
	name := create(t, at, "")
	t.Cleanup(func() { admin(t, at, `DROP DATABASE `+name+` WITH (FORCE)`) })
	db := with(t, at, name)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { open(t, db, postgres.Options{}) })
	}
	wg.Wait()
	if n := count(t, db, `SELECT count(*) FROM preloop_schema WHERE version > 0`); n != 1 {
		t.Errorf("%d rows say which schema there is, want 1", n)
	}
}

func TestANewerSchemaIsRefused(t *testing.T) {
	db := newDatabase(t)
	admin(t, db, `UPDATE preloop_schema SET version = version + 1`)
	t.Cleanup(func() { admin(t, db, `UPDATE preloop_schema SET version = version - 1`) })
	_, err := postgres.Open(t.Context(), db, postgres.Options{Settings: queue.DefaultSettings()})
	if !errors.Is(err, queue.ErrNewerSchema) {
		t.Errorf("got %v, want %v", err, queue.ErrNewerSchema)
	}
}

func TestOneKeyFromManySenders(t *testing.T) {
	stores := handles(t, newDatabase(t), 3)
	var accepted, duplicates atomic.Int64
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			switch enqueue(t, stores[i%3], push("one")) {
			case queue.Accepted:
				accepted.Add(1)
			case queue.Duplicate:
				duplicates.Add(1)
			}
		})
	}
	wg.Wait()
	if accepted.Load() != 1 || duplicates.Load() != 199 {
		t.Errorf("%d accepted and %d duplicates, want 1 and 199", accepted.Load(), duplicates.Load())
	}
	uses, err := stores[0].SecretUses(t.Context())
	if err != nil || len(uses) != 1 || uses[0].Deliveries != 200 {
		t.Errorf("secret uses %+v, %v; want 200", uses, err)
	}
}

func TestCapAndCapacityUnderRacingNodes(t *testing.T) {
	stores := handles(t, newDatabase(t), 3)
	for i := range 60 {
		enqueue(t, stores[i%3], push(fmt.Sprint("d", i)))
	}
	var wg sync.WaitGroup
	for _, s := range stores {
		wg.Go(func() { process(t, s, queue.Admission{Trigger: "deploy", QueueSize: 7, QueueWait: time.Hour}) })
	}
	wg.Wait()
	counts, err := stores[1].Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if counts.Runs[queue.Waiting] != 7 || counts.Runs[queue.Dropped] != 53 || counts.Dropped1h[queue.ReasonQueueFull] != 53 || counts.Deliveries[queue.Done] != 60 {
		t.Errorf("counts %+v, want 7 waiting, 53 dropped, 60 done", counts)
	}
	var started atomic.Int64
	for i := range 9 {
		wg.Go(func() {
			claims, _, err := stores[i%3].ClaimRuns(t.Context(), "node", []queue.DispatchRule{{Trigger: "deploy", Concurrency: 3}}, 10)
			if err != nil {
				t.Error(err)
			}
			started.Add(int64(len(claims)))
		})
	}
	wg.Wait()
	if started.Load() != 3 {
		t.Errorf("%d runs were started, want 3", started.Load())
	}
}

// TestAdmissionsShareABatch settles sixty deliveries at once, each with a run of two triggers that take
// few, among them one whose lease is lost and one whose settlement is wrong: these two fail alone, and
// what the others count is exact.
func TestAdmissionsShareABatch(t *testing.T) {
	stores := handles(t, newDatabase(t), 2)
	for i := range 60 {
		enqueue(t, stores[0], push(fmt.Sprint("d", i)))
	}
	claims, err := stores[0].ClaimDeliveries(t.Context(), "node", 60)
	if err != nil || len(claims) != 60 {
		t.Fatalf("claimed %d, %v", len(claims), err)
	}
	var wg sync.WaitGroup
	for i, c := range claims {
		st := queue.Settlement{}
		for trigger, size := range map[string]int{"deploy": 7, "review": 20} {
			st.Decisions = append(st.Decisions, queue.Decision{Trigger: trigger, Verdict: queue.Matched, Reason: "matched"})
			st.Admissions = append(st.Admissions, queue.Admission{Trigger: trigger, QueueSize: size, QueueWait: time.Hour})
		}
		var want error
		switch i {
		case 20:
			c.Lease.Token++
			want = queue.ErrLeaseLost
		case 21:
			st.Admissions = st.Admissions[:1]
			want = queue.ErrInvalid
		}
		wg.Go(func() {
			settled, err := stores[i%2].SettleDelivery(t.Context(), c.Lease, st)
			if !errors.Is(err, want) || want == nil && (err != nil || settled.State != queue.Done || len(settled.Runs) != 2 || len(settled.Decisions) != 2) {
				t.Errorf("delivery %d: %+v, %v; want %v", i, settled, err, want)
			}
		})
	}
	wg.Wait()
	counts, err := stores[1].Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if counts.Runs[queue.Waiting] != 27 || counts.Runs[queue.Dropped] != 2*58-27 || counts.Deliveries[queue.Done] != 58 || counts.Deliveries[queue.Processing] != 2 {
		t.Errorf("counts %+v, want 27 waiting, 89 dropped, 58 done, 2 processing", counts)
	}
}

func TestAPoisonedRowFailsAlone(t *testing.T) {
	s := open(t, newDatabase(t), postgres.Options{})
	// Longer than an index takes, and not to be compressed to less.
	var long strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&long, "%x", i*2654435761)
	}
	var wg sync.WaitGroup
	var bad error
	for i := range 64 {
		wg.Go(func() {
			if i == 20 {
				_, bad = s.Enqueue(t.Context(), push(long.String()), []byte(`{}`))
				return
			}
			if r := enqueue(t, s, push(fmt.Sprint("d", i))); r != queue.Accepted {
				t.Errorf("%d: %s", i, r)
			}
		})
	}
	wg.Wait()
	if bad == nil {
		t.Error("the row that no index takes was accepted")
	}
}

func wakesOf(t testing.TB, s *postgres.Store) <-chan struct{} {
	wakes, cancel := s.Wakes()
	t.Cleanup(cancel)
	// The connection that listens says that it is there by a wake.
	awaitWake(t, wakes, "the listener's first")
	return wakes
}

func awaitWake(t testing.TB, wakes <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-wakes:
	case <-time.After(20 * time.Second):
		t.Fatalf("no wake: %s", what)
	}
}

func TestANodeWakesAnother(t *testing.T) {
	db := newDatabase(t)
	a, b := open(t, db, postgres.Options{}), open(t, db, postgres.Options{})
	wakes := wakesOf(t, a)
	best := time.Hour
	for i := range 5 {
		enqueue(t, b, push(fmt.Sprint("d", i)))
		began := time.Now()
		awaitWake(t, wakes, "another node's enqueue")
		best = min(best, time.Since(began))
	}
	t.Logf("from the answer to the other node's wake: %v at best", best)
	if best > 100*time.Millisecond {
		t.Errorf("the other node woke after %v", best)
	}
	if note := a.Note(); note != "" {
		t.Errorf("note %q, want none", note)
	}
}

func TestTheListenerComesBack(t *testing.T) {
	db := newDatabase(t)
	a, b := open(t, db, postgres.Options{}), open(t, db, postgres.Options{})
	wakes := wakesOf(t, a)
	admin(t, db, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	awaitWake(t, wakes, "once it is back")
	enqueue(t, b, push("after")) // the pool has lost its connections too
	awaitWake(t, wakes, "another node's enqueue after the reconnect")
}

func TestTheDatabaseGoesAwayAndComesBack(t *testing.T) {
	db := newDatabase(t)
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	s := open(t, db, postgres.Options{})
	enqueue(t, s, push("before"))
	admin(t, server(t), `ALTER DATABASE `+name+` ALLOW_CONNECTIONS false`)
	admin(t, server(t), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1`, name)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for what, call := range map[string]func() error{
		"enqueue": func() error { _, err := s.Enqueue(ctx, push("during"), []byte(`{}`)); return err },
		"claim":   func() error { _, err := s.ClaimDeliveries(ctx, "node", 1); return err },
		"settle": func() error {
			_, err := s.SettleDelivery(ctx, queue.Lease{Row: 1, Token: 1}, queue.Settlement{})
			return err
		},
		"counts":    func() error { _, err := s.Counts(ctx); return err },
		"heartbeat": func() error { return s.Heartbeat(ctx, queue.Node{ID: "node"}) },
	} {
		err := call()
		if err == nil || ctx.Err() != nil {
			t.Errorf("%s: %v (%v), want an error in time", what, err, ctx.Err())
		}
		silent(t, what, err, db)
	}
	admin(t, server(t), `ALTER DATABASE `+name+` ALLOW_CONNECTIONS true`)
	if r := enqueue(t, s, push("after")); r != queue.Accepted {
		t.Errorf("after: %s", r)
	}
}

// TestAReadOnlyDatabaseTakesNothing stands for a replica, too: what reads goes on, what writes says
// what is wrong, and neither needs a new handle when it is over.
func TestAReadOnlyDatabaseTakesNothing(t *testing.T) {
	db := newDatabase(t)
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	s := open(t, db, postgres.Options{})
	enqueue(t, s, push("before"))
	readOnly := func(word string) { // new sessions obey it
		admin(t, server(t), `ALTER DATABASE `+name+` SET default_transaction_read_only = `+word)
		admin(t, server(t), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1`, name)
	}
	readOnly("on")
	for what, call := range map[string]func() error{
		"enqueue":   func() error { _, err := s.Enqueue(t.Context(), push("during"), []byte(`{}`)); return err },
		"claim":     func() error { _, err := s.ClaimDeliveries(t.Context(), "node", 1); return err },
		"heartbeat": func() error { return s.Heartbeat(t.Context(), queue.Node{ID: "node"}) },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), "the store needs the primary") {
			t.Errorf("%s: %v, want what to do", what, err)
		}
	}
	if counts, err := s.Counts(t.Context()); err != nil || counts.Deliveries[queue.Received] != 1 {
		t.Errorf("counts %+v, %v; want the one from before", counts, err)
	}
	readOnly("off")
	if r := enqueue(t, s, push("during")); r != queue.Accepted {
		t.Errorf("after: %s", r)
	}
}

// silent checks that an error shows nothing of the login.
func silent(t *testing.T, what string, err error, urls ...string) {
	t.Helper()
	for _, raw := range urls {
		u, _ := url.Parse(raw)
		if u == nil {
			continue
		}
		if password, ok := u.User.Password(); ok && err != nil && (strings.Contains(err.Error(), password) || strings.Contains(err.Error(), u.User.Username()+":")) {
			t.Errorf("%s: the error shows the login", what)
		}
	}
}

func TestOpeningSaysWhatToDo(t *testing.T) {
	at, err := url.Parse(server(t))
	if err != nil {
		t.Fatal(err)
	}
	change := func(f func(*url.URL)) string {
		u := *at
		f(&u)
		return u.String()
	}
	for name, c := range map[string]struct{ url, want string }{
		"wrong password":   {change(func(u *url.URL) { u.User = url.UserPassword("preloop", "sesame-open") }), "check the user and password"},
		"no such database": {change(func(u *url.URL) { u.Path = "/nothing_here" }), "create the database first"},
		"nobody listens":   {change(func(u *url.URL) { u.Host = "127.0.0.1:1" }), "is the database server running"},
		"malformed":        {"postgres://preloop:sesame-open@127.0.0.1:port/x", "it must look like"},
		"a bad option":     {change(func(u *url.URL) { u.RawQuery = "sslmode=sesame-open" }), "it must look like"},
		"no URL":           {"postgres://preloop:sesame%zz@h/x", "it must look like"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := postgres.Open(t.Context(), c.url, postgres.Options{Settings: queue.DefaultSettings()})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if strings.Contains(err.Error(), "sesame") {
				t.Errorf("the error shows the password: %v", err)
			}
			silent(t, name, err, server(t))
			t.Log(err)
		})
	}
}

// tracer counts statements.
type tracer struct{ n atomic.Int64 }

func (c *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}

func (c *tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestAnIdleNodeAsksLittle counts what a node's loops ask of an empty queue: the heartbeat and the
// worker's and the dispatcher's polls every five seconds, the breakers and the uptime every fifteen,
// the dashboard's numbers every twenty. scripts/bench -only idle counts a real node's.
func TestAnIdleNodeAsksLittle(t *testing.T) {
	var c tracer
	s, err := postgres.OpenTraced(t.Context(), newDatabase(t), postgres.Options{Settings: queue.DefaultSettings()}, &c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	cost := func(calls func()) float64 {
		best := int64(1 << 30) // what takes long on a busy machine may ask once more
		for range 20 {
			before := c.n.Load()
			calls()
			best = min(best, c.n.Load()-before)
		}
		return float64(best)
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	worker := cost(func() { _, err := s.ClaimDeliveries(t.Context(), "node", 64); ok(err) })
	dispatcher := cost(func() {
		_, err := s.SweepRuns(t.Context())
		ok(err)
		_, _, err = s.ClaimRuns(t.Context(), "node", []queue.DispatchRule{{Trigger: "a", Concurrency: 1}, {Trigger: "b", Concurrency: 1}}, 64)
		ok(err)
		_, err = s.ClaimProbes(t.Context(), "node", []string{"a"}, 64)
		ok(err)
	})
	beat := cost(func() { ok(s.Heartbeat(t.Context(), queue.Node{ID: "node"})) })
	load := cost(func() { _, err := s.LoadDocs(t.Context(), "breaker"); ok(err) })
	swap := cost(func() { _, err := s.SwapDoc(t.Context(), "uptime", "ingress", 1, []byte(`{}`)); ok(err) })
	numbers := cost(func() { _, err := s.Counts(t.Context()); ok(err) })
	rate := (worker+dispatcher+beat)/5 + (load+swap)/15 + numbers/20
	t.Logf("worker %v, dispatcher %v, heartbeat %v, documents %v and %v, counts %v statements: %.2f a second", worker, dispatcher, beat, load, swap, numbers, rate)
	if rate > 0.8 {
		t.Errorf("an idle node asks %.2f statements a second, want 0.8 at most", rate)
	}
}

// TestADamagedPayloadFailsAlone claims a row whose payload is no longer what was stored, between
// two sound ones.
func TestADamagedPayloadFailsAlone(t *testing.T) {
	db := newDatabase(t)
	s := open(t, db, postgres.Options{})
	for _, id := range []string{"a", "b", "c"} {
		if _, err := s.Enqueue(t.Context(), push(id), payload); err != nil {
			t.Fatal(err)
		}
	}
	admin(t, db, `UPDATE payloads SET body = '\x00ff' WHERE seq = (SELECT seq FROM deliveries WHERE guid = 'b')`)
	claims, err := s.ClaimDeliveries(t.Context(), "node", 10)
	if err != nil || len(claims) != 2 || claims[0].ID != "a" || claims[1].ID != "c" {
		t.Fatalf("claimed %d, %v; want a and c", len(claims), err)
	}
	d, err := s.Delivery(t.Context(), "b")
	if err != nil || d.State != queue.Failed || d.LastError == "" {
		t.Errorf("the damaged one: %+v, %v; want a dead letter that says why", d.Delivery, err)
	}
}
