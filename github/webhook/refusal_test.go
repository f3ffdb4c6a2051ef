package webhook

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-de999ace/preloop/fixtures"
	"github.com/seed-de999ace/preloop/github"
)

// untouchable is a body that must not be read.
type untouchable struct{ t *testing.T }

func (u untouchable) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}
func (untouchable) Close() error { return nil }

func method(name string) func(*http.Request) { return func(r *http.Request) { r.Method = name } }

func twice(name string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Add(name, r.Header.Get(name)) }
}

// Whoever is not even dressed like GitHub is sent away before a byte of the body is read.
func TestRefusedBeforeTheBodyIsRead(t *testing.T) {
	for name, tt := range map[string]struct {
		option func(*http.Request)
		status int
		result string
		reason string
	}{
		"GET":                      {method("GET"), 405, ResultUnsupported, "POST"},
		"PUT":                      {method("PUT"), 405, ResultUnsupported, "POST"},
		"HEAD":                     {method("HEAD"), 405, ResultUnsupported, "POST"},
		"OPTIONS":                  {method("OPTIONS"), 405, ResultUnsupported, "POST"},
		"no content type":          {with("Content-Type", ""), 415, ResultUnsupported, "Content-Type"},
		"other content type":       {with("Content-Type", "text/plain"), 415, ResultUnsupported, "Content-Type"},
		"multipart":                {with("Content-Type", "multipart/form-data; boundary=x"), 415, ResultUnsupported, "Content-Type"},
		"two content types":        {twice("Content-Type"), 415, ResultUnsupported, "Content-Type"},
		"gzip":                     {with("Content-Encoding", "gzip"), 415, ResultUnsupported, "Content-Encoding"},
		"no event":                 {with("X-GitHub-Event", ""), 400, ResultBadRequest, "X-GitHub-Event"},
		"two events":               {twice("X-GitHub-Event"), 400, ResultBadRequest, "X-GitHub-Event"},
		"no delivery":              {with("X-GitHub-Delivery", ""), 400, ResultBadRequest, "X-GitHub-Delivery"},
		"malformed delivery":       {with("X-GitHub-Delivery", "$(touch x)"), 400, ResultBadRequest, "X-GitHub-Delivery"},
		"two deliveries":           {twice("X-GitHub-Delivery"), 400, ResultBadRequest, "X-GitHub-Delivery"},
		"no signature":             {with("X-Hub-Signature-256", ""), 401, ResultUnauthorized, "X-Hub-Signature-256 is missing"},
		"malformed signature":      {with("X-Hub-Signature-256", "sha256=abc"), 401, ResultUnauthorized, "64 hexadecimal"},
		"two signatures":           {twice("X-Hub-Signature-256"), 401, ResultUnauthorized, "once"},
		"SHA-1 in the wrong place": {with("X-Hub-Signature-256", "sha1=01dc10d0c83e72ed246219cdd91669667fe2ca59"), 401, ResultUnauthorized, "sha256="},
		"only SHA-1": {func(r *http.Request) {
			r.Header.Del("X-Hub-Signature-256")
			r.Header.Set("X-Hub-Signature", "sha1=01dc10d0c83e72ed246219cdd91669667fe2ca59")
		}, 401, ResultUnauthorized, "SHA-1"},
		"announced too large": {func(r *http.Request) { r.ContentLength = 25<<20 + 1 }, 413, ResultTooLarge, "26214400 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			s := new(store)
			var results []string
			rc, _ := receiver(Config{Observe: func(result string, _ time.Duration) { results = append(results, result) }}, s)
			r := request("x", tt.option)
			r.Body = untouchable{t}
			w := post(rc, r)
			wantRefusal(t, w, tt.status, tt.reason)
			if len(s.rows) != 0 || len(results) != 1 || results[0] != tt.result {
				t.Errorf("%d rows, results %q, want %q", len(s.rows), results, tt.result)
			}
			if allow := w.Header().Get("Allow"); (allow == "POST") != (tt.status == 405) {
				t.Errorf("Allow %q", allow)
			}
		})
	}
}

func wantRefusal(t *testing.T, w *httptest.ResponseRecorder, status int, reason string) {
	t.Helper()
	var answer struct{ Error string }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Errorf("answer %q: %v", w.Body, err)
	}
	if w.Code != status || !strings.Contains(answer.Error, reason) || reason == "" {
		t.Errorf("answer %d %q, want %d with %q", w.Code, answer.Error, status, reason)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
}

func TestIdentityIsNoEncoding(t *testing.T) {
	rc, _ := receiver(Config{}, new(store))
	wantAnswer(t, post(rc, request("{}", with("Content-Encoding", "identity"))), 202, accepted("accepted"))
}

