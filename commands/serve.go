package commands

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/seed-de999ace/preloop/commands/config"
	"github.com/seed-de999ace/preloop/github/webhook"
	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/api"
	"github.com/seed-de999ace/preloop/queue/dashboard"
)

// ServeCmd is everything in one process: what worker, watchdog, app-check and prune do alone, and
// the listener.
type ServeCmd struct {
	Listen         string `placeholder:"ADDR" help:"Where to listen for webhooks; systemd[:NAME] for a socket of systemd's."`
	OperatorListen string `placeholder:"ADDR" help:"Where to answer operators; the same address unless given."`
	PublicURL      string `placeholder:"URL" help:"How GitHub reaches this server, without a path."`
	Components     string `placeholder:"LIST" help:"Some of ingress, worker, watchdog, app-monitor, prune; all unless given."`
}

// Run serves until it is told to stop. The listener stays open, answering 503, while the work
// under way ends.
func (c *ServeCmd) Run(ctx context.Context, a *app) error {
	cfg, err := a.load(config.Options{Serve: true, Flags: config.Flags{Listen: c.Listen, OperatorListen: c.OperatorListen, PublicURL: c.PublicURL, Components: c.Components}})
	if err != nil {
		return err
	}
	token, err := cfg.EnsureSystemToken()
	if err != nil {
		return fmt.Errorf("preparing the system token: %w", err)
	}
	cfg.SystemToken = token
	n, err := openNode(ctx, a, cfg, cfg.Components)
	if err != nil {
		return err
	}
	err = n.serve(ctx, c)
	return errors.Join(err, n.close())
}

func (n *node) serve(ctx context.Context, c *ServeCmd) error {
	cfg := n.current().cfg
	public, err := listen(cfg.Listen)
	if err != nil {
		return err
	}
	operator := public
	if cfg.OperatorListen != "" {
		if operator, err = listen(cfg.OperatorListen); err != nil {
			_ = public.Close()
			return err
		}
	}
	n.runToken = api.RunToken([]byte(cfg.SystemToken.Reveal()))
	if n.finishBase = cfg.PublicURL; n.finishBase == "" || operator != public {
		n.finishBase = "http://" + operator.Addr().String()
	}
	handler := n.operatorHandler()
	sampler := dashboard.NewSampler(n.store, n.log)
	pages := dashboard.New(dashboard.Config{Operations: handler.Operations, Token: handler.Token, Sampler: sampler, Log: n.log})
	list := append(n.services(), service{"sampling the queue", sampler.Run})

	mux := http.NewServeMux()
	handler.RegisterProbes(mux)
	var receiver *webhook.Receiver
	if n.has("ingress") {
		receiver = n.receiver()
		mux.Handle(config.WebhookPath, receiver)
		mux.Handle(config.WebhookPath+"/{$}", receiver) // GitHub does not follow redirects
	}
	servers := []*http.Server{n.server(mux)}
	listeners := []net.Listener{public}
	if operator == public {
		handler.Register(mux)
		mux.Handle("/", pages)
	} else {
		own := http.NewServeMux()
		handler.RegisterProbes(own)
		handler.Register(own)
		own.Handle("/", pages)
		servers, listeners = append(servers, n.server(own)), append(listeners, operator)
	}
	// The listeners outlive the other services: they answer 503 while those end.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	failed := make(chan error, len(servers))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for i, s := range servers {
		s.RegisterOnShutdown(pages.Close)
		go func() {
			err := s.Serve(listeners[i])
			if serving.Err() == nil && !errors.Is(err, http.ErrServerClosed) {
				err = fmt.Errorf("listening on %s: %w", listeners[i].Addr(), err)
				cancel(err)
				failed <- err
			}
		}()
	}
	n.log.Info("serving", "version", Version, "listen", public.Addr().String(), "store", cfg.Store.String(), "components", strings.Join(n.components, ","), "triggers", len(cfg.Triggers))
	if len(cfg.Sources()) == 0 && n.has("ingress") {
		n.log.Warn("no webhook secret is configured: every delivery is refused; set PRELOOP_WEBHOOK_SECRET or name apps in the configuration")
	}
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	draining := context.AfterFunc(ctx, func() {
		_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
		n.log.Info("stopping: no new deliveries are taken, what runs may end", "grace", cfg.ShutdownGrace.String())
		n.ready.Drain()
		if receiver != nil {
			receiver.Drain()
		}
	})
	defer draining()
	err = together(ctx, list)
	stopServing()
	shutdown, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer done()
	for _, s := range servers {
		if e := s.Shutdown(shutdown); e != nil {
			_ = s.Close()
		}
	}
	select {
	case e := <-failed:
		return e
	default:
		return err
	}
}

// listen opens an address, or takes the socket that systemd opened.
func listen(addr string) (net.Listener, error) {
	name, ok := strings.CutPrefix(addr, "systemd")
	if !ok {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, fmt.Errorf("listening: %w; is another preloop running there? --listen chooses another address", err)
		}
		return l, nil
	}
	name = strings.TrimPrefix(name, ":")
	sockets, err := activation.ListenersWithNames()
	if err != nil {
		return nil, fmt.Errorf("taking systemd's sockets: %w", err)
	}
	for have, list := range sockets {
		if len(list) > 0 && (name == "" || have == name) {
			return list[0], nil
		}
	}
	return nil, usagef("listen is %s, but systemd passed no such socket; see preloop.socket", addr)
}

func (n *node) server(h http.Handler) *http.Server {
	cfg := n.current().cfg
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: min(10*time.Second, cfg.Ingress.ReadTimeout), IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog:  slog.NewLogLogger(n.log.Handler(), slog.LevelDebug),
		Protocols: new(http.Protocols),
	}
	s.Protocols.SetHTTP1(true)
	return s
}

func (n *node) operatorHandler() *api.Handler {
	l := local(n.store, n.id, func() *config.Config { return n.current().cfg })
	n.metrics = api.NewMetrics(l, n.log)
	return &api.Handler{Operations: l, Metrics: n.metrics, Token: n.current().cfg.SystemToken.Reveal(), Ready: n.ready, Log: n.log, FinishToken: n.runToken}
}

func (n *node) receiver() *webhook.Receiver {
	cfg := n.current().cfg
	in := cfg.Ingress
	r := webhook.New(webhook.Config{
		Sources: webhookSources(cfg), MaxBody: in.MaxBody, Memory: in.Memory, Budget: in.Budget, Attempts: in.Attempts,
		AttemptTimeout: in.AttemptTimeout, RetryDelay: in.RetryDelay, ReadTimeout: in.ReadTimeout, Observe: n.received,
	}, n.store, n.log)
	n.onReload = append(n.onReload, func(cfg *config.Config) { r.SetSources(webhookSources(cfg)) })
	return r
}

// received is told how each request ended.
func (n *node) received(result string, took time.Duration) {
	n.metrics.Request(result, took)
	switch result {
	case webhook.ResultStoreFailed:
		n.ready.Ingested(false, time.Now())
	case string(queue.Accepted), string(queue.Duplicate), string(queue.Requeued):
		n.ready.Ingested(true, time.Now())
	}
}

func webhookSources(cfg *config.Config) []webhook.Source {
	var out []webhook.Source
	for _, s := range cfg.Sources() {
		src := webhook.Source{Key: s.Key, Name: s.Name, TargetType: s.TargetType, TargetID: s.TargetID, Repo: s.Repo, Org: s.Org}
		for _, named := range s.Secrets {
			src.Secrets = append(src.Secrets, webhook.Secret{Name: named.Name, Value: []byte(named.Value.Reveal())})
		}
		out = append(out, src)
	}
	return out
}
