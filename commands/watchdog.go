package commands

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/seed-de999ace/preloop/commands/config"
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
	store, err := openForPass(ctx, cfg, a.log)
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
	t := &table{header: []string{"SOURCE", "EXAMINED", "MISSING", "REDELIVERED", "IN GRACE", "OPEN", "NOTE"}, wrap: true}
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
		t.add(p.Source, strconv.Itoa(p.Examined), strconv.Itoa(p.Missing), strconv.Itoa(p.Redelivered), strconv.Itoa(p.SkippedGrace), strconv.Itoa(p.OpenRepairs), orDash(cmp.Or(p.Error, p.Note)))
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
