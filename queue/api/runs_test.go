package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

const runKeys = `id trigger delivery_id source kind state reason repo subject session attempts created_at next_attempt_at expires_at started_at finished_at
	exit_code http_status error node`

func TestRunFields(t *testing.T) {
	bubble(t, func(w *world) {
		code := 3
		failed := w.ran("one", "greet", queue.Outcome{State: queue.RunFailed, Error: "exit 3", ExitCode: &code, Output: []byte("line\n\xff")}, about(7))
		waiting := w.admit("two", "greet", bare).ID
		list := w.get("/api/v1/runs")
		w.has("the list", list, "runs next_cursor")
		if got := ids(list, "runs", "id"); !slices.Equal(got, []string{waiting, failed}) || list["next_cursor"] != nil {
			t.Fatalf("the list is %v", list)
		}
		for _, r := range list["runs"].([]any) {
			w.has("a run", r, runKeys)
		}
		r := list["runs"].([]any)[1].(map[string]any)
		for key, want := range map[string]any{
			"trigger": "greet", "delivery_id": "one", "source": "acme", "kind": "start", "state": "failed", "reason": nil, "repo": "acme/widgets", "subject": "acme/widgets#7", "session": nil,
			"attempts": 1.0, "created_at": "2000-01-01T00:00:00Z", "started_at": "2000-01-01T00:00:00Z", "finished_at": "2000-01-01T00:00:00Z", "exit_code": 3.0, "http_status": nil,
			"error": "exit 3", "node": "node-1", "next_attempt_at": nil,
		} {
			if r[key] != want {
				t.Errorf("%s is %v, want %v", key, r[key], want)
			}
		}
		r = list["runs"].([]any)[0].(map[string]any)
		for _, key := range []string{"reason", "repo", "subject", "session", "next_attempt_at", "started_at", "finished_at", "exit_code", "http_status", "error", "node"} {
			if r[key] != nil {
				t.Errorf("an absent %s is %v", key, r[key])
			}
		}
		if r["expires_at"] != "2000-01-02T00:00:00Z" {
			t.Errorf("expires_at is %v", r["expires_at"])
		}
		one := w.get("/api/v1/runs/" + failed)
		w.has("one run", one, runKeys, "output attempt_history session_detail uncertain_until cancel_asked")
		if one["output"] != "line\n\ufffd" {
			t.Errorf("the output is %q", one["output"])
		}
		attempt := one["attempt_history"].([]any)[0].(map[string]any)
		w.has("an attempt", attempt, "generation attempt node started_at finished_at outcome error")
		if attempt["outcome"] != "failed" || attempt["error"] != "exit 3" || attempt["attempt"] != 1.0 {
			t.Errorf("the attempt is %v", attempt)
		}
		if one = w.get("/api/v1/runs/" + waiting); one["output"] != nil || len(one["attempt_history"].([]any)) != 0 || one["uncertain_until"] != nil {
			t.Errorf("a run that has not begun is %v", one)
		}
		w.refused(w.ask("GET", "/api/v1/runs/nope", ""), http.StatusNotFound, "not found")
		w.refused(w.ask("GET", "/api/v1/runs/a%2Fb", ""), http.StatusNotFound, "not found")
	})
}

func TestRunFilters(t *testing.T) {
	bubble(t, func(w *world) {
		w.ran("one", "greet", queue.Outcome{State: queue.Succeeded}, about(7))
		time.Sleep(2 * time.Hour)
		w.ran("two", "deploy", queue.Outcome{State: queue.RunFailed})
		w.admit("three", "deploy")
		for query, want := range map[string]string{
			"": "three two one", "trigger=deploy": "three two", "state=succeeded": "one", "state=failed,waiting": "three two", "subject=ACME/widgets%237": "one", "subject=acme/widgets%238": "",
			"delivery_id=two": "two", "delivery_id=acme%2Ftwo": "two", "delivery_id=other/two": "", "since=1h": "three two", "limit=1": "three", "junk=1": "three two one",
		} {
			if got := strings.Join(ids(w.get("/api/v1/runs?"+query), "runs", "delivery_id"), " "); got != want {
				t.Errorf("%s selects %q, want %q", query, got, want)
			}
		}
		first := w.get("/api/v1/runs?limit=2")
		second := w.get("/api/v1/runs?limit=2&cursor=" + first["next_cursor"].(string))
		if got := append(ids(first, "runs", "delivery_id"), ids(second, "runs", "delivery_id")...); strings.Join(got, " ") != "three two one" || second["next_cursor"] != nil {
			t.Errorf("two pages show %v, then %v", got, second["next_cursor"])
		}
		for query, says := range map[string]string{"state=done": "waiting, running", "limit=0": "limit", "since=x": "since", "cursor=x": "cursor"} {
			w.refused(w.ask("GET", "/api/v1/runs?"+query, ""), http.StatusBadRequest, says)
		}
	})
}

