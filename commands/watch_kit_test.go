package commands

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/seed-de999ace/preloop/breaker"
	"github.com/seed-de999ace/preloop/commands/config"
	"github.com/seed-de999ace/preloop/fixtures/githubfake"
	"github.com/seed-de999ace/preloop/github"
	"github.com/seed-de999ace/preloop/github/webhook"
	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/api"
)

const (
	fakeSecret = "It's a Secret to Everybody"
	publicURL  = "https://hooks.example.test"
)

var fakeKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// writeConfig writes a configuration with the app acme-bot and what more says.
func writeConfig(t *testing.T, more string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"key.pem": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(fakeKey())})),
		"secret":  fakeSecret, "hooksecret": "another one, of the hook", "token": "ghp_of_the_hook",
		"preloop.yaml": strings.NewReplacer("DIR", dir).Replace(`
store: sqlite://DIR/preloop.db
public_url: ` + publicURL + `
apps:
  - { id: 1234, name: acme-bot, private_key: { file: DIR/key.pem }, webhook_secrets: [ { name: current, file: DIR/secret } ] }
` + more),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "preloop.yaml")
}

const triageTrigger = `
triggers:
  - { name: triage, on: [issues.opened, issue_comment.created], run: { command: ["true"] } }
`

// watchWorld is GitHub, a store and a receiver in one process.
type watchWorld struct {
	fake  *githubfake.Server
	hook  *githubfake.Hook
	cfg   *config.Config
	store queue.Store
	hub   *hub
	log   *slog.Logger
	post  *webhook.Receiver
}

func newFakeGitHub() (*githubfake.Server, *githubfake.Hook) {
	fake := githubfake.New(githubfake.Options{})
	hook := fake.AddApp(githubfake.App{
		ID: 1234, Slug: "acme-bot", Key: &fakeKey().PublicKey, Events: []string{"issues", "issue_comment"},
		Permissions: map[string]string{"metadata": "read", "issues": "write"},
		Hook:        githubfake.HookConfig{URL: publicURL + config.WebhookPath, Secret: fakeSecret},
	})
	return fake, hook
}

func newWatchWorld(t *testing.T, more string) *watchWorld {
	t.Helper()
	return newWatchWorldIn(t, "", more)
}

// newWatchWorldIn has its store elsewhere than in a file.
func newWatchWorldIn(t *testing.T, store, more string) *watchWorld {
	t.Helper()
	cfg, err := config.Load(config.Options{Path: writeConfig(t, more), Flags: config.Flags{Store: store}})
	if err != nil {
		t.Fatal(err)
	}
	w := &watchWorld{cfg: cfg, log: slog.New(slog.DiscardHandler)}
	w.fake, w.hook = newFakeGitHub()
	if w.store, err = openStore(t.Context(), cfg, true, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.store.Close() })
	w.hub = w.newHub(w.store, w.fake.Transport())
	w.post = webhook.New(webhook.Config{
		Sources: webhookSources(cfg), MaxBody: cfg.Ingress.MaxBody, Memory: cfg.Ingress.Memory, Budget: cfg.Ingress.Budget, Attempts: cfg.Ingress.Attempts,
		AttemptTimeout: cfg.Ingress.AttemptTimeout, RetryDelay: cfg.Ingress.RetryDelay, ReadTimeout: cfg.Ingress.ReadTimeout,
	}, w.store, w.log)
	w.fake.SetDeliver(githubfake.Transport(w.post))
	return w
}

// newHub is a process's own access to the fake GitHub.
func (w *watchWorld) newHub(store queue.Store, way http.RoundTripper) *hub {
	h := &hub{log: w.log, roles: map[string]cachedRole{}}
	h.endpoint, _ = github.ParseEndpoint("")
	h.breakers = breaker.New(breaker.Options{Settings: breakerSettings(w.cfg), Host: h.endpoint.Host(), Store: breakerDocs{store}, Node: "node"})
	h.transport = func() github.Options {
		return github.Options{Endpoint: h.endpoint, Breakers: h.breakers, Transport: way}
	}
	h.configure(w.cfg)
	return h
}

// lose makes GitHub record a delivery that no store has.
func (w *watchWorld) lose(guid string, code int) int64 {
	status := "OK"
	if code < 200 || code > 299 {
		status = "failed to connect to host"
	}
	return w.fake.Record(w.hook, githubfake.Row{GUID: guid, Event: "issues", Action: "opened", Status: status, StatusCode: code, Payload: issuePayload})
}

var issuePayload = []byte(`{"action":"opened","issue":{"number":7},"repository":{"id":9,"full_name":"acme/widgets"},"installation":{"id":41},"sender":{"login":"ann","type":"User"}}`)

// status is the status document as a server of this store answers it.
func (w *watchWorld) status(ctx context.Context, t *testing.T) *api.Status {
	t.Helper()
	s, err := local(w.store, "node", func() *config.Config { return w.cfg }).Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func conditionTypes(s *api.Status) (types []string) {
	for _, c := range s.Conditions {
		types = append(types, c.Type)
	}
	return types
}

func decodeJSON[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return v
}
