package queuetest

import (
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// race runs do n times at once, by turns over two handles on the same data.
func (k *kit) race(n int, do func(k *kit, i int)) {
	k.Helper()
	handles := []*kit{k, k.on(k.another(k.t))}
	var ready, done sync.WaitGroup
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			ready.Wait()
			do(handles[i%2], i)
		})
	}
	done.Wait()
}

// check reports an error from a goroutine, which must not end the test by itself.
func (k *kit) check(err error, doing string) bool {
	k.Helper()
	if err != nil {
		k.Errorf("%s: %v", doing, err)
	}
	return err == nil
}

// tally counts words from many goroutines.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (t *tally) add(word string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = map[string]int{}
	}
	t.n[word]++
}

var raceTests = []test{
	{name: "200 enqueues of one key: one is accepted", do: func(k *kit) {
		d := k.delivery()
		var got tally
		k.race(200, func(k *kit, _ int) {
			r, err := k.store.Enqueue(k.ctx, d, payloadOf(d))
			if k.check(err, "enqueueing") {
				got.add(string(r))
			}
		})
		k.same("results", got.n, map[string]int{"accepted": 1, "duplicate": 199})
		if n := len(k.listDeliveries(queue.DeliveryFilter{})); n != 1 {
			k.Errorf("%d deliveries are listed", n)
		}
		uses, err := k.store.SecretUses(k.ctx)
		k.must(err, "reading the uses of secrets")
		if len(uses) != 1 || uses[0].Deliveries != 200 {
			k.Errorf("uses of secrets: %+v, want 200 of one", uses)
		}
	}},
	{name: "many enqueues: none is lost, one seq each", do: func(k *kit) {
		var all []queue.Delivery
		for range 100 {
			all = append(all, k.delivery())
		}
		k.race(len(all), func(k *kit, i int) {
			_, err := k.store.Enqueue(k.ctx, all[i], payloadOf(all[i]))
			k.check(err, "enqueueing")
		})
		seqs := map[int64]bool{}
		for _, d := range k.listDeliveries(queue.DeliveryFilter{}) {
			seqs[d.Seq] = true
		}
		if len(seqs) != len(all) {
			k.Errorf("%d seqs for %d deliveries", len(seqs), len(all))
		}
		k.recount()
	}},
	{name: "each delivery is claimed once", do: func(k *kit) {
		const n = 40
		for range n {
			k.enqueue(k.delivery())
		}
		var claimed tally
		k.race(12, func(k *kit, _ int) {
			for {
				c, err := k.store.ClaimDeliveries(k.ctx, "node", 3)
				if !k.check(err, "claiming") || len(c) == 0 {
					return
				}
				for _, c := range c {
					claimed.add(c.ID)
				}
			}
		})
		if len(claimed.n) != n {
			k.Errorf("%d of %d were claimed", len(claimed.n), n)
		}
		for id, times := range claimed.n {
			if times != 1 {
				k.Errorf("%s was claimed %d times", id, times)
			}
		}
	}},
	{name: "one of many settlements counts", do: func(k *kit) {
		d := k.enqueue(k.delivery())
		l := k.claim().Lease
		var got tally
		k.race(16, func(k *kit, i int) {
			_, err := k.store.SettleDelivery(k.ctx, l, settlements[i%len(settlements)].s)
			switch {
			case err == nil:
				got.add("settled")
			case errors.Is(err, queue.ErrLeaseLost):
				got.add("lost")
			default:
				k.check(err, "settling")
			}
		})
		k.same("settlements", got.n, map[string]int{"settled": 1, "lost": 15})
		if n := len(k.detail(d.ID).History); n != 1 {
			k.Errorf("%d attempts are in the history", n)
		}
	}},
	{name: "the cap is exact", do: func(k *kit) {
		const n, places = 30, 7
		for range n {
			k.enqueue(k.delivery())
		}
		claims := k.claims(n)
		var got tally
		k.race(n, func(k *kit, i int) {
			s, err := k.store.SettleDelivery(k.ctx, claims[i].Lease, decided(plain("deploy", size(places)), plain("lint", size(places+1))))
			if k.check(err, "settling") {
				for _, r := range s.Runs {
					got.add(r.Trigger + " " + string(r.State))
				}
			}
		})
		k.same("runs", got.n, map[string]int{
			"deploy waiting": places, "deploy dropped": n - places, "lint waiting": places + 1, "lint dropped": n - places - 1,
		})
		k.recount()
	}},
	{name: "one source of two owns each event", do: func(k *kit) {
		const n = 10
		for i := range n {
			id := guid("event-" + string(rune('a'+i)))
			k.enqueue(k.delivery(id, from("app-1", "acme-bot")))
			k.enqueue(k.delivery(id, from("hook-2", "widgets")))
		}
		claims := k.claims(2 * n)
		var got tally
		k.race(2*n, func(k *kit, i int) {
			s, err := k.store.SettleDelivery(k.ctx, claims[i].Lease, decided(plain("deploy")))
			if k.check(err, "settling") {
				got.add(string(s.Decisions[0].Verdict))
				for _, r := range s.Runs {
					got.add(r.DeliveryID)
				}
			}
		})
		if got.n["matched"] != n || got.n["ignored"] != n || len(got.n) != n+2 {
			k.Errorf("decisions and runs by event: %v, want %d matched, %d ignored, one run each", got.n, n, n)
		}
	}},
	{name: "concurrency is never exceeded", do: func(k *kit) {
		const n, at = 24, 3
		for range n {
			k.admit(k.delivery(), plain("deploy"))
		}
		var running, most, ran atomic.Int64
		k.race(8, func(k *kit, _ int) {
			for ran.Load() < n {
				c, _, err := k.store.ClaimRuns(k.ctx, "node", []queue.DispatchRule{rule("deploy", at)}, 2)
				if !k.check(err, "claiming") {
					return
				}
				for _, c := range c {
					if now := running.Add(1); now > most.Load() {
						most.Store(now)
					}
					running.Add(-1) // before the slot is free
					_, err := k.store.SettleRun(k.ctx, c.Lease, queue.Outcome{State: queue.Succeeded})
					k.check(err, "settling")
					ran.Add(1)
				}
				time.Sleep(time.Millisecond)
			}
		})
		if most.Load() > at || ran.Load() != n {
			k.Errorf("%d ran, %d at once; want %d, %d at most", ran.Load(), most.Load(), n, at)
		}
	}},
	{name: "starts by many are as many as there are slots", do: func(k *kit) {
		for range 20 {
			k.admit(k.delivery(), plain("deploy"))
		}
		var started tally
		k.race(16, func(k *kit, _ int) {
			c, _, err := k.store.ClaimRuns(k.ctx, "node", []queue.DispatchRule{rule("deploy", 3)}, 10)
			if k.check(err, "claiming") {
				for _, c := range c {
					started.add(c.DeliveryID)
				}
			}
		})
		k.same("started", started.n, map[string]int{"guid-0001": 1, "guid-0002": 1, "guid-0003": 1})
	}},
	{name: "one hand-over at a time", do: func(k *kit) {
		opener := k.startsAs(k.event(7))
		for range 5 {
			k.event(7)
		}
		var got tally
		k.race(16, func(k *kit, _ int) {
			c, _, err := k.store.ClaimRuns(k.ctx, "node", []queue.DispatchRule{triage}, 10)
			if k.check(err, "claiming") {
				for _, c := range c {
					got.add(c.DeliveryID + " " + c.Session)
				}
			}
		})
		k.same("handed over", got.n, map[string]int{"guid-0002 " + opener.ID: 1})
	}},
	{name: "a run that ends while its followers arrive strands none", do: func(k *kit) {
		opener := k.startsAs(k.event(7))
		const n = 8
		for range n {
			k.enqueue(k.delivery(about(7)))
		}
		claims := k.claims(n)
		k.race(n+1, func(k *kit, i int) {
			if i == n {
				_, err := k.store.SettleRun(k.ctx, opener.Lease, queue.Outcome{State: queue.Succeeded})
				k.check(err, "settling the opener")
				return
			}
			_, err := k.store.SettleDelivery(k.ctx, claims[i].Lease, decided(plain("triage", follows)))
			k.check(err, "settling")
		})
		for range 2 * n {
			for _, c := range k.start(triage) {
				if c.Kind == queue.FollowUp {
					k.settleRun(c.Lease, queue.Outcome{State: queue.Delivered})
				}
			}
		}
		if s := k.stats()["triage"]; s.Running != 1 || s.Waiting != 0 || s.Routing != 0 {
			k.Errorf("at the end %+v, want one running and all others handed to it", s)
		}
	}},
	{name: "one replay of many", do: func(k *kit) {
		d := k.delivery()
		k.admit(d, plain("deploy"))
		var got tally
		k.race(10, func(k *kit, _ int) {
			_, err := k.store.Replay(k.ctx, d.ID, queue.ReplayOptions{})
			switch {
			case err == nil:
				got.add("replayed")
			case errors.Is(err, queue.ErrConflict):
				got.add("conflict")
			default:
				k.check(err, "replaying")
			}
		})
		k.same("replays", got.n, map[string]int{"replayed": 1, "conflict": 9})
		if g := k.detail(d.ID).Generation; g != 1 {
			k.Errorf("it is generation %d", g)
		}
	}},
	{name: "an operator and a worker never both have the last word", do: func(k *kit) {
		for range 5 {
			k.uncertain(queue.Start, "deploy")
			p := k.probe("deploy")
			var words atomic.Int64
			k.race(3, func(k *kit, i int) {
				var err error
				switch i {
				case 0:
					_, err = k.store.SettleProbe(k.ctx, p.Lease, queue.ProbeHappened)
				case 1:
					_, err = k.store.ResolveRun(k.ctx, p.ID, queue.RunFailed)
				case 2:
					_, err = k.store.CancelRun(k.ctx, p.ID)
				}
				switch {
				case err == nil:
					words.Add(1)
				case !errors.Is(err, queue.ErrLeaseLost) && !errors.Is(err, queue.ErrConflict):
					k.check(err, "ending an uncertain run")
				}
			})
			if words.Load() != 1 {
				k.Errorf("%d of three had the last word", words.Load())
			}
		}
		k.recount()
	}},
	{name: "each uncertain run is probed by one", do: func(k *kit) {
		for range 10 {
			k.uncertain(queue.Start, "deploy")
		}
		var got tally
		k.race(8, func(k *kit, _ int) {
			c, err := k.store.ClaimProbes(k.ctx, "node", []string{"deploy"}, 10)
			if k.check(err, "claiming probes") {
				for _, c := range c {
					got.add(c.DeliveryID)
				}
			}
		})
		for id, n := range got.n {
			if n != 1 {
				k.Errorf("%s is probed %d times at once", id, n)
			}
		}
		if len(got.n) != 10 {
			k.Errorf("%d of 10 are probed", len(got.n))
		}
	}},
	{name: "no write to a document is lost", do: func(k *kit) {
		const writers, each = 6, 5
		k.race(writers, func(k *kit, _ int) {
			for range each {
				for {
					docs, err := k.store.LoadDocs(k.ctx, "counter")
					if !k.check(err, "loading") {
						return
					}
					var n int
					if d := docs["n"]; d.Version != 0 {
						k.check(json.Unmarshal(d.Body, &n), "parsing")
					}
					body, _ := json.Marshal(n + 1)
					ok, err := k.store.SwapDoc(k.ctx, "counter", "n", docs["n"].Version, body)
					if !k.check(err, "swapping") {
						return
					}
					if ok {
						break
					}
				}
			}
		})
		docs, err := k.store.LoadDocs(k.ctx, "counter")
		k.must(err, "loading")
		k.jsonIs(docs["n"].Body, "30")
	}},
	{name: "a lock has one owner", do: func(k *kit) {
		var owners atomic.Int64
		k.race(12, func(k *kit, i int) {
			ok, err := k.store.Lock(k.ctx, "watchdog", string(rune('a'+i)), time.Minute)
			if k.check(err, "locking") && ok {
				owners.Add(1)
			}
		})
		if owners.Load() != 1 {
			k.Errorf("%d own the lock", owners.Load())
		}
	}},
	{name: "pruning beside ingest loses nothing that is young", do: func(k *kit) {
		for range 30 {
			k.settle(k.enqueueAndClaim(), queue.Settlement{Kind: queue.SettleDone})
		}
		k.pass(k.settings.Keep + time.Hour)
		var young []queue.Delivery
		for range 20 {
			young = append(young, k.delivery())
		}
		var pruned atomic.Int64
		k.race(len(young)+4, func(k *kit, i int) {
			if i < len(young) {
				_, err := k.store.Enqueue(k.ctx, young[i], payloadOf(young[i]))
				k.check(err, "enqueueing")
				return
			}
			for {
				n, err := k.store.Prune(k.ctx, 4)
				if !k.check(err, "pruning") || n == 0 {
					return
				}
				pruned.Add(int64(n))
			}
		})
		if n := len(k.listDeliveries(queue.DeliveryFilter{})); n != len(young) || pruned.Load() != 30 {
			k.Errorf("%d are left and %d were pruned, want %d and 30", n, pruned.Load(), len(young))
		}
		k.recount()
	}},
}
