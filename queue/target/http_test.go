package target

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// receiver is an HTTP target that counts what reaches it.
type receiver struct {
	*httptest.Server
	requests atomic.Int32
	conns    atomic.Int32
}

func receive(t *testing.T, handle http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.requests.Add(1)
		handle(w, req)
	}))
	r.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			r.conns.Add(1)
		}
	}
	r.Start()
	t.Cleanup(r.Close)
	return r
}

// hijack takes over the connection after the request has been read.
func hijack(t *testing.T, w http.ResponseWriter, req *http.Request) *net.TCPConn {
	_, _ = io.Copy(io.Discard, req.Body)
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		panic(http.ErrAbortHandler)
	}
	return conn.(*net.TCPConn)
}

func TestHTTPForwards(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	r := receive(t, func(_ http.ResponseWriter, req *http.Request) {
		got = req
		body, _ = io.ReadAll(req.Body)
	})
	j := job()
	j.Secret = []byte("target-secret")
	j.FinishURL, j.FinishToken = "https://hooks.example.com/api/v1/runs/x/finish", "finish-token"
	j.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	j.Headers = map[string]string{
		"X-GitHub-Event": "issue_comment", "X-GitHub-Delivery": "d-1", "X-GitHub-Hook-ID": "42",
		"User-Agent": "GitHub-Hookshot/abc", "Content-Type": "application/x-www-form-urlencoded",
		"X-Hub-Signature": "sha1=00", "X-Hub-Signature-256": "sha256=00",
	}
	target := HTTP{URL: r.URL + "/hook?x=1", Headers: map[string]string{"Authorization": "Bearer abc", "Host": "jenkins.internal", "Preloop-Run-Id": "forged"}}

	check := func(o queue.Outcome, want queue.RunState, start bool) {
		t.Helper()
		if o.State != want || status(o) != "200" || o.Error != "" || o.Reason != "" {
			t.Errorf("state %q, status %s, error %q", o.State, status(o), o.Error)
		}
		mac := hmac.New(sha256.New, []byte("target-secret"))
		mac.Write(body)
		headers := map[string]string{
			"X-GitHub-Event": "issue_comment", "X-GitHub-Delivery": "d-1", "X-GitHub-Hook-ID": "42",
			"User-Agent": "GitHub-Hookshot/abc", "Content-Type": "application/json", "Accept": "*/*",
			"X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil)), "X-Hub-Signature": "",
			"Idempotency-Key": j.Run.ID, "Preloop-Run-Id": j.Run.ID, "Preloop-Session": j.Session,
			"Traceparent": j.Traceparent, "Authorization": "Bearer abc", "Accept-Encoding": "",
			"Preloop-Finish-URL": "", "Preloop-Finish-Token": "",
		}
		if start {
			headers["Preloop-Finish-URL"], headers["Preloop-Finish-Token"] = j.FinishURL, j.FinishToken
		}
		for name, want := range headers {
			if v := got.Header.Get(name); v != want {
				t.Errorf("%s: %q, want %q", name, v, want)
			}
		}
		if got.Method != "POST" || got.URL.String() != "/hook?x=1" || got.Host != "jenkins.internal" || got.ContentLength != int64(len(body)) {
			t.Errorf("%s %s at %s, %d bytes", got.Method, got.URL, got.Host, got.ContentLength)
		}
	}
	check(target.Run(t.Context(), j, nil), queue.Succeeded, true)
	if string(body) != string(j.Payload) {
		t.Errorf("body %s, want %s", body, j.Payload)
	}

	enveloped := `{"session":"` + j.Session + `","prompt":"look into it","trigger":"triage","run_id":"` + j.Run.ID +
		`","event":"issue_comment","action":"created","delivery_id":"d-1","payload":` + string(j.Payload) + `}`
	target.Envelope = true
	check(target.Run(t.Context(), j, nil), queue.Succeeded, true)
	if string(body) != enveloped {
		t.Errorf("body %s, want %s", body, enveloped)
	}
	target.Envelope = false
	check(target.HandOver(t.Context(), j, nil), queue.Delivered, false)
	if string(body) != enveloped {
		t.Errorf("body %s, want %s", body, enveloped)
	}
	if r.conns.Load() != 3 {
		t.Errorf("%d connections for 3 requests; one that was idle may be dead", r.conns.Load())
	}

	j.Secret, j.Headers = nil, nil
	if o := target.Run(t.Context(), j, nil); o.State != queue.Succeeded || got.Header.Get("X-Hub-Signature-256") != "" ||
		got.Header.Get("X-GitHub-Event") != "issue_comment" || got.UserAgent() != "preloop" {
		t.Errorf("without secret and headers: %q %v", o.State, got.Header)
	}
}

