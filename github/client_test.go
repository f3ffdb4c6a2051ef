package github_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-de999ace/preloop/breaker"
	"github.com/seed-de999ace/preloop/fixtures/githubfake"
	"github.com/seed-de999ace/preloop/github"
)

var key = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

const (
	appID        = 1234
	installation = 41
	userToken    = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
)

// world is a fake GitHub with one app, its installation and a repository, and the clients of it.
type world struct {
	*githubfake.Server
	hook     *githubfake.Hook
	breakers *breaker.Set
	options  github.Options
	app      *github.Client
	token    *github.Client
	log      *strings.Builder
}

var widgets = github.Repo{FullName: "acme/widgets", Installation: installation}

func newWorld(t *testing.T, o githubfake.Options, adjust ...func(*breaker.Settings, *github.AppCredential)) *world {
	t.Helper()
	w := &world{Server: githubfake.New(o), log: &strings.Builder{}}
	w.hook = w.AddApp(githubfake.App{
		ID: appID, Key: &key().PublicKey, Events: []string{"issues"},
		Permissions: map[string]string{"metadata": "read", "pull_requests": "read", "contents": "write", "issues": "write"},
		Hook:        githubfake.HookConfig{URL: "https://hooks.example.test/github", Secret: "s"},
	})
	w.AddInstallation(githubfake.Installation{ID: installation, AppID: appID})
	w.AddRepo(githubfake.Repo{
		ID: 9001, FullName: "acme/widgets",
		Pulls:         map[int64][]githubfake.File{7: {{Name: "new.go", Previous: "old.go"}, {Name: "b.go"}}},
		Compares:      map[string][]githubfake.File{"a1...b2": {{Name: "c.go"}}, "main...feature/x": {{Name: "d.go"}}},
		Collaborators: map[string]githubfake.Collaborator{"ann": {Role: "maintain"}, "bob": {Role: "release-manager", Base: "write"}, "odd": {Role: "x", Base: "y"}},
	})
	w.AddToken(userToken)
	endpoint, err := github.ParseEndpoint(w.URL())
	if err != nil {
		t.Fatal(err)
	}
	settings := breaker.Defaults()
	credential := github.AppCredential{SourceKey: "app-1234", AppID: appID, Key: key()}
	for _, f := range adjust {
		f(&settings, &credential)
	}
	w.breakers = breaker.New(breaker.Options{Settings: settings, Host: endpoint.Host()})
	w.options = github.Options{
		Endpoint: endpoint, Breakers: w.breakers, Transport: w.Transport(),
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if w.app, err = github.NewApp(credential, w.options); err != nil {
		t.Fatal(err)
	}
	if w.token, err = github.NewToken(github.TokenCredential{SourceKey: "hook-1", Token: userToken}, w.options); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestReadingTheApp(t *testing.T) {
	w := newWorld(t, githubfake.Options{})
	app, err := w.app.App(t.Context())
	if err != nil || app.ID != appID || app.Slug != "app-1234" || app.Permissions["contents"] != "write" || !slices.Equal(app.Events, []string{"issues"}) {
		t.Errorf("got %+v, %v", app, err)
	}
	config, err := w.app.HookConfig(t.Context(), github.Hook{})
	want := github.HookConfig{URL: "https://hooks.example.test/github", ContentType: "json", HasSecret: true}
	if err != nil || config != want {
		t.Errorf("got %+v, %v", config, err)
	}
	w.EditApp(appID, func(a *githubfake.App) {
		a.Hook = githubfake.HookConfig{ContentType: "form", InsecureSSL: true}
	})
	config, err = w.app.HookConfig(t.Context(), github.Hook{})
	if want := (github.HookConfig{ContentType: "form", InsecureTLS: true}); err != nil || config != want {
		t.Errorf("got %+v, %v", config, err)
	}
	if _, err := w.app.Webhook(t.Context(), github.Hook{}); err == nil {
		t.Error("an app has no webhook object")
	}
}

func TestReadingWebhooks(t *testing.T) {
	w := newWorld(t, githubfake.Options{})
	w.AddHook(githubfake.Hook{ID: 77, Repo: "acme/widgets", Events: []string{"push"}, Config: githubfake.HookConfig{URL: "https://x.test", Secret: "s"}})
	w.AddHook(githubfake.Hook{ID: 78, Org: "acme", Inactive: true})
	for _, h := range []github.Hook{{Repo: "acme/widgets", ID: 77}, {Org: "acme", ID: 78}} {
		hook, err := w.token.Webhook(t.Context(), h)
		if err != nil || hook.ID != h.ID || hook.Active != (h.Org == "") {
			t.Errorf("%s: got %+v, %v", h, hook, err)
		}
		config, err := w.token.HookConfig(t.Context(), h)
		if err != nil || config != hook.Config {
			t.Errorf("%s: got %+v, %v", h, config, err)
		}
	}
	if _, err := w.token.Webhook(t.Context(), github.Hook{Repo: "acme/widgets", ID: 79}); !errors.Is(err, github.ErrNotFound) {
		t.Errorf("unknown webhook: %v", err)
	}
	if _, err := w.token.Webhook(t.Context(), github.Hook{Repo: "acme/widgets"}); err == nil {
		t.Error("a webhook without an id was asked for")
	}
}

func TestDeliveryHistory(t *testing.T) {
	for name, tc := range map[string]struct {
		url  string
		hook func(*world) (github.Hook, *githubfake.Hook, *github.Client)
	}{
		"app":        {"", func(w *world) (github.Hook, *githubfake.Hook, *github.Client) { return github.Hook{}, w.hook, w.app }},
		"enterprise": {"https://ghe.example.test/api/v3", func(w *world) (github.Hook, *githubfake.Hook, *github.Client) { return github.Hook{}, w.hook, w.app }},
		"repository": {"", func(w *world) (github.Hook, *githubfake.Hook, *github.Client) {
			return github.Hook{Repo: "acme/widgets", ID: 77}, w.AddHook(githubfake.Hook{ID: 77, Repo: "acme/widgets"}), w.token
		}},
		"organization": {"", func(w *world) (github.Hook, *githubfake.Hook, *github.Client) {
			return github.Hook{Org: "acme", ID: 78}, w.AddHook(githubfake.Hook{ID: 78, Org: "acme"}), w.token
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, githubfake.Options{URL: tc.url})
			hook, recorded, client := tc.hook(w)
			var want []int64
			for i := range 250 {
				at := time.Now().Add(-time.Duration(i+1) * time.Minute)
				want = append(want, w.Record(recorded, githubfake.Row{DeliveredAt: at, GUID: fmt.Sprint(i / 2), StatusCode: 200 + i%2*302, Event: "issues", Action: "opened"}))
			}
			var got []int64
			cursor, pages := "", 0
			for {
				page, err := client.Deliveries(t.Context(), hook, cursor)
				if err != nil {
					t.Fatal(err)
				}
				for _, row := range page.Rows {
					got = append(got, row.ID)
					if row.OK() != (row.StatusCode == 200) || row.DeliveredAt.IsZero() || row.Action != "opened" {
						t.Fatalf("row %+v", row)
					}
				}
				if pages++; pages == 1 {
					w.Record(recorded, githubfake.Row{}) // a new row does not shift the pages
				}
				if cursor = page.Next; cursor == "" {
					break
				}
			}
			if pages != 3 || !slices.Equal(got, want) {
				t.Errorf("%d pages, %d rows, want 3 and the 250 recorded ones in order", pages, len(got))
			}
			if got[0] <= 1<<53 {
				t.Errorf("id %d does not show what happens beyond 2^53", got[0])
			}
		})
	}
}

func TestRedelivery(t *testing.T) {
	w := newWorld(t, githubfake.Options{})
	var received []string
	w.SetDeliver(githubfake.Transport(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		received = append(received, r.Header.Get("X-GitHub-Delivery"))
	})))
	id := w.Record(w.hook, githubfake.Row{GUID: "abc", StatusCode: 502, Status: "failed to connect to host", Payload: []byte(`{}`)})
	if err := w.app.Redeliver(t.Context(), github.Hook{}, id); err != nil {
		t.Fatal(err)
	}
	w.Wait()
	page, err := w.app.Deliveries(t.Context(), github.Hook{}, "")
	if err != nil || len(page.Rows) != 2 || !page.Rows[0].Redelivery || page.Rows[0].GUID != "abc" || !page.Rows[0].OK() {
		t.Errorf("got %+v, %v", page, err)
	}
	if !slices.Equal(received, []string{"abc"}) {
		t.Errorf("received %v", received)
	}
	if err := w.app.Redeliver(t.Context(), github.Hook{}, 1); !errors.Is(err, github.ErrNotFound) {
		t.Errorf("unknown id: %v", err)
	}
}