// inState makes a run in a state and returns its id.
func (w *world) inState(state queue.RunState) string {
	w.Helper()
	id := "run-" + string(state)
	trigger := "only-" + string(state)
	switch state {
	case queue.Waiting:
		return w.admit(id, trigger).ID
	case queue.Running:
		return w.ran(id, trigger, queue.Outcome{State: queue.Running, Deadline: time.Now().Add(time.Hour)})
	case queue.Dropped:
		w.own(id)
		return w.settle(matched(trigger, 0)).Runs[0].ID
	case queue.Canceled:
		r := w.admit(id, trigger)
		_, err := w.store.CancelRun(w.Context(), r.ID)
		w.must(err)
		return r.ID
	default:
		return w.ran(id, trigger, queue.Outcome{State: state})
	}
}

// Each action takes the states that the documentation names and no other.
func TestRunActions(t *testing.T) {
	all := []queue.RunState{queue.Waiting, queue.Running, queue.Succeeded, queue.RunFailed, queue.Dropped, queue.Uncertain, queue.Canceled}
	for action, c := range map[string]struct {
		body  string
		from  []queue.RunState
		state string
	}{
		"cancel":  {"", []queue.RunState{queue.Waiting, queue.Running, queue.Uncertain}, "canceled"},
		"retry":   {"", []queue.RunState{queue.RunFailed, queue.Uncertain, queue.Canceled, queue.Dropped}, "waiting"},
		"resolve": {`{"as":"failed"}`, []queue.RunState{queue.Uncertain}, "failed"},
		"finish":  {`{"as":"succeeded"}`, []queue.RunState{queue.Running, queue.Uncertain}, "succeeded"},
	} {
		t.Run(action, func(t *testing.T) {
			w := newWorld(t)
			for _, state := range all {
				id := w.inState(state)
				a := w.ask("POST", "/api/v1/runs/"+id+"/"+action, c.body)
				if !slices.Contains(c.from, state) {
					w.refused(a, http.StatusConflict, "it is "+string(state))
					continue
				}
				got := w.object(a)
				w.has("the run", got, runKeys)
				if got["state"] != c.state || got["id"] != id {
					t.Errorf("%s of a %s run makes it %v", action, state, got["state"])
				}
			}
			w.refused(w.ask("POST", "/api/v1/runs/nope/"+action, c.body), http.StatusNotFound, "not found")
			w.refused(w.ask("POST", "/api/v1/runs/nope/"+action, `["`+hush+`"]`), http.StatusBadRequest, "body")
		})
	}
}

func TestRunWords(t *testing.T) {
	w := newWorld(t)
	id := w.inState(queue.Uncertain)
	for _, action := range []string{"resolve", "finish"} {
		for _, body := range []string{"", "{}", `{"as":"uncertain"}`, `{"as":"canceled"}`, `{"as":""}`} {
			w.refused(w.ask("POST", "/api/v1/runs/"+id+"/"+action, body), http.StatusBadRequest, "succeeded or failed")
		}
	}
	w.refused(w.ask("POST", "/api/v1/runs/"+id+"/finish", `{"as":"succeeded","state":"dancing"}`), http.StatusBadRequest, "sleeping or ended")
	if got := w.object(w.ask("POST", "/api/v1/runs/"+id+"/resolve", `{"as":"succeeded","more":1}`)); got["state"] != "succeeded" {
		t.Errorf("resolved: %v", got)
	}
}

