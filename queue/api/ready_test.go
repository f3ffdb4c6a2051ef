package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A node's heartbeat every 3 s and its worker's claims every 5 s, as they come and cease.
func TestReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claimed := time.Now()
		r := &Readiness{StoreLost: 9 * time.Second, Stalled: 3 * time.Minute, LastClaim: func() time.Time { return claimed }}
		expect := func(when, reason string) {
			t.Helper()
			a := httptest.NewRecorder()
			r.ServeHTTP(a, httptest.NewRequestWithContext(t.Context(), "GET", "/readyz", nil))
			status, body := http.StatusOK, `{"ready":true,"reason":null}`
			if reason != "" {
				status, body = http.StatusServiceUnavailable, `{"ready":false,"reason":"`+reason+`"}`
			}
			if a.Code != status || strings.TrimSpace(a.Body.String()) != body || a.Header().Get("Cache-Control") != "no-store" || r.Reason(time.Now()) != reason {
				t.Errorf("%s: %d %s, want %d %s", when, a.Code, a.Body, status, body)
			}
		}
		expect("before the first heartbeat", "store_unavailable")
		r.SawStore(time.Now())
		expect("after it", "")
		time.Sleep(9 * time.Second)
		expect("while two are missing", "")
		time.Sleep(time.Second)
		expect("10 s after the last one", "store_unavailable")
		r.SawStore(time.Now())
		expect("when the store is back", "")
		r.LostStore()
		expect("as soon as a heartbeat failed", "store_unavailable")

		for range 60 { // three leases
			time.Sleep(3 * time.Second)
			r.SawStore(time.Now())
		}
		expect("three leases and 10 s after the last claim", "worker_stalled")
		claimed = time.Now().Add(-3 * time.Minute)
		expect("at three leases", "")
		time.Sleep(time.Nanosecond)
		expect("after three leases", "worker_stalled")
		r.LostStore()
		expect("with neither", "store_unavailable")
		r.SawStore(time.Now())
		claimed = time.Now()
		expect("when both are back", "")
		r.Ingested(false, time.Now())
		expect("when the store did not take one delivery", "")
		r.Ingested(true, time.Now())
		r.Ingested(false, time.Now())
		expect("nor another one later", "")
		r.Ingested(false, time.Now())
		r.SawStore(time.Now())
		expect("nor two in a row, whatever else it writes", "store_unavailable")
		r.Ingested(true, time.Now())
		expect("when it takes one", "")
		r.Ingested(false, time.Now())
		r.Ingested(false, time.Now())
		time.Sleep(8 * time.Second)
		r.SawStore(time.Now())
		expect("8 s after the last of two", "store_unavailable")
		time.Sleep(time.Second)
		expect("when nobody has sent one for 9 s", "")
		r.Drain()
		expect("while shutting down", "shutting_down")
		r.LostStore()
		r.SawStore(time.Now())
		expect("for good", "shutting_down")

		ingress := &Readiness{StoreLost: 9 * time.Second, Stalled: time.Minute}
		ingress.SawStore(time.Now())
		time.Sleep(5 * time.Second)
		if got := ingress.Reason(time.Now()); got != "" {
			t.Errorf("a node without a worker is %q", got)
		}
	})
}

func TestLiveness(t *testing.T) {
	w := newWorld(t)
	if a := w.askAs("", "GET", "/healthz", ""); a.Code != http.StatusOK || strings.TrimSpace(a.Body.String()) != `{"status":"ok"}` {
		t.Errorf("%d %s", a.Code, a.Body)
	}
}
