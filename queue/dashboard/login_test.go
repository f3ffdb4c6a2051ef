package dashboard_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-de999ace/preloop/queue/dashboard"
)

func TestLogin(t *testing.T) {
	w := newWorld(t)
	res, body := w.get("/login")
	if res.StatusCode != http.StatusOK || res.Header.Get("Set-Cookie") != "" {
		t.Fatalf("the form: %s, cookie %q", res.Status, res.Header.Get("Set-Cookie"))
	}
	w.contains(body, `type="password"`, `name="token"`, `method="post"`)

	for name, token := range map[string]string{"wrong": "wrong", "empty": "", "a prefix": systemToken[:10]} {
		res, body = w.post("/login", url.Values{"token": {token}})
		if res.StatusCode != http.StatusForbidden || len(res.Cookies()) != 0 {
			t.Errorf("%s token: %s, cookies %v", name, res.Status, res.Cookies())
		}
		w.contains(body, "That is not the system token.")
	}
	res, _ = w.post("/login", url.Values{"token": {" " + systemToken + "\n"}, "next": {"/runs?state=failed"}})
	if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/runs?state=failed" {
		t.Fatalf("the right token: %s to %q", res.Status, res.Header.Get("Location"))
	}
	c := res.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.Path != "/" || c.MaxAge != 12*60*60 {
		t.Errorf("the cookie over HTTP is %v", c)
	}
	if len(c.Value) < 26 || strings.Contains(c.Value, systemToken) {
		t.Errorf("the cookie's value is %q", c.Value)
	}
	w.cookie = c.Value
	if res, _ = w.get("/login"); res.StatusCode != http.StatusSeeOther {
		t.Errorf("the form for one who is logged in: %s", res.Status)
	}
	w.contains(w.page("/"), "Log out")

	res, _ = w.post("/logout", nil)
	if gone := res.Cookies()[0]; gone.MaxAge >= 0 || gone.Value != "" {
		t.Errorf("after logging out the cookie is %v", gone)
	}
	if res, _ = w.get("/"); res.Header.Get("Location") != "/login" {
		t.Errorf("the old session still opens the overview: %s", res.Status)
	}
}

func TestCookieIsSecureOverHTTPS(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"proxy":  func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "https") },
		"direct": func(r *http.Request) { r.TLS = httptest.NewRequest(http.MethodGet, "https://x/", nil).TLS },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			same := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }
			res, _ := w.post("/login", url.Values{"token": {systemToken}}, change, same)
			if c := res.Cookies(); len(c) != 1 || !c[0].Secure {
				t.Errorf("cookies %v, want a secure one", c)
			}
		})
	}
}

func TestWrongTokensAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 10 {
			if res, _ := w.post("/login", url.Values{"token": {"wrong"}}); res.StatusCode != http.StatusForbidden {
				t.Fatalf("failure %d: %s", i, res.Status)
			}
		}
		for _, token := range []string{"wrong", systemToken} { // no guess is answered
			res, body := w.post("/login", url.Values{"token": {token}})
			if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" || len(res.Cookies()) != 0 {
				t.Errorf("after ten failures: %s", res.Status)
			}
			w.contains(body, "Too many wrong tokens")
		}
		time.Sleep(4 * time.Second)
		w.login()
		w.login() // one that succeeds uses nothing up
		if strings.Contains(w.logs.String(), systemToken) {
			t.Error("the token is in the log")
		}
	})
}

func TestSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.login()
		time.Sleep(12*time.Hour - time.Second)
		w.page("/triggers")
		time.Sleep(time.Second)
		if res, _ := w.get("/triggers"); res.Header.Get("Location") != "/login?next=%2Ftriggers" {
			t.Errorf("after 12 hours: %s to %q", res.Status, res.Header.Get("Location"))
		}
		w.cookie = ""
		w.login()
		first := w.cookie
		for range 256 {
			time.Sleep(time.Second)
			w.cookie = ""
			w.login()
		}
		w.page("/triggers")
		w.cookie = first
		if res, _ := w.get("/triggers"); res.StatusCode != http.StatusSeeOther {
			t.Errorf("the oldest of 257 sessions: %s", res.Status)
		}
	})
}

func TestNothingWithoutASession(t *testing.T) {
	w := newWorld(t)
	d := w.enqueue()
	run := w.decide("triage")
	for _, cookie := range []string{"", "guess"} {
		w.cookie = cookie
		for _, path := range []string{"/", "/deliveries", "/deliveries/" + d.ID, "/deliveries/" + d.ID + "/payload", "/deliveries/" + d.ID + "/payload/raw", "/runs", "/runs/" + run.ID, "/triggers", "/repairs"} {
			res, body := w.get(path)
			if res.StatusCode != http.StatusSeeOther || !strings.HasPrefix(res.Header.Get("Location"), "/login") || strings.Contains(body, "acme") {
				t.Errorf("GET %s with cookie %q: %s\n%s", path, cookie, res.Status, body)
			}
		}
		if res, _ := w.post("/runs/"+run.ID+"/cancel", nil); res.Header.Get("Location") != "/login" {
			t.Errorf("canceling without a session: %s", res.Status)
		}
		if got := w.runState(run.ID); got != "waiting" {
			t.Errorf("the run is %s", got)
		}
	}
}

func TestLoginLeadsNowhereElse(t *testing.T) {
	w := newWorld(t)
	for _, next := range []string{"https://evil.example/", "//evil.example/", `/\evil.example`, "javascript:alert(1)", "runs", "/\tevil", ""} {
		res, _ := w.post("/login", url.Values{"token": {systemToken}, "next": {next}})
		if got := res.Header.Get("Location"); got != "/" {
			t.Errorf("next %q leads to %q", next, got)
		}
	}
}

func TestNoTokenAdmitsNobody(t *testing.T) {
	w := newWorld(t)
	w.pages = dashboard.New(dashboard.Config{Operations: w.local, Log: discard})
	if res, _ := w.post("/login", url.Values{"token": {""}}); res.StatusCode != http.StatusForbidden {
		t.Errorf("the empty token: %s", res.Status)
	}
}

func TestForeignFormsAreRefused(t *testing.T) {
	w := newWorld(t)
	w.login()
	w.enqueue()
	run := w.decide("triage")
	for name, change := range map[string]func(*http.Request){
		"foreign origin":       func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		"null origin":          func(r *http.Request) { r.Header.Set("Origin", "null") },
		"no origin":            func(r *http.Request) { r.Header.Del("Origin") },
		"cross-site by header": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"same-site by header":  func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
	} {
		for _, path := range []string{"/runs/" + run.ID + "/cancel", "/login", "/logout"} {
			res, body := w.post(path, url.Values{"token": {systemToken}}, change)
			if res.StatusCode != http.StatusForbidden || len(res.Cookies()) != 0 {
				t.Errorf("%s: POST %s: %s\n%s", name, path, res.Status, body)
			}
		}
	}
	if got := w.runState(run.ID); got != "waiting" {
		t.Errorf("the run is %s", got)
	}
}