func TestRefusedForTheBody(t *testing.T) {
	form := with("Content-Type", "application/x-www-form-urlencoded")
	secretText := "hunter2-in-the-body"
	for name, tt := range map[string]struct {
		body   string
		option func(*http.Request)
		status int
		reason string
	}{
		"other secret":         {`{"a":"` + secretText + `"}`, signedBy("another"), 401, "matches no configured secret"},
		"empty secret":         {`{}`, signedBy(""), 401, "matches no configured secret"},
		"empty body, unsigned": {``, signedBy("another"), 401, "matches no configured secret"},
		"one byte more":        {`{} `, with("X-Hub-Signature-256", github.Sign([]byte(appSecret), []byte("{}"))), 401, "matches no"},
		"signature of the JSON": {"payload=%7B%7D", func(r *http.Request) {
			form(r)
			r.Header.Set("X-Hub-Signature-256", github.Sign([]byte(appSecret), []byte("{}")))
		}, 401, "matches no"},
		"form without payload":   {"other=" + secretText, form, 400, "no field named payload"},
		"empty form":             {"", form, 400, "no field named payload"},
		"empty payload":          {"payload=", form, 400, "not valid JSON"},
		"payload without equals": {"payload", form, 400, "not valid JSON"},
		"escape cut off":         {"payload=%7B%7", form, 400, "not URL-encoded"},
		"escape that is none":    {"payload=%zz" + secretText, form, 400, "not URL-encoded"},
		"form as JSON":           {"payload=%7B%7D", with("Content-Type", "application/json"), 400, "not valid JSON"},
		"JSON as form":           {`{"a":"` + secretText + `"}`, form, 400, "no field named payload"},
		"form of an array":       {"payload=[]", form, 400, "not an object"},
	} {
		t.Run(name, func(t *testing.T) {
			s := new(store)
			rc, log := receiver(Config{}, s)
			w := post(rc, request(tt.body, tt.option))
			wantRefusal(t, w, tt.status, tt.reason)
			if len(s.rows) != 0 {
				t.Error("a row was stored")
			}
			if strings.Contains(w.Body.String()+log.String(), secretText) {
				t.Errorf("the body is echoed: %s %s", w.Body, log)
			}
			if !strings.Contains(log.String(), tt.reason) || !strings.Contains(log.String(), guid) || !strings.Contains(log.String(), "event=issues") {
				t.Errorf("log %s", log)
			}
		})
	}
}

func TestMalformedPayloads(t *testing.T) {
	for name, body := range fixtures.Malformed() {
		t.Run(name, func(t *testing.T) {
			s := new(store)
			rc, log := receiver(Config{}, s)
			wantRefusal(t, post(rc, request(body)), 400, "the payload is ")
			if len(s.rows) != 0 || !strings.Contains(log.String(), "source=acme-bot") || !strings.Contains(log.String(), "reading the payload") {
				t.Errorf("%d rows, log %s", len(s.rows), log)
			}
		})
	}
}

func TestSizeLimit(t *testing.T) {
	const limit = 100_000
	exact := `{"a":"` + strings.Repeat("x", limit-8) + `"}`
	unknownLength := func(r *http.Request) { r.ContentLength = -1 }
	for name, tt := range map[string]struct {
		body   string
		option func(*http.Request)
		status int
	}{
		"exactly the limit":                  {exact, with("Accept", "*/*"), 202},
		"exactly the limit, unknown length":  {exact, unknownLength, 202},
		"one more":                           {exact + " ", with("Accept", "*/*"), 413},
		"one more, unknown length":           {exact + " ", unknownLength, 413},
		"far more, unknown length":           {exact + strings.Repeat(" ", 1<<20), unknownLength, 413},
		"short body, unknown length":         {"{}", unknownLength, 202},
		"longer than announced, by a sender": {exact, func(r *http.Request) { r.ContentLength = 2 }, 202},
	} {
		t.Run(name, func(t *testing.T) {
			s := new(store)
			rc, log := receiver(Config{MaxBody: limit}, s)
			w := post(rc, request(tt.body, tt.option))
			if w.Code != tt.status {
				t.Errorf("answer %d %s, want %d", w.Code, w.Body, tt.status)
			}
			if tt.status == 413 {
				wantRefusal(t, w, 413, "larger than 100000 bytes")
				if len(s.rows) != 0 || !strings.Contains(log.String(), "status=413") {
					t.Errorf("%d rows, log %s", len(s.rows), log)
				}
			} else if len(s.rows) != 1 || s.rows[0].payload != tt.body {
				t.Error("the payload is not stored as sent")
			}
		})
	}
}

