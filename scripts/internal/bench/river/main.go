// Command river measures River (github.com/riverqueue/river), a job queue on Postgres, for
// comparison: jobs inserted one by one, and jobs that do nothing worked off by one tuned process. It
// is a module of its own, so that nothing of River's reaches preloop. scripts/bench -river builds and
// starts it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// The kinds of payload: 8 KiB as JSON, the same as a string, nothing.
type (
	jsonArgs   struct{ Body json.RawMessage }
	stringArgs struct{ Body string }
	noArgs     struct{}
)

func (jsonArgs) Kind() string   { return "json" }
func (stringArgs) Kind() string { return "string" }
func (noArgs) Kind() string     { return "none" }

type worker[T river.JobArgs] struct {
	river.WorkerDefaults[T]
	done *atomic.Int64
}

func (w *worker[T]) Work(context.Context, *river.Job[T]) error {
	w.done.Add(1)
	return nil
}

func main() {
	url := flag.String("postgres", "", "`URL` of an empty database")
	kind := flag.String("kind", "json", "json, string or none")
	stretch := flag.Duration("stretch", 3*time.Second, "for how long jobs are inserted one by one")
	jobs := flag.Int("jobs", 10_000, "how many are worked off")
	flag.Parse()
	if err := run(context.Background(), *url, *kind, *stretch, *jobs); err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}

// run prints two figures: jobs inserted a second, jobs worked off a second. The payload is read from
// the standard input.
func run(ctx context.Context, url, kind string, stretch time.Duration, jobs int) error {
	body, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	var args river.JobArgs
	switch kind {
	case "json":
		args = jsonArgs{body}
	case "string":
		args = stringArgs{string(body)}
	case "none":
		args = noArgs{}
	default:
		return errors.New("-kind: json, string or none")
	}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	cfg.MaxConns = 20
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	var done atomic.Int64
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker[jsonArgs]{done: &done})
	river.AddWorker(workers, &worker[stringArgs]{done: &done})
	river.AddWorker(workers, &worker[noArgs]{done: &done})
	client, err := river.NewClient(driver, &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 200}}, Workers: workers,
		FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 50 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		return err
	}
	inserted, began := 0, time.Now()
	for ; time.Since(began) < stretch; inserted++ {
		if _, err := client.Insert(ctx, args, nil); err != nil {
			return err
		}
	}
	perSecond := float64(inserted) / time.Since(began).Seconds()

	for inserted < jobs {
		batch := make([]river.InsertManyParams, min(100, jobs-inserted))
		for i := range batch {
			batch[i].Args = args
		}
		if _, err := client.InsertManyFast(ctx, batch); err != nil {
			return err
		}
		inserted += len(batch)
	}
	began = time.Now()
	if err := client.Start(ctx); err != nil {
		return err
	}
	for int(done.Load()) < inserted {
		time.Sleep(time.Millisecond)
	}
	if err := client.Stop(ctx); err != nil { // which completes what is worked off
		return err
	}
	fmt.Printf("%.1f %.1f\n", perSecond, float64(inserted)/time.Since(began).Seconds())
	return nil
}
