package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"time"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// besideRiver sets durable answers and processing beside River's inserts and its work on the same
// server: with the payload as JSON, as a string, with none. River's program prints its two figures.
func besideRiver(ctx context.Context, b *bench) error {
	if b.postgres == "" || b.river == "" {
		return errors.New("this takes scripts/bench --postgres -river")
	}
	const connections = 64
	kinds := []string{"json", "string", "none"}
	var answers, processed []float64
	inserted, worked := map[string][]float64{}, map[string][]float64{}
	for pair := range b.pairs {
		arms := []func() error{func() error {
			a, p, err := b.ours(ctx, connections)
			answers, processed = append(answers, a), append(processed, p)
			return err
		}}
		for _, kind := range kinds {
			arms = append(arms, func() error {
				i, w, err := b.theirs(ctx, kind)
				inserted[kind], worked[kind] = append(inserted[kind], i), append(worked[kind], w)
				return err
			})
		}
		if pair%2 == 1 {
			slices.Reverse(arms)
		}
		for _, arm := range arms {
			if err := arm(); err != nil {
				return err
			}
		}
	}
	fmt.Printf("preloop: %.0f answers 202 a second with %d connections, %.0f deliveries a second processed (8 KiB, ten triggers each)\n", median(answers), connections, median(processed))
	fmt.Println("River, payload  inserted/s  answers ÷ that (least … most)  worked off/s  processed ÷ that (least … most)")
	for _, kind := range kinds {
		in, out := ratios(answers, inserted[kind]), ratios(processed, worked[kind])
		fmt.Printf("%14s  %10.0f  %14.1f (%.1f … %.1f)  %12.0f  %16.2f (%.2f … %.2f)\n", kind, median(inserted[kind]), median(in), slices.Min(in), slices.Max(in),
			median(worked[kind]), median(out), slices.Min(out), slices.Max(out))
	}
	return nil
}

// ours measures preloop once: answers a second, then deliveries a second.
func (b *bench) ours(ctx context.Context, connections int) (answers, processed float64, err error) {
	store, err := b.newStore(ctx)
	if err != nil {
		return 0, 0, err
	}
	in, _, err := b.start(ctx, store, "ingress", tenTriggers())
	if err != nil {
		return 0, 0, err
	}
	r, err := load(in.Addr, pushes(), connections, b.stretch)
	if err != nil {
		return 0, 0, err
	}
	if err := b.stop(ctx, in); err != nil {
		return 0, 0, err
	}
	n, _, err := b.start(ctx, store, "worker", tenTriggers())
	if err != nil {
		return 0, 0, err
	}
	operator := harness.NewOperator(n.Addr)
	before, err := operator.Status(ctx)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := operator.WaitIdle(within(ctx, 10*time.Minute)); err != nil {
		return 0, 0, err
	}
	processed = float64(before.Queue.Received+before.Queue.Processing) / time.Since(began).Seconds()
	return r.perSecond, processed, b.stop(ctx, n)
}

func (b *bench) theirs(ctx context.Context, kind string) (inserted, worked float64, err error) {
	store, err := b.newStore(ctx)
	if err != nil {
		return 0, 0, err
	}
	cmd := exec.CommandContext(ctx, b.river, "-postgres", store, "-kind", kind, "-stretch", b.stretch.String())
	cmd.Stdin = bytes.NewReader(harness.Push(rand.New(rand.NewPCG(1, 1)), 8192))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("running River: %w: %s", err, &errs)
	}
	_, err = fmt.Sscan(string(out), &inserted, &worked)
	return inserted, worked, err
}

func ratios(a, b []float64) []float64 {
	all := make([]float64, len(a))
	for i := range a {
		all[i] = a[i] / b[i]
	}
	return all
}
