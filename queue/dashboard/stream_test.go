package dashboard_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/dashboard"
)

// line is a browser's end of an event stream.
type line struct {
	http.ResponseWriter
	deadlines int // the handler's until it has returned
	mu        sync.Mutex
	broken    bool // guarded by mu
}

func (l *line) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		return 0, errors.New("the line is broken")
	}
	return l.ResponseWriter.Write(p)
}

func (l *line) SetWriteDeadline(t time.Time) error {
	if time.Until(t) > 0 {
		l.deadlines++
	}
	return nil
}

func (l *line) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// listening opens a stream in a goroutine; ended is closed when the handler has returned.
func (w *world) listening(ctx context.Context, path string) (l *line, rec *httptest.ResponseRecorder, ended chan struct{}) {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	r.Header.Set("Accept", "text/event-stream")
	r.AddCookie(&http.Cookie{Name: "preloop_session", Value: w.cookie})
	rec = httptest.NewRecorder()
	l = &line{ResponseWriter: rec}
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		w.pages.ServeHTTP(l, r)
	}()
	return l, rec, ended
}

func (w *world) over(ended chan struct{}) bool {
	synctest.Wait()
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

var event = regexp.MustCompile(`(?m)^event: page\ndata: (.*)\n\n`)

func (w *world) events(s string) (out []string) {
	w.Helper()
	for _, m := range event.FindAllStringSubmatch(s, -1) {
		var html string
		w.must(json.Unmarshal([]byte(m[1]), &html))
		out = append(out, html)
	}
	return out
}

func TestStreamSendsWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.login()
		l, rec, ended := w.listening(t.Context(), "/deliveries")
		time.Sleep(time.Second)
		w.enqueue()
		time.Sleep(8 * time.Second)
		if w.over(ended) {
			t.Fatal("the stream ended")
		}
		w.pages.Close()
		if !w.over(ended) {
			t.Fatal("the stream goes on after Close")
		}
		w.pages.Close() // again, for a second listener
		got := w.events(rec.Body.String())
		if len(got) != 2 || !strings.Contains(got[0], "No delivery fits") || !strings.Contains(got[1], "guid-0001") || strings.Contains(got[1], "<html") {
			t.Errorf("the events are %q", got)
		}
		if n := strings.Count(rec.Body.String(), ":\n\n"); n != 3 || l.deadlines != 5 {
			t.Errorf("%d signs of life between %d writes with deadlines:\n%s", n, l.deadlines, rec.Body)
		}
		if ct := rec.Header().Get("Content-Type"); ct != "text/event-stream" || rec.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("headers %v", rec.Header())
		}
		w.page("/deliveries") // pages are still served
	})
}

func TestStreamEnds(t *testing.T) {
	for name, end := range map[string]func(w *world, l *line, leave context.CancelFunc){
		"the browser leaves":   func(_ *world, _ *line, leave context.CancelFunc) { leave() },
		"the line breaks":      func(_ *world, l *line, _ context.CancelFunc) { l.mu.Lock(); l.broken = true; l.mu.Unlock() },
		"the reader logs out":  func(w *world, _ *line, _ context.CancelFunc) { w.post("/logout", nil) },
		"it has lasted enough": func(*world, *line, context.CancelFunc) { time.Sleep(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.login()
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				l, _, ended := w.listening(ctx, "/triggers")
				time.Sleep(5 * time.Second)
				if w.over(ended) {
					t.Fatal("it ended by itself")
				}
				end(w, l, leave)
				time.Sleep(2 * time.Second)
				if !w.over(ended) {
					t.Error("it goes on")
				}
			})
		})
	}
}

func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.login()
		for range 64 {
			w.listening(t.Context(), "/triggers")
		}
		synctest.Wait()
		_, rec, ended := w.listening(t.Context(), "/triggers")
		if !w.over(ended) || rec.Code != http.StatusServiceUnavailable {
			t.Errorf("the 65th stream: %d", rec.Code)
		}
		w.pages.Close()
		synctest.Wait()
	})
}

func TestStreamWithoutSessionOrStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, rec, ended := w.listening(t.Context(), "/")
		if !w.over(ended) || rec.Code != http.StatusSeeOther {
			t.Errorf("without a session: %d", rec.Code)
		}
		w.pages = withOperations(w, lost{w.local})
		w.login()
		_, rec, ended = w.listening(t.Context(), "/")
		time.Sleep(3 * time.Second)
		w.pages.Close()
		if !w.over(ended) || rec.Body.String() != "event: away\ndata:\n\nevent: away\ndata:\n\n" {
			t.Errorf("without a store: %q", rec.Body)
		}
	})
}

func TestSamplerDrawsTheLastHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.login()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.sampler.Run(ctx) }()
		time.Sleep(time.Second)
		w.contains(w.page("/"), "Plots begin after a minute.")
		for range 3 {
			w.enqueue()
		}
		time.Sleep(20 * time.Second)
		w.contains(w.page("/"), "Plots begin after a minute.")
		w.decide("triage")
		time.Sleep(20 * time.Second)
		body := w.page("/")
		w.contains(body, "Deliveries pending: now 2, at most 3 in the last 40 s", "Oldest pending: now 39 s", "Settled per minute: now 3, at most 3 in the last 20 s",
			`<path class="line" d="M0.0 39.0L120.0 2.0L240.0 14.3"/>`)
		if strings.Contains(body, "NaN") || strings.Contains(body, "Inf") {
			t.Errorf("a plot is not finite:\n%s", body)
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}

// still is a store in which nothing happens.
type still struct{}

func (still) Counts(context.Context) (queue.Counts, error) { return queue.Counts{}, nil }

func TestSamplerForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sampler = dashboard.NewSampler(still{}, discard)
		w.pages = dashboard.New(dashboard.Config{Operations: w.local, Token: systemToken, Sampler: w.sampler, Log: discard})
		w.login()
		ctx, stop := context.WithCancel(t.Context())
		go w.sampler.Run(ctx) //nolint:errcheck // it has none
		time.Sleep(7 * time.Hour)
		w.contains(w.page("/"), "now 0, at most 0 in the last 5 h 59 min")
		stop()
		synctest.Wait()
	})
}

// flaky answers while up.
type flaky struct {
	dashboard.Counter
	down atomic.Bool
}

func (f *flaky) Counts(ctx context.Context) (queue.Counts, error) {
	if f.down.Load() {
		return queue.Counts{}, errors.New("connection refused")
	}
	return f.Counter.Counts(ctx)
}

func TestSamplerLeavesAGapWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		store := &flaky{Counter: w.local.Store}
		w.sampler = dashboard.NewSampler(store, discard)
		w.pages = dashboard.New(dashboard.Config{Operations: w.local, Token: systemToken, Sampler: w.sampler, Log: discard})
		w.login()
		ctx, stop := context.WithCancel(t.Context())
		go w.sampler.Run(ctx) //nolint:errcheck // it has none
		time.Sleep(41 * time.Second)
		store.down.Store(true)
		time.Sleep(2 * time.Minute)
		store.down.Store(false)
		time.Sleep(40 * time.Second)
		m := regexp.MustCompile(`class="line" d="([^"]*)"`).FindStringSubmatch(w.page("/"))
		if m == nil || strings.Count(m[1], "M") != 2 || strings.Count(m[1], "L") != 3 {
			t.Errorf("the line is %q, want two pieces of five points", m)
		}
		stop()
		synctest.Wait()
	})
}
