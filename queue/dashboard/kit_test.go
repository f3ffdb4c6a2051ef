package dashboard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/api"
	"github.com/seed-de999ace/preloop/queue/dashboard"
	"github.com/seed-de999ace/preloop/queue/sqlite"
)

const systemToken = "correct-horse-battery-staple-7"

// world is a dashboard on a real store, and a browser's memory of its cookies.
type world struct {
	*testing.T
	store   queue.Store
	local   *api.Local
	pages   *dashboard.Dashboard
	sampler *dashboard.Sampler
	logs    *syncBuffer
	cookie  string
	made    int
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newLog(to io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "preloop.db"), sqlite.Options{Settings: queue.DefaultSettings(), Serve: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{T: t, store: store, logs: &syncBuffer{}}
	log := newLog(w.logs)
	w.local = &api.Local{Store: store, Version: "test", Node: "node-1"}
	w.sampler = dashboard.NewSampler(w.local.Store, log)
	w.pages = dashboard.New(dashboard.Config{Operations: w.local, Token: systemToken, Sampler: w.sampler, Log: log})
	t.Cleanup(w.pages.Close)
	return w
}

// --- Requests ---

func (w *world) serve(r *http.Request) *http.Response {
	w.Helper()
	if w.cookie != "" {
		r.AddCookie(&http.Cookie{Name: "preloop_session", Value: w.cookie})
	}
	rec := httptest.NewRecorder()
	w.pages.ServeHTTP(rec, r)
	return rec.Result()
}

func (w *world) get(path string) (*http.Response, string) {
	w.Helper()
	res := w.serve(httptest.NewRequestWithContext(w.Context(), http.MethodGet, path, nil))
	return res, read(w.T, res)
}

// post sends a form as the dashboard's own page does; with changes it.
func (w *world) post(path string, form url.Values, with ...func(*http.Request)) (*http.Response, string) {
	w.Helper()
	r := httptest.NewRequestWithContext(w.Context(), http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "http://"+r.Host)
	for _, f := range with {
		f(r)
	}
	res := w.serve(r)
	return res, read(w.T, res)
}

func read(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (w *world) login() {
	w.Helper()
	res, body := w.post("/login", url.Values{"token": {systemToken}})
	if res.StatusCode != http.StatusSeeOther || len(res.Cookies()) != 1 {
		w.Fatalf("logging in: %s %s", res.Status, body)
	}
	w.cookie = res.Cookies()[0].Value
}

// page is the body of a page that must be there.
func (w *world) page(path string) string {
	w.Helper()
	res, body := w.get(path)
	if res.StatusCode != http.StatusOK {
		w.Fatalf("GET %s: %s\n%s", path, res.Status, body)
	}
	return body
}

func (w *world) contains(body string, parts ...string) {
	w.Helper()
	for _, p := range parts {
		if !strings.Contains(body, p) {
			w.Errorf("the page lacks %q:\n%s", p, body)
		}
	}
}

// --- The store ---

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) enqueue(change ...func(*queue.Delivery)) queue.Delivery {
	w.Helper()
	w.made++
	d := queue.Delivery{
		ID: fmt.Sprintf("guid-%04d", w.made), Source: "app-1", SourceName: "acme-bot", Event: "issues",
		Facts: queue.Facts{Action: "opened", Repo: "acme/widgets", RepoID: 7, Subject: "acme/widgets#7", SubjectNum: 7, Sender: "octocat"}, Secret: "current",
	}
	for _, c := range change {
		c(&d)
	}
	payload := []byte(`{"guid":"` + d.ID + `"}`)
	d.Size = len(payload)
	_, err := w.store.Enqueue(w.Context(), d, payload)
	w.must(err)
	return d
}

func (w *world) claim() queue.DeliveryClaim {
	w.Helper()
	claims, err := w.store.ClaimDeliveries(w.Context(), "node-1", 1)
	w.must(err)
	if len(claims) != 1 {
		w.Fatalf("claimed %d deliveries, want 1", len(claims))
	}
	return claims[0]
}

// decide makes the oldest delivery done with a waiting run of a trigger.
func (w *world) decide(trigger string) queue.Run {
	w.Helper()
	settled, err := w.store.SettleDelivery(w.Context(), w.claim().Lease, queue.Settlement{
		Kind: queue.SettleDone, Decisions: []queue.Decision{{Trigger: trigger, Verdict: queue.Matched, Reason: "on: issues.opened"}},
		Admissions: []queue.Admission{{Trigger: trigger, QueueSize: 100, QueueWait: time.Hour, UncertainAfter: time.Hour}},
	})
	w.must(err)
	return settled.Runs[0]
}

// end starts the trigger's next run and settles it.
func (w *world) end(trigger string, o queue.Outcome) *queue.Run {
	w.Helper()
	claims, _, err := w.store.ClaimRuns(w.Context(), "node-1", []queue.DispatchRule{{Trigger: trigger, Concurrency: 10}}, 1)
	w.must(err)
	if len(claims) != 1 {
		w.Fatalf("claimed %d runs, want 1", len(claims))
	}
	r, err := w.store.SettleRun(w.Context(), claims[0].Lease, o)
	w.must(err)
	return r
}

func (w *world) runState(id string) queue.RunState {
	w.Helper()
	r, err := w.store.Run(w.Context(), id)
	w.must(err)
	return r.State
}

func (w *world) publish(kind, key string, v any) {
	w.Helper()
	body, err := json.Marshal(v)
	w.must(err)
	_, err = w.store.SwapDoc(w.Context(), kind, key, 0, body)
	w.must(err)
}

// publishTriggers adds to the triggers that the store knows.
func (w *world) publishTriggers(names ...string) {
	w.Helper()
	docs, err := w.store.LoadDocs(w.Context(), api.DocTriggers)
	w.must(err)
	var p api.PublishedTriggers
	old := docs["current"]
	if old.Version > 0 {
		w.must(json.Unmarshal(old.Body, &p))
	}
	p.LoadedAt = time.Now()
	for _, n := range names {
		p.Triggers = append(p.Triggers, api.TriggerInfo{Name: n, Enabled: true, Concurrency: 2, QueueSize: 100, QueueWaitSeconds: 3600})
	}
	body, err := json.Marshal(p)
	w.must(err)
	_, err = w.store.SwapDoc(w.Context(), api.DocTriggers, "current", old.Version, body)
	w.must(err)
}

// lost is a store that does not answer.
type lost struct{ api.Operations }

func (lost) Status(context.Context) (*api.Status, error) {
	return nil, fmt.Errorf("reading: connection refused at db.internal")
}

var discard = slog.New(slog.DiscardHandler)
