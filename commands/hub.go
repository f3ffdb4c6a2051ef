package commands

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-de999ace/preloop/breaker"
	"github.com/seed-de999ace/preloop/commands/config"
	"github.com/seed-de999ace/preloop/github"
	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/trigger"
)

// hub is this process's access to GitHub: one client a source that has a credential, all behind
// the breakers of one host.
type hub struct {
	endpoint  github.Endpoint
	breakers  *breaker.Set
	transport func() github.Options
	log       *slog.Logger

	mu      sync.Mutex
	clients map[string]*github.Client // by source key
	errs    map[string]error          // why a source has no client
	roles   map[string]cachedRole
}

type cachedRole struct {
	role  string
	until time.Time
}

// roleTTL is how long a sender's role is believed.
const roleTTL = time.Minute

// newHub prepares the clients of the configured sources. store, which shares the breakers with
// other nodes, may be nil. A source without a usable credential is no error: what needs it says so.
func newHub(cfg *config.Config, store breaker.Store, log *slog.Logger) *hub {
	return newHubOver(github.NewTransport(nil), cfg, store, log)
}

// newHubOver is newHub with another way to GitHub.
func newHubOver(transport http.RoundTripper, cfg *config.Config, store breaker.Store, log *slog.Logger) *hub {
	endpoint := githubEndpoint(cfg)
	h := &hub{endpoint: endpoint, log: log, roles: map[string]cachedRole{}}
	h.breakers = breaker.New(breaker.Options{Settings: breakerSettings(cfg), Host: endpoint.Host(), Store: store, Node: nodeID(), Log: log})
	h.transport = func() github.Options {
		return github.Options{Endpoint: endpoint, Breakers: h.breakers, Transport: transport, Version: Version, Log: log}
	}
	h.configure(cfg)
	return h
}

// githubEndpoint is the API that is configured, which the configuration has checked.
func githubEndpoint(cfg *config.Config) github.Endpoint {
	endpoint, err := github.ParseEndpoint(cfg.GitHubAPIURL)
	if err != nil {
		endpoint, _ = github.ParseEndpoint("")
	}
	return endpoint
}

