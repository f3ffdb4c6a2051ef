// Command receivers shows that what exists for GitHub's webhooks needs no change to receive
// preloop's: it starts a Probot app and a plain @octokit/webhooks server, both of which verify
// signatures, and a preloop with HTTP triggers to them, sends deliveries of many kinds, and checks
// that both took all of them, with GitHub's own headers and byte for byte, and that a target whose
// secret is another one refuses. scripts/receivers builds and starts it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

func main() {
	binary := flag.String("binary", "bin/preloop", "the preloop to test")
	folder := flag.String("receivers", "scripts/internal/receivers", "the `FOLDER` of the receivers, with what they depend on installed")
	keep := flag.Bool("keep", false, "keep the folder with the store and the logs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *binary, *folder, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "receivers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binary, folder string, keep bool) (err error) {
	dir, err := os.MkdirTemp("", "preloop-receivers-")
	if err != nil {
		return err
	}
	defer func() {
		if keep || err != nil {
			fmt.Println("kept:", dir)
			return
		}
		_ = os.RemoveAll(dir)
	}()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()

	probot, octokit := newProbot(folder), newOctokit(folder)
	for _, r := range []*receiver{probot, octokit} {
		defer r.stop()
		if err := r.start(ctx, filepath.Join(dir, r.name+".log")); err != nil {
			return fmt.Errorf("starting the %s receiver: %w", r.name, err)
		}
	}
	addr, err := harness.FreeAddr()
	if err != nil {
		return err
	}
	config, err := triggers(dir, probot, octokit)
	if err != nil {
		return err
	}
	node := &harness.Node{
		Binary: binary, Dir: filepath.Join(dir, "preloop"), Addr: addr, Store: "sqlite://" + filepath.Join(dir, "preloop.db"),
		Components: "ingress,worker", Config: config,
	}
	defer node.Discard()
	if err := node.Start(); err != nil {
		return err
	}
	if _, err := node.Ready(ctx); err != nil {
		return err
	}

	began := time.Now()
	sent := deliveries()
	for _, d := range sent {
		if err := d.send(ctx, addr); err != nil {
			return fmt.Errorf("sending %s: %w", d.name, err)
		}
	}
	operator := harness.NewOperator(addr)
	if err := operator.WaitIdle(ctx); err != nil {
		return err
	}
	runs, err := operator.Runs(ctx)
	if err != nil {
		return err
	}
	if err := node.Stop(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	if err := errors.Join(check(sent, runs, probot), check(sent, runs, octokit)); err != nil {
		return err
	}
	refused := len(strangers(sent))
	fmt.Printf("%d deliveries, %s in all, each verified once by Probot and once by @octokit/webhooks, in %.1f s;\n", len(sent)-refused, size(sent), took.Seconds())
	fmt.Printf("%d under another secret refused by both, and their runs failed\n", refused)
	return nil
}
