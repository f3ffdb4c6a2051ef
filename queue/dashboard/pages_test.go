package dashboard_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/breaker"
	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/api"
)

// hostile is what an attacker may write wherever GitHub or a target lets him.
const hostile = "<script>alert(1)</script>\"onmouseover=\"alert(2)\" '{{.}}' `x` \u202egnp.exe\x00\r\ndata: x"

func ptr[T any](v T) *T { return &v }

// hostileWorld has hostile text in every field of every page.
func hostileWorld(t *testing.T) (w *world, paths []string) {
	w = newWorld(t)
	w.login()
	flat := strings.ReplaceAll(hostile, "/", "|") // a reference to a delivery has its own slash
	bad := func(d *queue.Delivery) {
		d.ID, d.SourceName, d.Event = "id "+flat, "source "+flat, "event "+hostile
		d.Facts = queue.Facts{Action: hostile, Repo: hostile, Subject: hostile + "#1", SubjectNum: 1, Sender: hostile}
		d.Headers = map[string]string{"X-Hostile": hostile}
	}
	d := w.enqueue(bad)
	trigger := "trigger " + hostile
	w.publishTriggers(trigger)
	settled, err := w.store.SettleDelivery(t.Context(), w.claim().Lease, queue.Settlement{
		Kind:       queue.SettleDone,
		Decisions:  []queue.Decision{{Trigger: trigger, Verdict: queue.Matched, Reason: hostile}, {Trigger: "other", Verdict: queue.Filtered, Reason: hostile}},
		Admissions: []queue.Admission{{Trigger: trigger, QueueSize: 1, QueueWait: time.Hour, UncertainAfter: time.Hour}},
	})
	w.must(err)
	run := settled.Runs[0]
	w.end(trigger, queue.Outcome{State: queue.Uncertain, Reason: queue.ReasonTimeout, Error: hostile, Output: []byte(hostile), Session: hostile})
	w.enqueue(bad, func(d *queue.Delivery) { d.ID += "2" })
	_, err = w.store.SettleDelivery(t.Context(), w.claim().Lease, queue.Settlement{Kind: queue.SettleFail, Error: hostile})
	w.must(err)
	w.must(w.store.SaveRepairs(t.Context(), []queue.Repair{{
		Source: "app-1", SourceName: hostile, GUID: hostile, Event: hostile, Action: hostile, Reason: hostile, State: "open",
		Attempts: 1, DeliveredAt: time.Now(), FoundAt: time.Now(), LastAttempt: time.Now(), LastError: hostile,
	}}))
	w.must(w.store.Heartbeat(t.Context(), queue.Node{ID: hostile, Host: hostile, Version: hostile, Components: []string{hostile}, Note: hostile, TriggersHash: hostile, StartedAt: time.Now(), TriggersLoadedAt: time.Now()}))
	w.publish(api.DocApp, "app-1", api.AppVerdict{
		Source: hostile, Checked: true, CheckedAt: ptr(time.Now()), Healthy: ptr(false), URLDrifted: true, HookURL: ptr(hostile), ExpectedURL: ptr(hostile),
		MissingEvents: []string{hostile}, MissingPermissions: []string{hostile}, Problems: []string{hostile, "tick it at https://github.com/x\"><script>alert(1)</script>"}, Error: ptr(hostile),
	})
	w.publish(api.DocWatchdog, "app-1", api.WatchdogSource{Source: hostile, Failing: true, LastError: ptr(hostile)})
	w.publish(api.DocBreaker, "app:1 "+hostile, breaker.State{LastError: hostile})
	ref := url.PathEscape(d.SourceName + "/" + d.ID)
	return w, []string{
		"/", "/deliveries", "/deliveries/" + ref, "/deliveries/" + ref + "/payload", "/runs", "/runs/" + run.ID, "/triggers", "/repairs",
		"/deliveries?state=" + url.QueryEscape(hostile), "/deliveries?event=" + url.QueryEscape(hostile), "/deliveries?since=" + url.QueryEscape(hostile) + "&repo=" + url.QueryEscape(hostile),
		"/runs?trigger=" + url.QueryEscape(hostile) + "&subject=" + url.QueryEscape(hostile), "/runs?since=" + url.QueryEscape(hostile), "/runs?cursor=" + url.QueryEscape(hostile),
		"/repairs?state=" + url.QueryEscape(hostile), "/runs/" + url.PathEscape(hostile), "/deliveries/" + url.PathEscape(hostile), "/" + url.PathEscape(hostile),
		"/login?next=" + url.QueryEscape("/"+hostile), "/?did=" + url.QueryEscape(hostile),
	}
}