func TestHostileLink(t *testing.T) {
	w := newWorld(t, githubfake.Options{})
	for range 120 {
		w.Record(w.hook, githubfake.Row{})
	}
	w.SetLinkOrigin("https://evil.example")
	page, err := w.app.Deliveries(t.Context(), github.Hook{}, "")
	if !errors.Is(err, github.ErrForeignLink) || page.Next != "" {
		t.Errorf("got %q, %v", page.Next, err)
	}
	if n := len(w.Requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestRedirects(t *testing.T) {
	w := newWorld(t, githubfake.Options{})
	w.RenameRepo("acme/widgets", "acme/gadgets")
	if i, err := w.app.RepoInstallation(t.Context(), "acme/widgets"); err != nil || i.ID != installation {
		t.Errorf("renamed repository: %+v, %v", i, err)
	}
	w.AddHook(githubfake.Hook{ID: 77, Repo: "acme/gadgets", Config: githubfake.HookConfig{URL: "https://x.test"}})
	if err := w.token.Redeliver(t.Context(), github.Hook{Repo: "acme/widgets", ID: 77}, 5); !errors.Is(err, github.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if last := w.Requests()[len(w.Requests())-1]; last.Method != http.MethodPost || last.Path != "/repositories/9001/hooks/77/deliveries/5/attempts" {
		t.Errorf("the POST arrived as %+v", last)
	}

	w.Fault("GET /app", 1, githubfake.Redirect(http.StatusFound, "https://evil.example/app"))
	_, err := w.app.App(t.Context())
	if u := unavailable(t, err); u.BreakerOpen || u.RetryIn != 0 || !strings.Contains(u.Reason, "outside of https://api.github.com") {
		t.Errorf("got %+v", u)
	}
	w.Fault("GET /app", 0, githubfake.Redirect(http.StatusFound, "/app"))
	_, err = w.app.App(t.Context())
	if u := unavailable(t, err); !strings.Contains(u.Reason, "more than 3 times") {
		t.Errorf("got %+v", u)
	}
}

func unavailable(t *testing.T, err error) *github.UnavailableError {
	t.Helper()
	u, ok := errors.AsType[*github.UnavailableError](err)
	if !ok {
		t.Fatalf("not an unavailability: %v", err)
	}
	return u
}

func TestFailuresOfTransport(t *testing.T) {
	for name, tc := range map[string]struct {
		fault  http.HandlerFunc
		status int
		reason string
	}{
		"502 unicorn":        {githubfake.Unicorn(502), 502, "Bad Gateway (not JSON)"},
		"503 unicorn":        {githubfake.Unicorn(503), 503, "Service Unavailable (not JSON)"},
		"500":                {githubfake.Refuse(500, "Server Error"), 500, "Server Error"},
		"empty 500":          {githubfake.Empty(500), 500, "Internal Server Error"},
		"empty 200":          {githubfake.Empty(200), 200, "incomplete JSON"},
		"half JSON":          {githubfake.HalfJSON(), 200, "incomplete JSON"},
		"truncated":          {githubfake.Truncated(), 200, "incomplete JSON"},
		"captive portal":     {githubfake.Portal(), 0, `"text/html" instead of JSON`},
		"plain text":         {githubfake.Body(200, "text/plain", "hello"), 0, `"text/plain" instead of JSON`},
		"connection reset":   {githubfake.Reset(), 0, "reset"},
		"no answer for 30 s": {githubfake.Hang(), 0, "no answer within 30s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, githubfake.Options{})
				w.Fault("GET /app", 3, tc.fault)
				for try := 1; try <= 3; try++ {
					_, err := w.app.App(t.Context())
					u := unavailable(t, err)
					if u.RateLimited || u.BreakerOpen != (try == 3) || (u.RetryIn > 0) != (try == 3) {
						t.Errorf("failure %d: %+v", try, u)
					}
					if u.Status != tc.status || !strings.Contains(u.Error(), tc.reason) {
						t.Errorf("status %d: %s", u.Status, u.Error())
					}
					if tc.status != 0 && !strings.Contains(u.Error(), "(request ") {
						t.Errorf("no request id: %s", u.Error())
					}
				}
				calls := w.Calls("GET /app")
				_, err := w.app.App(t.Context())
				if u := unavailable(t, err); !u.BreakerOpen || u.RetryIn > 30*time.Second || w.Calls("GET /app") != calls {
					t.Errorf("with the breaker open: %+v after %d calls", u, w.Calls("GET /app"))
				}
				time.Sleep(30 * time.Second)
				// Nobody runs the breakers here: the next call makes the probe itself.
				if _, err := w.app.App(t.Context()); err != nil {
					t.Errorf("GitHub is back: %v", err)
				}
			})
		})
	}
}

