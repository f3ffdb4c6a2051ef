package commands

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-de999ace/preloop/commands/config"
	"github.com/seed-de999ace/preloop/fixtures/githubfake"
	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/api"
	"github.com/seed-de999ace/preloop/queue/codec"
)

// skyLatency is how long the fake takes for an answer.
const skyLatency = 100 * time.Millisecond

// sky is GitHub seen through the weather: every call is kept with its time, and a fault that
// depends on the call can stand before the fake.
type sky struct {
	*githubfake.Server
	began time.Time

	mu      sync.Mutex
	calls   []skyCall
	flying  int
	busiest int
	fault   func(skyCall) http.HandlerFunc // nil: fair weather
}

type skyCall struct {
	at    time.Duration // since the test's world began
	who   string        // an app's id, or the owner whose repository is asked about
	what  string        // method and path
	asked string        // the body
	fault bool
}

func (s *sky) RoundTrip(r *http.Request) (*http.Response, error) {
	c := skyCall{at: time.Since(s.began), who: caller(r), what: r.Method + " " + r.URL.Path}
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		c.asked, r.Body = string(body), io.NopCloser(bytes.NewReader(body))
	}
	s.mu.Lock()
	next := s.Transport()
	if s.fault != nil {
		if f := s.fault(c); f != nil {
			c.fault, next = true, githubfake.Transport(f)
		}
	}
	s.calls = append(s.calls, c)
	s.flying++
	s.busiest = max(s.busiest, s.flying)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.flying--
		s.mu.Unlock()
	}()
	if strings.HasSuffix(c.what, "/access_tokens") {
		return next.RoundTrip(r) // who mints holds a mutex, for which a bubble's time does not wait
	}
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-time.After(skyLatency):
	}
	return next.RoundTrip(r)
}

func caller(r *http.Request) string {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	var claims struct{ Iss string }
	if parts := strings.Split(token, "."); len(parts) == 3 && strings.HasPrefix(token, "eyJ") {
		if text, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil && json.Unmarshal(text, &claims) == nil {
			return claims.Iss
		}
	}
	if parts := strings.Split(r.URL.Path, "/"); len(parts) > 2 && parts[1] == "repos" {
		return parts[2]
	}
	return ""
}

func (s *sky) setFault(f func(skyCall) http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// between lists the calls of a span of time.
func (s *sky) between(from, to time.Duration) (found []skyCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if from <= c.at && c.at < to {
			found = append(found, c)
		}
	}
	return found
}

// outage answers with lost connections and pages of HTML in turn.
func outage() func(skyCall) http.HandlerFunc {
	n := 0
	return func(skyCall) http.HandlerFunc {
		if n++; n%2 == 1 {
			return githubfake.Reset()
		}
		return githubfake.Unicorn(http.StatusBadGateway)
	}
}

var skyKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// weather is a node with the real store, beneath a sky. The apps 1 and 2 are installed for acme
// (41) and for beta (42), which have a repository widgets each.
type weather struct {
	*testing.T
	*node
	sky     *sky
	claimed *claims
	logs    *bytes.Buffer
	made    int
}

// claims notes what is claimed when.
type claims struct {
	queue.Store
	began time.Time

	mu   sync.Mutex
	list []claimAt
}

type claimAt struct {
	at  time.Duration
	seq int64
}

func (c *claims) ClaimDeliveries(ctx context.Context, node string, n int) ([]queue.DeliveryClaim, error) {
	got, err := c.Store.ClaimDeliveries(ctx, node, n)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range got {
		c.list = append(c.list, claimAt{time.Since(c.began), d.Seq})
	}
	return got, err
}

func (c *claims) between(from, to time.Duration) (found []claimAt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.list {
		if from <= one.at && one.at < to {
			found = append(found, one)
		}
	}
	return found
}

