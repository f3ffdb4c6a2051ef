package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// bench gives each part its own stores and servers, and clears them away.
type bench struct {
	options
	dir    string
	nodes  []*harness.Node
	stores int
}

func newBench(o options) (*bench, error) {
	dir, err := os.MkdirTemp("", "preloop-bench-")
	if err != nil {
		return nil, err
	}
	return &bench{options: o, dir: dir}, nil
}

func (b *bench) close() {
	for _, n := range b.nodes {
		n.Discard()
	}
	_ = os.RemoveAll(b.dir)
}

func (b *bench) kind() string {
	if b.postgres != "" {
		return "Postgres"
	}
	return "SQLite"
}

// newStore is an empty store of the measured kind.
func (b *bench) newStore(ctx context.Context) (string, error) {
	b.stores++
	if b.postgres == "" {
		return "sqlite://" + filepath.Join(b.dir, fmt.Sprintf("store%d.db", b.stores)), nil
	}
	name := fmt.Sprintf("preloop_bench_%d_%d", os.Getpid(), b.stores)
	u, err := url.Parse(b.postgres)
	if err != nil {
		return "", fmt.Errorf("-postgres: this is not a URL")
	}
	conn, err := pgx.Connect(ctx, b.postgres)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), nil
}

// start runs a server on a store and waits until it is ready.
func (b *bench) start(ctx context.Context, store, components, config string) (*harness.Node, time.Duration, error) {
	addr, err := harness.FreeAddr()
	if err != nil {
		return nil, 0, err
	}
	n := &harness.Node{
		Binary: b.binary, Dir: filepath.Join(b.dir, fmt.Sprintf("node%d", len(b.nodes))), Addr: addr,
		Store: store, Components: components, Config: config,
	}
	b.nodes = append(b.nodes, n)
	if err := n.Start(); err != nil {
		return nil, 0, err
	}
	took, err := n.Ready(within(ctx, time.Minute))
	return n, took, err
}

// stop ends a server before the next measurement.
func (b *bench) stop(ctx context.Context, n *harness.Node) error {
	return n.Stop(within(ctx, time.Minute))
}

// within is a context for one step. It is freed when its time is over, which is soon enough here.
func within(ctx context.Context, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(ctx, d)
	time.AfterFunc(d, cancel)
	return ctx
}

// tenTriggers are decided for each push, and none matches.
func tenTriggers() string {
	var b strings.Builder
	b.WriteString("triggers:\n")
	for i := range 10 {
		fmt.Fprintf(&b, "  - { name: t%d, on: [push], if: body.ref == 'refs/heads/release-%d', run: { command: ['true'] } }\n", i, i)
	}
	return b.String()
}

// oneTarget forwards each opened issue.
func oneTarget(url string) string {
	return fmt.Sprintf(`triggers:
  - name: forward
    on: [issues.opened]
    concurrency: 64
    queue: { size: 1000000 }
    loop_limit: 1000000/1h
    run: { http: { url: %s } }
`, url)
}
