// Command chaosload kills preloop again and again while deliveries come in, and then checks the two
// promises: what was answered 202 is there and done, and nothing ran twice. scripts/chaos builds and
// starts it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

type options struct {
	binary  string
	store   string
	kills   int
	nodes   int
	senders int
	rate    float64
	limit   time.Duration
	drain   time.Duration
	seed    uint64
	keep    bool
}

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "bin/preloop", "the preloop to test")
	flag.StringVar(&o.store, "store", "", "a store's `URL` (default: a new SQLite file)")
	flag.IntVar(&o.kills, "kills", 200, "how often a node is killed")
	flag.IntVar(&o.nodes, "nodes", 1, "how many nodes share the store; more than one needs Postgres")
	flag.IntVar(&o.senders, "senders", 8, "connections that send at once")
	flag.Float64Var(&o.rate, "rate", 300, "deliveries a second of all senders together")
	flag.DurationVar(&o.limit, "limit", 20*time.Minute, "give up killing after this time")
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

	fmt.Printf("%d kills of %d node(s), seed %d\n", o.kills, o.nodes, o.seed)
	load := startLoad(ctx, o, nodes)
	ready, killErr := killLoop(ctx, o, nodes)
	// Every node is up again, so the senders get the answers that they still wait for.
	sent, sendErr := load.stop(30 * time.Second)
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
	fmt.Printf("drained in %.1f s; restarts took %v in the middle, %v at most\n", time.Since(began).Seconds(),
		middle(ready).Round(time.Millisecond), slices.Max(ready).Round(time.Millisecond))
	fmt.Print(report)
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
	fmt.Println("nothing acknowledged was lost, nothing ran twice")
	return nil
}

// killLoop kills a node at a random moment and starts it again, and says how long each was getting
// ready. Some kills hit a node that is only just starting.
func killLoop(ctx context.Context, o options, nodes []*harness.Node) (ready []time.Duration, err error) {
	r := rand.New(rand.NewPCG(o.seed, 0))
	end := time.Now().Add(o.limit)
	for kill := 1; kill <= o.kills; kill++ {
		if time.Now().After(end) {
			return nil, fmt.Errorf("out of time after %d kills", kill-1)
		}
		if !sleep(ctx, 20*time.Millisecond+upTo(r, 600*time.Millisecond)) {
			return nil, ctx.Err()
		}
		node := nodes[r.IntN(len(nodes))]
		if err := node.Kill(); err != nil {
			return nil, err
		}
		if err := node.Start(); err != nil {
			return nil, err
		}
		if r.IntN(8) == 0 {
			if !sleep(ctx, upTo(r, 100*time.Millisecond)) {
				return nil, ctx.Err()
			}
			continue // the next kill may find it starting
		}
		took, err := waitReady(ctx, node)
		if err != nil {
			return nil, fmt.Errorf("after kill %d: %w", kill, err)
		}
		ready = append(ready, took)
		if kill%20 == 0 {
			fmt.Printf("  %d kills\n", kill)
		}
	}
	for _, n := range nodes {
		took, err := waitReady(ctx, n)
		if err != nil {
			return nil, err
		}
		ready = append(ready, took)
	}
	return ready, nil
}

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

func makeNodes(o options, dir, effects string) ([]*harness.Node, error) {
	nodes := make([]*harness.Node, o.nodes)
	for i := range nodes {
		addr, err := harness.FreeAddr()
		if err != nil {
			return nil, err
		}
		nodes[i] = &harness.Node{
			Binary: o.binary, Dir: filepath.Join(dir, fmt.Sprintf("node%d", i)), Addr: addr, Store: o.store,
			Config: configuration(effects),
		}
	}
	return nodes, nil
}

// configuration has one trigger, whose command leaves a line in a file that no kill can take back,
// then takes long enough to be killed itself. Leases are short, as a node that shares its store
// waits for those of the dead one; nothing is ever dropped.
func configuration(effects string) string {
	return `queue: { lease: 3s, renew: 1s, poll: 1s }
triggers:
  - name: effect
    on: [issues.opened]
    concurrency: 8
    queue: { size: 1000000, wait: 24h }
    run:
      command: [sh, -c, 'echo "$PRELOOP_RUN_ID $PRELOOP_DELIVERY_ID" >>"$0"; sleep 0.03', ` + effects + `]
      timeout: 1m`
}

func start(ctx context.Context, n *harness.Node) error {
	if err := n.Start(); err != nil {
		return err
	}
	_, err := waitReady(ctx, n)
	return err
}

func waitReady(ctx context.Context, n *harness.Node) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return n.Ready(ctx)
}

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