// inWeather runs a test in a bubble, in which time passes only while everybody waits.
func inWeather(t *testing.T, more string, test func(w *weather)) {
	t.Helper()
	// What keeps channels in pools is used once outside of any bubble, and the pools are emptied.
	body, kind := codec.Encode(nil, bytes.Repeat([]byte("preloop "), 100))
	if _, err := codec.Decode(kind, body); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.GC()
	synctest.Test(t, func(t *testing.T) { test(newWeather(t, more)) })
}

func newWeather(t *testing.T, more string) *weather {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"key.pem": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(skyKey())})),
		"secret1": "the secret of one", "secret2": "the secret of two", "secret3": "the secret of three",
		"preloop.yaml": strings.ReplaceAll(`
store: sqlite://DIR/preloop.db
apps:
  - { id: 1, name: one, private_key: { file: DIR/key.pem }, webhook_secrets: [ { file: DIR/secret1 } ] }
  - { id: 2, name: two, private_key: { file: DIR/key.pem }, webhook_secrets: [ { file: DIR/secret2 } ] }
hooks:
  - { repo: acme/widgets, webhook_secrets: [ { file: DIR/secret3 } ] }
`+more, "DIR", dir),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	none := func(string) (string, bool) { return "", false }
	cfg, err := config.Load(config.Options{Path: filepath.Join(dir, "preloop.yaml"), LookupEnv: none})
	if err != nil {
		t.Fatal(err)
	}
	store, err := openStore(t.Context(), cfg, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	w := &weather{T: t, logs: &bytes.Buffer{}, claimed: &claims{Store: store, began: time.Now()}}
	log := slog.New(slog.NewTextHandler(&locked{w: w.logs}, nil))
	w.sky = &sky{Server: githubfake.New(githubfake.Options{}), began: time.Now()}
	for i, owner := range []string{"acme", "beta"} {
		id := int64(i + 1)
		w.sky.AddApp(githubfake.App{ID: id, Owner: owner, Key: &skyKey().PublicKey, Permissions: map[string]string{
			"metadata": "read", "pull_requests": "read", "contents": "write", "issues": "read",
		}})
		w.sky.AddInstallation(githubfake.Installation{ID: 40 + id, AppID: id, Account: owner})
		w.sky.AddRepo(githubfake.Repo{ID: 9000 + id, FullName: owner + "/widgets", Pulls: map[int64][]githubfake.File{}, Compares: map[string][]githubfake.File{}, Collaborators: map[string]githubfake.Collaborator{}})
	}
	l, err := newLoaded(cfg, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	w.node = &node{
		id: "node", started: time.Now(), store: w.claimed, log: log, components: []string{"worker"}, tempDir: dir, ready: &api.Readiness{},
		hub: newHubOver(w.sky, cfg, breakerDocs{store}, log),
	}
	w.loaded.Store(l)
	if err := w.beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// repo is the repository of an app, to be changed before anything asks about it.
func (w *weather) repo(app int, change func(*githubfake.Repo)) {
	owner := []string{"acme", "beta"}[app-1]
	r := githubfake.Repo{ID: int64(9000 + app), FullName: owner + "/widgets", Pulls: map[int64][]githubfake.File{}, Compares: map[string][]githubfake.File{}, Collaborators: map[string]githubfake.Collaborator{}}
	change(&r)
	w.sky.AddRepo(r)
}

// service runs something until the returned function is called, which waits for its end.
func (w *weather) service(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("a service ended: %v", err)
		}
	})
	w.Cleanup(stop)
	return stop
}

