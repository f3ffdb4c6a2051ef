package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// processing fills a queue and measures how fast one node empties it: each delivery parsed, ten
// triggers decided, none matching.
func processing(ctx context.Context, b *bench) error {
	store, err := b.newStore(ctx)
	if err != nil {
		return err
	}
	if err := b.fill(ctx, store, pushes(), b.backlog); err != nil {
		return err
	}
	n, _, err := b.start(ctx, store, "", tenTriggers())
	if err != nil {
		return err
	}
	began := time.Now()
	if err := harness.NewOperator(n.Addr).WaitIdle(within(ctx, 10*time.Minute)); err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Printf("%d deliveries, ten triggers each: %.0f/s\n", b.backlog, float64(b.backlog)/took.Seconds())
	return b.stop(ctx, n)
}

// dispatch fills a queue and measures how fast one node starts what matches, over HTTP.
func dispatch(ctx context.Context, b *bench) error {
	far, err := newTarget()
	if err != nil {
		return err
	}
	defer far.Close()
	store, err := b.newStore(ctx)
	if err != nil {
		return err
	}
	if err := b.fill(ctx, store, issues(variety), b.runs); err != nil {
		return err
	}
	n, _, err := b.start(ctx, store, "", oneTarget(far.URL))
	if err != nil {
		return err
	}
	began := time.Now()
	if err := harness.NewOperator(n.Addr).WaitIdle(within(ctx, 10*time.Minute)); err != nil {
		return err
	}
	took := time.Since(began)
	if got := far.count(); got != b.runs {
		return fmt.Errorf("%d of %d runs reached their target", got, b.runs)
	}
	fmt.Printf("%d runs, admitted, sent to an HTTP target and settled: %.0f/s\n", b.runs, float64(b.runs)/took.Seconds())
	return b.stop(ctx, n)
}

// fill puts deliveries into a store, through a server that processes none.
func (b *bench) fill(ctx context.Context, store string, requests []*harness.Request, n int) error {
	in, _, err := b.start(ctx, store, "ingress", "")
	if err != nil {
		return err
	}
	if err := burst(in.Addr, requests, n); err != nil {
		return err
	}
	return b.stop(ctx, in)
}

// startLatency measures from the answer 202 to the moment when the run's target is reached, one
// delivery at a time; on Postgres also when another node took the delivery.
func startLatency(ctx context.Context, b *bench) error {
	far, err := newTarget()
	if err != nil {
		return err
	}
	defer far.Close()
	store, err := b.newStore(ctx)
	if err != nil {
		return err
	}
	worker, _, err := b.start(ctx, store, "", oneTarget(far.URL))
	if err != nil {
		return err
	}
	if err := b.measureStarts(far, worker, "same node"); err != nil {
		return err
	}
	if b.postgres != "" {
		// The same triggers: a node with others would keep the worker from claiming.
		in, _, err := b.start(ctx, store, "ingress", oneTarget(far.URL))
		if err != nil {
			return err
		}
		if err := b.measureStarts(far, in, "another node"); err != nil {
			return err
		}
		if err := b.stop(ctx, in); err != nil {
			return err
		}
	}
	return b.stop(ctx, worker)
}

func (b *bench) measureStarts(far *target, in *harness.Node, where string) error {
	sender := harness.NewSender(in.Addr, 15*time.Second)
	defer sender.Close()
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	requests := issues(variety)
	answers, delays := make([]time.Duration, 0, b.starts), make([]time.Duration, 0, b.starts)
	for i := range b.starts {
		guid := harness.GUID(r)
		began := time.Now()
		status, answer, err := sender.Post(requests[i%len(requests)], guid)
		answered := time.Now()
		if err != nil {
			return err
		}
		if status != http.StatusAccepted {
			return fmt.Errorf("answered %d: %s", status, answer)
		}
		at, ok := far.when(guid)
		if !ok {
			return errors.New("a run did not start within ten seconds")
		}
		answers, delays = append(answers, answered.Sub(began)), append(delays, at.Sub(answered))
	}
	slices.Sort(answers)
	slices.Sort(delays)
	fmt.Printf("%s: 202 after %s, then the run starts after %s (p50), %s (p99)\n", where,
		ms(percentile(answers, 50)), ms(percentile(delays, 50)), ms(percentile(delays, 99)))
	return nil
}

// issues makes signed deliveries that oneTarget wants, about different issues.
func issues(n int) []*harness.Request {
	r := rand.New(rand.NewPCG(2, 2))
	all := make([]*harness.Request, n)
	for i := range all {
		all[i] = harness.NewRequest("issues", harness.IssueOpened(r, i+1, 8192), harness.Secret)
	}
	return all
}

// memory reads the process's own account of its memory: idle, and at its most with 256 connections.
func memory(ctx context.Context, b *bench) error {
	store, err := b.newStore(ctx)
	if err != nil {
		return err
	}
	n, ready, err := b.start(ctx, store, "", tenTriggers())
	if err != nil {
		return err
	}
	idle, err := megabytes(n.PID(), "VmRSS:")
	if err != nil {
		return err
	}
	if _, err := load(n.Addr, pushes(), 256, b.stretch); err != nil {
		return err
	}
	most, err := megabytes(n.PID(), "VmHWM:")
	if err != nil {
		return err
	}
	fmt.Printf("ready after %s (empty store); %d MB idle, %d MB at most with 256 connections of 8 KiB\n", ms(ready), idle, most)
	if err := harness.NewOperator(n.Addr).WaitIdle(within(ctx, 10*time.Minute)); err != nil {
		return err
	}
	return b.stop(ctx, n)
}

func megabytes(pid int, field string) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("reading a process's memory (Linux only): %w", err)
	}
	_, rest, _ := strings.Cut(string(text), field)
	var kilobytes int
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		return 0, fmt.Errorf("reading a process's memory: no %s", field)
	}
	return kilobytes / 1024, nil
}
