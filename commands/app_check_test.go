package commands

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-de999ace/preloop/commands/config"
	"github.com/seed-de999ace/preloop/fixtures/githubfake"
	"github.com/seed-de999ace/preloop/queue/api"
)

func mustLoad(t *testing.T, file string) *config.Config {
	t.Helper()
	cfg, err := config.Load(config.Options{Path: file})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestAppCheck(t *testing.T) {
	fake, _, file := onLoopback(t, triageTrigger)
	check := func(want int) api.AppVerdict {
		t.Helper()
		code, out, errs := cli(t, "app-check", "--json", "-c", file)
		if code != want {
			t.Fatalf("exit %d, want %d\n%s%s", code, want, out, errs)
		}
		return decodeJSON[api.AppVerdict](t, out)
	}
	v := check(exitDone)
	if v.Healthy == nil || !*v.Healthy || !v.Checked || v.CheckedAt == nil || *v.AppID != 1234 || v.Source != "acme-bot" || *v.HookURL != *v.ExpectedURL || v.Error != nil || len(v.Secrets) != 1 || v.Secrets[0].Name != "current" {
		t.Errorf("got %+v", v)
	}
	code, out, _ := cli(t, "status", "--json", "-c", file)
	s := decodeJSON[api.Status](t, out)
	if code != exitDone || len(s.Apps) != 1 || s.Apps[0].Healthy == nil || !*s.Apps[0].Healthy || s.AppConfigCheckedAt == nil {
		t.Errorf("the status: %+v", s.Apps)
	}

	fake.EditApp(1234, func(a *githubfake.App) {
		a.Events, a.Permissions = []string{"issues"}, map[string]string{"metadata": "read"}
		a.Hook.URL, a.Hook.Secret = "https://old.example.test/hook", ""
	})
	v = check(exitFound)
	if *v.Healthy || !v.URLDrifted || !slices.Equal(v.MissingEvents, []string{"issue_comment"}) || !slices.Equal(v.MissingPermissions, []string{"issues:read"}) || len(v.Problems) == 0 {
		t.Errorf("got %+v", v)
	}
	code, out, _ = cli(t, "app-check", "-c", file)
	if code != exitFound || !strings.Contains(out, "acme-bot\tdrift\tGitHub delivers to https://old.example.test/hook and should to "+publicURL+config.WebhookPath) || !strings.Contains(out, "trigger triage is dead") || !strings.Contains(out, "no secret") {
		t.Errorf("%d\n%s", code, out)
	}
	if code, out, _ = cli(t, "status", "--exit-code", "-c", file); code != exitFound || !strings.Contains(out, "webhook_config_drift") {
		t.Errorf("%d\n%s", code, out)
	}

	fake.Fault("GET /app/hook/config", 1, githubfake.Refuse(http.StatusUnauthorized, "Bad credentials"))
	if v = check(exitUnreachable); v.Error == nil || *v.Healthy {
		t.Errorf("a read error is a clean bill: %+v", v)
	}
	for name, args := range map[string][]string{
		"an unknown source": {"app-check", "--source", "nobody", "-c", file},
		"a server":          {"app-check", "--server", "http://127.0.0.1:1", "-c", file},
	} {
		if code, _, errs := cli(t, args...); code != exitUsage {
			t.Errorf("%s: %d %s", name, code, errs)
		}
	}
}

const secondApp = `  - { id: 99, name: other-bot, private_key: { file: DIR/key.pem }, webhook_secrets: [ { file: DIR/hooksecret } ] }
`

func (w *watchWorld) check(t *testing.T) map[string]verdict {
	t.Helper()
	m := &monitor{cfg: w.cfg, store: w.store, hub: w.hub, log: w.log}
	list, err := m.pass(t.Context(), monitored(w.cfg))
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]verdict{}
	for _, v := range list {
		byName[v.Source] = v
	}
	return byName
}

func addOther(w *watchWorld) {
	w.fake.AddApp(githubfake.App{
		ID: 99, Key: &fakeKey().PublicKey, Events: []string{"issues", "issue_comment"}, Permissions: map[string]string{"metadata": "read", "issues": "read"},
		Hook: githubfake.HookConfig{URL: publicURL + config.WebhookPath, Secret: "another one, of the hook"},
	})
}

