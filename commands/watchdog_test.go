package commands

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-de999ace/preloop/fixtures/githubfake"
	"github.com/seed-de999ace/preloop/github/watchdog"
	"github.com/seed-de999ace/preloop/queue"
)

func (w *watchWorld) pass(t *testing.T, owner string) watchdog.Result {
	t.Helper()
	return newWatcher(w.cfg, w.store, w.hub, owner, w.log).pass(t.Context(), watchedSources(w.cfg)[0], watchdog.Options{})
}

// adopted is a world in which the first pass has been made and the grace is over.
func adopted(t *testing.T, more string) *watchWorld {
	w := newWatchWorld(t, more)
	time.Sleep(time.Hour)
	if r := w.pass(t, "a"); r.Err != nil {
		t.Fatal(r.Err)
	}
	time.Sleep(time.Hour)
	return w
}

func TestWatchdogBringsLostDeliveriesInByTheOneDoor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := adopted(t, "")
		w.lose("failed-one", 502)
		w.lose("acked-one", 200)
		w.fake.Deliver(w.hook, "issues", "stored-one", issuePayload)
		w.lose("retried-one", 502)
		w.fake.Deliver(w.hook, "issues", "retried-one", issuePayload)
		time.Sleep(3 * time.Minute)

		r := w.pass(t, "a")
		w.fake.Wait()
		if r.Err != nil || r.Examined != 4 || r.Missing != 2 || r.Redelivered != 2 {
			t.Fatalf("got %+v", r)
		}
		for _, guid := range []string{"failed-one", "acked-one"} {
			d, err := w.store.Delivery(t.Context(), "app-1234/"+guid)
			if err != nil || d.SourceName != "acme-bot" || d.Repo != "acme/widgets" {
				t.Errorf("%s: %+v, %v", guid, d, err)
			}
		}
		s := w.status(t.Context(), t)
		if s.Watchdog.RedeliveriesRequested != 2 || s.Watchdog.OpenRepairs != 2 || s.Watchdog.LastExamined != 4 || s.Watchdog.LastError != nil || s.Watchdog.LastSuccessAt == nil {
			t.Errorf("the status: %+v", s.Watchdog)
		}
		time.Sleep(5 * time.Minute)
		if r = w.pass(t, "a"); r.Redelivered != 0 || r.OpenRepairs != 0 {
			t.Errorf("afterwards: %+v", r)
		}
		list, err := w.store.ListRepairs(t.Context(), queue.RepairFilter{State: "arrived"})
		if err != nil || len(list) != 2 || list[0].SourceName != "acme-bot" || list[0].HookID < 1<<53 {
			t.Errorf("the repairs: %+v, %v", list, err)
		}
		if s = w.status(t.Context(), t); s.Watchdog.BlindSeconds != 0 {
			t.Errorf("a failure that the next row answers was blind for %d s", s.Watchdog.BlindSeconds)
		}
	})
}

func TestWatchdogKeepsItsWatermarkThroughAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := adopted(t, "")
		before, err := watchdogStore{w.store}.LoadCursor(t.Context(), "app-1234")
		if err != nil || before.Version == 0 {
			t.Fatal(before, err)
		}
		w.lose("lost", 502)
		time.Sleep(3 * time.Minute)
		w.fake.Fault("", 0, githubfake.Refuse(http.StatusServiceUnavailable, "No server"))
		for range 4 { // the third failure opens the breaker
			if r := w.pass(t, "a"); !r.PollFailed || r.Err == nil {
				t.Fatalf("got %+v", r)
			}
		}
		calls := len(w.fake.Requests())
		w.pass(t, "a")
		if n := len(w.fake.Requests()) - calls; n != 0 {
			t.Errorf("%d calls with the breaker open", n)
		}
		s := w.status(t.Context(), t)
		if s.Watchdog.LastError == nil || !slices.Contains(conditionTypes(s), "github_unavailable") {
			t.Errorf("the status: %+v %v", s.Watchdog, conditionTypes(s))
		}
		after, err := watchdogStore{w.store}.LoadCursor(t.Context(), "app-1234")
		if err != nil || !after.Watermark.Equal(before.Watermark) || !after.LastSuccess.Equal(before.LastSuccess) {
			t.Errorf("%+v, was %+v, %v", after, before, err)
		}
		w.fake.ClearFaults()
		time.Sleep(5 * time.Minute)
		if r := w.pass(t, "a"); r.Err != nil || r.Redelivered != 1 {
			t.Errorf("got %+v", r)
		}
		w.fake.Wait()
	})
}

