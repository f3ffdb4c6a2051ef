package commands

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/seed-de999ace/preloop/commands/config"
	"github.com/seed-de999ace/preloop/github"
	"github.com/seed-de999ace/preloop/github/appcheck"
	"github.com/seed-de999ace/preloop/github/watchdog"
	"github.com/seed-de999ace/preloop/queue"
)

// watchedSource is a source whose history can be asked for.
type watchedSource struct {
	key, name  string
	hook       github.Hook
	credential string // sources with the same one share a pace
}

// watchedSources are the apps with a private key and the hooks with an id.
func watchedSources(cfg *config.Config) (list []watchedSource) {
	for _, app := range cfg.Apps {
		if app.ID != 0 && app.PrivateKey.IsSet() {
			list = append(list, watchedSource{key: app.Key(), name: app.Name, credential: app.Key()})
		}
	}
	for _, h := range cfg.Hooks {
		if h.ID != 0 {
			list = append(list, watchedSource{key: h.Key(), name: h.Name, hook: github.Hook{Repo: h.Repo, Org: h.Org, ID: h.ID}, credential: "token " + h.Token.Reveal()})
		}
	}
	return list
}

// watcher makes the passes of one reading of the configuration.
type watcher struct {
	dog    *watchdog.Watchdog
	cfg    *config.Config
	store  queue.Store
	hub    *hub
	pacers map[string]*watchdog.Pacer // by credential; not changed after newWatcher
}

func newWatcher(cfg *config.Config, store queue.Store, h *hub, owner string, log *slog.Logger) *watcher {
	s := cfg.Watchdog
	w := &watcher{cfg: cfg, store: store, hub: h, pacers: map[string]*watchdog.Pacer{}, dog: &watchdog.Watchdog{
		Store: watchdogStore{store}, Owner: owner, Log: log,
		Rules: watchdog.Rules{
			Grace: s.Grace, Keep: cfg.Retention.Keep, History: historyKept(h.endpoint), MaxPages: s.MaxPages, MaxAttempts: s.MaxAttempts,
			Backoff: s.Backoff, Budget: s.Budget, Redeliver: s.Redeliver,
		},
	}}
	for _, src := range watchedSources(cfg) {
		if w.pacers[src.credential] == nil {
			w.pacers[src.credential] = watchdog.NewPacer(s.Pace)
		}
	}
	return w
}

// historyKept is how long GitHub keeps a delivery in its history.
func historyKept(e github.Endpoint) time.Duration {
	if e.WebHost() == "github.com" {
		return 3 * 24 * time.Hour
	}
	return 7 * 24 * time.Hour
}

// pass makes one pass over a source and publishes what it learned.
func (w *watcher) pass(ctx context.Context, s watchedSource, o watchdog.Options) watchdog.Result {
	client, err := w.hub.client(s.key)
	if err != nil {
		err = fmt.Errorf("reading the deliveries of %s: %w", s.name, err)
		r := watchdog.Result{Source: s.key, Name: s.name, PollFailed: true, Err: err}
		if r.Cursor, err = w.dog.Store.LoadCursor(ctx, s.key); err == nil {
			r.Cursor.LastPoll, r.Cursor.LastError = time.Now(), r.Err.Error()
			w.publish(ctx, r, o)
		}
		return r
	}
	src := watchdog.Source{Key: s.key, Name: s.name, Hook: s.hook, GitHub: client, Pacer: w.pacers[s.credential]}
	if expected := w.cfg.HookURL(); expected != "" {
		src.Mine = func(url string) bool { return appcheck.SameURL(url, expected) }
	}
	r := w.dog.Pass(ctx, src, o)
	w.publish(ctx, r, o)
	return r
}

func (w *watcher) publish(ctx context.Context, r watchdog.Result, o watchdog.Options) {
	if o.DryRun {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := publishPass(ctx, w.store, r); err != nil {
		w.dog.Log.Warn("the watchdog's findings are not shown", "source", r.Name, "error", err)
	}
}

// watch returns the service: each source has a loop of its own, so that a slow one delays no
// other. A reload starts the loops anew.
func (n *node) watch() func(ctx context.Context) error {
	reloaded := n.reloads()
	return func(ctx context.Context) error { return n.watchUntil(ctx, reloaded) }
}

func (n *node) watchUntil(ctx context.Context, reloaded <-chan struct{}) error {
	for {
		loops, stop := context.WithCancel(ctx)
		var all sync.WaitGroup
		if cfg := n.current().cfg; cfg.Watchdog.Enabled {
			w := newWatcher(cfg, n.store, n.hub, n.id, n.log)
			for _, s := range watchedSources(cfg) {
				all.Go(func() { w.loop(loops, s) })
			}
		}
		select {
		case <-ctx.Done():
		case <-reloaded:
		}
		stop()
		all.Wait()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// loop polls one source for as long as ctx lasts. The first pass is made at once: the server may
// have been away. Later ones leave out what another node has just polled.
func (w *watcher) loop(ctx context.Context, s watchedSource) {
	log := w.dog.Log.With("source", s.name)
	o := watchdog.Options{}
	failing := ""
	for {
		r := w.pass(ctx, s, o)
		switch {
		case ctx.Err() != nil:
			return
		case r.Err != nil && failing != r.Err.Error():
			failing = r.Err.Error()
			log.Error("the watchdog's pass failed; lost deliveries may go unnoticed until one succeeds", "error", r.Err)
		case r.Err == nil && !r.Held:
			if failing != "" {
				failing = ""
				log.Info("the watchdog's pass succeeded again")
			}
			if r.Missing > 0 || r.Redelivered > 0 {
				log.Info("the watchdog found missing deliveries", "examined", r.Examined, "missing", r.Missing, "redelivered", r.Redelivered, "open_repairs", r.OpenRepairs)
			}
		}
		o.Unless = w.cfg.Watchdog.Every / 2
		select {
		case <-ctx.Done():
			return
		case <-time.After(w.cfg.Watchdog.Every):
		}
	}
}

// reloads tells of each reload of the configuration. It is called before the services start.
func (n *node) reloads() <-chan struct{} {
	reloaded := make(chan struct{}, 1)
	n.onReload = append(n.onReload, func(*config.Config) {
		select {
		case reloaded <- struct{}{}:
		default:
		}
	})
	return reloaded
}