// configure makes the clients anew, at the start and after a reload.
func (h *hub) configure(cfg *config.Config) {
	clients, errs := map[string]*github.Client{}, map[string]error{}
	for _, app := range cfg.Apps {
		if app.ID == 0 || !app.PrivateKey.IsSet() {
			errs[app.Key()] = errors.New("no app with a private key is configured for it")
			continue
		}
		key, err := github.ParsePrivateKey([]byte(app.PrivateKey.Reveal()))
		if err == nil {
			clients[app.Key()], err = github.NewApp(github.AppCredential{SourceKey: app.Key(), AppID: app.ID, ClientID: app.ClientID, Key: key}, h.transport())
		}
		if err != nil {
			errs[app.Key()] = err
		}
	}
	for _, hook := range cfg.Hooks {
		token := hook.Token.Reveal()
		var err error
		if token == "" {
			token, _, err = github.GHToken(h.endpoint)
		}
		if err == nil && token == "" {
			err = errors.New("there is no token for it; set one or log in with gh")
		}
		if err == nil {
			clients[hook.Key()], err = github.NewToken(github.TokenCredential{SourceKey: hook.Key(), Token: token}, h.transport())
		}
		if err != nil {
			errs[hook.Key()] = err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clients, h.errs = clients, errs
}

// client returns a source's client, or says why there is none.
func (h *hub) client(source string) (*github.Client, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.clients[source]; c != nil {
		return c, nil
	}
	if err := h.errs[source]; err != nil {
		return nil, err
	}
	return nil, errors.New("no credential is configured for it")
}

// all lists the clients by their sources' keys.
func (h *hub) all() []*github.Client {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []*github.Client
	for _, source := range slices.Sorted(maps.Keys(h.clients)) {
		if c := h.clients[source]; c != nil {
			out = append(out, c)
		}
	}
	return out
}

// questions answers what triggers ask of GitHub.
func (h *hub) questions() trigger.Questions { return questions{h} }

type questions struct{ hub *hub }

// ChangedFiles implements trigger.Questions.
func (q questions) ChangedFiles(ctx context.Context, d *queue.Delivery, body map[string]any) ([]string, bool, error) {
	client, err := q.hub.client(d.Source)
	if err != nil {
		return nil, false, fmt.Errorf("asking GitHub for the changed files: %w", err)
	}
	repo := github.Repo{FullName: d.Repo, Installation: d.Installation}
	var files github.Files
	if d.SubjectNum != 0 {
		files, err = client.PullRequestFiles(ctx, repo, d.SubjectNum)
	} else {
		before, _ := body["before"].(string)
		after, _ := body["after"].(string)
		if before == "" || after == "" || strings.Trim(before, "0") == "" || strings.Trim(after, "0") == "" {
			return nil, false, nil // a branch that was made or deleted has nothing to compare with
		}
		files, err = client.CompareFiles(ctx, repo, before, after)
	}
	return files.Paths, !files.Truncated, asked(err)
}

// Permission implements trigger.Questions.
func (q questions) Permission(ctx context.Context, d *queue.Delivery) (string, error) {
	key := d.Source + " " + d.RepoKey() + " " + strings.ToLower(d.Sender)
	h := q.hub
	h.mu.Lock()
	known, ok := h.roles[key]
	h.mu.Unlock()
	now := time.Now()
	if ok && now.Before(known.until) {
		return known.role, nil
	}
	client, err := h.client(d.Source)
	if err != nil {
		return "", fmt.Errorf("asking GitHub for the sender's role: %w", err)
	}
	role, err := client.Permission(ctx, github.Repo{FullName: d.Repo, Installation: d.Installation}, d.Sender)
	if err != nil {
		return "", asked(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.roles) > 10_000 {
		clear(h.roles)
	}
	h.roles[key] = cachedRole{string(role), now.Add(roleTTL)}
	return string(role), nil
}

// asked says in the triggers' words what GitHub's refusal means.
func asked(err error) error {
	var away *github.UnavailableError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &away):
		return fmt.Errorf("%w: %w", trigger.ErrUnavailable, err)
	case errors.Is(err, github.ErrTokenRefused), errors.Is(err, github.ErrNotInstalled):
		return err // somebody has to change something first; time alone does not
	case errors.Is(err, github.ErrNotFound):
		return fmt.Errorf("%w: %w", trigger.ErrNotFound, err)
	}
	return err
}

// mint makes the token that a trigger asks for, for the run's repository alone. revoke ends it and
// is called when the run is over.
func (h *hub) mint(ctx context.Context, r *queue.Run, permissions map[string]string) (_ github.InstallationToken, revoke func(), err error) {
	client, err := h.client(r.Source)
	if err == nil && !client.IsApp() {
		err = errors.New("only an app can mint tokens")
	}
	if err == nil && r.Repo == "" {
		err = errors.New("the event names no repository, and a token is never made for all of them")
	}
	if err != nil {
		return github.InstallationToken{}, nil, fmt.Errorf("minting a token for the run: %w", err)
	}
	installation := r.Installation
	if installation == 0 {
		in, err := client.RepoInstallation(ctx, r.Repo)
		if err != nil {
			return github.InstallationToken{}, nil, err
		}
		installation = in.ID
	}
	_, name, _ := strings.Cut(r.Repo, "/")
	token, err := client.MintToken(ctx, github.TokenRequest{Installation: installation, Repositories: []string{name}, Permissions: permissions})
	if err != nil {
		return token, nil, err
	}
	revoke = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := client.RevokeToken(ctx, token); err != nil {
			h.log.Warn("a run's token was not revoked; it expires by itself within the hour", "run", r.ID, "error", err)
		}
	}
	return token, revoke, nil
}
