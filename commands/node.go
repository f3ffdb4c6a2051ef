package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/seed-de999ace/preloop/commands/config"
	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/api"
	"github.com/seed-de999ace/preloop/queue/trigger"
)

// node is one running process of a store: what its services share.
type node struct {
	id      string
	started time.Time
	store   queue.Store
	hub     *hub
	ready   *api.Readiness
	metrics *api.Metrics // nil without a server
	log     *slog.Logger
	app     *app

	components []string
	tempDir    string
	finishBase string              // where targets reach this server; empty: nowhere
	runToken   func(string) string // nil without a server

	loaded   atomic.Pointer[loaded]
	onReload []func(*config.Config)
}

// loaded is one reading of the configuration. A reload replaces it whole.
type loaded struct {
	cfg  *config.Config
	set  *trigger.Set
	hash string
	at   time.Time
}

var nodeID = sync.OnceValue(func() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "node"
	}
	return host + "-" + uuid.NewString()[:8]
})

func newLoaded(cfg *config.Config, at time.Time) (*loaded, error) {
	set, err := trigger.NewSet(cfg.Compiled)
	if err != nil {
		return nil, err
	}
	return &loaded{cfg: cfg, set: set, hash: cfg.TriggersHash(), at: at}, nil
}

// openNode opens the store as one of its nodes and registers this process.
func openNode(ctx context.Context, a *app, cfg *config.Config, components []string) (*node, error) {
	for _, w := range cfg.Warnings {
		a.log.Warn(w)
	}
	l, err := newLoaded(cfg, time.Now())
	if err != nil {
		return nil, err
	}
	store, err := openStore(ctx, cfg, true, a.log)
	if err != nil {
		return nil, err
	}
	n := &node{
		id: nodeID(), started: time.Now(), store: store, app: a, components: components,
		log:   a.log.With("node", nodeID()),
		ready: &api.Readiness{StoreLost: storeLost, Stalled: 3 * cfg.Queue.Lease},
	}
	n.loaded.Store(l)
	if n.tempDir, err = runDir(cfg); err != nil {
		_ = store.Close()
		return nil, err
	}
	n.hub = newHub(cfg, breakerDocs{store}, n.log)
	if err := n.beat(ctx); err != nil {
		_ = store.Close()
		return nil, fmt.Errorf("registering this node: %w", err)
	}
	if err := n.publishTriggers(ctx); err != nil {
		_ = store.Close()
		return nil, fmt.Errorf("publishing the triggers: %w", err)
	}
	return n, nil
}

func (n *node) current() *loaded { return n.loaded.Load() }

// close leaves the fleet and closes the store.
func (n *node) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := n.store.Leave(ctx, n.id); err != nil {
		n.log.Warn("the node's row was left behind; it will show as gone", "error", err)
	}
	_ = os.RemoveAll(n.tempDir) // the next start removes it otherwise
	return n.store.Close()
}

// heartbeatEvery is how often a node writes its row, which is also how it learns that the store is
// away: readiness must notice within 10 s, which a beat that begins just before its time and then
// hangs still does.
const (
	heartbeatEvery   = 5 * time.Second
	heartbeatTimeout = 4 * time.Second
	heartbeatAway    = time.Second // while the store does not take them
	storeLost        = 10 * time.Second
)

func (n *node) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	l := n.current()
	host, _ := os.Hostname()
	// A watchdog that is switched off watches nothing: the status goes by what the nodes say.
	components := slices.DeleteFunc(slices.Clone(n.components), func(c string) bool { return c == "watchdog" && !l.cfg.Watchdog.Enabled })
	err := n.store.Heartbeat(ctx, queue.Node{
		ID: n.id, Host: host, PID: os.Getpid(), Version: Version, Components: components,
		TriggersHash: l.hash, TriggersLoadedAt: l.at, StartedAt: n.started,
	})
	if err != nil {
		n.ready.LostStore()
		return err
	}
	n.ready.SawStore(time.Now())
	return nil
}

