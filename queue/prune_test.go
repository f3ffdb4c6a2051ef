package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// pile is a store with so many deliveries to prune.
type pile struct {
	mu        sync.Mutex // guards what follows, where a pruner runs meanwhile
	left      int
	fail      error // of the next Prune
	failAfter int   // batches
	repairs   int
	failRep   error
	batches   []int
	at        []time.Duration
	took      time.Duration
	compacted int
	compact   error
	began     time.Time
}

func (p *pile) Prune(_ context.Context, limit int) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = append(p.at, time.Since(p.began))
	if p.fail != nil && len(p.batches) == p.failAfter {
		return 0, p.fail
	}
	time.Sleep(p.took)
	n := min(limit, p.left)
	p.left -= n
	p.batches = append(p.batches, n)
	return n, nil
}

func (p *pile) PruneRepairs(_ context.Context, limit int) (int, error) {
	n := min(limit, p.repairs)
	p.repairs -= n
	return n, p.failRep
}

func (p *pile) Compact(context.Context) error {
	p.compacted++
	return p.compact
}

func TestPruneOnce(t *testing.T) {
	cases := map[string]struct {
		pile      *pile
		batch     int
		done      int
		batches   []int
		progress  []int
		compacted int
		err       string
	}{
		"nothing":              {pile: &pile{}, batches: []int{0}, compacted: 1},
		"less than a batch":    {pile: &pile{left: 3}, done: 3, batches: []int{3, 0}, progress: []int{3}, compacted: 1},
		"several":              {pile: &pile{left: 600}, done: 600, batches: []int{256, 256, 88, 0}, progress: []int{256, 512, 600}, compacted: 1},
		"a batch of one's own": {pile: &pile{left: 5}, batch: 2, done: 5, batches: []int{2, 2, 1, 0}, progress: []int{2, 4, 5}, compacted: 1},
		"a batch fails":        {pile: &pile{left: 600, fail: errors.New("disk full"), failAfter: 1}, done: 256, batches: []int{256}, progress: []int{256}, err: "pruning: disk full"},
		"repairs too":          {pile: &pile{left: 1, repairs: 600}, done: 1, batches: []int{1, 0}, progress: []int{1}, compacted: 1},
		"repairs fail":         {pile: &pile{left: 1, failRep: errors.New("disk full")}, done: 1, batches: []int{1, 0}, progress: []int{1}, err: "pruning repairs: disk full"},
		"compacting fails":     {pile: &pile{left: 1, compact: errors.New("busy")}, done: 1, batches: []int{1, 0}, progress: []int{1}, compacted: 1, err: "giving space back to the file system: busy"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var progress []int
			done, err := queue.PruneOnce(t.Context(), c.pile, c.batch, func(n int) { progress = append(progress, n) })
			want(t, "deleted", done, c.done)
			want(t, "batches", c.pile.batches, c.batches)
			want(t, "progress", progress, c.progress)
			want(t, "compacted", c.pile.compacted, c.compacted)
			want(t, "repairs left", c.pile.repairs, 0)
			got := ""
			if err != nil {
				got = err.Error()
			}
			want(t, "error", got, c.err)
		})
	}
}

func TestPruneLeavesTheStoreToOthersBetweenBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pile{left: 600, took: 40 * time.Millisecond, began: time.Now()}
		if _, err := queue.PruneOnce(t.Context(), p, 256, nil); err != nil {
			t.Fatal(err)
		}
		want(t, "batches began at", p.at, []time.Duration{0, 80 * time.Millisecond, 160 * time.Millisecond, 240 * time.Millisecond})
	})
}

func TestPruneStopsBetweenBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pile{left: 600, took: 40 * time.Millisecond}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("enough"))
		defer cancel()
		done, err := queue.PruneOnce(ctx, p, 256, nil)
		want(t, "deleted", done, 256)
		want(t, "error", err, "pruning: enough")
	})
}

func TestPrunerMakesUpForAFailedPass(t *testing.T) {
	in(t, func(b *bubble) {
		p := &pile{left: 300, fail: errors.New("disk full"), began: b.began}
		var told list[int]
		pruner := &queue.Pruner{Store: p, Logger: b.logs.logger(), Observe: func(n int) { told.add(n) }}
		b.service(pruner.Run)
		b.pass(11 * time.Minute)
		want(t, "tried at", p.at, []time.Duration{0, 5 * time.Minute, 10 * time.Minute})
		want(t, "lines that say so", b.logs.count("pruning fails"), 1)
		p.mu.Lock()
		p.fail = nil
		p.mu.Unlock()
		b.pass(5 * time.Minute)
		want(t, "told", told.all(), []int{300})
		want(t, "lines that say it works", b.logs.count("pruning works again"), 1)
	})
}

func TestPrunerKeepsWhatIsYoungOrUnfinished(t *testing.T) {
	in(t, func(b *bubble) {
		run := b.admit(anything, admission("deploy"))[0]
		b.admit(anything)
		waiting := b.enqueue()
		pruner := &queue.Pruner{Store: b.faulty, Every: 6 * time.Hour}
		b.service(pruner.Run)
		gone := func(id string) bool {
			_, err := b.Store.Delivery(b.Context(), id)
			return errors.Is(err, queue.ErrNotFound)
		}
		b.pass(30*24*time.Hour - time.Hour)
		want(t, "pruned before its time", gone("guid-00002"), false)
		b.pass(12 * time.Hour)
		want(t, "pruned after its time", fmt.Sprint(gone("guid-00002"), gone(run.DeliveryID), gone(waiting)), "true false false")
	})
}

func TestPrunerNeedsAStore(t *testing.T) {
	if err := (&queue.Pruner{}).Run(t.Context()); err == nil {
		t.Error("a pruner without a store runs")
	}
}
