package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

const deliveryKeys = `delivery_id source event action repo subject sender state attempts generation received_at age_seconds finished_at
	lease_until next_attempt_at last_error size`

func TestDeliveryFields(t *testing.T) {
	bubble(t, func(w *world) {
		w.admit("one", "greet", about(7))
		time.Sleep(90 * time.Second)
		w.own("two", bare)
		list := w.get("/api/v1/webhooks/deliveries")
		w.has("the list", list, "deliveries next_cursor")
		all := list["deliveries"].([]any)
		if len(all) != 2 || list["next_cursor"] != nil {
			t.Fatalf("the list is %v", list)
		}
		for _, d := range all {
			w.has("a delivery", d, deliveryKeys)
		}
		two, one := all[0].(map[string]any), all[1].(map[string]any)
		for key, want := range map[string]any{
			"delivery_id": "one", "source": "acme", "event": "issues", "action": "opened", "repo": "acme/widgets", "subject": "acme/widgets#7", "sender": "octocat",
			"state": "done", "attempts": 1.0, "generation": 0.0, "received_at": "2000-01-01T00:00:00Z", "age_seconds": 90.0, "finished_at": "2000-01-01T00:00:00Z",
			"lease_until": nil, "next_attempt_at": nil, "last_error": nil,
		} {
			if one[key] != want {
				t.Errorf("%s is %v, want %v", key, one[key], want)
			}
		}
		for _, key := range []string{"action", "repo", "subject", "sender", "finished_at", "lease_until", "last_error"} {
			if two[key] != nil {
				t.Errorf("an absent %s is %v", key, two[key])
			}
		}
		if two["next_attempt_at"] != "2000-01-01T00:01:30Z" {
			t.Errorf("next_attempt_at is %v", two["next_attempt_at"])
		}

		_, err := w.store.ClaimDeliveries(w.Context(), "node-1", 1)
		w.must(err)
		detail := w.get("/api/v1/webhooks/deliveries/two")
		w.has("one delivery", detail, deliveryKeys, "headers attempt_history decisions runs")
		if detail["lease_until"] != "2000-01-01T00:02:30Z" || detail["next_attempt_at"] != nil || detail["state"] != "processing" {
			t.Errorf("a delivery under way is %v", detail)
		}
		attempt := detail["attempt_history"].([]any)[0].(map[string]any)
		if attempt["outcome"] != nil || attempt["finished_at"] != nil || attempt["started_at"] != "2000-01-01T00:01:30Z" || attempt["node"] != "node-1" {
			t.Errorf("the attempt under way is %v", attempt)
		}
		detail = w.get("/api/v1/webhooks/deliveries/one")
		attempt = detail["attempt_history"].([]any)[0].(map[string]any)
		w.has("an attempt", attempt, "generation attempt node started_at finished_at outcome error")
		if attempt["outcome"] != "done" || attempt["error"] != nil {
			t.Errorf("the attempt is %v", attempt)
		}
		decision := detail["decisions"].([]any)[0].(map[string]any)
		run := detail["runs"].([]any)[0].(map[string]any)
		w.has("a decision", decision, "trigger decision reason run_id generation")
		w.has("a delivery's run", run, runKeys)
		if decision["run_id"] != run["id"] || decision["decision"] != "matched" || decision["reason"] != "if: true" {
			t.Errorf("decision %v of run %v", decision, run)
		}
		if h := detail["headers"].(map[string]any); h["X-Github-Event"] != "push" {
			t.Errorf("headers %v", h)
		}
	})
}

// Either form of an id finds a delivery, and the escaped slash is no step of a path.
func TestDeliveryIDs(t *testing.T) {
	w := newWorld(t)
	w.own("one")
	w.own("both")
	w.own("both", from("hook-2", "acme-widgets"))
	w.own("..")
	w.own("a.b-c_d")
	for ref, source := range map[string]string{
		"one": "acme", "acme%2Fone": "acme", "app-1%2Fone": "acme", "acme%2fone": "acme", "acme%2Fboth": "acme", "acme-widgets%2Fboth": "acme-widgets", "hook-2%2Fboth": "acme-widgets",
		"%2E%2E": "acme", "acme%2F..": "acme", "a.b-c_d": "acme",
	} {
		path := "/api/v1/webhooks/deliveries/" + ref
		if d := w.get(path); d["source"] != source {
			t.Errorf("%s is of %v, want %s", ref, d["source"], source)
		}
		a := w.ask("GET", path+"/payload", "")
		if a.Code != http.StatusOK || a.Body.String() != `{"hush":"`+hush+`"}` || a.Header().Get("Content-Type") != "application/json" || a.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("the payload of %s: %d %v %s", ref, a.Code, a.Header(), a.Body)
		}
		w.refused(w.ask("POST", path+"/replay", ""), http.StatusConflict, "it is received")
	}
	for ref, want := range map[string]struct {
		status int
		says   string
	}{
		"nothing": {404, "not found"}, "acme%2Fnothing": {404, "not found"}, "other%2Fone": {404, "not found"}, "acme-widgets%2Fone": {404, "not found"},
		"both": {409, "SOURCE/ID"}, "%00": {404, "not found"}, "%27%20OR%201=1": {404, "not found"},
	} {
		path := "/api/v1/webhooks/deliveries/" + ref
		w.refused(w.ask("GET", path, ""), want.status, want.says)
		w.refused(w.ask("GET", path+"/payload", ""), want.status, want.says)
		w.refused(w.ask("POST", path+"/replay", ""), want.status, want.says)
	}
}

