// Command bench measures the product from outside: the real binary as a process, over HTTP, beside
// the same receiver without a store. The machine's own speed drifts, so throughput is stated as the
// median ratio of adjacent pairs. PERFORMANCE figures are only comparable within one run.
// scripts/bench builds and starts it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type options struct {
	binary      string
	postgres    string
	connections []int
	pairs       int
	stretch     time.Duration
	components  string
	backlog     int
	runs        int
	starts      int
	idle        time.Duration
	retained    int
	pruneFor    time.Duration
	cycles      int
	river       string
	only        []string
}

// parts are what is measured, in this order.
var parts = []struct {
	name    string
	measure func(context.Context, *bench) error
}{
	{"throughput", throughput},
	{"processing", processing},
	{"dispatch", dispatch},
	{"latency", startLatency},
	{"memory", memory},
	{"idle", idle},
	{"workers", workers},
	{"retained", retained},
	{"retention", retention},
	{"river", besideRiver},
}

// onDemand are the parts that take minutes, or another program.
var onDemand = []string{"retained", "retention", "river"}

func names() string {
	var all []string
	for _, p := range parts {
		all = append(all, p.name)
	}
	return strings.Join(all, ",")
}

func main() {
	var o options
	var connections, only, storeless string
	flag.StringVar(&o.binary, "binary", "bin/preloop", "the preloop to measure")
	flag.StringVar(&o.postgres, "postgres", "", "`URL` of a PostgreSQL whose role may create databases (default: SQLite)")
	flag.StringVar(&connections, "connections", "1,16,64", "numbers of connections")
	flag.IntVar(&o.pairs, "pairs", 5, "adjacent pairs, durable beside storeless, for each number of connections")
	flag.DurationVar(&o.stretch, "stretch", 3*time.Second, "length of one measurement")
	flag.StringVar(&o.components, "components", "", "what the durable server runs while throughput is measured (default: all)")
	flag.IntVar(&o.backlog, "backlog", 20_000, "deliveries in the queue when processing is measured")
	flag.IntVar(&o.runs, "runs", 3000, "runs in the queue when dispatch is measured")
	flag.IntVar(&o.starts, "starts", 200, "deliveries for the latency from 202 to the start of the run")
	flag.DurationVar(&o.idle, "idle", time.Minute, "for how long the statements of an idle node are counted")
	flag.IntVar(&o.retained, "retained", 1_000_000, "terminal deliveries in the store when retained and retention are measured")
	flag.DurationVar(&o.pruneFor, "prune-for", 30*time.Second, "for how long retention prunes beside a node that works")
	flag.IntVar(&o.cycles, "cycles", 3, "how often retention has a tenth of its table come and go")
	flag.StringVar(&only, "only", "", "parts to measure, of "+names()+" (default: all but "+strings.Join(onDemand, ",")+")")
	flag.StringVar(&o.river, "river-program", "", "what measures River")
	flag.StringVar(&storeless, "serve-storeless", "", "be the server without a store at `ADDRESS`")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := func() error {
		if storeless != "" {
			return serveStoreless(ctx, storeless)
		}
		for text := range strings.SplitSeq(connections, ",") {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return fmt.Errorf("-connections: %q is no number of connections", text)
			}
			o.connections = append(o.connections, n)
		}
		if only != "" {
			o.only = strings.Split(only, ",")
		}
		return measure(ctx, o)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, o options) error {
	b, err := newBench(o)
	if err != nil {
		return err
	}
	defer b.close()
	for _, part := range parts {
		if o.only == nil && slices.Contains(onDemand, part.name) || o.only != nil && !slices.Contains(o.only, part.name) {
			continue
		}
		fmt.Printf("\n%s (%s)\n", part.name, b.kind())
		if err := part.measure(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}