var attribute = regexp.MustCompile(`(?i)<[^>]*\s(on[a-z]+|style|srcdoc)=`)

var typed = regexp.MustCompile(`value="[^"]*"`)

func TestHostileTextIsEscapedOnEveryPage(t *testing.T) {
	w, paths := hostileWorld(t)
	shown := 0
	for i, path := range paths {
		res, body := w.get(path)
		if i < 8 && res.StatusCode != http.StatusOK {
			t.Errorf("GET %s: %s\n%s", path, res.Status, body)
		}
		if res.StatusCode >= 500 {
			t.Errorf("GET %s: %s", path, res.Status)
		}
		if strings.Contains(body, "<script>") || strings.Count(body, "<script") > 1 || attribute.MatchString(body) {
			t.Errorf("GET %s lets markup through:\n%s", path, body)
		}
		for _, r := range "\x00\u202e" {
			// A form keeps what its reader typed.
			if strings.ContainsRune(typed.ReplaceAllString(body, ""), r) {
				t.Errorf("GET %s lets %U through", path, r)
			}
		}
		if strings.Contains(body, "&lt;script&gt;alert(1)&lt;/script&gt;") {
			shown++
		}
		if strings.Contains(body, "ZgotmplZ") {
			t.Errorf("GET %s: the template refused a value:\n%s", path, body)
		}
		if strings.Contains(body, systemToken) || w.cookie != "" && strings.Contains(body, w.cookie) {
			t.Errorf("GET %s shows a secret", path)
		}
	}
	if shown < 12 {
		t.Errorf("hostile text is shown on %d pages: the test looks at too little", shown)
	}
	if strings.Contains(w.logs.String(), systemToken) || strings.Contains(w.logs.String(), w.cookie) {
		t.Error("a secret is in the log")
	}
}

func TestEveryAnswerHasTheHeaders(t *testing.T) {
	w, paths := hostileWorld(t)
	check := func(what string, res *http.Response) {
		t.Helper()
		csp := res.Header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "img-src 'self' data:;", "connect-src 'self';", "form-action 'self';", "base-uri 'none'", "frame-ancestors 'none'"} {
			if !strings.Contains(csp, part) {
				t.Errorf("%s: the policy %q lacks %s", what, csp, part)
			}
		}
		if res.Header.Get("X-Content-Type-Options") != "nosniff" || res.Header.Get("Referrer-Policy") != "same-origin" || res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", what, res.Header)
		}
	}
	for _, path := range append(paths, "/login", "/assets/style.css", "/assets/live.js", "/assets/icon.svg", "/assets/", "/assets/none", "/deliveries/none/payload/raw") {
		res, _ := w.get(path)
		check(path, res)
	}
	res, _ := w.post("/logout", nil, func(r *http.Request) { r.Header.Del("Origin") })
	check("a foreign form", res)
	res, _ = w.post("/logout", nil)
	check("logging out", res)
	res, _ = w.get("/")
	check("the way to the form", res)
}

func TestWhatIsNotThere(t *testing.T) {
	w := newWorld(t)
	w.login()
	for path, want := range map[string]int{
		"/nothing": 404, "/deliveries/none": 404, "/deliveries/none/payload": 404, "/deliveries/none/payload/raw": 404, "/runs/none": 404,
		"/assets/": 404, "/assets/none.js": 404, "/runs?state=odd": 400, "/deliveries?since=odd": 400, "/deliveries?cursor=odd": 400, "/assets/live.js": 200,
	} {
		if res, body := w.get(path); res.StatusCode != want {
			t.Errorf("GET %s: %s, want %d\n%s", path, res.Status, want, body)
		}
	}
	for path, want := range map[string]int{
		"/runs/none/cancel": 404, "/runs/none/odd": 404, "/triggers/none/pause": 404, "/triggers/none/odd": 404, "/deliveries/none/replay": 404, "/": 404,
	} {
		if res, body := w.post(path, nil); res.StatusCode != want {
			t.Errorf("POST %s: %s, want %d\n%s", path, res.Status, want, body)
		}
	}
}