func TestWatchdogService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchWorld(t, "")
		l, err := newLoaded(w.cfg, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		n := &node{id: "node", store: w.store, hub: w.hub, log: w.log, components: []string{"watchdog", "ingress"}}
		n.loaded.Store(l)
		done := make(chan error, 2)
		watch := n.watch()
		ctx, stop := context.WithCancel(t.Context())
		go func() { done <- watch(ctx) }()
		go func() { done <- n.recordUptime(ctx) }()
		time.Sleep(10 * time.Minute)
		for i := range 10 {
			w.lose(fmt.Sprint("lost-", i), 502)
			time.Sleep(time.Second)
		}
		time.Sleep(5 * time.Minute)
		if s := w.status(t.Context(), t); !slices.Contains(conditionTypes(s), "webhook_delivery_failing") || s.Watchdog.RedeliveriesRequested != 10 {
			t.Errorf("ten failures in a row: %v %+v", conditionTypes(s), s.Watchdog)
		}
		for range 4 {
			time.Sleep(5 * time.Minute)
			w.fake.Wait()
		}
		counts, err := w.store.Counts(t.Context())
		if err != nil || counts.Deliveries[queue.Received] != 10 {
			t.Errorf("%v, %v", counts.Deliveries, err)
		}
		s := w.status(t.Context(), t)
		if b := s.Watchdog.BlindSeconds; b < 10 || b > 600 {
			t.Errorf("blind for %d s", b)
		}
		for _, f := range n.onReload { // the loops start anew
			f(w.cfg)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		<-done
		time.Sleep(time.Hour) // the server is away
		if err := n.wasUp(t.Context(), &uptimeRecord{}, time.Now()); err != nil {
			t.Fatal(err)
		}
		if r := w.pass(t, "a"); r.Err != nil || r.Blind < time.Hour || r.Blind > time.Hour+15*time.Minute {
			t.Errorf("after an hour's downtime: blind for %s, %v", r.Blind, r.Err)
		}
	})
}

func TestUptime(t *testing.T) {
	start := time.Date(2026, 8, 20, 12, 0, 0, 0, time.UTC)
	u := uptime{}.at(start)
	for range 10 {
		u = u.at(u.LastUp.Add(uptimeEvery))
	}
	if len(u.Down) != 0 {
		t.Errorf("down without a gap: %v", u.Down)
	}
	was := u.LastUp
	if u = u.at(was.Add(time.Hour)); len(u.Down) != 1 || !u.Down[0].From.Equal(was) || !u.Down[0].To.Equal(was.Add(time.Hour)) {
		t.Errorf("got %v", u.Down)
	}
	if back := u.at(was); !back.LastUp.Equal(u.LastUp) {
		t.Error("a clock that is behind took the record back")
	}
	for range 1000 {
		u = u.at(u.LastUp.Add(time.Minute))
	}
	if len(u.Down) > maxDowns {
		t.Errorf("%d downtimes are kept", len(u.Down))
	}
	if u = u.at(u.LastUp.Add(25 * time.Hour)); len(u.Down) != 1 {
		t.Errorf("what is older than a day is kept: %d", len(u.Down))
	}
}

// cli runs the real command line in process.
func cli(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, streams{strings.NewReader(""), &out, &errs})
	return code, out.String(), errs.String()
}

