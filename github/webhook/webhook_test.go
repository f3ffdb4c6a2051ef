package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-de999ace/preloop/fixtures"
	"github.com/seed-de999ace/preloop/github"
	"github.com/seed-de999ace/preloop/queue"
)

const (
	guid       = "72d3162e-cc78-11e3-81ab-4c9367dc0958"
	appSecret  = "app secret, current"
	oldSecret  = "app secret, old"
	hookSecret = "hook secret"
	orgSecret  = "org secret"
)

var sources = []Source{
	{Key: "app-12345", Name: "acme-bot", TargetType: "integration", TargetID: 12345, Secrets: []Secret{
		{Name: "current", Value: []byte(appSecret)}, {Name: "old", Value: []byte(oldSecret)},
	}},
	{Key: "hook-4711", TargetType: "repository", Repo: "Acme/Widgets", Secrets: []Secret{{Name: "1", Value: []byte(hookSecret)}}},
	{Key: "hook-4713", Name: "acme-org", TargetType: "organization", Org: "ACME", Secrets: []Secret{{Name: "1", Value: []byte(orgSecret)}}},
}

// store is an Enqueuer in memory.
type store struct {
	mu       sync.Mutex
	rows     []row
	enqueue  func(ctx context.Context, attempt int) (queue.EnqueueResult, error) // instead of accepting
	attempts int
}

type row struct {
	queue.Delivery
	payload string
}

func (s *store) Enqueue(ctx context.Context, d queue.Delivery, payload []byte) (queue.EnqueueResult, error) {
	s.mu.Lock()
	s.attempts++
	attempt := s.attempts
	s.mu.Unlock()
	result := queue.Accepted
	if s.enqueue != nil {
		var err error
		if result, err = s.enqueue(ctx, attempt); err != nil {
			return "", err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows = append(s.rows, row{d, string(payload)})
	return result, nil
}

// receiver returns a receiver of the sources above with its log.
func receiver(cfg Config, q Enqueuer) (*Receiver, *bytes.Buffer) {
	var log bytes.Buffer
	if cfg.Sources == nil {
		cfg.Sources = sources
	}
	return New(cfg, q, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))), &log
}

// request is a delivery as the app sends it; options change it.
func request(body string, options ...func(*http.Request)) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/api/v1/github/webhooks", strings.NewReader(body))
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "GitHub-Hookshot/044aadd", "Accept": "*/*",
		"X-GitHub-Event": "issues", "X-GitHub-Delivery": guid, "X-GitHub-Hook-ID": "292430182",
		"X-GitHub-Hook-Installation-Target-Type": "integration", "X-GitHub-Hook-Installation-Target-ID": "12345",
		"X-Hub-Signature-256": github.Sign([]byte(appSecret), []byte(body)),
	} {
		r.Header.Set(name, value)
	}
	for _, option := range options {
		option(r)
	}
	return r
}

// with sets a header, or removes it.
func with(name, value string) func(*http.Request) {
	return func(r *http.Request) {
		if r.Header.Set(name, value); value == "" {
			r.Header.Del(name)
		}
	}
}

// signedBy signs the body that the request has.
func signedBy(secret string) func(*http.Request) {
	return func(r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.Header.Set("X-Hub-Signature-256", github.Sign([]byte(secret), body))
	}
}