func TestAppWithAnOpenBreakerKeepsItsVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchWorld(t, secondApp+triageTrigger)
		addOther(w)
		w.check(t)
		first := w.status(t.Context(), t)
		if first.AppConfigCheckedAt == nil || len(first.Apps) != 2 {
			t.Fatalf("got %+v", first)
		}
		time.Sleep(15 * time.Minute)
		// One app's credential is limited: its breaker opens, the host's stays closed.
		w.fake.Fault("GET /app", 1, w.fake.PrimaryLimit(http.StatusForbidden, time.Hour))
		client, err := w.hub.client("app-99")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.App(t.Context()); err == nil {
			t.Fatal("no limit was met")
		}
		calls := w.fake.Calls("GET /app")
		got := w.check(t)
		if w.fake.Calls("GET /app") != calls+1 {
			t.Error("the limited app was read, or the other was not")
		}
		if v := got["other-bot"]; !v.held || !v.Checked || !v.CheckedAt.Equal(*first.AppConfigCheckedAt) || v.Error != nil || v.state() != "held" {
			t.Errorf("held: %+v", v)
		}
		if v := got["acme-bot"]; v.held || !v.CheckedAt.After(*first.AppConfigCheckedAt) {
			t.Errorf("the other: %+v", v)
		}
		second := w.status(t.Context(), t)
		if !second.AppConfigCheckedAt.Equal(*first.AppConfigCheckedAt) {
			t.Error("a reused verdict looks freshly verified")
		}
		time.Sleep(time.Hour + time.Minute)
		if v := w.check(t)["other-bot"]; v.held || !*v.Healthy {
			t.Errorf("afterwards: %+v", v)
		}
		if third := w.status(t.Context(), t); !third.AppConfigCheckedAt.After(*first.AppConfigCheckedAt) {
			t.Error("a whole pass did not count")
		}
	})
}

func TestAppWithAnOpenBreakerAndNoVerdictIsUnchecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchWorld(t, "")
		w.fake.Fault("GET /app", 1, w.fake.SecondaryLimit(http.StatusTooManyRequests, time.Hour))
		client, err := w.hub.client("app-1234")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.App(t.Context()); err == nil {
			t.Fatal("no limit was met")
		}
		v := w.check(t)["acme-bot"]
		if !v.held || v.Checked || v.CheckedAt != nil || v.Healthy != nil || v.state() != "unchecked" {
			t.Errorf("got %+v", v)
		}
		s := w.status(t.Context(), t)
		if len(s.Apps) != 1 || s.Apps[0].Checked || *s.Apps[0].AppID != 1234 || s.AppConfigCheckedAt != nil || slices.Contains(conditionTypes(s), "webhook_config_drift") {
			t.Errorf("the status: %+v %v", s.Apps, conditionTypes(s))
		}
	})
}

func TestReadErrorsAreNeverACleanBill(t *testing.T) {
	for name, c := range map[string]struct {
		route  string
		answer http.HandlerFunc
	}{
		"the app 500":            {"GET /app", githubfake.Refuse(500, "Server Error")},
		"the app 404":            {"GET /app", githubfake.Refuse(404, "Not Found")},
		"the app half an answer": {"GET /app", githubfake.HalfJSON()},
		"the hook 401":           {"GET /app/hook/config", githubfake.Refuse(401, "Bad credentials")},
		"the hook reset":         {"GET /app/hook/config", githubfake.Reset()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWatchWorld(t, "")
				w.check(t)
				w.fake.Fault(c.route, 0, c.answer)
				time.Sleep(15 * time.Minute)
				before := w.status(t.Context(), t).AppConfigCheckedAt
				v := w.check(t)["acme-bot"]
				if v.held || v.Error == nil || v.Healthy == nil || *v.Healthy || v.state() != "unread" {
					t.Fatalf("got %+v", v)
				}
				s := w.status(t.Context(), t)
				if !s.AppConfigCheckedAt.Equal(*before) || !slices.Contains(conditionTypes(s), "webhook_config_drift") {
					t.Errorf("the status: %v %v", s.AppConfigCheckedAt, conditionTypes(s))
				}
			})
		})
	}
}

func TestMonitorService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchWorld(t, triageTrigger)
		l, err := newLoaded(w.cfg, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		n := &node{id: "node", store: w.store, hub: w.hub, log: w.log}
		n.loaded.Store(l)
		service := n.monitorApps()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- service(ctx) }()
		time.Sleep(time.Second)
		if s := w.status(t.Context(), t); len(s.Apps) != 1 || !s.Apps[0].Checked || !*s.Apps[0].Healthy {
			t.Fatalf("at the start: %+v", s.Apps)
		}
		w.fake.EditApp(1234, func(a *githubfake.App) { a.Events = nil })
		time.Sleep(16 * time.Minute)
		if s := w.status(t.Context(), t); *s.Apps[0].Healthy || len(s.Apps[0].MissingEvents) != 2 {
			t.Errorf("after a quarter of an hour: %+v", s.Apps)
		}
		w.fake.EditApp(1234, func(a *githubfake.App) { a.Events = []string{"issues", "issue_comment"} })
		n.onReload[0](w.cfg)
		time.Sleep(time.Second)
		if s := w.status(t.Context(), t); !*s.Apps[0].Healthy {
			t.Errorf("after a reload: %+v", s.Apps)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