func TestAPortalDoesNotSwallowARedelivery(t *testing.T) {
	w := newWorld(t, githubfake.Options{})
	w.Fault("", 1, githubfake.Portal())
	unavailable(t, w.app.Redeliver(t.Context(), github.Hook{}, 5))
}

func TestRateLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		fault func(*world) http.HandlerFunc
		wait  time.Duration
	}{
		"primary 403":             {func(w *world) http.HandlerFunc { return w.PrimaryLimit(403, 20*time.Minute) }, 20 * time.Minute},
		"primary 429":             {func(w *world) http.HandlerFunc { return w.PrimaryLimit(429, 20*time.Minute) }, 20 * time.Minute},
		"primary beyond the hour": {func(w *world) http.HandlerFunc { return w.PrimaryLimit(429, 5*time.Hour) }, time.Hour},
		"primary already over":    {func(w *world) http.HandlerFunc { return w.PrimaryLimit(429, -time.Minute) }, time.Second},
		"secondary 403":           {func(w *world) http.HandlerFunc { return w.SecondaryLimit(403, 0) }, time.Minute},
		"secondary 429":           {func(w *world) http.HandlerFunc { return w.SecondaryLimit(429, 0) }, time.Minute},
		"secondary, retry-after":  {func(w *world) http.HandlerFunc { return w.SecondaryLimit(403, 90*time.Second) }, 90 * time.Second},
		"secondary, as a date":    {func(w *world) http.HandlerFunc { return w.RetryDate(403, 90*time.Second) }, 90 * time.Second},
		"abuse":                   {func(*world) http.HandlerFunc { return githubfake.Abuse() }, time.Minute},
	} {
		for _, on := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, breaker %v", name, on), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, githubfake.Options{}, func(s *breaker.Settings, _ *github.AppCredential) { s.Enabled = on })
					w.SetSkew(10 * time.Minute) // absolute times are by GitHub's clock
					w.Fault("GET /repos/{owner}/{repo}/hooks/{hook}", 1, tc.fault(w))
					_, err := w.token.Webhook(t.Context(), github.Hook{Repo: "acme/widgets", ID: 1})
					u := unavailable(t, err)
					if !u.RateLimited || u.BreakerOpen != on || (u.RetryIn-tc.wait).Abs() > time.Second {
						t.Errorf("got %+v, want a wait of %s", u, tc.wait)
					}
					if _, open := w.breakers.Gate(time.Now()); !open {
						t.Error("a credential's limit shut the host")
					}
					_, err = w.token.Webhook(t.Context(), github.Hook{Repo: "acme/widgets", ID: 1})
					if errors.Is(err, github.ErrNotFound) == on {
						t.Errorf("the call after it: %v", err)
					}
				})
			})
		}
	}
}

