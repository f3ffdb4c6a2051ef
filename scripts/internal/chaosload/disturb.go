package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// disturbance is how long nodes took to be ready: after their own start, after their store's.
type disturbance struct{ starts, recoveries []time.Duration }

func (d disturbance) String() (s string) {
	if len(d.starts) > 0 {
		s = fmt.Sprintf("a node that was killed was ready after %v in the middle, %v at most\n", middle(d.starts), slices.Max(d.starts))
	}
	if len(d.recoveries) > 0 {
		s += fmt.Sprintf("%d times the store's server crashed; all nodes were ready again by themselves %v after its return at most\n", len(d.recoveries), slices.Max(d.recoveries))
	}
	return s
}

// disturb kills nodes at random moments and starts them again, and lets the store's server crash in
// between. Some kills hit a node that is only just starting.
func disturb(ctx context.Context, o options, nodes []*harness.Node) (d disturbance, err error) {
	r := rand.New(rand.NewPCG(o.seed, 0))
	end := time.Now().Add(o.limit)
	all, crashes := o.kills+o.restarts, 0
	for step := 1; step <= all; step++ {
		if time.Now().After(end) {
			return d, fmt.Errorf("out of time after %d kills", step-1-crashes)
		}
		if !sleep(ctx, 20*time.Millisecond+upTo(r, o.between)) {
			return d, ctx.Err()
		}
		if crashes < o.restarts && step >= (crashes+1)*all/(o.restarts+1) {
			crashes++
			took, err := crash(ctx, o.down, nodes)
			if err != nil {
				return d, fmt.Errorf("crash %d of the store's server: %w", crashes, err)
			}
			d.recoveries = append(d.recoveries, took)
			continue
		}
		node := nodes[r.IntN(len(nodes))]
		if err := node.Kill(); err != nil {
			return d, err
		}
		if err := node.Start(); err != nil {
			return d, err
		}
		if r.IntN(8) == 0 {
			if !sleep(ctx, upTo(r, 100*time.Millisecond)) {
				return d, ctx.Err()
			}
			continue // the next kill may find it starting
		}
		took, err := waitReady(ctx, node)
		if err != nil {
			return d, fmt.Errorf("after kill %d: %w", step-crashes, err)
		}
		d.starts = append(d.starts, took)
		if (step-crashes)%20 == 0 {
			fmt.Printf("  %d kills\n", step-crashes)
		}
	}
	_, err = allReady(ctx, nodes)
	return d, err
}

// crash takes the store's server away under load and brings it back, and says how long the nodes
// took after that. None of them may end: a node that has fails waitReady. One that is only just
// starting is waited for first, since without a store it may not start.
func crash(ctx context.Context, down time.Duration, nodes []*harness.Node) (time.Duration, error) {
	if _, err := allReady(ctx, nodes); err != nil {
		return 0, err
	}
	var server harness.Postgres
	if err := server.Halt(ctx, "immediate"); err != nil {
		return 0, err
	}
	if !sleep(ctx, down) {
		return 0, ctx.Err()
	}
	if err := server.Resume(ctx); err != nil {
		return 0, err
	}
	return allReady(ctx, nodes)
}

func allReady(ctx context.Context, nodes []*harness.Node) (time.Duration, error) {
	began := time.Now()
	for _, n := range nodes {
		if _, err := waitReady(ctx, n); err != nil {
			return 0, err
		}
	}
	return time.Since(began).Round(time.Millisecond), nil
}

func waitReady(ctx context.Context, n *harness.Node) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	took, err := n.Ready(ctx)
	return took.Round(time.Millisecond), err
}

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

// sleep reports whether the whole time passed.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func middle(all []time.Duration) time.Duration {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}