func post(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func wantAnswer(t *testing.T, w *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	if w.Code != status || w.Body.String() != body {
		t.Errorf("answer %d %s, want %d %s", w.Code, w.Body, status, body)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
}

func accepted(status string) string {
	return `{"delivery_id":"` + guid + `","status":"` + status + `"}`
}

func TestDelivery(t *testing.T) {
	s := new(store)
	rc, _ := receiver(Config{}, s)
	p := fixtures.Get("issues.opened")
	start := time.Now()
	wantAnswer(t, post(rc, request(string(p.Body),
		with("X-GitHub-Enterprise-Version", "3.19.0"), with("X-GitHub-Enterprise-Host", "ghe.acme.example"),
		with("X-Github-Encoded-Secret", "c2VjcmV0"), with("X-Hub-Signature", "sha1=01dc"), with("Cookie", "session=1"),
		with("Authorization", "Bearer x"),
	)), http.StatusAccepted, accepted("accepted"))

	if len(s.rows) != 1 {
		t.Fatalf("%d rows", len(s.rows))
	}
	got := s.rows[0]
	if got.ReceivedAt.Before(start) || got.ReceivedAt.After(time.Now()) {
		t.Errorf("received at %v", got.ReceivedAt)
	}
	got.ReceivedAt = time.Time{}
	want := row{queue.Delivery{
		ID: guid, Source: "app-12345", SourceName: "acme-bot", Event: "issues",
		Facts: queue.Facts{
			Action: "opened", Repo: "acme/widgets", RepoID: 724001, Subject: "acme/widgets#118", SubjectNum: 118,
			Sender: "mira-holt", Org: "acme", Installation: 5150001,
		},
		Headers: map[string]string{
			"X-GitHub-Event": "issues", "X-GitHub-Delivery": guid, "X-GitHub-Hook-ID": "292430182",
			"X-GitHub-Hook-Installation-Target-Type": "integration", "X-GitHub-Hook-Installation-Target-ID": "12345",
			"X-GitHub-Enterprise-Version": "3.19.0", "X-GitHub-Enterprise-Host": "ghe.acme.example",
			"User-Agent": "GitHub-Hookshot/044aadd", "Content-Type": "application/json",
		},
		Size: len(p.Body), Secret: "current",
	}, string(p.Body)}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

func TestResultsOfTheStore(t *testing.T) {
	for _, result := range []queue.EnqueueResult{queue.Accepted, queue.Duplicate, queue.Requeued} {
		s := &store{enqueue: func(context.Context, int) (queue.EnqueueResult, error) { return result, nil }}
		var observed []string
		rc, _ := receiver(Config{Observe: func(result string, took time.Duration) {
			observed = append(observed, fmt.Sprint(result, took >= 0))
		}}, s)
		wantAnswer(t, post(rc, request("{}")), http.StatusAccepted, accepted(string(result)))
		if diff := cmp.Diff([]string{string(result) + "true"}, observed); diff != "" {
			t.Error(diff)
		}
	}
}

// Every payload is stored byte for byte, with its facts, whichever way it is sent.
func TestEveryPayload(t *testing.T) {
	for _, p := range fixtures.All() {
		t.Run(p.Name, func(t *testing.T) {
			form := url.Values{"payload": {string(p.Body)}}.Encode()
			for name, r := range map[string]*http.Request{
				"json":          request(string(p.Body)),
				"form":          request(form, with("Content-Type", "application/x-www-form-urlencoded")),
				"form, escaped": request("payload="+percentEncode(p.Body), with("Content-Type", "Application/X-WWW-Form-Urlencoded; charset=utf-8")),
				"bom":           request("\uFEFF"+string(p.Body), with("Content-Type", "application/json; charset=utf-8")),
			} {
				s := new(store)
				rc, _ := receiver(Config{}, s)
				r.Header.Set("X-GitHub-Event", p.Event)
				wantAnswer(t, post(rc, r), http.StatusAccepted, accepted("accepted"))
				if len(s.rows) != 1 {
					t.Fatalf("%s: %d rows", name, len(s.rows))
				}
				got := s.rows[0]
				if got.payload != string(p.Body) || got.Size != len(p.Body) {
					t.Errorf("%s: stored payload differs, size %d", name, got.Size)
				}
				if got.Repo != p.Want.Repo || got.Subject != p.Want.Subject() || got.Action != p.Want.Action || got.Sender != p.Want.Sender {
					t.Errorf("%s: facts %+v", name, got.Facts)
				}
				if strings.HasPrefix(name, "form") && got.Headers["Content-Type"] != "application/json" {
					t.Errorf("%s: the JSON is described as %s", name, got.Headers["Content-Type"])
				}
			}
		})
	}
}

func percentEncode(body []byte) string {
	out := make([]byte, 0, 3*len(body))
	for i, c := range body {
		digits := "0123456789abcdef"
		if i%2 == 0 {
			digits = "0123456789ABCDEF"
		}
		out = append(out, '%', digits[c>>4], digits[c&15])
	}
	return string(out)
}

func TestFormWithOtherFields(t *testing.T) {
	s := new(store)
	rc, _ := receiver(Config{}, s)
	body := "a=1&payload=%7B%22zen%22%3A%22Speak+like+a+human.%22%7D&payload=%7B%7D&b"
	post(rc, request(body, with("Content-Type", "application/x-www-form-urlencoded")))
	if len(s.rows) != 1 || s.rows[0].payload != `{"zen":"Speak like a human."}` {
		t.Errorf("stored %+v", s.rows)
	}
}

func TestTokenForms(t *testing.T) {
	for name, tt := range map[string]struct {
		header, value string
		want          int
	}{
		"GUID":                {"X-GitHub-Delivery", guid, 202},
		"one character":       {"X-GitHub-Delivery", "7", 202},
		"every kind":          {"X-GitHub-Delivery", "aZ09-_.", 202},
		"longest":             {"X-GitHub-Delivery", strings.Repeat("x", 128), 202},
		"too long":            {"X-GitHub-Delivery", strings.Repeat("x", 129), 400},
		"missing":             {"X-GitHub-Delivery", "", 400},
		"slash":               {"X-GitHub-Delivery", "a/b", 400},
		"space":               {"X-GitHub-Delivery", "a b", 400},
		"quote":               {"X-GitHub-Delivery", `a"b`, 400},
		"not ASCII":           {"X-GitHub-Delivery", "ä", 400},
		"event":               {"X-GitHub-Event", "check_run", 202},
		"event with digits":   {"X-GitHub-Event", "projects_v2", 202},
		"unknown event":       {"X-GitHub-Event", "widget_inspection", 202},
		"longest event":       {"X-GitHub-Event", strings.Repeat("e", 64), 202},
		"too long event":      {"X-GitHub-Event", strings.Repeat("e", 65), 400},
		"missing event":       {"X-GitHub-Event", "", 400},
		"event in upper case": {"X-GitHub-Event", "Push", 400},
		"event with a dash":   {"X-GitHub-Event", "check-run", 400},
	} {
		t.Run(name, func(t *testing.T) {
			s := new(store)
			rc, _ := receiver(Config{}, s)
			if got := post(rc, request("{}", with(tt.header, tt.value))); got.Code != tt.want {
				t.Errorf("answer %d %s, want %d", got.Code, got.Body, tt.want)
			}
			if len(s.rows) != map[int]int{202: 1, 400: 0}[tt.want] {
				t.Errorf("%d rows", len(s.rows))
			}
		})
	}
}

func TestNothingDependsOnTheCaseOfHeaderNames(t *testing.T) {
	s := new(store)
	rc, _ := receiver(Config{}, s)
	server := httptest.NewServer(rc)
	defer server.Close()
	r := request("{}")
	r.RequestURI = ""
	r.URL, _ = url.Parse(server.URL)
	lower := http.Header{}
	for name, values := range r.Header {
		lower[strings.ToLower(name)] = values
	}
	r.Header = lower
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted || len(s.rows) != 1 || s.rows[0].Headers["X-GitHub-Event"] != "issues" {
		t.Errorf("answer %d, stored %+v", resp.StatusCode, s.rows)
	}
}

func TestManyAtOnce(t *testing.T) {
	s := new(store)
	rc, _ := receiver(Config{Observe: func(string, time.Duration) {}}, s)
	push := string(fixtures.Push(100_000))
	want := map[string]string{}
	var all sync.WaitGroup
	for n := range 1000 {
		id := fmt.Sprintf("delivery-%d", n)
		body := fmt.Sprintf(`{"action":"opened","issue":{"number":%d},"repository":{"full_name":"acme/widgets"}}`, n+1)
		if n%100 == 0 {
			body = push
		}
		want[id] = body
		all.Go(func() {
			if w := post(rc, request(body, with("X-GitHub-Delivery", id))); w.Code != http.StatusAccepted || !strings.Contains(w.Body.String(), `"`+id+`"`) {
				t.Errorf("%s: %d %s", id, w.Code, w.Body)
			}
		})
	}
	all.Wait()
	for _, row := range s.rows {
		if want[row.ID] != row.payload {
			t.Errorf("%s: stored %.100s", row.ID, row.payload)
		}
		if row.Subject != "" && !strings.Contains(row.payload, fmt.Sprintf(`"number":%d}`, row.SubjectNum)) {
			t.Errorf("%s: subject %s", row.ID, row.Subject)
		}
		delete(want, row.ID)
	}
	if len(want) != 0 {
		t.Errorf("%d deliveries are missing", len(want))
	}
	if got := rc.memory; got.free != 256<<20-(25<<20+1) || !got.spare || len(got.waiters) != 0 {
		t.Errorf("memory is not given back: %+v", got)
	}
}

func TestAnswerIsJSON(t *testing.T) {
	rc, _ := receiver(Config{}, new(store))
	for _, w := range []*httptest.ResponseRecorder{post(rc, request("{}")), post(rc, request("[]"))} {
		var answer map[string]string
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Errorf("%s: %v", w.Body, err)
		}
	}
}
