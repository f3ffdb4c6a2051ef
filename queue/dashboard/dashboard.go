// Package dashboard is the operator's web pages: plain HTML from embedded templates, live through
// server-sent events, complete without JavaScript. It reads and acts through api.Operations.
//
// Every page is one function from a request to a view. Asked for text/event-stream, the same
// address answers with the page's content again whenever it has changed.
package dashboard

import (
	"context"
	"embed"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"path"
	"sync"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/api"
)

//go:embed assets
var assets embed.FS

// Config says what a dashboard is made of.
type Config struct {
	Operations api.Operations
	Token      string   // the system token, with which people log in
	Sampler    *Sampler // nil: no plots
	Log        *slog.Logger
}

// Dashboard serves the pages. It is safe for concurrent use.
type Dashboard struct {
	ops      api.Operations
	sampler  *Sampler
	log      *slog.Logger
	handler  http.Handler
	origin   *http.CrossOriginProtection
	gate     *gate
	sessions *sessions

	streams chan struct{} // a place for each open stream
	closed  chan struct{}
	closing sync.Once
}

// New makes a dashboard. Mount it at "/" of the operator's listener.
func New(c Config) *Dashboard {
	d := &Dashboard{
		ops: c.Operations, sampler: c.Sampler, log: c.Log, origin: http.NewCrossOriginProtection(),
		gate: newGate(c.Token), sessions: newSessions(),
		streams: make(chan struct{}, maxStreams), closed: make(chan struct{}),
	}
	d.handler = d.routes()
	return d
}

// Close ends the open event streams, so that a server can shut down. Pages are still served.
func (d *Dashboard) Close() { d.closing.Do(func() { close(d.closed) }) }

func (d *Dashboard) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /assets/{name}", d.asset)
	mux.HandleFunc("GET /login", d.loginForm)
	mux.HandleFunc("POST /login", d.login)
	mux.HandleFunc("POST /logout", d.logout)

	page := func(pattern string, make pageFunc) { mux.Handle(pattern, d.loggedIn(d.page(make))) }
	page("GET /{$}", d.overview)
	page("GET /deliveries", d.deliveries)
	page("GET /deliveries/{ref}", d.delivery)
	page("GET /deliveries/{ref}/payload", d.payload)
	page("GET /runs", d.runs)
	page("GET /runs/{id}", d.run)
	page("GET /triggers", d.triggers)
	page("GET /repairs", d.repairs)
	mux.Handle("GET /deliveries/{ref}/payload/raw", d.loggedIn(d.rawPayload))

	action := func(pattern string, act actionFunc) { mux.Handle(pattern, d.loggedIn(d.action(act))) }
	action("POST /deliveries/{ref}/replay", d.replay)
	action("POST /runs/{id}/{action}", d.actOnRun)
	action("POST /triggers/{name}/{action}", d.setTrigger)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { d.problem(w, r, errNoPage) })
	return mux
}

var errNoPage = errors.New("there is no such page")

// policy lets a page load its own two files and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// maxForm is more than any form of ours needs.
const maxForm = 64 << 10

func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	// Not no-referrer: with that a browser sends "Origin: null" with our own forms, and over plain
	// HTTP the origin is all there is to tell them from a stranger's.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		if d.origin.Check(r) != nil || r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" {
			d.problem(w, r, errForeign)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	}
	d.handler.ServeHTTP(w, r)
}

var errForeign = errors.New("this request did not come from a page of this dashboard; behind a proxy, check that it passes the Host header on")

func (d *Dashboard) asset(w http.ResponseWriter, r *http.Request) {
	name := "assets/" + r.PathValue("name")
	b, err := assets.ReadFile(name)
	if err != nil {
		d.problem(w, r, errNoPage)
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	_, _ = w.Write(b) // the browser has gone; there is nobody to tell
}

// problem answers with a page that says what is wrong.
func (d *Dashboard) problem(w http.ResponseWriter, r *http.Request, err error) {
	status, message := http.StatusInternalServerError, err.Error()
	switch {
	case errors.Is(err, queue.ErrNotFound), errors.Is(err, errNoPage):
		status = http.StatusNotFound
	case errors.Is(err, errForeign):
		status = http.StatusForbidden
	case errors.Is(err, queue.ErrConflict), errors.Is(err, queue.ErrAmbiguous):
		status = http.StatusConflict
	case errors.Is(err, queue.ErrInvalid):
		status = http.StatusBadRequest
	case errors.Is(r.Context().Err(), context.Canceled):
		return // nobody reads it
	default:
		d.log.Error("a page of the dashboard was not made", "method", r.Method, "path", r.URL.Path, "error", err)
		message = "the store did not answer; the log says why"
	}
	d.render(w, status, layout{Title: http.StatusText(status), LoggedIn: d.session(r) != "", view: view{name: "problem", data: message}})
}
