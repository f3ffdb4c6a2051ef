package queuetest

import (
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed-de999ace/preloop/queue"
)

// world is what a store says about its newest rows, which are those that a test is about: a page
// of both listings, the whole story of the last two, and the counts of all.
type world struct {
	Deliveries []queue.Delivery
	Runs       []queue.Run
	Stories    []queue.DeliveryDetail
	Payloads   []string
	RunStories []queue.RunDetail
	Counts     queue.Counts
}

func (k *kit) world() (w world) {
	k.Helper()
	const page, stories = 10, 2
	var err error
	w.Deliveries, _, err = k.store.ListDeliveries(k.ctx, queue.DeliveryFilter{Limit: page})
	k.must(err, "listing deliveries")
	w.Runs, _, err = k.store.ListRuns(k.ctx, queue.RunFilter{Limit: page})
	k.must(err, "listing runs")
	w.Counts = k.counts()
	for _, d := range w.Deliveries[:min(stories, len(w.Deliveries))] {
		ref := d.Source + "/" + d.ID
		p, err := k.store.Payload(k.ctx, ref)
		k.must(err, "reading the payload of "+ref)
		w.Stories, w.Payloads = append(w.Stories, *k.detail(ref)), append(w.Payloads, string(p))
	}
	for _, r := range w.Runs[:min(stories, len(w.Runs))] {
		w.RunStories = append(w.RunStories, *k.run(r.ID))
	}
	return w
}

// unchanged checks that do leaves every row as it was.
func (k *kit) unchanged(what string, do func()) {
	k.Helper()
	before := k.world()
	do()
	if d := cmp.Diff(before, k.world(), cmpopts.EquateEmpty()); d != "" {
		k.Errorf("%s changed something (-before +after):\n%s", what, d)
	}
}

// listDeliveries reads all pages.
func (k *kit) listDeliveries(f queue.DeliveryFilter) []queue.Delivery {
	k.Helper()
	return pages(k, "deliveries", func(cursor string) ([]queue.Delivery, string, error) {
		f.Cursor = cursor
		return k.store.ListDeliveries(k.ctx, f)
	})
}

// listRuns reads all pages.
func (k *kit) listRuns(f queue.RunFilter) []queue.Run {
	k.Helper()
	return pages(k, "runs", func(cursor string) ([]queue.Run, string, error) {
		f.Cursor = cursor
		return k.store.ListRuns(k.ctx, f)
	})
}

func pages[T any](k *kit, what string, page func(cursor string) ([]T, string, error)) []T {
	k.Helper()
	var all []T
	for cursor, n := "", 0; ; n++ {
		list, next, err := page(cursor)
		k.must(err, "listing "+what)
		all = append(all, list...)
		if next == "" {
			return all
		}
		if cursor = next; n > 1000 || len(list) == 0 {
			k.Fatalf("the pages of %s have no end", what)
		}
	}
}

func (k *kit) stats() map[string]queue.TriggerStats {
	k.Helper()
	s, err := k.store.TriggerStats(k.ctx)
	k.must(err, "reading the triggers' stats")
	return s
}

func (k *kit) counts() queue.Counts {
	k.Helper()
	c, err := k.store.Counts(k.ctx)
	k.must(err, "reading the counts")
	return c
}

// recount checks the store's counts against its own listings.
func (k *kit) recount() {
	k.Helper()
	counts := k.counts()
	deliveries := map[queue.DeliveryState]int{}
	for _, d := range k.listDeliveries(queue.DeliveryFilter{Limit: 500}) {
		deliveries[d.State]++
	}
	for _, s := range queue.DeliveryStates {
		if counts.Deliveries[s] != deliveries[s] {
			k.Errorf("Counts says %d deliveries are %s, the listing has %d", counts.Deliveries[s], s, deliveries[s])
		}
	}
	runs, stats := map[queue.RunState]int{}, map[string]queue.TriggerStats{}
	for _, r := range k.listRuns(queue.RunFilter{Limit: 500}) {
		runs[r.State]++
		s := stats[r.Trigger]
		switch r.State {
		case queue.Running:
			s.Running++
		case queue.Waiting:
			s.Waiting++
		case queue.Routing:
			s.Routing++
		case queue.Uncertain:
			s.Uncertain++
		}
		stats[r.Trigger] = s
	}
	for _, s := range queue.RunStates {
		if counts.Runs[s] != runs[s] {
			k.Errorf("Counts says %d runs are %s, the listing has %d", counts.Runs[s], s, runs[s])
		}
	}
	got := k.stats()
	for name, want := range stats {
		g := got[name]
		if g.Running != want.Running || g.Waiting != want.Waiting || g.Routing != want.Routing || g.Uncertain != want.Uncertain {
			k.Errorf("TriggerStats of %s are %+v, the listing has %+v", name, g, want)
		}
	}
}
