// Package api is the operator's HTTP API, with the client that speaks it, the status document and
// its conditions, readiness and metrics.
package api

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/seed-de999ace/preloop/queue"
)

// Handler serves the operator's endpoints.
type Handler struct {
	Operations Operations
	Token      string // the system token
	Ready      *Readiness
	Metrics    http.Handler
	Log        *slog.Logger
	// FinishToken derives the token with which a target may finish this one run. Nil: only the
	// system token finishes runs.
	FinishToken func(runID string) string
}

// Register adds the endpoints that need the system token.
func (h *Handler) Register(mux *http.ServeMux) {
	methods := map[string][]string{} // by path
	handle := func(pattern string, serve http.Handler) {
		method, path, _ := strings.Cut(pattern, " ")
		methods[path] = append(methods[path], method)
		mux.Handle(pattern, serve)
	}
	route := func(pattern string, serve func(r *http.Request) (any, error)) {
		handle(pattern, h.authorized(func(w http.ResponseWriter, r *http.Request) { h.answer(w, r, serve) }))
	}
	ops := h.Operations
	route("GET /api/v1/status", func(r *http.Request) (any, error) { return ops.Status(r.Context()) })
	route("GET /api/v1/webhooks/health", func(r *http.Request) (any, error) {
		s, err := ops.Status(r.Context())
		if err != nil {
			return nil, err
		}
		return Health{Status: s.Status, Queue: s.Queue, Watchdog: s.Watchdog, GitHubBreaker: s.GitHubBreaker, Breakers: s.Breakers, Apps: s.Apps, Conditions: s.Conditions}, nil
	})
	route("GET /api/v1/webhooks/deliveries", func(r *http.Request) (any, error) {
		f, err := parseDeliveryQuery(r.URL.Query())
		if err != nil {
			return nil, err
		}
		return ops.Deliveries(r.Context(), f)
	})
	route("GET /api/v1/webhooks/deliveries/{id}", func(r *http.Request) (any, error) { return ops.Delivery(r.Context(), r.PathValue("id")) })
	handle("GET /api/v1/webhooks/deliveries/{id}/payload", h.authorized(h.payload))
	route("POST /api/v1/webhooks/deliveries/{id}/replay", func(r *http.Request) (any, error) {
		var body ReplayRequest
		if err := readBody(r, &body); err != nil {
			return nil, err
		}
		return ops.Replay(r.Context(), r.PathValue("id"), body)
	})
	route("GET /api/v1/webhooks/repairs", func(r *http.Request) (any, error) {
		return ops.Repairs(r.Context(), queue.RepairFilter{Source: r.URL.Query().Get("source"), State: r.URL.Query().Get("state")})
	})
	route("GET /api/v1/runs", func(r *http.Request) (any, error) {
		f, err := parseRunQuery(r.URL.Query())
		if err != nil {
			return nil, err
		}
		return ops.Runs(r.Context(), f)
	})
	route("GET /api/v1/runs/{id}", func(r *http.Request) (any, error) { return ops.Run(r.Context(), r.PathValue("id")) })
	for _, action := range []string{"cancel", "retry", "resolve"} {
		route("POST /api/v1/runs/{id}/"+action, func(r *http.Request) (any, error) { return h.act(r, action) })
	}
	handle("POST /api/v1/runs/{id}/finish", http.HandlerFunc(h.finish))
	route("GET /api/v1/triggers", func(r *http.Request) (any, error) { return ops.Triggers(r.Context()) })
	for _, action := range []string{"pause", "resume"} {
		route("POST /api/v1/triggers/{name}/"+action, func(r *http.Request) (any, error) {
			return ops.SetTrigger(r.Context(), r.PathValue("name"), action)
		})
	}
	if h.Metrics != nil {
		handle("GET /metrics", h.authorized(h.Metrics.ServeHTTP))
	}
	for path, known := range methods {
		allow := strings.Join(known, ", ")
		mux.Handle(path, h.authorized(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Allow", allow)
			writeJSON(w, http.StatusMethodNotAllowed, problem{"this endpoint takes " + allow})
		}))
	}
	mux.Handle("/api/", h.authorized(func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusNotFound, problem{fmt.Sprintf("there is no endpoint %s", r.URL.Path)})
	}))
}

// RegisterProbes adds readiness and liveness, which need no token.
func (h *Handler) RegisterProbes(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.Handle("GET /readyz", h.Ready)
}

func (h *Handler) act(r *http.Request, action string) (any, error) {
	var body EndRequest
	if err := readBody(r, &body); err != nil {
		return nil, err
	}
	return h.Operations.Act(r.Context(), r.PathValue("id"), action, body)
}

// finish takes the system token or the run's own.
func (h *Handler) finish(w http.ResponseWriter, r *http.Request) {
	token := bearer(r)
	if !equal(token, h.Token) && (h.FinishToken == nil || !equal(token, h.FinishToken(r.PathValue("id")))) {
		unauthorized(w)
		return
	}
	h.answer(w, r, func(r *http.Request) (any, error) { return h.act(r, "finish") })
}

func (h *Handler) payload(w http.ResponseWriter, r *http.Request) {
	b, err := h.Operations.Payload(r.Context(), r.PathValue("id"))
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(b) // the client has gone; there is nobody to tell
}

func (h *Handler) answer(w http.ResponseWriter, r *http.Request, serve func(*http.Request) (any, error)) {
	v, err := serve(r)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, v)
}

func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status := statusOf(err)
	message := err.Error()
	if status == http.StatusInternalServerError {
		if errors.Is(r.Context().Err(), context.Canceled) {
			return
		}
		h.Log.Error("an operator's request was not answered", "method", r.Method, "path", r.URL.Path, "error", err)
		message = internalMessage(err)
	}
	writeJSON(w, status, problem{message})
}

func (h *Handler) authorized(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !equal(bearer(r), h.Token) {
			unauthorized(w)
			return
		}
		next(w, r)
	})
}

func unauthorized(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	writeJSON(w, http.StatusUnauthorized, problem{"the system token is missing or wrong; send Authorization: Bearer $PRELOOP_SYSTEM_TOKEN"})
}

func bearer(r *http.Request) string {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// equal compares in constant time, whatever the lengths. Nothing equals the empty token.
func equal(got, want string) bool {
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return hmac.Equal(a[:], b[:]) && want != ""
}

// readBody reads an optional JSON object.
func readBody(r *http.Request, v any) error {
	b, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("%w: reading the body: %v", queue.ErrInvalid, err)
	}
	if len(strings.TrimSpace(string(b))) == 0 {
		return nil
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: the body must be a JSON object: %v", queue.ErrInvalid, err)
	}
	return nil
}

// RunToken derives a run's finish token from a secret of this store's nodes.
func RunToken(secret []byte) func(runID string) string {
	return func(runID string) string {
		m := hmac.New(sha256.New, secret)
		m.Write([]byte("finish:" + runID))
		return fmt.Sprintf("%x", m.Sum(nil))
	}
}
