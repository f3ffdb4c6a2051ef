package postgres_test

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/postgres"
)

// fleetDeliveries is how many deliveries three nodes race for: go test ./queue/postgres -run Fleet
// -args -fleet.deliveries 10000 is the whole of it.
var fleetDeliveries = flag.Int("fleet.deliveries", 600, "how many deliveries TestFleetKeepsTheCap sends")

// TestFleetKeepsTheCap has three nodes, each with a worker and a dispatcher, race for deliveries that
// come faster than their runs end. At no moment are there more waiting runs than the cap or more running
// ones than the concurrency; in the end each delivery has one run, which was executed once or dropped.
func TestFleetKeepsTheCap(t *testing.T) {
	const size, concurrency = 50, 4
	n := *fleetDeliveries
	db := newDatabase(t)
	stores := handles(t, db, 3)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	var running, most, decided atomic.Int64
	var mu sync.Mutex
	executed := map[string]int{} // by delivery, guarded by mu
	rule := queue.DispatchRule{Trigger: "deploy", Concurrency: concurrency}
	var nodes sync.WaitGroup
	for i, s := range stores {
		w := &queue.Worker{
			Store: s, Node: fmt.Sprint("node-", i), Settings: queue.DefaultSettings(),
			Decide: func(context.Context, *queue.DeliveryClaim) (queue.Settlement, error) {
				return queue.Settlement{
					Decisions:  []queue.Decision{{Trigger: rule.Trigger, Verdict: queue.Matched, Reason: "matched"}},
					Admissions: []queue.Admission{{Trigger: rule.Trigger, QueueSize: size, QueueWait: time.Hour}},
				}, nil
			},
			Observe: func(queue.DeliveryAttempt) { decided.Add(1) },
		}
		d := &queue.Dispatcher{
			Store: s, Node: fmt.Sprint("node-", i), Settings: queue.DefaultSettings(), ShutdownGrace: time.Minute,
			Rules: func() []queue.DispatchRule { return []queue.DispatchRule{rule} },
			Execute: func(_ context.Context, c queue.RunClaim, _ func(string, queue.SessionState)) queue.Outcome {
				now := running.Add(1)
				for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
				}
				mu.Lock()
				executed[c.DeliveryID]++
				mu.Unlock()
				<-time.After(5 * time.Millisecond) // a target takes its time, and the queue fills
				running.Add(-1)
				return queue.Outcome{State: queue.Succeeded}
			},
		}
		for _, run := range []func(context.Context) error{w.Run, d.Run} {
			nodes.Go(func() {
				if err := run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
	}

	began := time.Now()
	var senders sync.WaitGroup
	for i := range 12 {
		senders.Go(func() {
			for j := i; j < n; j += 12 {
				enqueue(t, stores[j%3], push(fmt.Sprint("d", j)))
			}
		})
	}
	watched := make(chan peaks)
	watch, look := context.WithCancel(ctx)
	go func() { watched <- watchRuns(t, watch, db) }()
	senders.Wait()
	idle(t, stores[0])
	took := time.Since(began)
	look()
	peak := <-watched
	stop()
	nodes.Wait()

	if peak.waiting > size || peak.running > concurrency || most.Load() > concurrency {
		t.Errorf("in %d looks at most %d waited and %d ran, and %d were executed at once; want %d and %d at most", peak.looks, peak.waiting, peak.running, most.Load(), size, concurrency)
	}
	if decided.Load() != int64(n) {
		t.Errorf("%d decisions for %d deliveries", decided.Load(), n)
	}
	for id, times := range executed {
		if times != 1 {
			t.Errorf("%s was executed %d times", id, times)
		}
	}
	runs, single := count(t, db, `SELECT count(*) FROM runs`), count(t, db, `SELECT count(DISTINCT guid) FROM runs`)
	done := count(t, db, `SELECT count(*) FROM deliveries WHERE state = 'done'`)
	succeeded := count(t, db, `SELECT count(*) FROM runs WHERE state = 'succeeded'`)
	dropped := count(t, db, `SELECT count(*) FROM runs WHERE state = 'dropped' AND reason = 'queue_full'`)
	if runs != n || single != n || done != n || succeeded+dropped != n || succeeded != len(executed) || dropped == 0 {
		t.Errorf("of %d deliveries %d are done, with %d runs of %d events: %d succeeded, %d were executed, %d dropped", n, done, runs, single, succeeded, len(executed), dropped)
	}
	t.Logf("%d deliveries in %v: %d ran, %d dropped; in %d looks at most %d of %d waited and %d of %d ran", n, took.Round(time.Millisecond), succeeded, dropped, peak.looks, peak.waiting, size, peak.running, concurrency)
}

// peaks is the most that was ever seen at once.
type peaks struct{ waiting, running, looks int }

// watchRuns counts what waits and runs in one statement, which sees one moment, over and over.
func watchRuns(t *testing.T, ctx context.Context, db string) (p peaks) { //nolint:revive // t goes first here
	conn, err := pgx.Connect(context.WithoutCancel(ctx), db)
	if err != nil {
		t.Error(err)
		return p
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the test's own
	for ctx.Err() == nil {
		var waiting, running int
		err := conn.QueryRow(context.WithoutCancel(ctx), `SELECT count(*) FILTER (WHERE state IN ('waiting', 'routing')), count(*) FILTER (WHERE state = 'running')
			FROM runs WHERE trigger = 'deploy' AND state IN ('waiting', 'running', 'routing', 'uncertain')`).Scan(&waiting, &running)
		if err != nil {
			t.Error(err)
			return p
		}
		<-time.After(2 * time.Millisecond)
		p.waiting, p.running, p.looks = max(p.waiting, waiting), max(p.running, running), p.looks+1
	}
	return p
}

// idle waits until nothing is left to do.
func idle(t *testing.T, s *postgres.Store) {
	t.Helper()
	for range 6000 {
		c, err := s.Counts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if c.Deliveries[queue.Received]+c.Deliveries[queue.Processing]+c.Runs[queue.Waiting]+c.Runs[queue.Running] == 0 {
			return
		}
		<-time.After(50 * time.Millisecond)
	}
	t.Fatal("after five minutes there is still something to do")
}