func TestEnvelopeIsJSON(t *testing.T) {
	t.Parallel()
	j := job()
	for _, payload := range []string{`{"a":"<&>\u2028\ud800","n":12345678901234567890}`, ``} {
		j.Payload, j.Prompt = []byte(payload), "a \"b\" <c>\n\xff\x00"
		var got struct {
			Prompt  string
			Payload json.RawMessage
		}
		if err := json.Unmarshal(envelope(j), &got); err != nil {
			t.Fatal(err)
		}
		if payload == "" {
			payload = "null"
		}
		if got.Prompt != "a \"b\" <c>\n\uFFFD\x00" || string(got.Payload) != payload {
			t.Errorf("prompt %q, payload %s", got.Prompt, got.Payload)
		}
	}
}

func TestHTTPStatus(t *testing.T) {
	t.Parallel()
	const unconfirmed = queue.ReasonUnconfirmed
	tests := map[int]struct {
		run            queue.RunState
		reason         string
		handOver       queue.RunState
		handOverReason string
		ended          bool
		probe          Probe
	}{
		200: {queue.Succeeded, "", queue.Delivered, "", false, Happened},
		201: {queue.Succeeded, "", queue.Delivered, "", false, Unknown},
		202: {queue.Succeeded, "", queue.Delivered, "", false, Unknown},
		204: {queue.Succeeded, "", queue.Delivered, "", false, DidNot},
		301: {queue.RunFailed, "", queue.Uncertain, unconfirmed, false, Unknown},
		302: {queue.RunFailed, "", queue.Uncertain, unconfirmed, false, Unknown},
		307: {queue.RunFailed, "", queue.Uncertain, unconfirmed, false, Unknown},
		400: {queue.RunFailed, "", queue.Uncertain, unconfirmed, false, Unknown},
		401: {queue.RunFailed, "", queue.Uncertain, unconfirmed, false, Unknown},
		404: {queue.RunFailed, "", queue.Waiting, "", true, Unknown},
		408: {queue.Uncertain, unconfirmed, queue.Uncertain, unconfirmed, false, Unknown},
		409: {queue.RunFailed, "", queue.Waiting, "", true, Unknown},
		410: {queue.RunFailed, "", queue.Waiting, "", true, Unknown},
		425: {queue.Waiting, "", queue.Waiting, "", false, Unknown},
		429: {queue.Waiting, "", queue.Waiting, "", false, Unknown},
		500: {queue.RunFailed, "", queue.Uncertain, unconfirmed, false, Unknown},
		502: {queue.Uncertain, unconfirmed, queue.Uncertain, unconfirmed, false, Unknown},
		503: {queue.Waiting, "", queue.Waiting, "", false, Unknown},
		504: {queue.Uncertain, unconfirmed, queue.Uncertain, unconfirmed, false, Unknown},
		599: {queue.RunFailed, "", queue.Uncertain, unconfirmed, false, Unknown},
	}
	for code, tt := range tests {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			r := receive(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(code)
				if code >= 300 {
					_, _ = io.WriteString(w, "because")
				}
			})
			target := HTTP{URL: r.URL}
			o := target.Run(t.Context(), job(), nil)
			if o.State != tt.run || o.Reason != tt.reason || status(o) != fmt.Sprint(code) {
				t.Errorf("Run: state %q, reason %q, status %s", o.State, o.Reason, status(o))
			}
			if (o.Error == "") != (o.State == queue.Succeeded) || o.Error != "" && !strings.Contains(o.Error, fmt.Sprint(code)) {
				t.Errorf("Run: error %q", o.Error)
			}
			if redirected := code >= 300 && code < 400; redirected != strings.Contains(o.Error, "redirects are not followed") {
				t.Errorf("Run: error %q", o.Error)
			}
			if code >= 300 && string(o.Output) != "because" {
				t.Errorf("Run: output %q", o.Output)
			}
			if want := 7 * time.Second; o.State == queue.Waiting && o.RetryAfter != want || o.State != queue.Waiting && o.RetryAfter != 0 {
				t.Errorf("Run: retry after %v", o.RetryAfter)
			}
			o = target.HandOver(t.Context(), job(), nil)
			if o.State != tt.handOver || o.Reason != tt.handOverReason || o.SessionEnded != tt.ended || status(o) != fmt.Sprint(code) {
				t.Errorf("HandOver: state %q, reason %q, ended %v, status %s", o.State, o.Reason, o.SessionEnded, status(o))
			}
			if p := target.Probe(t.Context(), job()); p != tt.probe {
				t.Errorf("Probe: %v", p)
			}
			if n := r.requests.Load(); n != 3 {
				t.Errorf("%d requests for 3 attempts", n)
			}
		})
	}
}

