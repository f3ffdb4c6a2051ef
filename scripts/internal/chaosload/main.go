// Command chaosload kills preloop, and the server of its store, again and again while deliveries
// come in, and then checks the promises: what was answered 202 is there and done, nothing ran twice,
// no trigger ran more at once than it may, and nobody had to help. scripts/chaos builds and starts
// it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

type options struct {
	binary     string
	store      string
	kills      int
	between    time.Duration
	restarts   int
	down       time.Duration
	nodes      int
	senders    int
	deliveries int
	rate       float64
	limit      time.Duration
	drain      time.Duration
	seed       uint64
	keep       bool
}

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "bin/preloop", "the preloop to test")
	flag.StringVar(&o.store, "store", "", "a store's `URL` (default: a new SQLite file)")
	flag.IntVar(&o.kills, "kills", 200, "how often a node is killed")
	flag.DurationVar(&o.between, "between", 600*time.Millisecond, "at most so long from one kill to the next")
	flag.IntVar(&o.restarts, "restarts", 0, "how often the server that scripts/postgres has started crashes")
	flag.DurationVar(&o.down, "down", 2*time.Second, "how long it is away")
	flag.IntVar(&o.nodes, "nodes", 1, "how many nodes share the store; more than one needs Postgres")
	flag.IntVar(&o.senders, "senders", 8, "connections that send at once")
	flag.IntVar(&o.deliveries, "deliveries", 0, "how many are sent (default: as many as come until the last kill)")
	flag.Float64Var(&o.rate, "rate", 300, "deliveries a second of all senders together")
	flag.DurationVar(&o.limit, "limit", 20*time.Minute, "give up killing, and sending, after this time")
	flag.DurationVar(&o.drain, "drain", 5*time.Minute, "time for the rest of the queue after the last kill")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "chooses the moments of the kills")
	flag.BoolVar(&o.keep, "keep", false, "keep the folder with the store and the logs")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.restarts > 0 && !strings.HasPrefix(o.store, "postgres") {
		return errors.New("-restarts: only a server can crash by itself; scripts/chaos --postgres starts one")
	}
	dir, err := os.MkdirTemp("", "preloop-chaos-")
	if err != nil {
		return err
	}
	defer func() {
		if o.keep || err != nil {
			fmt.Println("kept:", dir)
			return
		}
		_ = os.RemoveAll(dir)
	}()
	if o.store == "" {
		o.store = "sqlite://" + filepath.Join(dir, "preloop.db")
	}
	effects := filepath.Join(dir, "effects")
	nodes, err := makeNodes(o, dir, effects)
	if err != nil {
		return err
	}
	defer func() {
		for _, n := range nodes {
			n.Discard()
		}
	}()
	for _, n := range nodes {
		if err := start(ctx, n); err != nil {
			return err
		}
	}

	load := startLoad(ctx, o, nodes)
	defer load.cancel()
	if err := load.race(nodes); err != nil {
		return err
	}
	fmt.Printf("%d kills of %d node(s), %d crashes of the store's server, seed %d\n", o.kills, o.nodes, o.restarts, o.seed)
	went, killErr := disturb(ctx, o, nodes)
	// Every node is up again, so the senders get the answers that they still wait for.
	sent, sendErr := load.stop(o)
	if err := errors.Join(killErr, sendErr); err != nil {
		return err
	}

	drained, cancel := context.WithTimeout(ctx, o.drain)
	defer cancel()
	began := time.Now()
	operator := harness.NewOperator(nodes[0].Addr)
	if err := operator.WaitIdle(drained); err != nil {
		return err
	}
	found, err := observe(ctx, operator, effects)
	if err != nil {
		return err
	}
	found.sent = sent
	report, wrong := verify(found)
	fmt.Printf("drained in %.1f s\n%s%s", time.Since(began).Seconds(), went, report)
	for _, n := range nodes {
		stopping, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := n.Stop(stopping); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d promises broken:\n%s", len(wrong), strings.Join(wrong[:min(len(wrong), 50)], "\n"))
	}
	fmt.Println("nothing acknowledged was lost, nothing ran twice, no trigger ran more at once than it may")
	return nil
}
