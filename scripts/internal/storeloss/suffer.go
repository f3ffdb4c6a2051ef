package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// The limits that the nodes are judged by, with a little for the machine.
const (
	budget  = 8*time.Second + 500*time.Millisecond
	notices = 10*time.Second + 500*time.Millisecond
	returns = 30 * time.Second
)

// loss is a way in which a store goes away, and comes back.
type loss struct {
	name string
	// prepare, if set, makes ready what strike needs, before a node starts.
	prepare func(ctx context.Context, w *world) error
	strike  func(ctx context.Context, w *world) error
	heal    func(ctx context.Context, w *world) error
	// brief: it is over before a node need notice. partial: what fits in still succeeds.
	brief, partial bool
}

// world is one store with its two nodes.
type world struct {
	dir      string
	admin    string // the server's URL, not through the proxy
	database string
	place    string // a tablespace, or empty
	store    string // the store's URL for the nodes
	listen   string // store_listen, or empty
	proxy    *harness.Proxy
	server   harness.Postgres
	nodes    []*harness.Node
	effects  string
	release  func() // what a strike holds, once
	disk     string // a file that fills a small disk
	standby  *standby
	pooler   *pooler
	undo     []func() // after the judgement, last first
}

func suffer(ctx context.Context, o options, l loss, dir string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	w := &world{dir: dir, admin: o.server, effects: filepath.Join(dir, "effects"), database: fmt.Sprintf("storeloss_%d", time.Now().UnixNano())}
	defer func() {
		for i := len(w.undo) - 1; i >= 0; i-- {
			w.undo[i]()
		}
	}()
	if err := w.open(ctx, o, l); err != nil {
		return err
	}
	t := startTraffic(w.nodes)
	defer t.cancel()
	sleep(ctx, 2*time.Second)
	if err := l.strike(ctx, w); err != nil {
		return fmt.Errorf("striking: %w", err)
	}
	struck := time.Now()
	var noticed time.Duration
	if !l.brief {
		if noticed, err = w.unready(ctx); err != nil {
			return err
		}
		sleep(ctx, o.hold)
	}
	healing := time.Now()
	if err := l.heal(ctx, w); err != nil {
		return fmt.Errorf("healing: %w", err)
	}
	healed := time.Now()
	if err := w.ready(ctx); err != nil {
		return err
	}
	back := time.Since(healed)
	t.noteReturn(time.Now())
	sleep(ctx, 2*time.Second)
	answers := t.stop()

	operator := harness.NewOperator(w.nodes[0].Addr)
	drained, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := operator.WaitIdle(drained); err != nil {
		return err
	}
	deliveries, err := operator.Deliveries(ctx)
	if err != nil {
		return err
	}
	runs, err := operator.Runs(ctx)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(w.effects)
	if err != nil {
		return err
	}
	report, wrong := judge(answers, deliveries, runs, strings.Fields(string(text)), times{struck, healing, t.returned, noticed, back}, l)
	fmt.Printf("%-22s %s\n", l.name+":", report)
	for _, n := range w.nodes {
		if err := n.Stop(ctx); err != nil { // it may not have ended by itself
			wrong = append(wrong, err.Error())
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong[:min(len(wrong), 20)], "\n"))
	}
	return nil
}

// open makes the database and starts the nodes on it.
func (w *world) open(ctx context.Context, o options, l loss) error {
	if err := os.Mkdir(w.dir, 0o711); err != nil { //nolint:gosec // see run
		return err
	}
	u, err := url.Parse(w.admin)
	if err != nil {
		return errors.New("-server: this is not a URL")
	}
	if w.proxy, err = harness.NewProxy(u.Host, nil); err != nil {
		return err
	}
	w.undo = append(w.undo, w.proxy.Close)
	u.Host, u.Path = w.proxy.Addr, "/"+w.database
	w.store = u.String()
	if l.prepare != nil {
		if err := l.prepare(ctx, w); err != nil {
			return fmt.Errorf("preparing: %w", err)
		}
	}
	create := "CREATE DATABASE " + w.database
	if w.place != "" {
		create += " TABLESPACE " + w.place
	}
	if err := w.exec(ctx, w.admin, create); err != nil {
		return err
	}
	for i := range 2 {
		addr, err := harness.FreeAddr()
		if err != nil {
			return err
		}
		n := &harness.Node{
			Binary: o.binary, Dir: filepath.Join(w.dir, fmt.Sprint("node", i)), Addr: addr, Store: w.store, Config: fmt.Sprintf(`triggers:
  - name: effect
    on: [issues.opened]
    concurrency: 4
    queue: { size: 1000000, wait: 24h }
    run: { command: [sh, -c, 'echo "$PRELOOP_DELIVERY_ID" >>"$0"', %s] }
`, w.effects),
		}
		if w.listen != "" {
			n.Config += "store_listen: " + w.listen + "\n"
		}
		w.nodes = append(w.nodes, n)
		w.undo = append(w.undo, n.Discard)
		if err := n.Start(); err != nil {
			return err
		}
	}
	return w.ready(ctx)
}

func (w *world) exec(ctx context.Context, at string, statements ...string) error {
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, q := range statements {
		if _, err := conn.Exec(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	return nil
}

func (w *world) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, returns)
	defer cancel()
	for _, n := range w.nodes {
		if _, err := n.Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// unready waits until every node says that it has no store, and says how long the last one took.
func (w *world) unready(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	for _, n := range w.nodes {
		for {
			status, reason := readyz(n.Addr)
			if status == http.StatusServiceUnavailable && reason == "store_unavailable" {
				break
			}
			if took := time.Since(began); took > notices {
				return 0, fmt.Errorf("after %v without a store /readyz answers %d %q, want 503 store_unavailable", took.Round(time.Millisecond), status, reason)
			}
			if !sleep(ctx, 20*time.Millisecond) {
				return 0, ctx.Err()
			}
		}
	}
	return time.Since(began), nil
}

func readyz(addr string) (status int, reason string) {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + addr + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	var body struct{ Reason string }
	_ = json.NewDecoder(answer.Body).Decode(&body) // an answer without a reason is none that is waited for
	return answer.StatusCode, body.Reason
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
