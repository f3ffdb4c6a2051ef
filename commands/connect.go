package commands

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"

	"github.com/seed-de999ace/preloop/breaker"
	"github.com/seed-de999ace/preloop/commands/config"
	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/api"
	"github.com/seed-de999ace/preloop/queue/postgres"
	"github.com/seed-de999ace/preloop/queue/sqlite"
)

// load reads the configuration as the global flags ask for.
func (a *app) load(o config.Options) (*config.Config, error) {
	o.Path = a.Config
	o.Flags.Store, o.Flags.Server = a.Store, a.Server
	return config.Load(o)
}

// connect gives a command what it reads and changes: through a server where one is named, else on
// the store. It works beside a running server too.
func (a *app) connect(ctx context.Context) (_ api.Operations, done func(), err error) {
	if a.Server != "" && a.Store != "" {
		return nil, nil, usagef("--server and --store exclude each other")
	}
	cfg, err := a.load(config.Options{LenientSecrets: true})
	if err != nil {
		return nil, nil, err
	}
	if cfg.ServerURL != "" && a.Store == "" {
		token, err := cfg.FindSystemToken()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("reading the system token: %w", err)
		}
		return &api.Client{URL: cfg.ServerURL, Token: token.Reveal()}, func() {}, nil
	}
	store, err := openStore(ctx, cfg, false, a.log)
	if err != nil {
		return nil, nil, err
	}
	return local(store, "", func() *config.Config { return cfg }), func() { _ = store.Close() }, nil
}

// local is the operator's view of a store. node is empty outside a node; current may change with
// a reload.
func local(store queue.Store, node string, current func() *config.Config) *api.Local {
	return &api.Local{
		Store: store, Version: Version, Node: node, Breaker: breakerSettings(current()), Host: githubEndpoint(current()).Host(),
		Sources: func() []api.SourceInfo { return sourceInfos(current()) },
	}
}

func sourceInfos(cfg *config.Config) []api.SourceInfo {
	var out []api.SourceInfo
	for _, app := range cfg.Apps {
		out = append(out, api.SourceInfo{Key: app.Key(), Name: app.Name, AppID: app.ID, Secrets: names(app.WebhookSecrets)})
	}
	for _, hook := range cfg.Hooks {
		out = append(out, api.SourceInfo{Key: hook.Key(), Name: hook.Name, Secrets: names(hook.WebhookSecrets)})
	}
	return out
}

func names(secrets []config.NamedSecret) []string {
	out := make([]string, len(secrets))
	for i, s := range secrets {
		out[i] = s.Name
	}
	return out
}

// openStore opens the configured store. serve: this process is a node of it.
func openStore(ctx context.Context, cfg *config.Config, serve bool, log *slog.Logger) (queue.Store, error) {
	switch cfg.Store.Kind {
	case config.SQLite:
		if serve && os.Getenv("GOMAXPROCS") == "" {
			// The thread that flushes to disk keeps one of Go's processors from everybody else.
			runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
		}
		return sqlite.Open(ctx, cfg.Store.Path, sqlite.Options{Settings: settings(cfg), Serve: serve})
	default:
		return postgres.Open(ctx, cfg.Store.URL.Reveal(), postgres.Options{Settings: settings(cfg), ListenURL: cfg.StoreListen.URL.Reveal(), Serve: serve, Node: nodeID(), Log: log})
	}
}

// settings are the store's rules as the configuration has them.
func settings(cfg *config.Config) queue.Settings {
	s := queue.DefaultSettings()
	s.Lease, s.MaxAttempts, s.Backoff = cfg.Queue.Lease, cfg.Queue.MaxAttempts, cfg.Queue.Backoff
	s.MaxOutages, s.NotifyCoalesce = cfg.Queue.MaxOutages, cfg.Queue.NotifyCoalesce
	s.Keep, s.SessionTTL = cfg.Retention.Keep, cfg.SessionTTL
	return s
}

func breakerSettings(cfg *config.Config) breaker.Settings {
	s := breaker.Defaults()
	b := cfg.Breaker
	s.Enabled, s.Threshold, s.Open, s.MaxOpen, s.Probe, s.RateLimitDefault = b.Enabled, b.Threshold, b.Open, b.MaxOpen, b.Probe, b.RateLimitDefault
	return s
}