func TestLargestDelivery(t *testing.T) {
	s := new(store)
	rc, _ := receiver(Config{}, s)
	body := `{"padding":"` + strings.Repeat("x", 249*100_000) + `"}`
	wantAnswer(t, post(rc, request(body)), 202, accepted("accepted"))
	if len(s.rows) != 1 || s.rows[0].payload != body {
		t.Error("24.9 MB are not stored as sent")
	}
}

func TestBodyThatBreaksOff(t *testing.T) {
	s := new(store)
	rc, _ := receiver(Config{}, s)
	r := request("{}")
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), brokenReader{}))
	wantRefusal(t, post(rc, r), 400, "ended early")
	if len(s.rows) != 0 {
		t.Error("a row was stored")
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("connection reset by peer") }

func TestDraining(t *testing.T) {
	s := new(store)
	var results []string
	rc, _ := receiver(Config{Observe: func(result string, _ time.Duration) { results = append(results, result) }}, s)
	wantAnswer(t, post(rc, request("{}")), 202, accepted("accepted"))
	rc.Drain()
	r := request("{}")
	r.Body = untouchable{t}
	wantRefusal(t, post(rc, r), 503, "shutting down")
	if len(s.rows) != 1 || len(results) != 2 || results[1] != ResultUnavailable {
		t.Errorf("%d rows, results %q", len(s.rows), results)
	}
}

// A body that is being read when the shutdown begins is still stored.
func TestDrainingLetsReadersFinish(t *testing.T) {
	s := new(store)
	rc, _ := receiver(Config{}, s)
	r := request("{}")
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), readFunc(func() { rc.Drain() }), strings.NewReader("}")))
	wantAnswer(t, post(rc, r), 202, accepted("accepted"))
	if len(s.rows) != 1 {
		t.Error("nothing was stored")
	}
}

type readFunc func()

func (f readFunc) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

// A payload that breaks the reader of facts is owned without facts, if it is JSON at all.
func TestPanicWhileReadingFacts(t *testing.T) {
	for body, status := range map[string]int{`{"action":"opened"}`: 202, " \n{}": 202, `[]`: 400, `{`: 400, ``: 400} {
		s := new(store)
		rc, log := receiver(Config{}, s)
		rc.readFacts = func(string, []byte) (github.Facts, error) { panic("payload text: " + body) }
		w := post(rc, request(body))
		if w.Code != status || len(s.rows) != map[int]int{202: 1, 400: 0}[status] {
			t.Errorf("%q: answer %d %s, %d rows", body, w.Code, w.Body, len(s.rows))
		}
		if !strings.Contains(log.String(), "panicked") || strings.Contains(log.String(), "payload text") {
			t.Errorf("%q: log %s", body, log)
		}
	}
}

func TestMismatchIsLoggedWithWhatAProxyMayHaveChanged(t *testing.T) {
	rc, log := receiver(Config{}, new(store))
	r := request("{}", signedBy("another"))
	r.TransferEncoding = []string{"chunked"}
	r.ContentLength = -1
	w := post(rc, r)
	for _, want := range []string{"body_bytes=2", "content_length=-1", "transfer_encoding=chunked", "content_encoding=", "delivery_id=" + guid, "level=WARN"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log lacks %s: %s", want, log)
		}
	}
	for _, secret := range []string{appSecret, oldSecret, hookSecret} {
		digest := strings.TrimPrefix(github.Sign([]byte(secret), []byte("{}")), "sha256=")
		if text := log.String() + w.Body.String(); strings.Contains(text, digest) || strings.Contains(text, secret) {
			t.Errorf("a digest or secret shows: %s", text)
		}
	}
	if strings.Contains(log.String(), r.Header.Get("X-Hub-Signature-256")[7:]) {
		t.Error("the signature shows")
	}
}

// Anybody can make the server refuse; that must not fill the disk. GitHub's own refusals stay.
func TestFloodOfRefusalsIsRationedInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rc, log := receiver(Config{}, new(store))
		for range 500 {
			r := request("", with("X-Hub-Signature-256", ""), with("X-GitHub-Delivery", `<script>`))
			r.ContentLength = 25 << 20
			r.Body = untouchable{t}
			post(rc, r)
		}
		if got := strings.Count(log.String(), "\n"); got != recordsPerMinute {
			t.Errorf("%d records, want %d", got, recordsPerMinute)
		}
		if strings.Contains(log.String(), "script") {
			t.Error("an unchecked header shows in the log")
		}
		log.Reset()
		post(rc, request("[]"))
		if !strings.Contains(log.String(), "not an object") {
			t.Errorf("a signed refusal is not logged: %s", log)
		}
		log.Reset()
		time.Sleep(time.Minute)
		post(rc, request("", with("X-Hub-Signature-256", "")))
		if !strings.Contains(log.String(), "unlogged=440") {
			t.Errorf("log %s", log)
		}
	})
}