func TestReplay(t *testing.T) {
	w := newWorld(t)
	w.publishTriggers("greet", "deploy")
	w.admit("one", "greet")
	for name, body := range map[string]string{"no body": "", "null": "null", "an object": "{}", "spaces": "  ", "more than it knows": `{"later":1,"force":false}`} {
		a := w.ask("POST", "/api/v1/webhooks/deliveries/acme%2Fone/replay", body)
		if got := w.object(a); got["delivery_id"] != "one" || got["source"] != "acme" || got["status"] != "requeued" || len(got) != 3 {
			t.Errorf("%s: %v", name, got)
		}
		w.refused(w.ask("POST", "/api/v1/webhooks/deliveries/one/replay", body), http.StatusConflict, "it is received")
		w.settle(matched("greet", 50))
	}
	d := w.get("/api/v1/webhooks/deliveries/one")
	if d["generation"] != 5.0 || len(d["runs"].([]any)) != 6 || len(d["attempt_history"].([]any)) != 6 || d["attempts"] != 1.0 {
		t.Errorf("after five replays: %v", d)
	}

	w.object(w.ask("POST", "/api/v1/webhooks/deliveries/one/replay", `{"force":true,"triggers":["deploy"]}`))
	c, err := w.store.ClaimDeliveries(w.Context(), "node-1", 1)
	w.must(err)
	if len(c) != 1 || !c[0].Force || !slices.Equal(c[0].Triggers, []string{"deploy"}) {
		t.Errorf("the worker is given %+v", c)
	}
	w.refused(w.ask("POST", "/api/v1/webhooks/deliveries/one/replay", ""), http.StatusConflict, "it is processing")
	_, err = w.store.SettleDelivery(w.Context(), c[0].Lease, queue.Settlement{Kind: queue.SettleFail, Error: "no"})
	w.must(err)
	for name, body := range map[string]string{
		"no JSON": "{", "a list": `["` + hush + `"]`, "a text": `"` + hush + `"`, "two objects": "{}{}", "a wrong type": `{"force":"` + hush + `"}`, "a wrong list": `{"triggers":"` + hush + `"}`,
		"a large one": `{"force":` + strings.Repeat(" ", 1<<20) + `true}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.T = t
			w.refused(w.ask("POST", "/api/v1/webhooks/deliveries/one/replay", body), http.StatusBadRequest, "body")
		})
	}
	w.refused(w.ask("POST", "/api/v1/webhooks/deliveries/one/replay", `{"triggers":["nope"]}`), http.StatusBadRequest, `no trigger "nope"`)
	if d := w.get("/api/v1/webhooks/deliveries/one"); d["state"] != "failed" || d["last_error"] != "no" {
		t.Errorf("what was refused changed the delivery: %v", d)
	}
}

func ids(list map[string]any, key, id string) []string {
	var out []string
	for _, d := range list[key].([]any) {
		out = append(out, d.(map[string]any)[id].(string))
	}
	return out
}

func TestDeliveryFilters(t *testing.T) {
	bubble(t, func(w *world) {
		w.admit("matched", "greet", about(7))
		time.Sleep(time.Hour)
		w.own("dead", from("hook-2", "widgets"))
		w.settle(queue.Settlement{Kind: queue.SettleFail, Error: "no"})
		time.Sleep(time.Hour)
		w.own("fresh", func(d *queue.Delivery) { d.Repo = "acme/Gadgets" })
		for query, want := range map[string]string{
			"": "fresh dead matched", "state=failed": "dead", "state=received": "fresh", "state=done,failed": "dead matched", "state=done,%20received": "fresh matched", "state=processing": "",
			"event=issues": "matched", "event=push&state=failed": "dead", "repo=ACME/widgets": "dead matched", "repo=acme/gadgets": "fresh", "repo=acme": "",
			"source=widgets": "dead", "source=hook-2": "dead", "source=acme": "fresh matched", "trigger=greet": "matched",
			"since=90m": "fresh dead", "since=30m": "fresh", "since=1d": "fresh dead matched", "since=2000-01-01T00:30:00Z": "fresh dead", "since=2000-01-01T02:30:00%2B02:00": "fresh dead",
			"since=2000-01-01T02:30:00+02:00": "fresh dead", "since=2000-01-01": "fresh dead matched", "since=2000-01-01%2001:30:00": "fresh",
			"later=1&foo=bar": "fresh dead matched", "limit=2": "fresh dead", "state=&event=&limit=&since=&cursor=": "fresh dead matched",
		} {
			if got := strings.Join(ids(w.get("/api/v1/webhooks/deliveries?"+query), "deliveries", "delivery_id"), " "); got != want {
				t.Errorf("%s selects %q, want %q", query, got, want)
			}
		}
		for query, says := range map[string]string{
			"state=lost": "received, processing, done, failed", "state=done,,": "state", "limit=0": "limit", "limit=-1": "limit", "limit=many": "limit", "limit=1.5": "limit", "limit=99999999999999999999": "limit",
			"since=yesterday": "since", "since=-2h": "since", "since=NaNd": "since", "since=-1d": "since", "cursor=" + hush: "cursor",
		} {
			w.refused(w.ask("GET", "/api/v1/webhooks/deliveries?"+query, ""), http.StatusBadRequest, says)
		}
	})
}

// A walk through the pages sees every row that was there once, in order, whatever arrives
// meanwhile; and a page has 50 rows unless asked otherwise, and 500 at most.
func TestPages(t *testing.T) {
	w := newWorld(t)
	var wait sync.WaitGroup
	for i := range MaxLimit + 5 {
		wait.Go(func() { w.own(fmt.Sprintf("old-%d", i)) })
	}
	wait.Wait()
	for query, want := range map[string]int{"": 50, "limit=1": 1, "limit=499": 499, "limit=500": 500, "limit=501": 500, "limit=100000": 500} {
		list := w.get("/api/v1/webhooks/deliveries?" + query)
		if got := len(list["deliveries"].([]any)); got != want || list["next_cursor"] == nil {
			t.Errorf("%q returns %d rows, want %d; next %v", query, got, want, list["next_cursor"])
		}
	}
	seen := map[string]bool{}
	last, cursor, pages := time.Now().Add(time.Hour), "", 0
	for {
		list := w.get("/api/v1/webhooks/deliveries?limit=101&cursor=" + cursor)
		for _, d := range list["deliveries"].([]any) {
			id := d.(map[string]any)["delivery_id"].(string)
			if seen[id] || strings.HasPrefix(id, "new") {
				t.Errorf("%s is shown on page %d", id, pages)
			}
			seen[id] = true
			at, err := time.Parse(time.RFC3339Nano, d.(map[string]any)["received_at"].(string))
			if err != nil || at.After(last) || at.Location() != time.UTC {
				t.Errorf("%s at %v after %v, %v", id, at, last, err)
			}
			last = at
		}
		w.own(fmt.Sprintf("new-%d", pages))
		pages++
		if list["next_cursor"] == nil {
			break
		}
		cursor = list["next_cursor"].(string)
	}
	if len(seen) != MaxLimit+5 || pages != 5 {
		t.Errorf("%d rows on %d pages", len(seen), pages)
	}
}

// Nothing but the payload's own endpoint shows any of it.
func TestNoPayloadElsewhere(t *testing.T) {
	w := newWorld(t)
	id := w.ran("one", "greet", queue.Outcome{State: queue.Succeeded})
	for _, path := range []string{
		"/api/v1/status", "/api/v1/webhooks/health", "/api/v1/webhooks/deliveries", "/api/v1/webhooks/deliveries/one", "/api/v1/webhooks/repairs", "/api/v1/runs", "/api/v1/runs/" + id,
		"/api/v1/triggers", "/metrics",
	} {
		if a := w.ask("GET", path, ""); a.Code != http.StatusOK || strings.Contains(a.Body.String(), hush) {
			t.Errorf("%s: %d %s", path, a.Code, a.Body)
		}
	}
}

func TestRepairs(t *testing.T) {
	bubble(t, func(w *world) {
		now := time.Now()
		w.must(w.store.SaveRepairs(w.Context(), []queue.Repair{
			{Source: "app-1", SourceName: "acme", GUID: "lost", Event: "push", Reason: "remote_failure", State: "lost", DeliveredAt: now, FoundAt: now, ClosedAt: now},
			{Source: "app-1", SourceName: "acme", GUID: "open", Event: "issues", Action: "opened", Reason: "phantom_ack", State: "open", Attempts: 1, DeliveredAt: now, FoundAt: now.Add(1), NextAttempt: now},
		}))
		for query, want := range map[string]string{"": "open lost", "?state=open": "open", "?source=app-1&state=lost": "lost", "?source=other": ""} {
			if got := strings.Join(ids(w.get("/api/v1/webhooks/repairs"+query), "repairs", "delivery_id"), " "); got != want && got != "lost open" {
				t.Errorf("%s selects %q, want %q", query, got, want)
			}
		}
		r := w.get("/api/v1/webhooks/repairs?state=open")["repairs"].([]any)[0]
		w.has("a repair", r, "delivery_id source event action reason state attempts delivered_at found_at next_attempt_at last_attempt_at closed_at last_error")
		var typed Repair
		b, _ := json.Marshal(r)
		if err := json.Unmarshal(b, &typed); err != nil || typed.Source != "acme" || typed.ClosedAt != nil || !typed.NextAttemptAt.Equal(now) {
			t.Errorf("the repair is %s, %v", b, err)
		}
	})
}
