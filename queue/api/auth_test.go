package api

import (
	"net/http"
	"strings"
	"testing"
)

// endpoints are all that need the system token.
var endpoints = []string{
	"GET /api/v1/status", "GET /api/v1/webhooks/health", "GET /api/v1/webhooks/deliveries", "GET /api/v1/webhooks/deliveries/one",
	"GET /api/v1/webhooks/deliveries/one/payload", "POST /api/v1/webhooks/deliveries/one/replay", "GET /api/v1/webhooks/repairs", "GET /api/v1/runs", "GET /api/v1/runs/one",
	"POST /api/v1/runs/one/cancel", "POST /api/v1/runs/one/retry", "POST /api/v1/runs/one/resolve", "POST /api/v1/runs/one/finish",
	"GET /api/v1/triggers", "POST /api/v1/triggers/one/pause", "POST /api/v1/triggers/one/resume", "GET /metrics", "GET /api/v1/nothing", "DELETE /api/v1/status",
}

func TestAuthorization(t *testing.T) {
	w := newWorld(t)
	w.own("one")
	for _, e := range endpoints {
		method, path, _ := strings.Cut(e, " ")
		for name, header := range map[string]string{
			"none": "", "wrong": "Bearer another token of these tests", "empty": "Bearer ", "bare": systemToken, "another scheme": "Basic " + systemToken,
			"longer": "Bearer " + systemToken + "x", "shorter": "Bearer " + systemToken[:10], "a finish token for a run": "Bearer " + RunToken([]byte(systemToken))("another run"),
		} {
			a := w.askAs(header, method, path, "")
			w.refused(a, http.StatusUnauthorized, "system token")
			if a.Header().Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s with %s: WWW-Authenticate is %q", e, name, a.Header().Get("WWW-Authenticate"))
			}
		}
		for _, scheme := range []string{"Bearer ", "bearer ", "BEARER  "} {
			if a := w.askAs(scheme+systemToken, method, path, ""); a.Code == http.StatusUnauthorized {
				t.Errorf("%s with %q: %d", e, scheme, a.Code)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if a := w.askAs("", "GET", path, ""); a.Code == http.StatusUnauthorized {
			t.Errorf("%s needs a token", path)
		}
	}
	if w.log.Len() > 0 {
		t.Errorf("a refusal is nothing to log: %s", w.log)
	}
}

func TestEqual(t *testing.T) {
	for name, c := range map[string]struct {
		got, want string
		equal     bool
	}{
		"same":           {"a token", "a token", true},
		"another":        {"a tokem", "a token", false},
		"a beginning":    {"a tok", "a token", false},
		"nothing":        {"", "a token", false},
		"no token is":    {"", "", false},
		"nor is another": {"a token", "", false},
	} {
		if equal(c.got, c.want) != c.equal {
			t.Errorf("%s: equal(%q, %q) is not %v", name, c.got, c.want, c.equal)
		}
	}
}

// A server without a token refuses everybody.
func TestNoToken(t *testing.T) {
	mux := http.NewServeMux()
	(&Handler{}).Register(mux)
	w := &world{T: t, mux: mux}
	for _, header := range []string{"", "Bearer", "Bearer "} {
		w.refused(w.askAs(header, "GET", "/api/v1/status", ""), http.StatusUnauthorized, "system token")
	}
}

func TestUnknown(t *testing.T) {
	w := newWorld(t)
	for _, e := range endpoints {
		method, path, _ := strings.Cut(e, " ")
		if path == "/api/v1/nothing" || method == "DELETE" {
			continue
		}
		a := w.ask("DELETE", path, "")
		w.refused(a, http.StatusMethodNotAllowed, "takes "+method)
		if a.Header().Get("Allow") != method {
			t.Errorf("%s: Allow is %q", e, a.Header().Get("Allow"))
		}
	}
	for _, path := range []string{"/api/", "/api/v1/nothing", "/api/v2/status", "/api/v1/runs/one/explode", "/api/v1/webhooks/deliveries/a/b/payload"} {
		w.refused(w.ask("GET", path, ""), http.StatusNotFound, "no endpoint")
	}
}
