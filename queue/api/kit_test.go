package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-de999ace/preloop/breaker"
	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/sqlite"
)

const systemToken = "a system token of these tests"

// hush is in every payload, and never in what is not a payload.
const hush = "text-of-a-payload"

// empty is a store whose schema is up to date: making one takes longer than most tests.
var empty []byte

func TestMain(m *testing.M) {
	var err error
	if empty, err = emptyStore(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func emptyStore() ([]byte, error) {
	dir, err := os.MkdirTemp("", "preloop-api-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a test's folder
	path := filepath.Join(dir, "preloop.db")
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{Settings: queue.DefaultSettings(), Serve: true})
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// world is a store with the operator's API in front of it. Without a bubble around it time is real.
type world struct {
	*testing.T
	store   *sqlite.Store
	local   *Local
	client  *Client
	metrics *Metrics
	mux     *http.ServeMux
	log     *bytes.Buffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	path := filepath.Join(t.TempDir(), "preloop.db")
	if err := os.WriteFile(path, empty, 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(t.Context(), path, sqlite.Options{Settings: queue.DefaultSettings(), Serve: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	w := &world{T: t, store: store, mux: http.NewServeMux(), log: &bytes.Buffer{}}
	log := slog.New(slog.NewTextHandler(w.log, nil))
	w.local = &Local{Store: store, Version: "1.2.3", Node: "node-1", Breaker: breaker.Defaults()}
	w.metrics = NewMetrics(w.local, log)
	h := &Handler{Operations: w.local, Token: systemToken, Ready: &Readiness{}, Metrics: w.metrics, Log: log, FinishToken: RunToken([]byte(systemToken))}
	h.Register(w.mux)
	h.RegisterProbes(w.mux)
	w.client = &Client{URL: "http://preloop.test", Token: systemToken, HTTP: &http.Client{Transport: inProcess{w.mux}}}
	return w
}

// bubble runs a test in a world of its own whose time stands still until somebody sleeps.
func bubble(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newWorld(t)) })
}

// inProcess answers a client's requests without a network.
type inProcess struct{ http.Handler }

func (h inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if r.Body == nil {
		r.Body = http.NoBody
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec.Result(), nil
}

// answer is what a request got.
type answer struct {
	*httptest.ResponseRecorder
}

// ask sends a request with the system token.
func (w *world) ask(method, path, body string) answer {
	return w.askAs("Bearer "+systemToken, method, path, body)
}

func (w *world) askAs(authorization, method, path, body string) answer {
	w.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	r := httptest.NewRequestWithContext(w.Context(), method, path, in)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	a := answer{httptest.NewRecorder()}
	w.mux.ServeHTTP(a, r)
	return a
}

// get reads a JSON object.
func (w *world) get(path string) map[string]any {
	w.Helper()
	return w.object(w.ask("GET", path, ""))
}

func (w *world) object(a answer) map[string]any {
	w.Helper()
	if a.Code != http.StatusOK {
		w.Fatalf("%d %s", a.Code, a.Body)
	}
	var v map[string]any
	if err := json.Unmarshal(a.Body.Bytes(), &v); err != nil {
		w.Fatalf("%v: %s", err, a.Body)
	}
	return v
}

// refused checks that an answer is a JSON problem with a status, says something, and shows neither
// the token nor what was sent.
func (w *world) refused(a answer, status int, says string) {
	w.Helper()
	var p map[string]string
	if err := json.Unmarshal(a.Body.Bytes(), &p); err != nil || len(p) != 1 {
		w.Errorf("%d %s: %v", a.Code, a.Body, err)
	}
	if a.Code != status || !strings.Contains(p["error"], says) {
		w.Errorf("%d %s, want %d and %q", a.Code, a.Body, status, says)
	}
	if got := a.Header().Get("Content-Type"); got != "application/json" {
		w.Errorf("content type %q", got)
	}
	if strings.Contains(a.Body.String(), systemToken) || strings.Contains(a.Body.String(), hush) {
		w.Errorf("the answer shows a secret: %s", a.Body)
	}
}

func keysOf(v any) []string { return slices.Sorted(maps.Keys(v.(map[string]any))) }

// has checks an object's exact keys, given as one text.
func (w *world) has(what string, v any, keys ...string) {
	w.Helper()
	want := strings.Fields(strings.Join(keys, " "))
	slices.Sort(want)
	if got := keysOf(v); !slices.Equal(got, want) {
		w.Errorf("%s has the keys\n%v, want\n%v", what, got, want)
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func from(key, name string) func(*queue.Delivery) {
	return func(d *queue.Delivery) { d.Source, d.SourceName = key, name }
}

func about(number int64) func(*queue.Delivery) {
	return func(d *queue.Delivery) {
		d.Event, d.Action, d.Subject, d.SubjectNum = "issues", "opened", "acme/widgets#7", number
	}
}

func bare(d *queue.Delivery) { d.Facts, d.Event = queue.Facts{}, "ping" }

// own makes the store own a delivery; without more it is a push to acme/widgets.
func (w *world) own(id string, with ...func(*queue.Delivery)) {
	w.Helper()
	d := queue.Delivery{
		ID: id, Source: "app-1", SourceName: "acme", Event: "push", Secret: "current",
		Facts: queue.Facts{Repo: "acme/widgets", RepoID: 1, Sender: "octocat"}, Headers: map[string]string{"X-Github-Event": "push"},
	}
	for _, f := range with {
		f(&d)
	}
	payload := []byte(`{"hush":"` + hush + `"}`)
	d.Size = len(payload)
	if r, err := w.store.Enqueue(w.Context(), d, payload); err != nil || r == queue.Duplicate {
		w.Fatalf("enqueueing %s: %s, %v", id, r, err)
	}
}

// settle ends an attempt at the one delivery that is claimable.
func (w *world) settle(s queue.Settlement) queue.Settled {
	w.Helper()
	c, err := w.store.ClaimDeliveries(w.Context(), "node-1", 10)
	w.must(err)
	if len(c) != 1 {
		w.Fatalf("%d deliveries are claimable, want one", len(c))
	}
	got, err := w.store.SettleDelivery(w.Context(), c[0].Lease, s)
	w.must(err)
	return got
}

func matched(trigger string, size int) queue.Settlement {
	return queue.Settlement{
		Kind:       queue.SettleDone,
		Decisions:  []queue.Decision{{Trigger: trigger, Verdict: queue.Matched, Reason: "if: true"}},
		Admissions: []queue.Admission{{Trigger: trigger, QueueSize: size, QueueWait: 24 * time.Hour, UncertainAfter: 24 * time.Hour}},
	}
}

// admit takes a new delivery through a trigger and returns its run.
func (w *world) admit(id, trigger string, with ...func(*queue.Delivery)) queue.Run {
	w.Helper()
	w.own(id, with...)
	got := w.settle(matched(trigger, 50))
	if len(got.Runs) != 1 {
		w.Fatalf("%d runs, want one: %+v", len(got.Runs), got)
	}
	return got.Runs[0]
}

func (w *world) start(trigger string) queue.RunClaim {
	w.Helper()
	c, _, err := w.store.ClaimRuns(w.Context(), "node-1", []queue.DispatchRule{{Trigger: trigger, Concurrency: 100}}, 1)
	w.must(err)
	if len(c) != 1 {
		w.Fatalf("%d runs of %s start, want one", len(c), trigger)
	}
	return c[0]
}

// ran takes a new delivery through a trigger and its target.
func (w *world) ran(id, trigger string, o queue.Outcome, with ...func(*queue.Delivery)) string {
	w.Helper()
	r := w.admit(id, trigger, with...)
	_, err := w.store.SettleRun(w.Context(), w.start(trigger).Lease, o)
	w.must(err)
	return r.ID
}

func (w *world) publish(kind, key string, v any) {
	w.Helper()
	docs, err := w.store.LoadDocs(w.Context(), kind)
	w.must(err)
	body, err := json.Marshal(v)
	w.must(err)
	if ok, err := w.store.SwapDoc(w.Context(), kind, key, docs[key].Version, body); err != nil || !ok {
		w.Fatal(ok, err)
	}
}

func (w *world) publishTriggers(names ...string) {
	w.Helper()
	p := PublishedTriggers{LoadedAt: time.Now()}
	for _, name := range names {
		p.Triggers = append(p.Triggers, TriggerInfo{Name: name, Enabled: true, Concurrency: 1, QueueSize: 50, QueueWaitSeconds: 86400})
	}
	w.publish(DocTriggers, "current", p)
}

func (w *world) beat(id, hash string, loaded time.Time, components ...string) {
	w.Helper()
	w.must(w.store.Heartbeat(w.Context(), queue.Node{ID: id, Host: "host", PID: 1, Version: "1.2.3", Components: components, TriggersHash: hash, TriggersLoadedAt: loaded, StartedAt: loaded}))
}