// work runs what a worker node runs: the breakers, the worker and the dispatcher, whose runs
// execute takes (nil: the real targets).
func (w *weather) work(execute func(queue.RunClaim) queue.Outcome) (stop func()) {
	d := w.dispatcher()
	if execute != nil {
		d.Execute = func(_ context.Context, c queue.RunClaim, _ func(string, queue.SessionState)) queue.Outcome {
			return execute(c)
		}
	}
	stops := []func(){w.service(w.hub.run), w.service(w.worker().Run), w.service(d.Run)}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// now is the time since the world began.
func (w *weather) now() time.Duration { return time.Since(w.sky.began) }

// pass lets time pass, and then everybody come to rest.
func (w *weather) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// until lets time pass until the world is so old.
func (w *weather) until(at time.Duration) { w.pass(at - w.now()) }

// passUntil lets time pass in steps until ok, and says how old the world is then.
func (w *weather) passUntil(limit, step time.Duration, what string, ok func() bool) time.Duration {
	w.Helper()
	for end := w.now() + limit; ; w.pass(step) {
		if ok() {
			return w.now()
		}
		if w.now() > end {
			w.Fatalf("%s did not come to pass within %s", what, limit)
		}
	}
}

// event makes a delivery of an app about an issue or pull request.
func (w *weather) event(app int, event string, number int64, sender string) (queue.Delivery, []byte) {
	w.made++
	owner, subject := []string{"acme", "beta"}[app-1], "issue"
	if event == "pull_request" {
		subject = "pull_request"
	}
	body := fmt.Sprintf(`{"action":"opened",%q:{"number":%d},"repository":{"id":%d,"full_name":"%s/widgets"},"installation":{"id":%d},"sender":{"login":%q,"type":"User"}}`,
		subject, number, 9000+app, owner, 40+app, sender)
	return queue.Delivery{
		ID: fmt.Sprintf("guid-%05d", w.made), Source: fmt.Sprintf("app-%d", app), SourceName: []string{"one", "two"}[app-1], Event: event,
		Facts: queue.Facts{
			Action: "opened", Repo: owner + "/widgets", RepoID: int64(9000 + app), Subject: fmt.Sprintf("%s/widgets#%d", owner, number), SubjectNum: number,
			Sender: sender, Org: owner, Installation: int64(40 + app),
		},
	}, []byte(body)
}

func (w *weather) enqueue(d queue.Delivery, body []byte) string {
	w.Helper()
	if r, err := w.store.Enqueue(w.Context(), d, body); err != nil || r != queue.Accepted {
		w.Fatalf("enqueueing: %v, %v", r, err)
	}
	return d.ID
}

// claim is a delivery as a worker is given it, without a store.
func (w *weather) claim(d queue.Delivery, body []byte) *queue.DeliveryClaim {
	d.ReceivedAt, d.Attempts = time.Now(), 1
	return &queue.DeliveryClaim{Delivery: d, Payload: body}
}

func (w *weather) counts() map[queue.DeliveryState]int {
	w.Helper()
	c, err := w.store.Counts(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return c.Deliveries
}

func (w *weather) delivery(id string) *queue.DeliveryDetail {
	w.Helper()
	d, err := w.store.Delivery(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	return d
}

// deliveries lists all, oldest first.
func (w *weather) deliveries() (all []queue.Delivery) {
	w.Helper()
	for cursor := ""; ; {
		list, next, err := w.store.ListDeliveries(w.Context(), queue.DeliveryFilter{Limit: 500, Cursor: cursor})
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, list...)
		if cursor = next; cursor == "" {
			slices.Reverse(all)
			return all
		}
	}
}

// run is the only run of a delivery.
func (w *weather) run(id string) *queue.RunDetail {
	w.Helper()
	list, _, err := w.store.ListRuns(w.Context(), queue.RunFilter{DeliveryID: id})
	if err != nil || len(list) != 1 {
		w.Fatalf("runs of %s: %v, %v; the delivery: %+v", id, list, err, w.delivery(id))
	}
	r, err := w.store.Run(w.Context(), list[0].ID)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// status is the document as this node answers it.
func (w *weather) status() *api.Status {
	w.Helper()
	s, err := local(w.store, w.id, func() *config.Config { return w.current().cfg }).Status(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func conditionNames(list []api.Condition) (names []string) {
	for _, c := range list {
		names = append(names, c.Type)
	}
	return names
}