// A target finishes its own run with its own token, and can do nothing else with it.
func TestFinishToken(t *testing.T) {
	w := newWorld(t)
	tokens := RunToken([]byte(systemToken))
	mine, other := w.inState(queue.Running), w.inState(queue.Uncertain)
	if tokens(mine) == tokens(other) || tokens(mine) == RunToken([]byte("another secret"))(mine) || len(tokens(mine)) != 64 {
		t.Fatal("tokens do not tell runs and servers apart")
	}
	own := "Bearer " + tokens(mine)
	for _, path := range []string{"/api/v1/runs/" + other + "/finish", "/api/v1/runs/nope/finish", "/api/v1/runs/" + mine + "/cancel", "/api/v1/runs/" + mine + "/resolve", "/api/v1/runs/" + mine + "/retry"} {
		w.refused(w.askAs(own, "POST", path, `{"as":"succeeded"}`), http.StatusUnauthorized, "token")
	}
	w.refused(w.askAs(own, "GET", "/api/v1/runs/"+mine, ""), http.StatusUnauthorized, "token")
	w.refused(w.askAs("", "POST", "/api/v1/runs/"+mine+"/finish", `{"as":"succeeded"}`), http.StatusUnauthorized, "token")
	if got := w.get("/api/v1/runs/" + mine); got["state"] != "running" {
		t.Fatalf("a refused request made it %v", got["state"])
	}
	if got := w.object(w.askAs(own, "POST", "/api/v1/runs/"+mine+"/finish", `{"as":"failed","error":"no disk"}`)); got["state"] != "failed" || got["error"] != "no disk" {
		t.Errorf("finished: %v", got)
	}
	w.refused(w.askAs(own, "POST", "/api/v1/runs/"+mine+"/finish", `{"as":"succeeded"}`), http.StatusConflict, "it is failed")
	if got := w.object(w.ask("POST", "/api/v1/runs/"+other+"/finish", `{"as":"succeeded"}`)); got["state"] != "succeeded" {
		t.Errorf("the system token finishes too: %v", got)
	}
}

const triggerKeys = `name state concurrency queue_size queue_wait_seconds running waiting routing dropped_24h uncertain last_run_at`

func TestTriggers(t *testing.T) {
	bubble(t, func(w *world) {
		w.publish(DocTriggers, "current", PublishedTriggers{LoadedAt: time.Now(), Triggers: []TriggerInfo{
			{Name: "greet", Enabled: true, Concurrency: 2, QueueSize: 5, QueueWaitSeconds: 60}, {Name: "asleep", Concurrency: 1, QueueSize: 1, QueueWaitSeconds: 1},
		}})
		w.ran("one", "greet", queue.Outcome{State: queue.Uncertain})
		w.admit("two", "greet")
		w.own("three")
		w.settle(matched("greet", 1))
		w.admit("four", "removed")
		list := w.get("/api/v1/triggers")
		w.has("the list", list, "triggers")
		got := map[string]map[string]any{}
		for _, tr := range list["triggers"].([]any) {
			w.has("a trigger", tr, triggerKeys)
			got[tr.(map[string]any)["name"].(string)] = tr.(map[string]any)
		}
		for key, want := range map[string]any{
			"state": "active", "concurrency": 2.0, "queue_size": 5.0, "queue_wait_seconds": 60.0, "running": 0.0, "waiting": 1.0, "routing": 0.0, "dropped_24h": 1.0, "uncertain": 1.0,
			"last_run_at": "2000-01-01T00:00:00Z",
		} {
			if got["greet"][key] != want {
				t.Errorf("%s is %v, want %v", key, got["greet"][key], want)
			}
		}
		if a, r := got["asleep"], got["removed"]; a["state"] != "off" || a["last_run_at"] != nil || r["state"] != "off" || r["concurrency"] != nil || r["waiting"] != 1.0 {
			t.Errorf("a trigger that is off is %v, one that is gone %v", a, r)
		}
		for _, action := range []string{"pause", "pause", "resume", "resume"} {
			state := map[string]string{"pause": "paused", "resume": "active"}[action]
			if got := w.object(w.ask("POST", "/api/v1/triggers/greet/"+action, "")); got["state"] != state {
				t.Errorf("%s makes it %v", action, got["state"])
			}
		}
		w.refused(w.ask("POST", "/api/v1/triggers/nope/pause", ""), http.StatusNotFound, "preloop triggers list")
	})
}