func TestLostStore(t *testing.T) {
	w := newWorld(t)
	w.login()
	broken := *w
	broken.pages = withOperations(w, lost{w.local})
	broken.cookie = ""
	broken.login()
	res, body := broken.get("/")
	if res.StatusCode != http.StatusInternalServerError || strings.Contains(body, "db.internal") {
		t.Errorf("%s\n%s", res.Status, body)
	}
	w.contains(body, "the store did not answer")
	w.contains(w.logs.String(), "db.internal")
}

func TestPagingOverManyRows(t *testing.T) {
	w := newWorld(t)
	w.login()
	const rows = 120
	for range rows {
		w.enqueue()
	}
	w.enqueue(func(d *queue.Delivery) { d.Event = "push" })
	older := regexp.MustCompile(`href="([^"]+)" rel="next"`)
	link := regexp.MustCompile(`<bdi>(guid-\d+)</bdi>`)
	seen := map[string]bool{}
	path := "/deliveries?event=issues&state="
	for page := 1; ; page++ {
		body := w.page(path)
		for _, m := range link.FindAllStringSubmatch(body, -1) {
			if seen[m[1]] {
				t.Errorf("%s is on two pages", m[1])
			}
			seen[m[1]] = true
		}
		if (page > 1) != strings.Contains(body, "← Newest") {
			t.Errorf("page %d: the way back to the newest is wrong", page)
		}
		m := older.FindStringSubmatch(body)
		if m == nil {
			if page != 3 {
				t.Errorf("%d pages, want 3", page)
			}
			break
		}
		path = strings.ReplaceAll(m[1], "&amp;", "&")
	}
	if len(seen) != rows {
		t.Errorf("%d deliveries seen, want %d", len(seen), rows)
	}
}

func TestFilters(t *testing.T) {
	w := newWorld(t)
	w.login()
	w.enqueue(func(d *queue.Delivery) { d.ID = "guid-done" })
	run := w.decide("triage")
	w.enqueue(func(d *queue.Delivery) { d.ID, d.Event, d.Repo = "guid-push", "push", "acme/other" })
	for path, want := range map[string]string{
		"/deliveries?state=done": "guid-done", "/deliveries?state=received": "guid-push", "/deliveries?event=push": "guid-push",
		"/deliveries?repo=ACME/widgets": "guid-done", "/deliveries?trigger=triage": "guid-done", "/deliveries?since=1h": "guid-done guid-push", "/deliveries?since=2999-01-01": "",
	} {
		body := w.page(path)
		for _, id := range []string{"guid-done", "guid-push"} {
			if strings.Contains(body, "<bdi>"+id) != strings.Contains(want, id) {
				t.Errorf("GET %s: shows %s: %v", path, id, !strings.Contains(want, id))
			}
		}
	}
	for path, want := range map[string]bool{
		"/runs?state=waiting": true, "/runs?state=failed": false, "/runs?trigger=triage": true, "/runs?trigger=x": false,
		"/runs?subject=" + url.QueryEscape("acme/widgets#7"): true, "/runs?delivery_id=guid-push": false,
	} {
		if got := strings.Contains(w.page(path), run.ID); got != want {
			t.Errorf("GET %s: shows the run: %v", path, got)
		}
	}
	w.contains(w.page("/deliveries?state=done&repo=a/b"), `<option selected>done`, `value="a/b"`)
}

func TestOverviewSaysWhatToDo(t *testing.T) {
	w := newWorld(t)
	w.login()
	w.contains(w.page("/"), "Nothing needs you.", "No trigger is configured", "No source is configured")
	w.publishTriggers("triage")
	w.enqueue()
	w.decide("triage")
	w.end("triage", queue.Outcome{State: queue.Uncertain, Reason: queue.ReasonTimeout})
	w.enqueue()
	_, err := w.store.SettleDelivery(t.Context(), w.claim().Lease, queue.Settlement{Kind: queue.SettleFail, Error: "no such thing"})
	w.must(err)
	w.publish(api.DocApp, "app-1", api.AppVerdict{Source: "acme-bot", Checked: true, Healthy: ptr(false), Problems: []string{"tick it at https://github.com/settings/apps/acme/permissions, please"}})
	w.contains(w.page("/"), "webhook_dead_letter", `href="/deliveries?state=failed"`, "<code>preloop deliveries list --state failed</code>",
		"run_uncertain", `href="/runs?state=uncertain"`, `<a href="https://github.com/settings/apps/acme/permissions"`, "drifted", "of 2")
}
