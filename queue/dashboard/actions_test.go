package dashboard_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/api"
	"github.com/seed-de999ace/preloop/queue/dashboard"
)

func withOperations(w *world, o api.Operations) *dashboard.Dashboard {
	return dashboard.New(dashboard.Config{Operations: o, Token: systemToken, Log: newLog(w.logs)})
}

// did posts and follows to the page that shows the result.
func (w *world) did(path string, form url.Values, want string) {
	w.Helper()
	res, body := w.post(path, form)
	if res.StatusCode != http.StatusSeeOther {
		w.Fatalf("POST %s: %s\n%s", path, res.Status, body)
	}
	w.contains(w.page(res.Header.Get("Location")), want)
}

func (w *world) refuses(path string, status int) {
	w.Helper()
	if res, body := w.post(path, nil); res.StatusCode != status || !strings.Contains(body, `role="alert"`) {
		w.Errorf("POST %s: %s, want %d\n%s", path, res.Status, status, body)
	}
}

func TestRunButtons(t *testing.T) {
	w := newWorld(t)
	w.login()
	w.enqueue()
	run := w.decide("triage")
	page := "/runs/" + run.ID
	body := w.page(page)
	w.contains(body, `id="cancel"`)
	if strings.Contains(body, `id="retry"`) || strings.Contains(body, `id="resolve-failed"`) {
		t.Errorf("a waiting run offers too much:\n%s", body)
	}
	w.refuses(page+"/retry", http.StatusConflict)
	w.did(page+"/cancel", nil, "The run is being canceled.")
	if got := w.runState(run.ID); got != queue.Canceled {
		t.Errorf("the run is %s, want canceled", got)
	}
	w.did(page+"/retry", nil, "The run waits for its turn again.")
	if got := w.runState(run.ID); got != queue.Waiting {
		t.Errorf("the run is %s, want waiting", got)
	}
	w.refuses(page+"/resolve", http.StatusBadRequest)
	for as, want := range map[string]queue.RunState{"succeeded": queue.Succeeded, "failed": queue.RunFailed} {
		w.enqueue()
		run := w.decide("other")
		w.end("other", queue.Outcome{State: queue.Uncertain, Reason: queue.ReasonTimeout, Output: []byte("line 1\nline 2")})
		w.contains(w.page("/runs/"+run.ID), `value="succeeded"`, `value="failed"`, `id="retry"`, `id="cancel"`, "line 1\nline 2")
		w.did("/runs/"+run.ID+"/resolve", url.Values{"as": {as}}, "The run is resolved.")
		if got := w.runState(run.ID); got != want {
			t.Errorf("resolved as %s the run is %s", as, got)
		}
	}
	w.contains(w.logs.String(), page+"/cancel")
}

func TestReplayButton(t *testing.T) {
	w := newWorld(t)
	w.login()
	d := w.enqueue()
	page := "/deliveries/" + url.PathEscape(d.Key())
	w.contains(w.page(page), `id="replay" disabled`)
	w.refuses(page+"/replay", http.StatusConflict)
	w.decide("triage")
	body := w.page(page)
	w.contains(body, `id="replay">`, "on: issues.opened", "triage", "/payload")
	w.contains(w.page(page+"/payload"), "&#34;guid&#34;: &#34;"+d.ID)
	res, raw := w.get(page + "/payload/raw")
	if raw != `{"guid":"`+d.ID+`"}` || res.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("the raw payload is %q as %s", raw, res.Header.Get("Content-Type"))
	}
	w.did(page+"/replay", url.Values{"force": {"yes"}}, "The delivery is queued again.")
	got, err := w.store.Delivery(t.Context(), d.ID)
	w.must(err)
	if got.State != queue.Received || got.Generation != 1 || !got.Force {
		t.Errorf("after the replay: %s, generation %d, force %v", got.State, got.Generation, got.Force)
	}
}

func TestTriggerButtons(t *testing.T) {
	w := newWorld(t)
	w.login()
	const name = `odd/"name"`
	w.publishTriggers(name)
	page := "/triggers/" + url.PathEscape(name)
	paused := func() bool {
		stats, err := w.store.TriggerStats(t.Context())
		w.must(err)
		return !stats[name].PausedSince.IsZero()
	}
	w.contains(w.page("/triggers"), `action="`+page+`/pause"`, "of 2", "of 100", "1 h 0 min")
	w.did(page+"/pause", nil, "The trigger is paused")
	if !paused() {
		t.Error("it is not paused")
	}
	w.contains(w.page("/triggers"), `action="`+page+`/resume"`)
	w.did(page+"/resume", nil, "The trigger is active again.")
	if paused() {
		t.Error("it is still paused")
	}
}
