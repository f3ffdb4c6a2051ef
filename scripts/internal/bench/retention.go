package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/postgres"
	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// retention prunes a large table while a node takes in and processes, and measures how fast, how
// long each transaction holds its locks, and what the node's senders feel; then whether the tables
// grow when as much comes in as is pruned.
func retention(ctx context.Context, b *bench) error {
	if b.postgres == "" {
		fmt.Println("only for Postgres")
		return nil
	}
	store, err := b.newStore(ctx)
	if err != nil {
		return err
	}
	s, err := postgres.Open(ctx, store, postgres.Options{Settings: queue.DefaultSettings()})
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // its database goes with the server
	began := time.Now()
	if err := generate(ctx, store, b.retained, began.Add(-90*24*time.Hour), began.Add(-31*24*time.Hour)); err != nil {
		return err
	}
	fmt.Printf("%d rows past their time made in %.0f s; %s\n", b.retained, time.Since(began).Seconds(), sizes(ctx, store))
	n, _, err := b.start(ctx, store, "ingress,worker", tenTriggers())
	if err != nil {
		return err
	}
	locks := watchLocks(ctx, store)
	quiet, err := steady(ctx, n, b.pruneFor)
	waited, lockErr := locks()
	if err = errors.Join(err, lockErr); err != nil {
		return err
	}
	fmt.Printf("without pruning, %d deliveries a second come in: 202 after %s (p50), %s (p99), %s (most); the longest wait for any lock was %s\n", steadyRate, ms(percentile(quiet, 50)), ms(percentile(quiet, 99)), ms(quiet[len(quiet)-1]), ms(waited))

	locks = watchLocks(ctx, store)
	p := &timedPrune{Store: s}
	pruning, stop := context.WithTimeout(ctx, b.pruneFor)
	defer stop()
	var felt []time.Duration
	var both sync.WaitGroup
	var sendErr error
	both.Go(func() { felt, sendErr = steady(ctx, n, b.pruneFor) })
	began = time.Now()
	deleted, err := queue.PruneOnce(pruning, p, pruneStep, nil)
	took := time.Since(began)
	both.Wait()
	waited, lockErr = locks()
	if err = errors.Join(sendErr, lockErr, ignore(err, context.DeadlineExceeded)); err != nil {
		return err
	}
	slices.Sort(p.took)
	fmt.Printf("pruning beside it: %.0f deliveries a second; a transaction of %d takes %s (p50), %s (p99), %s (most); the longest wait for any lock was %s\n",
		float64(deleted)/took.Seconds(), pruneStep, ms(percentile(p.took, 50)), ms(percentile(p.took, 99)), ms(p.took[len(p.took)-1]), ms(waited))
	fmt.Printf("meanwhile 202 after %s (p50), %s (p99), %s (most)\n", ms(percentile(felt, 50)), ms(percentile(felt, 99)), ms(felt[len(felt)-1]))
	if err := b.stop(ctx, n); err != nil {
		return err
	}

	// As much comes as goes: a tenth of the table, over and over.
	for cycle := range b.cycles {
		if err := generate(ctx, store, max(1, b.retained/10), time.Now().Add(-31*24*time.Hour), time.Now().Add(-30*24*time.Hour-time.Hour)); err != nil {
			return err
		}
		began, deleted = time.Now(), 0
		for deleted < b.retained/10 {
			n, err := s.Prune(ctx, 256)
			if err != nil {
				return err
			}
			if deleted += n; n == 0 {
				break
			}
		}
		fmt.Printf("cycle %d: %d came, the oldest %d went at %.0f a second; %s\n", cycle+1, b.retained/10, deleted, float64(deleted)/time.Since(began).Seconds(), sizes(ctx, store))
	}
	return nil
}

// pruneStep is how many deliveries the store deletes in one transaction.
const pruneStep = 128

// watchLocks looks every few milliseconds who waits for a lock in a store's database, until the
// function that it returns is called, which says how long the longest wait was. It needs
// PostgreSQL 14.
func watchLocks(ctx context.Context, store string) func() (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	var longest time.Duration
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		var conn *pgx.Conn
		if conn, err = pgx.Connect(ctx, store); err != nil {
			return
		}
		defer conn.Close(context.WithoutCancel(ctx))
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			var us int64
			if e := conn.QueryRow(ctx, `SELECT COALESCE(MAX(extract(epoch FROM clock_timestamp() - waitstart) * 1000000), 0)::bigint FROM pg_locks WHERE NOT granted`).Scan(&us); e != nil {
				err = ignore(e, context.Canceled)
				return
			}
			longest = max(longest, time.Duration(us)*time.Microsecond)
		}
	}()
	return func() (time.Duration, error) {
		cancel()
		<-done
		return longest, err
	}
}

// timedPrune notes how long each transaction takes: its locks are held no longer.
type timedPrune struct {
	*postgres.Store
	took []time.Duration
}

// Prune implements queue.PruneStore.
func (p *timedPrune) Prune(ctx context.Context, limit int) (int, error) {
	began := time.Now()
	n, err := p.Store.Prune(ctx, limit)
	p.took = append(p.took, time.Since(began))
	return n, err
}

// steadyRate is how many deliveries a second steady sends.
const steadyRate = 400

// steady sends at a steady rate over 8 connections for a time and returns the sorted latencies.
func steady(ctx context.Context, n *harness.Node, during time.Duration) ([]time.Duration, error) {
	const connections = 8
	var (
		all   []time.Duration
		errs  []error
		mu    sync.Mutex // over both
		group sync.WaitGroup
	)
	requests := pushes()
	ctx, cancel := context.WithTimeout(ctx, during)
	defer cancel()
	for range connections {
		group.Go(func() {
			sender := harness.NewSender(n.Addr, 15*time.Second)
			defer sender.Close()
			r := rand.New(rand.NewPCG(rand.Uint64(), 0))
			tick := time.NewTicker(connections * time.Second / steadyRate)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				began := time.Now()
				status, answer, err := sender.Post(requests[r.IntN(len(requests))], harness.GUID(r))
				if err == nil && status != 202 {
					err = fmt.Errorf("answered %d: %s", status, answer)
				}
				mu.Lock()
				if all = append(all, time.Since(began)); err != nil {
					errs = append(errs, err)
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	group.Wait()
	slices.Sort(all)
	if len(all) == 0 {
		errs = append(errs, errors.New("nothing was sent"))
	}
	return all, errors.Join(errs...)
}

func sizes(ctx context.Context, store string) string {
	conn, err := pgx.Connect(ctx, store)
	if err != nil {
		return err.Error()
	}
	defer conn.Close(ctx)
	var text string
	err = conn.QueryRow(ctx, `SELECT string_agg(format('%s %s MB (%s dead rows)', relname, pg_total_relation_size(relid) >> 20, n_dead_tup), ', ' ORDER BY relname)
		FROM pg_stat_user_tables WHERE relname IN ('deliveries', 'payloads', 'runs')`).Scan(&text)
	if err != nil {
		return err.Error()
	}
	return text
}

func ignore(err, target error) error {
	if errors.Is(err, target) {
		return nil
	}
	return err
}
