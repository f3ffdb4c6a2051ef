package commands

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/seed-de999ace/preloop/commands/config"
	"github.com/seed-de999ace/preloop/github"
	"github.com/seed-de999ace/preloop/github/appcheck"
	"github.com/seed-de999ace/preloop/github/watchdog"
	"github.com/seed-de999ace/preloop/queue"
)

// WatchdogCmd watches GitHub's delivery histories.
type WatchdogCmd struct {
	Once   bool   `help:"Make one pass and say what it did, for cron."`
	DryRun bool   `short:"n" help:"With --once: only say what would be asked for again."`
	Since  string `placeholder:"TIME" help:"With --once: also judge what was delivered since then, such as 24h, whatever was adopted or judged before."`
	Source string `placeholder:"NAME" help:"With --once: only this app or hook."`
	Output
}

// Run watches until it is told to stop, or makes one pass.
func (c *WatchdogCmd) Run(ctx context.Context, a *app) error {
	if a.Server != "" {
		return usagef("the watchdog works on the store itself; a server watches by itself")
	}
	if !c.Once {
		if c.DryRun || c.Since != "" || c.Source != "" || c.asJSON() {
			return usagef("--dry-run, --since, --source and --json are for one pass: add --once")
		}
		return c.serve(ctx, a)
	}
	cfg, err := a.load(config.Options{})
	if err != nil {
		return err
	}
	from, err := since(c.Since)
	if err != nil {
		return err
	}
	store, err := openForPass(ctx, cfg)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // every write has been answered
	return c.once(ctx, a, cfg, store, newHub(cfg, breakerDocs{store}, a.log), watchdog.Options{Since: from, DryRun: c.DryRun})
}

func (c *WatchdogCmd) serve(ctx context.Context, a *app) error {
	cfg, err := a.load(config.Options{})
	if err != nil {
		return err
	}
	n, err := openNode(ctx, a, cfg, []string{"watchdog"})
	if err != nil {
		return err
	}
	n.log.Info("watching", "store", cfg.Store.String(), "sources", len(watchedSources(cfg)))
	err = together(ctx, n.services())
	return errors.Join(err, n.close())
}

// passReport is what a pass prints of one source.
type passReport struct {
	Source       string  `json:"source"`
	Examined     int     `json:"examined"`
	Missing      int     `json:"missing"`
	Redelivered  int     `json:"redelivered"`
	SkippedGrace int     `json:"skipped_grace"`
	OpenRepairs  int     `json:"open_repairs"`
	Error        *string `json:"error"`
	Note         *string `json:"note"`
	WouldAsk     []ask   `json:"would_redeliver,omitempty"` // with --dry-run
}

// ask is a redelivery that a dry run would ask for.
type ask struct {
	DeliveryID  string     `json:"delivery_id"`
	Event       string     `json:"event"`
	Action      *string    `json:"action"`
	Reason      string     `json:"reason"`
	Attempts    int        `json:"attempts"`
	DeliveredAt *time.Time `json:"delivered_at"`
}

func (c *WatchdogCmd) once(ctx context.Context, a *app, cfg *config.Config, store queue.Store, h *hub, o watchdog.Options) error {
	sources := watchedSources(cfg)
	if len(sources) == 0 {
		return usagef("there is nothing to watch: that needs an app with its private key, or a hook with its id")
	}
	if c.Source != "" {
		sources = slices.DeleteFunc(sources, func(s watchedSource) bool { return s.name != c.Source && s.key != c.Source })
		if len(sources) == 0 {
			return usagef("--source: no app or hook that can be watched is named %s", c.Source)
		}
	}
	w := newWatcher(cfg, store, h, nodeID(), a.log)
	results := make([]watchdog.Result, len(sources))
	var all sync.WaitGroup
	for i, s := range sources {
		all.Go(func() { results[i] = w.pass(ctx, s, o) })
	}
	all.Wait()
	return c.report(a, results)
}

func (c *WatchdogCmd) report(a *app, results []watchdog.Result) error {
	t := &table{header: []string{"SOURCE", "EXAMINED", "MISSING", "REDELIVERED", "IN GRACE", "OPEN", "ERROR", "NOTE"}, flex: []int{6, 7}}
	asks := &table{header: []string{"WOULD ASK FOR", "SOURCE", "EVENT", "REASON", "ATTEMPTS", "DELIVERED"}}
	failed := false
	for _, r := range results {
		p := passReport{
			Source: r.Name, Examined: r.Examined, Missing: r.Missing, Redelivered: r.Redelivered, SkippedGrace: r.SkippedGrace,
			OpenRepairs: r.OpenRepairs, Note: textOrNil(passNote(r)),
		}
		if r.Err != nil {
			failed = true
			p.Error = textOrNil(r.Err.Error())
		}
		for _, d := range r.Due {
			x := ask{DeliveryID: d.GUID, Event: d.Event, Action: textOrNil(d.Action), Reason: d.Reason, Attempts: d.Attempts, DeliveredAt: timeOrNil(d.DeliveredAt)}
			p.WouldAsk = append(p.WouldAsk, x)
			asks.add(d.GUID, r.Name, eventName(d.Event, x.Action), d.Reason, strconv.Itoa(d.Attempts), a.moment(x.DeliveredAt))
		}
		if c.asJSON() {
			if err := c.print(a.out, p); err != nil {
				return err
			}
			continue
		}
		t.add(p.Source, strconv.Itoa(p.Examined), strconv.Itoa(p.Missing), strconv.Itoa(p.Redelivered), strconv.Itoa(p.SkippedGrace), strconv.Itoa(p.OpenRepairs), orDash(p.Error), orDash(p.Note))
	}
	if !c.asJSON() {
		if err := t.print(a); err != nil {
			return err
		}
		if len(asks.rows) > 0 {
			if err := asks.print(a); err != nil {
				return err
			}
		}
	}
	if failed {
		return quietCode(exitUnreachable)
	}
	return nil
}

// passNote says what the numbers do not.
func passNote(r watchdog.Result) string {
	switch {
	case r.Held:
		return "another node is watching it"
	case r.Withheld != "":
		return "not asked for: " + r.Withheld
	case r.Unfinished && r.Err == nil:
		return "the history is longer than watchdog.max_pages; the next pass reads on"
	}
	return ""
}

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
