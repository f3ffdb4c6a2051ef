package trigger

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

func TestFilter(t *testing.T) {
	const big = `{"n":18446744073709551616,"huge":1e400,"f":7.0,"e":7e0,"neg":-3,"id":3804004623172239366,"text":"TOP-SECRET",
		"gone":null,"list":[],"nums":[1,2],"obj":{"a":{"b":1}},"dup":1,"dup":2,"re":"("}`
	for name, c := range map[string]struct {
		expr    string
		payload string
		verdict queue.Verdict
		reason  string // without "if: "
	}{
		"true":                       {`true`, "", queue.Matched, ""},
		"false":                      {`false`, "", queue.Filtered, "false"},
		"event and action":           {`event == "issues" && action == "opened"`, "", queue.Matched, ""},
		"repo, sender, subject":      {`repo == "acme/api" && sender == "octocat" && subject == "acme/api#7"`, "", queue.Matched, ""},
		"headers are lower-case":     {`headers["x-github-event"] == "issues" && !("X-GitHub-Event" in headers)`, "", queue.Matched, ""},
		"integer equals":             {`body.issue.number == 7`, issuePayload, queue.Matched, ""},
		"integer compares to float":  {`body.issue.number < 7.5`, issuePayload, queue.Matched, ""},
		"float":                      {`body.issue.score > 7`, issuePayload, queue.Matched, ""},
		"float that is whole":        {`body.f == 7 && body.e == 7`, big, queue.Matched, ""},
		"negative":                   {`body.neg == -3`, big, queue.Matched, ""},
		"id beyond 2^53":             {`body.id == 3804004623172239366 && body.id != 3804004623172239367`, big, queue.Matched, ""},
		"beyond int64":               {`body.n > 9e18`, big, queue.Matched, ""},
		"beyond float64":             {`body.huge > 1e300`, big, queue.Matched, ""},
		"last duplicate":             {`body.dup == 2`, big, queue.Matched, ""},
		"null":                       {`body.issue.body == null`, issuePayload, queue.Matched, ""},
		"exists":                     {`body.issue.labels.exists(l, l.name == "bug")`, issuePayload, queue.Matched, ""},
		"string extension":           {`body.issue.title.lowerAscii().startsWith("crash")`, issuePayload, queue.Matched, ""},
		"matches":                    {`body.issue.title.matches("^Cr.*h$")`, issuePayload, queue.Matched, ""},
		"has":                        {`has(body.comment)`, issuePayload, queue.Filtered, "false"},
		"optional":                   {`body.?comment.?body.orValue("x") == "x"`, issuePayload, queue.Matched, ""},
		"dyn that is bool":           {`body.ok`, `{"ok":true}`, queue.Matched, ""},
		"dyn that is not bool":       {`body.issue.title`, issuePayload, queue.Errored, "the expression gave string, where true or false is needed"},
		"missing key":                {`body.comment.body.startsWith("/agent")`, issuePayload, queue.Filtered, "no such key: comment"},
		"missing nested key":         {`body.issue.milestone.title == "x"`, issuePayload, queue.Filtered, "no such key: milestone"},
		"missing header":             {`headers["x-other"] == "x"`, issuePayload, queue.Filtered, "no such key: x-other"},
		"missing key below null":     {`body.gone.login == "x"`, big, queue.Filtered, "no such key: login"},
		"missing key of the payload": {`body.obj[body.text] == 1`, big, queue.Filtered, "no such key"},
		"missing element":            {`body.list[0] == 1`, big, queue.Filtered, "no such element"},
		"missing but decided":        {`event == "issues" || body.comment.x`, issuePayload, queue.Matched, ""},
		"missing in or":              {`body.comment.x || event == "issues"`, issuePayload, queue.Matched, ""},
		"division":                   {`body.nums[0] / 0 == 1`, big, queue.Errored, "division by zero"},
		"conversion":                 {`int(body.text) == 1`, big, queue.Errored, "type conversion error"},
		"overload":                   {`body.text + 1 == 2`, big, queue.Errored, "no such overload"},
		"bad regexp in payload":      {`"x".matches(body.re)`, big, queue.Errored, "error parsing regexp"},
		"time":                       {`timestamp(body.text) > timestamp("2020-01-01T00:00:00Z")`, big, queue.Errored, ""},
		"not an object":              {`body.x == 1`, `[1]`, queue.Errored, "the payload is not a JSON object"},
		"not an object, not needed":  {`event == "issues" || body.x == 1`, `[1]`, queue.Matched, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := compileFilter(c.expr)
			if err != nil {
				t.Fatal(err)
			}
			verdict, reason := f.eval(context.Background(), event(c.payload, nil))
			if verdict != c.verdict || !strings.HasPrefix(reason, c.reason) || c.reason == "" && reason != "" && verdict != queue.Errored {
				t.Errorf("got %s %q, want %s %q", verdict, reason, c.verdict, c.reason)
			}
			if strings.Contains(reason, "SECRET") {
				t.Errorf("the reason quotes the payload: %q", reason)
			}
		})
	}
}

func TestFilterNamesThePlaceOfAFailure(t *testing.T) {
	f, err := compileFilter("true &&\n  1 / body.zero == 1")
	if err != nil {
		t.Fatal(err)
	}
	if _, reason := f.eval(context.Background(), event(`{"zero":0}`, nil)); reason != "division by zero at 2:5" {
		t.Errorf("got %q", reason)
	}
}

func TestFilterCompileErrors(t *testing.T) {
	for expr, want := range map[string]string{
		`evnt == "push"`:                 "1:1: undeclared reference to 'evnt'",
		"true &&\n  evnt == 'x'":         "2:3: undeclared reference",
		`event == 5`:                     "no matching overload",
		`event`:                          "the expression gives string",
		`body`:                           "the expression gives map",
		`1`:                              "the expression gives int",
		`event ==`:                       "1:9: Syntax error",
		`sender.matches("(")`:            "error parsing regexp",
		`headers["a"] == 1`:              "no matching overload",
		`body.x.foo()`:                   "undeclared reference to 'foo'",
		strings.Repeat("(", 500):         "",
		strings.Repeat("!", 5000) + "on": "",
	} {
		_, err := compileFilter(expr)
		if err == nil {
			t.Errorf("%.40s compiles", expr)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %s", expr, err, want)
		}
	}
}

// numbers builds a payload with a list of n numbers.
func numbers(n int) string {
	var b strings.Builder
	b.WriteString(`{"list":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(i))
	}
	b.WriteString(`]}`)
	return b.String()
}

func TestFilterIsStopped(t *testing.T) {
	payload := event(numbers(200_000), nil)
	for name, c := range map[string]struct {
		expr string
		ev   *Event
	}{
		"nested all":   {`body.list.all(a, body.list.all(b, a + b >= 0))`, payload},
		"one long all": {`body.list.all(a, a >= 0)`, payload},
		"map and join": {`body.list.map(a, string(a)).join(",").size() > 0`, payload},
		"replace":      {`body.s.replace("a", body.s).replace("a", body.s).size() > 0`, event(`{"s":"`+strings.Repeat("a", 2000)+`"}`, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := compileFilter(c.expr)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.ev.Body(); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			verdict, reason := f.eval(context.Background(), c.ev)
			if verdict != queue.Errored || !strings.HasPrefix(reason, "stopped: ") {
				t.Errorf("got %s %q", verdict, reason)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestFilterEndsWithTheContext(t *testing.T) {
	s := newSet(t, compile(t, func(s *Spec) { s.If = `body.list.all(c, c >= 0)` }))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Decide(ctx, event(numbers(1000), nil), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