func TestHTTPProbeAsks(t *testing.T) {
	t.Parallel()
	var got *http.Request
	r := receive(t, func(_ http.ResponseWriter, req *http.Request) { got = req })
	j := job()
	j.Secret, j.FinishToken = []byte("s"), "f"
	HTTP{URL: r.URL, Headers: map[string]string{"Authorization": "x"}}.Probe(t.Context(), j)
	if got.Method != "GET" || got.ContentLength != 0 || got.Header.Get("Idempotency-Key") != j.Run.ID ||
		got.Header.Get("Preloop-Run-Id") != j.Run.ID || got.Header.Get("Authorization") != "x" ||
		got.Header.Get("X-GitHub-Event") != "" || got.Header.Get("Preloop-Finish-Token") != "" {
		t.Errorf("%s with %v", got.Method, got.Header)
	}
}

func TestHTTPSession(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		status         int
		session, state string
		run            queue.RunState
		wantSession    string
		wantState      queue.SessionState
	}{
		"accepted":             {202, "s-1", "", queue.Running, "s-1", ""},
		"accepted, no session": {202, "", "", queue.Succeeded, "", ""},
		"done and asleep":      {200, "s-1", "sleeping", queue.Succeeded, "s-1", queue.SessionSleeping},
		"done and over":        {200, "s-1", "ended", queue.Succeeded, "s-1", queue.SessionEnded},
		"an unknown state":     {200, "", "dreaming", queue.Succeeded, "", ""},
		"an unusable id":       {202, strings.Repeat("x", 300), "", queue.Succeeded, "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				answer := roundTrip(func(*http.Request) (*http.Response, error) {
					h := http.Header{}
					h.Set("Preloop-Session", tt.session)
					h.Set("Preloop-Session-State", tt.state)
					return &http.Response{StatusCode: tt.status, Header: h, Body: http.NoBody}, nil
				})
				for timeout, wait := range map[time.Duration]time.Duration{0: time.Hour, 5 * time.Minute: 5 * time.Minute} {
					o := HTTP{URL: "http://target", Transport: answer, Timeout: timeout}.Run(t.Context(), job(), nil)
					var deadline time.Time
					if tt.run == queue.Running {
						deadline = time.Now().Add(wait)
					}
					if o.State != tt.run || o.Session != tt.wantSession || o.SessionState != tt.wantState || !o.Deadline.Equal(deadline) {
						t.Errorf("state %q, session %q %q, deadline %v", o.State, o.Session, o.SessionState, o.Deadline)
					}
				}
				o := HTTP{URL: "http://target", Transport: answer}.HandOver(t.Context(), job(), nil)
				if o.State != queue.Delivered || o.SessionState != tt.wantState || !o.Deadline.IsZero() {
					t.Errorf("hand-over: state %q, session state %q", o.State, o.SessionState)
				}
			})
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tests := map[string]time.Duration{
		"":                              0,
		"7":                             7 * time.Second,
		" 7 ":                           7 * time.Second,
		"0":                             time.Second,
		"-1":                            0,
		"1.5":                           0,
		"86400":                         time.Hour,
		"2147483647":                    time.Hour,
		"99999999999999999999":          0,
		"soon":                          0,
		"Sun, 01 Mar 2026 12:00:30 GMT": 30 * time.Second,
		"Sun, 01 Mar 2026 11:00:00 GMT": time.Second,
		"Mon, 02 Mar 2026 12:00:00 GMT": time.Hour,
	}
	for value, want := range tests {
		a := answer{header: http.Header{"Retry-After": {value}}, now: now}
		if got := a.retryAfter(); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}