func TestJWTRefusals(t *testing.T) {
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		world  githubfake.Options
		spoil  func(*world)
		adjust func(*github.AppCredential)
		hint   string
	}{
		"another key":    {adjust: func(c *github.AppCredential) { c.Key = other }, hint: "the private key is not one of this app's"},
		"no key":         {spoil: func(w *world) { w.EditApp(appID, func(a *githubfake.App) { a.Key = nil }) }, hint: "generate a key in the app's settings"},
		"deleted":        {spoil: func(w *world) { w.EditApp(appID, func(a *githubfake.App) { a.Deleted = true }) }, hint: "the app was deleted"},
		"unknown client": {adjust: func(c *github.AppCredential) { c.AppID, c.ClientID = 0, "Iv1.unknown" }, hint: "leave out client_id"},
		"clock, no date": {spoil: func(w *world) {
			w.Fault("GET /app", 0, func(rw http.ResponseWriter, r *http.Request) {
				rw.Header()["Date"] = nil
				githubfake.Refuse(401, "'Expiration time' claim ('exp') is too far in the future")(rw, r)
			})
		}, hint: "clock is ahead"},
		"exp again and again": {spoil: func(w *world) {
			w.Fault("GET /app", 0, githubfake.Refuse(401, "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires"))
		}, hint: "clock is behind"},
		"iat": {spoil: func(w *world) {
			w.Fault("GET /app", 0, githubfake.Refuse(401, "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"))
		}, hint: "clock is ahead"},
		"no issuer": {spoil: func(w *world) {
			w.Fault("GET /app", 0, githubfake.Refuse(401, "Missing 'issuer' claim ('iss') in assertion"))
		}, hint: "set one"},
		"bad credentials": {spoil: func(w *world) { w.Fault("GET /app", 0, githubfake.Refuse(401, "Bad credentials")) }, hint: "the app's private key was revoked"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.world, func(_ *breaker.Settings, c *github.AppCredential) {
				if tc.adjust != nil {
					tc.adjust(c)
				}
			})
			if tc.spoil != nil {
				tc.spoil(w)
			}
			_, err := w.app.App(t.Context())
			refusal, ok := errors.AsType[*github.Error](err)
			if !ok || !strings.Contains(refusal.Hint, tc.hint) || !strings.Contains(err.Error(), tc.hint) || refusal.RequestID == "" {
				t.Errorf("got %v", err)
			}
			if errors.Is(err, github.ErrUnauthorized) != (refusal.Status == 401) || strings.HasSuffix(refusal.Hint, ".") {
				t.Errorf("got %+v", refusal)
			}
			if n := w.Calls("GET /app"); n > 2 {
				t.Errorf("%d calls", n)
			}
			if host, _ := w.breakers.Snapshot(time.Now()); host.Failures != 0 {
				t.Error("a refusal counts as an unavailability")
			}
		})
	}
}

