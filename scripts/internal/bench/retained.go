package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/postgres"
	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// retained compares what a store's operations cost with many terminal rows and with none. The two
// stores take turns, and the first one of a pair changes.
func retained(ctx context.Context, b *bench) error {
	if b.postgres == "" {
		fmt.Println("only for Postgres")
		return nil
	}
	var arms [2]*postgres.Store
	for i := range arms {
		store, err := b.newStore(ctx)
		if err != nil {
			return err
		}
		if arms[i], err = postgres.Open(ctx, store, postgres.Options{Settings: queue.DefaultSettings()}); err != nil {
			return err
		}
		defer arms[i].Close() //nolint:errcheck // its database goes with the server
		if i == 1 {
			began := time.Now()
			if err := generate(ctx, store, b.retained, began.Add(-29*24*time.Hour), began.Add(-time.Hour)); err != nil {
				return err
			}
			fmt.Printf("%d rows made in %.0f s\n", b.retained, time.Since(began).Seconds())
		}
	}
	operations := []struct {
		name string
		do   func(context.Context, *postgres.Store) (time.Duration, error)
	}{
		{"claim of 64", claims},
		{"list of 50", timed(func(ctx context.Context, s *postgres.Store) error {
			_, _, err := s.ListDeliveries(ctx, queue.DeliveryFilter{})
			return err
		})},
		{"list by repository", timed(func(ctx context.Context, s *postgres.Store) error {
			_, _, err := s.ListDeliveries(ctx, queue.DeliveryFilter{Repo: harness.Repo})
			return err
		})},
		{"status's counts", timed(func(ctx context.Context, s *postgres.Store) error { _, err := s.Counts(ctx); return err })},
		{"trigger statistics", timed(func(ctx context.Context, s *postgres.Store) error { _, err := s.TriggerStats(ctx); return err })},
		{"prune of nothing", timed(func(ctx context.Context, s *postgres.Store) error { _, err := s.Prune(ctx, 256); return err })},
	}
	fmt.Printf("%-20s   none  %8d  ratio (least … most)\n", "", b.retained)
	for _, o := range operations {
		var took [2][]time.Duration
		var ratios []float64
		for pair := range 3 * b.pairs {
			order := []int{0, 1}
			if pair%2 == 1 {
				slices.Reverse(order)
			}
			for _, arm := range order {
				d, err := o.do(ctx, arms[arm])
				if err != nil {
					return fmt.Errorf("%s: %w", o.name, err)
				}
				took[arm] = append(took[arm], d)
			}
			if pair > 0 { // the first one warms up
				ratios = append(ratios, float64(took[1][pair])/float64(took[0][pair]))
			}
		}
		fmt.Printf("%-20s %7s  %7s  %.2f (%.2f … %.2f)\n", o.name, ms(median(took[0])), ms(median(took[1])), median(ratios), slices.Min(ratios), slices.Max(ratios))
	}
	return nil
}

// timed is how long ten calls take.
func timed(call func(context.Context, *postgres.Store) error) func(context.Context, *postgres.Store) (time.Duration, error) {
	return func(ctx context.Context, s *postgres.Store) (time.Duration, error) {
		began := time.Now()
		for range 10 {
			if err := call(ctx, s); err != nil {
				return 0, err
			}
		}
		return time.Since(began) / 10, nil
	}
}

// claims takes in 640 deliveries, and is how long one of the ten claims of them takes. Settling
// them does not count.
func claims(ctx context.Context, s *postgres.Store) (took time.Duration, err error) {
	const each, times = 64, 10
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	payload := harness.Push(r, 8192)
	var all sync.WaitGroup
	errs := make(chan error, each*times)
	for range each * times {
		d := queue.Delivery{
			ID: harness.GUID(r), Source: "app-1", SourceName: "acme", Event: "push", Facts: queue.Facts{Repo: harness.Repo, RepoID: 4711, Sender: "octocat"},
			Headers: map[string]string{"X-GitHub-Event": "push"},
		}
		all.Go(func() {
			if _, err := s.Enqueue(ctx, d, payload); err != nil {
				errs <- err
			}
		})
	}
	all.Wait()
	for range times {
		began := time.Now()
		claimed, err := s.ClaimDeliveries(ctx, "node", each)
		took += time.Since(began)
		if err == nil && len(claimed) != each {
			err = fmt.Errorf("claimed %d, want %d", len(claimed), each)
		}
		if err != nil {
			return 0, err
		}
		for _, c := range claimed {
			all.Go(func() {
				if _, err := s.SettleDelivery(ctx, c.Lease, queue.Settlement{Kind: queue.SettleDone}); err != nil {
					errs <- err
				}
			})
		}
		all.Wait()
	}
	select {
	case err := <-errs:
		return 0, err
	default:
		return took / times, nil
	}
}
