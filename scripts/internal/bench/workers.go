package main

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// workers fills a queue and measures how fast one, two and four worker processes empty it together.
// What was done before the last of them was ready does not count.
func workers(ctx context.Context, b *bench) error {
	if b.postgres == "" {
		fmt.Println("only a Postgres is shared by several processes")
		return nil
	}
	for _, processes := range []int{1, 2, 4} {
		store, err := b.newStore(ctx)
		if err != nil {
			return err
		}
		if err := b.fill(ctx, store, pushes(), b.backlog); err != nil {
			return err
		}
		nodes := make([]*harness.Node, processes)
		for i := range nodes {
			if nodes[i], _, err = b.start(ctx, store, "worker", tenTriggers()); err != nil {
				return err
			}
		}
		operator := harness.NewOperator(nodes[0].Addr)
		before, err := operator.Status(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := operator.WaitIdle(within(ctx, 10*time.Minute)); err != nil {
			return err
		}
		took := time.Since(began)
		left := b.backlog - before.Queue.Done
		fmt.Printf("%d worker process(es): the last %d of %d deliveries, ten triggers each: %.0f/s\n", processes, left, b.backlog, float64(left)/took.Seconds())
		for _, n := range nodes {
			if err := b.stop(ctx, n); err != nil {
				return err
			}
		}
	}
	return nil
}
