package trigger

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

func TestBody(t *testing.T) {
	for name, c := range map[string]struct {
		payload string
		want    map[string]any // nil: an error
	}{
		"object":                   {`{"a":"b"}`, map[string]any{"a": "b"}},
		"byte order mark":          {"\xef\xbb\xbf{\"a\":true}", map[string]any{"a": true}},
		"space around":             {" \n{}\t ", map[string]any{}},
		"integer":                  {`{"a":7}`, map[string]any{"a": int64(7)}},
		"minus zero":               {`{"a":-0}`, map[string]any{"a": int64(0)}},
		"largest int64":            {`{"a":9223372036854775807}`, map[string]any{"a": int64(math.MaxInt64)}},
		"smallest int64":           {`{"a":-9223372036854775808}`, map[string]any{"a": int64(math.MinInt64)}},
		"beyond int64":             {`{"a":9223372036854775808}`, map[string]any{"a": float64(1 << 63)}},
		"fraction":                 {`{"a":7.5}`, map[string]any{"a": 7.5}},
		"whole fraction":           {`{"a":7.0}`, map[string]any{"a": float64(7)}},
		"exponent":                 {`{"a":1E2}`, map[string]any{"a": float64(100)}},
		"beyond float64":           {`{"a":1e400,"b":-1e400}`, map[string]any{"a": math.MaxFloat64, "b": -math.MaxFloat64}},
		"too small for float64":    {`{"a":1e-400}`, map[string]any{"a": float64(0)}},
		"nested":                   {`{"a":[1,{"b":[2]},null]}`, map[string]any{"a": []any{int64(1), map[string]any{"b": []any{int64(2)}}, nil}}},
		"last duplicate wins":      {`{"a":{"x":1},"a":{"y":2}}`, map[string]any{"a": map[string]any{"y": int64(2)}}},
		"keys keep their case":     {`{"A":1,"a":2}`, map[string]any{"A": int64(1), "a": int64(2)}},
		"zero character":           {`{"a":"\u0000"}`, map[string]any{"a": "\x00"}},
		"lone surrogate":           {`{"a":"\ud83d"}`, map[string]any{"a": "\ufffd"}},
		"invalid UTF-8":            {"{\"a\":\"\xff\"}", map[string]any{"a": "\ufffd"}},
		"list":                     {`[]`, nil},
		"null":                     {`null`, nil},
		"string":                   {`"x"`, nil},
		"empty":                    {``, nil},
		"two objects":              {`{}{}`, nil},
		"garbage behind":           {`{"a":1}x`, nil},
		"cut":                      {`{"a":`, nil},
		"two marks":                {"\xef\xbb\xbf\xef\xbb\xbf{}", nil},
		"deeper than JSON allowed": {`{"a":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := event(c.payload, nil).Body()
			if (err != nil) != (c.want == nil) || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
}

func TestBodyIsDecodedOnce(t *testing.T) {
	ev := event(`{"a":{}}`, nil)
	first, _ := ev.Body()
	first["mark"] = true
	if second, _ := ev.Body(); second["mark"] != true {
		t.Error("decoded twice")
	}
}

func TestBodyIsDecodedOnlyWhenNeeded(t *testing.T) {
	triggers := []*Trigger{
		compile(t, func(s *Spec) { s.Name, s.If = "by-header", `headers["x-github-event"] == "issues"` }),
		compile(t, func(s *Spec) { s.Name, s.If = "short-circuit", `event == "push" && body.x == 1` }),
		compile(t, func(s *Spec) { s.Name, s.If, s.Repos = "other-repo", `body.x == 1`, []string{"other/*"} }),
		compile(t, func(s *Spec) { s.Name, s.If, s.Enabled = "off", `body.x == 1`, false }),
		compile(t, func(s *Spec) { s.Name, s.Prompt = "prompt", `{{ .body.x }}` }),
	}
	ev := NewEvent(delivery(nil), nil, now)
	ev.body = func() (map[string]any, error) { t.Error("decoded"); return nil, nil }
	if _, err := newSet(t, triggers...).Decide(t.Context(), ev, nil); err != nil {
		t.Error(err)
	}
}

func TestHeadersAreLowerCase(t *testing.T) {
	want := map[string]string{"x-github-event": "issues", "user-agent": "GitHub-Hookshot/1"}
	if got := event("", nil).Headers(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}

// FuzzBody holds the decoder to encoding/json, and its result to what rules rely on.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{issuePayload, `{"a":1e400,"a":[-0,1.5,{"b":18446744073709551616}]}`, "\xef\xbb\xbf{}", `{}x`, `[]`, `{"a":"\ud83d\u0000"}`} {
		f.Add([]byte(seed))
	}
	set := newSet(f, compile(f, func(s *Spec) {
		s.If = `has(body.a) && body.a.b.c == 7 && body.issue.labels.all(l, l.name.size() < 9)`
		s.Prompt = `{{ .body.a.b.c }}{{ range .body.issue.labels }}{{ .name }}{{ end }}{{ . }}`
	}))
	f.Fuzz(func(t *testing.T, payload []byte) {
		ev := NewEvent(delivery(nil), payload, now)
		got, err := ev.Body()
		trimmed := strings.TrimPrefix(string(payload), "\xef\xbb\xbf")
		object := json.Valid([]byte(trimmed)) && strings.HasPrefix(strings.TrimLeft(trimmed, " \t\r\n"), "{")
		if object != (err == nil) {
			t.Fatalf("an object: %v, error: %v", object, err)
		}
		var plain func(any)
		plain = func(v any) {
			switch v := v.(type) {
			case nil, string, bool, int64:
			case float64:
				if math.IsInf(v, 0) || math.IsNaN(v) {
					t.Fatalf("%v has no JSON form", v)
				}
			case []any:
				for _, e := range v {
					plain(e)
				}
			case map[string]any:
				for _, e := range v {
					plain(e)
				}
			default:
				t.Fatalf("a %T", v)
			}
		}
		if err == nil {
			plain(got)
		}
		results, err := set.Decide(t.Context(), ev, nil)
		if err != nil || len(results) != 1 || !strings.HasPrefix(results[0].Reason, "if: ") && results[0].Verdict != queue.Matched {
			t.Fatalf("got %v, %v", results, err)
		}
		_, _ = set.Triggers()[0].Prompt(Vars{Event: ev})
	})
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		72 * time.Hour: "72h", 90 * time.Minute: "1h30m", time.Minute: "1m", 61 * time.Second: "1m1s",
		10 * time.Second: "10s", 0: "0s", time.Hour + 10*time.Second: "1h0m10s", 1500 * time.Millisecond: "2s",
	} {
		if got := short(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}