func TestClockRepair(t *testing.T) {
	for _, skew := range []time.Duration{-48 * time.Hour, -11 * time.Minute, -5 * time.Minute, 0, 5 * time.Minute, 11 * time.Minute, 48 * time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, githubfake.Options{})
				w.SetSkew(skew)
				for range 3 {
					if _, err := w.app.App(t.Context()); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Hour)
				}
				if n := w.Calls("GET /app"); n > 4 {
					t.Errorf("%d calls: the repair is not remembered", n)
				}
				if _, err := w.app.Permission(t.Context(), widgets, "ann"); err != nil {
					t.Errorf("with an installation token: %v", err)
				}
			})
		})
	}
}

func TestIssuers(t *testing.T) {
	for name, tc := range map[string]struct {
		numericOnly bool
		id          int64
		client      string
		calls       int
	}{
		"id":                          {id: appID, calls: 1},
		"client id":                   {client: "Iv23li1234", calls: 1},
		"both":                        {id: appID, client: "Iv23li1234", calls: 1},
		"both, and an old server":     {numericOnly: true, id: appID, client: "Iv23li1234", calls: 2},
		"both, and a wrong client id": {id: appID, client: "Iv1.wrong", calls: 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, githubfake.Options{NumericOnly: tc.numericOnly}, func(_ *breaker.Settings, c *github.AppCredential) {
				c.AppID, c.ClientID = tc.id, tc.client
			})
			if _, err := w.app.App(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := w.Calls("GET /app"); n != tc.calls {
				t.Errorf("%d calls, want %d", n, tc.calls)
			}
		})
	}
}

func TestPrivateKeyForms(t *testing.T) {
	pkcs1 := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key())})
	der, err := x509.MarshalPKCS8PrivateKey(key())
	if err != nil {
		t.Fatal(err)
	}
	pkcs8 := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	for name, text := range map[string]string{
		"PKCS#1":   string(pkcs1),
		"PKCS#8":   string(pkcs8),
		"padded":   "\n  " + string(pkcs1) + "\n\n",
		"one line": strings.ReplaceAll(string(pkcs1), "\n", `\n`),
		"base64":   base64.StdEncoding.EncodeToString(pkcs1),
		"CRLF":     strings.ReplaceAll(string(pkcs1), "\n", "\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			if k, err := github.ParsePrivateKey([]byte(text)); err != nil || !k.Equal(key()) {
				t.Errorf("got %v", err)
			}
		})
	}
	for name, text := range map[string]string{"empty": "", "text": "secret words", "truncated": string(pkcs1[:400])} {
		t.Run(name, func(t *testing.T) {
			if _, err := github.ParsePrivateKey([]byte(text)); err == nil || text != "" && strings.Contains(err.Error(), text[:10]) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestConstructors(t *testing.T) {
	w := newWorld(t, githubfake.Options{})
	foreign := w.options
	foreign.Breakers = breaker.New(breaker.Options{Host: "other.example"})
	if _, err := github.NewApp(github.AppCredential{SourceKey: "a", AppID: 1}, w.options); err == nil {
		t.Error("no key")
	}
	if _, err := github.NewApp(github.AppCredential{SourceKey: "a", Key: key()}, w.options); err == nil {
		t.Error("no id")
	}
	if _, err := github.NewToken(github.TokenCredential{SourceKey: "a"}, w.options); err == nil {
		t.Error("no token")
	}
	if _, err := github.NewToken(github.TokenCredential{SourceKey: "a", Token: "x"}, foreign); err == nil {
		t.Error("breakers of another host")
	}
}

func TestCallersPatienceSaysNothingAboutGitHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, githubfake.Options{})
		w.Fault("", 0, githubfake.Hang())
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := w.app.App(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			cancel()
		}
		if host, _ := w.breakers.Snapshot(time.Now()); host.Failures != 0 {
			t.Errorf("%d failures", host.Failures)
		}
	})
}
