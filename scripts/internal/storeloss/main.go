// Command storeloss takes the store away from two real nodes under traffic, in every way that a
// Postgres goes away, and checks what they promise of it: no answer 202 without a row, an answer 500
// within the budget, a readiness that says why, and a return without help, with nothing lost and
// nothing run twice. scripts/storeloss builds and starts it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

type options struct {
	binary string
	server string
	only   []string
	hold   time.Duration
	keep   bool
}

func main() {
	var o options
	var only string
	flag.StringVar(&o.binary, "binary", "bin/preloop", "the preloop to test")
	flag.StringVar(&o.server, "server", "", "`URL` of the server that scripts/postgres has started")
	flag.StringVar(&only, "only", "", "losses to suffer, of "+strings.Join(names(), ",")+" (default: all)")
	flag.DurationVar(&o.hold, "hold", 5*time.Second, "how long the store stays away once the nodes have noticed")
	flag.BoolVar(&o.keep, "keep", false, "keep the folder with the logs")
	flag.Parse()
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "storeloss:", err)
		os.Exit(1)
	}
}

func names() []string {
	all := make([]string, len(losses))
	for i, l := range losses {
		all[i] = l.name
	}
	return all
}

func run(ctx context.Context, o options) (err error) {
	for _, name := range o.only {
		if !slices.Contains(names(), name) {
			return fmt.Errorf("-only: there is no loss %q", name)
		}
	}
	dir, err := os.MkdirTemp("", "preloop-storeloss-")
	if err != nil {
		return err
	}
	// The server's user has to reach what it shares with it.
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // the folders in it are private
		return err
	}
	defer func() {
		if o.keep || err != nil {
			fmt.Println("kept:", dir)
			return
		}
		_ = os.RemoveAll(dir)
	}()
	var errs []error
	for _, l := range losses {
		if o.only != nil && !slices.Contains(o.only, l.name) {
			continue
		}
		if err := suffer(ctx, o, l, filepath.Join(dir, strings.ReplaceAll(l.name, " ", "-"))); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", l.name, err))
			fmt.Printf("%s: BROKEN\n", l.name)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Println("no 202 without its row, nothing lost, nothing run twice, no process restarted")
	return nil
}
