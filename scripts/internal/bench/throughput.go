package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// throughput sets durable answers beside those of the same receiver without a store. The arms take
// turns, the first one of a pair changes, and what the durable server still has to process is
// waited for before the other is measured.
func throughput(ctx context.Context, b *bench) error {
	store, err := b.newStore(ctx)
	if err != nil {
		return err
	}
	durable, _, err := b.start(ctx, store, b.components, tenTriggers())
	if err != nil {
		return err
	}
	storeless, err := startStoreless(ctx)
	if err != nil {
		return err
	}
	defer storeless.stop()
	commit, err := commitTime(b.dir)
	if err != nil {
		return err
	}
	fmt.Printf("one flush of 4 KiB to this disk: %v in the middle\n", commit.Round(time.Microsecond))
	fmt.Println("connections  durable/s      p50      p99  storeless/s      p50      p99  ratio (least … most)")
	requests := pushes()
	for _, n := range b.connections {
		var with, without []result
		var ratios []float64
		for pair := range b.pairs {
			arms := []func() error{
				func() error {
					r, err := load(durable.Addr, requests, n, b.stretch)
					with = append(with, r)
					return err
				},
				func() error {
					r, err := load(storeless.addr, requests, n, b.stretch)
					without = append(without, r)
					return err
				},
			}
			if pair%2 == 1 {
				slices.Reverse(arms)
			}
			for _, arm := range arms {
				if err := b.settle(ctx, durable); err != nil {
					return err
				}
				if err := arm(); err != nil {
					return err
				}
			}
			ratios = append(ratios, with[pair].perSecond/without[pair].perSecond)
		}
		w, o := medians(with), medians(without)
		fmt.Printf("%11d  %9.0f  %7s  %7s  %11.0f  %7s  %7s  %.2f (%.2f … %.2f)\n", n,
			w.perSecond, ms(w.p50), ms(w.p99), o.perSecond, ms(o.p50), ms(o.p99), median(ratios), slices.Min(ratios), slices.Max(ratios))
		if n == 16 {
			fmt.Printf("             p99 at 16 connections is %.1f flushes\n", float64(w.p99)/float64(commit))
		}
	}
	if err := b.settle(ctx, durable); err != nil {
		return err
	}
	return b.stop(ctx, durable)
}

// settle waits until the durable server has nothing left to do. A server that only takes deliveries
// never gets there.
func (b *bench) settle(ctx context.Context, n *harness.Node) error {
	if b.components != "" {
		return nil
	}
	return harness.NewOperator(n.Addr).WaitIdle(within(ctx, 10*time.Minute))
}

// commitTime is how long the disk takes to keep 4 KiB: the floor under every durable answer.
func commitTime(dir string) (time.Duration, error) {
	f, err := os.Create(filepath.Join(dir, "flush"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	page := make([]byte, 4096)
	var all []time.Duration
	for i := range 200 {
		began := time.Now()
		if _, err := f.WriteAt(page, int64(i%16)*4096); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		all = append(all, time.Since(began))
	}
	return median(all), nil
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2fms", float64(d)/float64(time.Millisecond)) }