func (n *node) heartbeat(ctx context.Context) error {
	away := false
	for {
		wait := heartbeatEvery
		if away {
			wait = heartbeatAway
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		err := n.beat(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !away:
			away = true
			n.log.Error("the store does not take this node's heartbeat", "error", err)
		case err == nil && away:
			away = false
			n.log.Info("the store takes this node's heartbeat again")
		}
	}
}

// publishTriggers shares the triggers' definitions, unless another node has loaded newer ones.
func (n *node) publishTriggers(ctx context.Context) error {
	l := n.current()
	p := api.PublishedTriggers{LoadedAt: l.at, Triggers: []api.TriggerInfo{}}
	for _, t := range l.cfg.Triggers {
		p.Triggers = append(p.Triggers, api.TriggerInfo{
			Name: t.Name, Enabled: t.Enabled, Concurrency: t.Concurrency, QueueSize: t.QueueSize, QueueWaitSeconds: int64(t.QueueWait / time.Second),
		})
	}
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	for range 5 { // lost races with other nodes
		docs, err := n.store.LoadDocs(ctx, api.DocTriggers)
		if err != nil {
			return err
		}
		old := docs["current"]
		var theirs api.PublishedTriggers
		if old.Version > 0 && json.Unmarshal(old.Body, &theirs) == nil && theirs.LoadedAt.After(l.at) {
			return nil
		}
		if swapped, err := n.store.SwapDoc(ctx, api.DocTriggers, "current", old.Version, body); err != nil || swapped {
			return err
		}
	}
	return nil
}

// reload re-reads the configuration at each SIGHUP. One that is wrong is refused and the old one
// stays.
func (n *node) reload(ctx context.Context) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hup:
		}
		if err := n.readAgain(ctx); err != nil {
			n.log.Error("the configuration was not reloaded; the old one stays", "error", err)
			continue
		}
		n.log.Info("the configuration was reloaded", "triggers", len(n.current().cfg.Triggers))
	}
}

func (n *node) readAgain(ctx context.Context) error {
	cfg, err := n.app.load(config.Options{Serve: true})
	if err != nil {
		return err
	}
	l, err := newLoaded(cfg, time.Now())
	if err != nil {
		return err
	}
	cfg.SystemToken = n.current().cfg.SystemToken // the listener keeps the token that it started with
	n.loaded.Store(l)
	n.hub.configure(cfg)
	for _, f := range n.onReload {
		f(cfg)
	}
	if err := n.beat(ctx); err != nil {
		n.log.Warn("the new triggers are not announced yet", "error", err)
	}
	return n.publishTriggers(ctx)
}

// has reports whether this process runs a component.
func (n *node) has(component string) bool { return slices.Contains(n.components, component) }

// finish is where and with what a target finishes a run that it has accepted.
func (n *node) finish(runID string) (url, token string) {
	if n.finishBase == "" || n.runToken == nil {
		return "", ""
	}
	return strings.TrimSuffix(n.finishBase, "/") + "/api/v1/runs/" + runID + "/finish", n.runToken(runID)
}

// services are the parts that the components ask for, beside a listener.
func (n *node) services() []service {
	cfg := n.current().cfg
	list := []service{
		{"the heartbeat", n.heartbeat},
		{"the breakers", n.hub.run},
		{"reloading", n.reload},
	}
	if n.has("worker") {
		w, d := n.worker(), n.dispatcher()
		n.ready.LastClaim = func() time.Time { // of the two the one that is further behind
			if at := d.LastClaim(); at.Before(w.LastClaim()) {
				return at
			}
			return w.LastClaim()
		}
		list = append(list, service{"the worker", w.Run}, service{"the dispatcher", d.Run})
	}
	if n.has("ingress") {
		list = append(list, service{"recording the uptime", n.recordUptime})
	}
	if n.has("watchdog") {
		list = append(list, service{"the watchdog", n.watch()})
	}
	if n.has("app-monitor") {
		list = append(list, service{"the app monitor", n.monitorApps()})
	}
	if n.has("prune") {
		p := &queue.Pruner{Store: n.store, Every: cfg.Retention.Every, Batch: cfg.Retention.Batch, Logger: n.log, Observe: func(deleted int) {
			if n.metrics != nil {
				n.metrics.Pruned(deleted)
			}
		}}
		list = append(list, service{"pruning", p.Run})
	}
	return list
}

func (n *node) worker() *queue.Worker {
	cfg := n.current().cfg
	return &queue.Worker{
		Store: n.store, Node: n.id, Settings: settings(cfg), Decide: n.decide,
		Gate:   n.gate,
		Logger: n.log, Workers: cfg.Queue.Workers, Poll: cfg.Queue.Poll, Renew: cfg.Queue.Renew,
		Observe: func(at queue.DeliveryAttempt) {
			if n.metrics != nil {
				n.metrics.Delivery(at)
			}
		},
	}
}

// gate tells the worker whether to claim: nothing while GitHub as a whole is unavailable.
func (n *node) gate() (time.Duration, bool) { return n.hub.gate(time.Now()) }

func (n *node) dispatcher() *queue.Dispatcher {
	cfg := n.current().cfg
	return &queue.Dispatcher{
		Store: n.store, Node: n.id, Settings: settings(cfg), Rules: n.rules, Execute: n.execute, Probed: n.probed, Probe: n.probe,
		Logger: n.log, Poll: cfg.Queue.Poll, Renew: cfg.Queue.Renew, ShutdownGrace: cfg.ShutdownGrace,
		Observe: func(at queue.RunAttempt) {
			if n.metrics != nil {
				n.metrics.Run(at)
			}
		},
	}
}
