package commands

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-de999ace/preloop/fixtures/githubfake"
	"github.com/seed-de999ace/preloop/github/watchdog"
	"github.com/seed-de999ace/preloop/queue"
)

// loseMany makes GitHub record so many failures of the last ten minutes.
func (w *watchWorld) loseMany(backlog int) {
	now := time.Now()
	for i := range backlog {
		w.fake.Record(w.hook, githubfake.Row{
			GUID: fmt.Sprint("lost-", i), Event: "push", Status: "failed to connect to host", StatusCode: http.StatusBadGateway,
			Payload: []byte(`{"ref":"refs/heads/main"}`), DeliveredAt: now.Add(-10*time.Minute + time.Duration(i)*time.Millisecond),
		})
	}
}

// cameBack checks that each of them is in the store, and was asked for once.
func (w *watchWorld) cameBack(t *testing.T, backlog int) {
	t.Helper()
	w.fake.Wait()
	counts, err := w.store.Counts(t.Context())
	if err != nil || counts.Deliveries[queue.Received] != backlog {
		t.Errorf("%v of %d have come back, %v", counts.Deliveries, backlog, err)
	}
	asked := map[string]int{}
	for _, row := range w.fake.History(w.hook) {
		if row.Redelivery {
			asked[row.GUID]++
		}
	}
	for guid, n := range asked {
		if n != 1 {
			t.Errorf("%s was asked for %d times", guid, n)
		}
	}
	if n := w.fake.Calls("POST /app/hook/deliveries/{id}/attempts"); n != backlog || len(asked) != backlog {
		t.Errorf("asked %d times, for %d deliveries", n, len(asked))
	}
}

// A long outage of the server, with the documented settings: five pages and a hundred redeliveries
// a pass, one a second.
func TestWatchdogWorksOffALongOutage(t *testing.T) {
	const backlog = 2000
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := adopted(t, "")
		w.loseMany(backlog)
		time.Sleep(3 * time.Minute)
		passes := 0
		for open := 1; open > 0; passes++ {
			calls, began := w.fake.Calls("GET /app/hook/deliveries"), time.Now()
			r := w.pass(t, "a")
			if r.Err != nil || passes > 40 {
				t.Fatalf("pass %d: %+v", passes, r)
			}
			if n := w.fake.Calls("GET /app/hook/deliveries") - calls; n > 5 || r.Redelivered > 100 || time.Since(began) < time.Duration(r.Redelivered-1)*time.Second {
				t.Fatalf("pass %d: %d pages in %s, %+v", passes, n, time.Since(began), r)
			}
			open = r.OpenRepairs
			w.fake.Wait()
			time.Sleep(5 * time.Minute)
		}
		w.cameBack(t, backlog)
		t.Logf("%d deliveries came back in %d passes", backlog, passes)
	})
}

// turns sees which node's pass calls GitHub, one after another.
type turns struct {
	mu    sync.Mutex
	calls []string // node and pass
	busy  map[string]int
	mixed bool // two nodes had a call under way at once
}

// way is a node's own way to GitHub. pass names the pass that it is in.
func (u *turns) way(next http.RoundTripper, node string, pass *int) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		u.mu.Lock()
		u.calls = append(u.calls, fmt.Sprint(node, " ", *pass))
		u.busy[node]++
		u.mixed = u.mixed || len(u.busy) > 1
		u.mu.Unlock()
		defer func() {
			u.mu.Lock()
			defer u.mu.Unlock()
			if u.busy[node]--; u.busy[node] == 0 {
				delete(u.busy, node)
			}
		}()
		return next.RoundTrip(r)
	})
}

type roundTrip func(r *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Two nodes over one Postgres, each polling as fast as it can: one at a time repairs.
func TestTwoNodesNeverRepairAtOnce(t *testing.T) {
	const backlog = 600
	t.Parallel()
	url, err := database(postgresServer(t), t.Cleanup, t.Log)
	if err != nil {
		t.Fatal(err)
	}
	w := newWatchWorldIn(t, url, "watchdog: { pace: 0s }\n")
	if r := w.pass(t, "a"); r.Err != nil {
		t.Fatal(r.Err)
	}
	w.loseMany(backlog)
	seen := turns{busy: map[string]int{}}
	var nodes sync.WaitGroup
	held := make([]int, 2)
	for i, name := range []string{"a", "b"} {
		store, err := openStore(t.Context(), w.cfg, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		nodes.Go(func() {
			pass := 0
			node := newWatcher(w.cfg, store, w.newHub(store, seen.way(w.fake.Transport(), name, &pass)), name, slog.New(slog.DiscardHandler))
			o := watchdog.Options{Since: time.Now().Add(-time.Hour)}
			for done := false; !done && pass < 100_000; pass++ {
				r := node.pass(t.Context(), watchedSources(w.cfg)[0], o)
				o = watchdog.Options{}
				if r.Held {
					held[i]++
				}
				if r.Err != nil {
					t.Errorf("node %s, pass %d: %v", name, pass, r.Err)
					return
				}
				counts, err := store.Counts(t.Context())
				if err != nil {
					t.Error(err)
				}
				done = counts.Deliveries[queue.Received] == backlog && r.OpenRepairs == 0 && !r.Held || t.Failed()
			}
		})
	}
	nodes.Wait()
	w.cameBack(t, backlog)
	if seen.mixed {
		t.Error("both nodes called GitHub at the same moment")
	}
	over := map[string]bool{}
	shares := map[string]int{}
	for i, call := range seen.calls {
		if i > 0 && call != seen.calls[i-1] {
			if over[seen.calls[i-1]] = true; over[call] {
				t.Errorf("pass %q went on after another node's had begun", call)
			}
		}
		name, _, _ := strings.Cut(call, " ")
		shares[name]++
	}
	if held[0]+held[1] == 0 {
		t.Error("the nodes never met")
	}
	t.Logf("calls by node: %v; held back: %v", shares, held)
}