// onLoopback serves the fake where a command finds it.
func onLoopback(t *testing.T, more string) (*githubfake.Server, *githubfake.Hook, string) {
	t.Helper()
	fake, hook := newFakeGitHub()
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	fake.SetURL(server.URL)
	fake.SetDeliver(githubfake.Transport(http.NotFoundHandler()))
	t.Setenv("GH_TOKEN", "")
	return fake, hook, writeConfig(t, "github_api_url: "+server.URL+"\n"+more)
}

func TestWatchdogOnce(t *testing.T) {
	fake, hook, file := onLoopback(t, "watchdog: { pace: 1ms }\n")
	record := func(guid string, ago time.Duration, code int) {
		fake.Record(hook, githubfake.Row{GUID: guid, Event: "issues", Action: "opened", Status: "x", StatusCode: code, DeliveredAt: time.Now().Add(-ago), Payload: issuePayload})
	}
	record("old", 20*time.Hour, 502)
	record("acked", 10*time.Hour, 200)
	record("young", time.Second, 502)

	code, out, errs := cli(t, "watchdog", "--once", "-c", file, "--json")
	if code != exitDone {
		t.Fatal(code, out, errs)
	}
	if got := decodeJSON[map[string]any](t, out); got["source"] != "acme-bot" || got["missing"] != 0.0 || got["skipped_grace"] != 1.0 || got["error"] != nil {
		t.Errorf("the first pass adopts: %v", got)
	}

	code, out, errs = cli(t, "watchdog", "--once", "--since", "24h", "--dry-run", "-c", file)
	if code != exitDone || !strings.Contains(out, "acme-bot\t2\t2\t0\t1\t2\t-\n") || !strings.Contains(out, "old\tacme-bot\tissues.opened\tremote_failure\t0\t") || !strings.Contains(out, "acked\tacme-bot\tissues.opened\tphantom_ack\t0\t") {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
	if n := fake.Calls("POST /app/hook/deliveries/{id}/attempts"); n != 0 {
		t.Errorf("a dry run asked for %d", n)
	}

	code, out, errs = cli(t, "watchdog", "--once", "--since", "24h", "--json", "--source", "acme-bot", "-c", file)
	if got := decodeJSON[passReport](t, out); code != exitDone || got.Examined != 2 || got.Missing != 2 || got.Redelivered != 2 || got.OpenRepairs != 2 || got.Error != nil {
		t.Errorf("%d %+v %s", code, got, errs)
	}
	code, out, _ = cli(t, "repairs", "list", "-c", file)
	if code != exitDone || strings.Count(out, "\topen\t1\t") != 2 {
		t.Errorf("%d\n%s", code, out)
	}

	fake.Fault("GET /app/hook/deliveries", 0, githubfake.Refuse(http.StatusBadGateway, "Server Error"))
	code, out, _ = cli(t, "watchdog", "--once", "--json", "-c", file)
	if got := decodeJSON[passReport](t, out); code != exitUnreachable || got.Error == nil || got.OpenRepairs != 2 {
		t.Errorf("%d %+v", code, got)
	}
	fake.ClearFaults()

	dir := filepath.Dir(file)
	store, err := openStore(t.Context(), mustLoad(t, file), false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Lock(t.Context(), "watchdog:app-1234", "another node", time.Minute); err != nil {
		t.Fatal(err)
	}
	_ = store.Close()
	code, out, _ = cli(t, "watchdog", "--once", "--json", "-c", file)
	if got := decodeJSON[passReport](t, out); code != exitDone || got.Error != nil || got.Note == nil {
		t.Errorf("a lease of another node: %d %+v", code, got)
	}

	for name, args := range map[string][]string{
		"an unknown source":    {"watchdog", "--once", "--source", "nobody", "-c", file},
		"a bad time":           {"watchdog", "--once", "--since", "soon", "-c", file},
		"a flag of one pass":   {"watchdog", "--dry-run", "-c", file},
		"a server":             {"watchdog", "--once", "--server", "http://127.0.0.1:1", "-c", file},
		"nothing to be polled": {"watchdog", "--once", "-c", withoutApps(t, dir)},
	} {
		if code, _, errs := cli(t, args...); code != exitUsage {
			t.Errorf("%s: %d %s", name, code, errs)
		}
	}
}

func withoutApps(t *testing.T, dir string) string {
	t.Helper()
	file := filepath.Join(dir, "none.yaml")
	if err := os.WriteFile(file, []byte("store: sqlite://"+dir+"/preloop.db\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestWatchdogWatchesHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchWorld(t, `hooks:
  - { name: widgets, repo: acme/widgets, id: 4711, token: { file: DIR/token }, webhook_secrets: [ { file: DIR/hooksecret } ] }
  - { name: gadgets, org: acme, id: 4712, token: { file: DIR/token }, webhook_secrets: [ { file: DIR/key.pem } ] }
`)
		w.fake.AddToken("ghp_of_the_hook")
		w.fake.AddRepo(githubfake.Repo{ID: 9, FullName: "acme/widgets"})
		hook := w.fake.AddHook(githubfake.Hook{ID: 4711, Repo: "acme/widgets", Events: []string{"push"}, Config: githubfake.HookConfig{URL: publicURL + "/api/v1/github/webhooks", Secret: "another one, of the hook"}})
		sources := watchedSources(w.cfg)
		if len(sources) != 3 || sources[1].credential != sources[2].credential || sources[0].credential == sources[1].credential {
			t.Fatalf("got %+v", sources)
		}
		watcher := newWatcher(w.cfg, w.store, w.hub, "a", slog.New(slog.DiscardHandler))
		time.Sleep(time.Hour)
		watcher.pass(t.Context(), sources[1], watchdog.Options{})
		w.fake.Record(hook, githubfake.Row{GUID: "lost", Event: "push", Status: "timed out", StatusCode: 504, Payload: []byte(`{"ref":"x","repository":{"id":9,"full_name":"acme/widgets"}}`)})
		time.Sleep(3 * time.Minute)
		if r := watcher.pass(t.Context(), sources[1], watchdog.Options{}); r.Err != nil || r.Redelivered != 1 {
			t.Fatalf("got %+v", r)
		}
		w.fake.Wait()
		if _, err := w.store.Delivery(t.Context(), "hook-4711/lost"); err != nil {
			t.Error(err)
		}
		if r := watcher.pass(t.Context(), sources[2], watchdog.Options{}); r.Err == nil {
			t.Error("a webhook that GitHub does not have is polled without an error")
		}
		s := w.status(t.Context(), t)
		if s.Watchdog.LastError == nil || s.Watchdog.LastSuccessAt != nil {
			t.Errorf("one source's failure hides behind another: %+v", s.Watchdog)
		}
	})
}

// TestUptimeIsShared has two nodes write the record in turns, each from what it knew before.
func TestUptimeIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchWorld(t, "")
		n := &node{store: w.store}
		var a, b uptimeRecord
		began := time.Now()
		var writes []int64
		for _, r := range []*uptimeRecord{&a, &b, &a, &a, &b} {
			time.Sleep(uptimeEvery)
			if err := n.wasUp(t.Context(), r, time.Now()); err != nil {
				t.Fatal(err)
			}
			writes = append(writes, r.version)
		}
		var u uptime
		version, err := loadDoc(t.Context(), w.store, docUptime, "ingress", &u)
		if err != nil || version != 5 || !slices.Equal(writes, []int64{1, 2, 3, 4, 5}) || len(u.Down) != 0 || !u.LastUp.Equal(began.Add(5*uptimeEvery)) {
			t.Errorf("version %d after %v, %+v, %v; want 5 writes and no downtime", version, writes, u, err)
		}
		time.Sleep(time.Hour)
		if err := n.wasUp(t.Context(), &a, time.Now()); err != nil { // it knows the fourth
			t.Fatal(err)
		}
		if len(a.Down) != 1 || a.Down[0].To.Sub(a.Down[0].From) != time.Hour {
			t.Errorf("down %v, want the hour alone", a.Down)
		}
	})
}
