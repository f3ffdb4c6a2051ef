package trigger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// github answers questions and counts them.
type github struct {
	files    []string
	partial  bool
	role     string
	err      error
	panics   any
	asked    int
	lastBody map[string]any
}

func (g *github) ChangedFiles(_ context.Context, _ *queue.Delivery, body map[string]any) ([]string, bool, error) {
	g.asked++
	g.lastBody = body
	if g.panics != nil {
		panic(g.panics)
	}
	return g.files, !g.partial, g.err
}

func (g *github) Permission(context.Context, *queue.Delivery) (string, error) {
	g.asked++
	if g.panics != nil {
		panic(g.panics)
	}
	return g.role, g.err
}

func pullRequest(d *queue.Delivery) { d.Event, d.Action = "pull_request", "synchronize" }

func push(d *queue.Delivery) {
	d.Event = "push"
	d.Action, d.Subject, d.SubjectNum = "", "", 0
}

func TestDecide(t *testing.T) {
	apiPaths := func(s *Spec) { s.Paths = []string{"api/**", "!**/*.md"} }
	needsWrite := func(s *Spec) { s.Permission = "write" }
	lost := errors.New("GET /repos: 403")
	for name, c := range map[string]struct {
		spec     func(*Spec)
		delivery func(*queue.Delivery)
		payload  string
		github   *github // nil: no question is expected
		asked    int
		verdict  queue.Verdict // empty: an error of Decide
		reason   string
	}{
		"matches":                {nil, nil, issuePayload, nil, 0, queue.Matched, "on: issues.opened"},
		"matches without action": {nil, push, `{}`, nil, 0, queue.Matched, "on: push"},

		"off":             {func(s *Spec) { s.Enabled = false }, nil, "", nil, 0, queue.Ignored, "off: the trigger is not enabled"},
		"off comes first": {func(s *Spec) { s.Enabled, s.Repos = false, []string{"x/y"} }, nil, "", nil, 0, queue.Ignored, "off: "},

		"repos match":            {func(s *Spec) { s.Repos = []string{"ACME/*"} }, nil, "", nil, 0, queue.Matched, "on: "},
		"repos differ":           {func(s *Spec) { s.Repos = []string{"acme/web", "other/*"} }, nil, "", nil, 0, queue.Filtered, "repos: acme/api is not among them"},
		"repos exclude":          {func(s *Spec) { s.Repos = []string{"acme/*", "!acme/API"} }, nil, "", nil, 0, queue.Filtered, "repos: acme/api is not"},
		"repos without one":      {func(s *Spec) { s.Repos = []string{"acme/*"} }, func(d *queue.Delivery) { d.Repo = "" }, "", nil, 0, queue.Filtered, "repos: the event names no repository"},
		"exclusion without one":  {func(s *Spec) { s.Repos = []string{"!acme/*"} }, func(d *queue.Delivery) { d.Repo = "" }, "", nil, 0, queue.Matched, "on: "},
		"repos come before bots": {func(s *Spec) { s.Repos = []string{"x/y"} }, func(d *queue.Delivery) { d.SenderBot = true }, "", nil, 0, queue.Filtered, "repos: "},

		"bot":                 {nil, func(d *queue.Delivery) { d.Sender, d.SenderBot = "acme-bot[bot]", true }, "", nil, 0, queue.Ignored, "bots: sent by the bot acme-bot[bot]"},
		"bot allowed":         {func(s *Spec) { s.Bots = true }, func(d *queue.Delivery) { d.SenderBot = true }, "", nil, 0, queue.Matched, "on: "},
		"bot comes before if": {func(s *Spec) { s.If = "false" }, func(d *queue.Delivery) { d.SenderBot = true }, "", nil, 0, queue.Ignored, "bots: "},

		"old":              {func(s *Spec) { s.MaxAge = 72 * time.Hour }, func(d *queue.Delivery) { d.ReceivedAt = now.Add(-80 * time.Hour) }, "", nil, 0, queue.Filtered, "max_age: received 80h ago, more than 72h"},
		"just young":       {func(s *Spec) { s.MaxAge = 72 * time.Hour }, func(d *queue.Delivery) { d.ReceivedAt = now.Add(-72 * time.Hour) }, "", nil, 0, queue.Matched, "on: "},
		"old but forced":   {func(s *Spec) { s.MaxAge = time.Hour }, func(d *queue.Delivery) { d.ReceivedAt, d.Force = now.Add(-80*time.Hour), true }, "", nil, 0, queue.Matched, "on: "},
		"forced, filtered": {func(s *Spec) { s.If = "false" }, func(d *queue.Delivery) { d.Force = true }, "", nil, 0, queue.Filtered, "if: false"},
		"no limit of age":  {nil, func(d *queue.Delivery) { d.ReceivedAt = now.Add(-8000 * time.Hour) }, "", nil, 0, queue.Matched, "on: "},

		"if true":         {func(s *Spec) { s.If = `body.issue.number == 7` }, nil, issuePayload, nil, 0, queue.Matched, "on: "},
		"if false":        {func(s *Spec) { s.If = `body.issue.number == 8` }, nil, issuePayload, nil, 0, queue.Filtered, "if: false"},
		"if missing key":  {func(s *Spec) { s.If = `body.comment.body == ""` }, nil, issuePayload, nil, 0, queue.Filtered, "if: no such key: comment"},
		"if fails":        {func(s *Spec) { s.If = `1 / body.zero == 1` }, nil, `{"zero":0}`, nil, 0, queue.Errored, "if: division by zero"},
		"if, no payload":  {func(s *Spec) { s.If = `body.x == 1` }, nil, `nope`, nil, 0, queue.Errored, "if: the payload is not a JSON object"},
		"blank if":        {func(s *Spec) { s.If = "  \n" }, nil, "", nil, 0, queue.Matched, "on: "},
		"if before paths": {func(s *Spec) { apiPaths(s); s.If = "false" }, pullRequest, `{}`, nil, 0, queue.Filtered, "if: false"},

		"push lists a match":        {apiPaths, push, `{"commits":[{"added":["api/x.go"],"modified":[],"removed":[]}]}`, nil, 0, queue.Matched, "on: push"},
		"push removes a match":      {apiPaths, push, `{"commits":[{"added":[],"modified":[],"removed":["api/x.go"]}]}`, nil, 0, queue.Matched, "on: push"},
		"push lists none":           {apiPaths, push, `{"commits":[{"added":["web/x"],"modified":["api/x.md"],"removed":[]}]}`, nil, 0, queue.Filtered, "paths: none of 2 changed files"},
		"push is forced":            {apiPaths, push, `{"forced":true,"commits":[{"added":["web/x"],"modified":[],"removed":[]}]}`, &github{files: []string{"web/x", "api/y"}}, 1, queue.Matched, "on: "},
		"push is forced, none":      {apiPaths, push, `{"forced":true,"commits":[]}`, &github{files: []string{"web/x"}}, 1, queue.Filtered, "paths: none of 1 changed files"},
		"push is forced, listed":    {apiPaths, push, `{"forced":true,"commits":[{"added":["api/x"],"modified":[],"removed":[]}]}`, nil, 0, queue.Matched, "on: "},
		"push deletes a branch":     {apiPaths, push, `{"deleted":true,"commits":[]}`, nil, 0, queue.Filtered, "paths: none of 0 changed files"},
		"push of a new branch":      {apiPaths, push, `{"created":true,"commits":[]}`, &github{files: []string{"api/x"}}, 1, queue.Matched, "on: "},
		"push of a tag, unlisted":   {apiPaths, push, `{"created":true,"commits":[]}`, &github{files: nil}, 1, queue.Filtered, "paths: none of 0"},
		"pull request matches":      {apiPaths, pullRequest, `{}`, &github{files: []string{"api/x"}}, 1, queue.Matched, "on: pull_request.synchronize"},
		"pull request differs":      {apiPaths, pullRequest, `{}`, &github{files: []string{"web/x"}}, 1, queue.Filtered, "paths: none of 1 changed files"},
		"pull request is cut":       {apiPaths, pullRequest, `{}`, &github{files: []string{"web/x"}, partial: true}, 1, queue.Matched, "paths: GitHub lists only 1 of the changed files"},
		"pull request, cut, listed": {apiPaths, pullRequest, `{}`, &github{files: []string{"api/x"}, partial: true}, 1, queue.Matched, "on: "},
		"comment on a pull request": {apiPaths, func(d *queue.Delivery) { d.Event = "issue_comment" }, `{"issue":{"pull_request":{}}}`, &github{files: []string{"api/x"}}, 1, queue.Matched, "on: "},
		"comment on an issue":       {apiPaths, func(d *queue.Delivery) { d.Event = "issue_comment" }, `{"issue":{}}`, nil, 0, queue.Filtered, "paths: the event changes no files"},
		"hostile issue":             {apiPaths, nil, `{"issue":[1]}`, nil, 0, queue.Filtered, "paths: the event changes no files"},
		"event without files":       {apiPaths, func(d *queue.Delivery) { d.Event = "status" }, `{}`, nil, 0, queue.Filtered, "paths: the event changes no files"},
		"paths, no payload":         {apiPaths, push, `[]`, nil, 0, queue.Errored, "paths: the payload is not a JSON object"},
		"paths refused":             {apiPaths, pullRequest, `{}`, &github{err: lost}, 1, queue.Errored, "paths: the changed files cannot be read: GET /repos: 403"},
		"paths unavailable":         {apiPaths, pullRequest, `{}`, &github{err: ErrUnavailable}, 1, "", ""},
		"paths not found yet":       {apiPaths, pullRequest, `{}`, &github{err: fmt.Errorf("GET: %w", ErrNotFound)}, 1, "", ""},
		"paths panic":               {apiPaths, pullRequest, `{}`, &github{panics: "SECRET"}, 1, queue.Errored, "paths: panicked with a string"},

		"permission enough":     {needsWrite, nil, "", &github{role: "write"}, 1, queue.Matched, "on: "},
		"permission more":       {needsWrite, nil, "", &github{role: "admin"}, 1, queue.Matched, "on: "},
		"permission less":       {needsWrite, nil, "", &github{role: "triage"}, 1, queue.Filtered, "permission: octocat has triage, less than write"},
		"permission none":       {needsWrite, nil, "", &github{role: "none"}, 1, queue.Filtered, "permission: octocat has none, less than write"},
		"read is not none":      {func(s *Spec) { s.Permission = "read" }, nil, "", &github{role: "none"}, 1, queue.Filtered, "permission: "},
		"anyone may":            {func(s *Spec) { s.Permission = "none" }, nil, "", nil, 0, queue.Matched, "on: "},
		"unknown role":          {needsWrite, nil, "", &github{role: "owner"}, 1, queue.Errored, "permission: the role of octocat cannot be read"},
		"empty role":            {needsWrite, nil, "", &github{}, 1, queue.Errored, "permission: "},
		"no sender":             {needsWrite, func(d *queue.Delivery) { d.Sender = "" }, "", nil, 0, queue.Filtered, "permission: the event names no sender"},
		"no repository":         {needsWrite, func(d *queue.Delivery) { d.Repo = "" }, "", nil, 0, queue.Filtered, "permission: the event names no repository"},
		"permission unreadable": {needsWrite, nil, "", &github{role: "admin", err: lost}, 1, queue.Errored, "permission: the role of octocat cannot be read: GET /repos: 403"},
		"permission 404 early":  {needsWrite, nil, "", &github{err: ErrNotFound}, 1, "", ""},
		"permission 404 late": {
			needsWrite, func(d *queue.Delivery) { d.ReceivedAt = now.Add(-replicaLag) }, "", &github{err: ErrNotFound}, 1,
			queue.Errored, "permission: the role of octocat cannot be read: GitHub does not have it",
		},
		"permission unavailable late": {needsWrite, func(d *queue.Delivery) { d.ReceivedAt = now.Add(-time.Hour) }, "", &github{err: ErrUnavailable}, 1, "", ""},
		"permission panics":           {needsWrite, nil, "", &github{panics: errors.New("SECRET")}, 1, queue.Errored, "permission: panicked with a *errors.errorString"},
		"paths before permission": {
			func(s *Spec) { apiPaths(s); needsWrite(s) }, pullRequest, `{}`, &github{files: []string{"x"}, role: "admin"}, 1,
			queue.Filtered, "paths: ",
		},
		"both": {func(s *Spec) { apiPaths(s); needsWrite(s) }, pullRequest, `{}`, &github{files: []string{"api/x"}, role: "admin"}, 2, queue.Matched, "on: "},
	} {
		t.Run(name, func(t *testing.T) {
			asked := c.github
			if asked == nil {
				asked = &github{err: errors.New("asked for nothing")}
			}
			results, err := newSet(t, compile(t, c.spec)).Decide(t.Context(), event(c.payload, c.delivery), asked)
			if asked.asked != c.asked {
				t.Errorf("asked %d questions, want %d", asked.asked, c.asked)
			}
			if c.verdict == "" {
				if !errors.Is(err, c.github.err) || results != nil || !strings.Contains(err.Error(), "of trigger t: ") {
					t.Errorf("got %v, %v", results, err)
				}
				return
			}
			if err != nil || len(results) != 1 {
				t.Fatalf("got %v, %v", results, err)
			}
			r := results[0]
			if r.Verdict != c.verdict || !strings.HasPrefix(r.Reason, c.reason) {
				t.Errorf("got %s %q, want %s %q", r.Verdict, r.Reason, c.verdict, c.reason)
			}
			if r.Decision.Trigger != "t" || r.Trigger.Spec.Name != "t" || r.RunID != "" {
				t.Errorf("got %+v", r)
			}
			if strings.Contains(r.Reason, "SECRET") {
				t.Errorf("the reason quotes a value: %s", r.Reason)
			}
		})
	}
}

func TestDecideAsksOnce(t *testing.T) {
	var triggers []*Trigger
	for i := range 5 {
		triggers = append(triggers, compile(t, func(s *Spec) {
			s.Name, s.Paths, s.Permission = fmt.Sprint("t-", i), []string{"api/**"}, "write"
		}))
	}
	for name, g := range map[string]*github{"answered": {files: []string{"api/x"}, role: "admin"}, "refused": {err: errors.New("no")}} {
		t.Run(name, func(t *testing.T) {
			results, err := newSet(t, triggers...).Decide(t.Context(), event(`{"k":1}`, pullRequest), g)
			if err != nil || len(results) != 5 || g.asked > 2 || g.lastBody["k"] != int64(1) {
				t.Errorf("got %d results, %v, %d questions", len(results), err, g.asked)
			}
		})
	}
}

func TestDecideWithoutQuestions(t *testing.T) {
	results, err := newSet(t,
		compile(t, func(s *Spec) { s.Name, s.Paths = "paths", []string{"api/**"} }),
		compile(t, func(s *Spec) { s.Name, s.Permission = "permission", "write" }),
	).Decide(t.Context(), event(`{}`, pullRequest), nil)
	if err != nil || len(results) != 2 {
		t.Fatalf("got %v, %v", results, err)
	}
	for _, r := range results {
		if r.Verdict != queue.Errored || !strings.HasPrefix(r.Reason, r.Trigger.Spec.Name+": ") || !strings.Contains(r.Reason, "was not asked") {
			t.Errorf("got %+v", r.Decision)
		}
	}
}

// What is wrong with one trigger leaves the others alone.
func TestDecideIsolatesErrors(t *testing.T) {
	broken := compile(t, func(s *Spec) { s.Name, s.If = "broken", "true" })
	broken.filter = &filter{} // evaluating it panics
	results, err := newSet(t, compile(t, func(s *Spec) { s.Name = "first" }), broken,
		compile(t, func(s *Spec) { s.Name, s.If = "second", "1 / body.zero == 1" }), compile(t, func(s *Spec) { s.Name = "third" }),
	).Decide(t.Context(), event(`{"zero":0}`, nil), nil)
	if err != nil || len(results) != 4 {
		t.Fatalf("got %v, %v", results, err)
	}
	want := []queue.Verdict{queue.Matched, queue.Errored, queue.Errored, queue.Matched}
	for i, r := range results {
		if r.Verdict != want[i] {
			t.Errorf("%s: %s %q, want %s", r.Trigger.Spec.Name, r.Verdict, r.Reason, want[i])
		}
	}
	if results[1].Reason != "if: panicked with a runtime error" {
		t.Errorf("got %q", results[1].Reason)
	}
}

func TestReasonsAreBounded(t *testing.T) {
	long := errors.New(strings.Repeat("é\n", 500))
	results, _ := newSet(t, compile(t, func(s *Spec) { s.Permission = "write" })).Decide(t.Context(), event("", nil), &github{err: long})
	if r := results[0].Reason; len(r) > 500 || strings.Contains(r, "\n") {
		t.Errorf("got %d bytes: %q", len(r), r)
	}
}

func TestPushedFiles(t *testing.T) {
	commit := `{"added":["a"],"modified":["b"],"removed":["c"]}`
	for name, c := range map[string]struct {
		payload  string
		files    int
		complete bool
	}{
		"commits":               {`{"commits":[` + commit + `,` + commit + `]}`, 6, true},
		"no commits":            {`{"commits":[]}`, 0, true},
		"created with commits":  {`{"created":true,"commits":[` + commit + `]}`, 3, true},
		"created without":       {`{"created":true,"commits":[]}`, 0, false},
		"forced":                {`{"forced":true,"commits":[` + commit + `]}`, 3, false},
		"deleted":               {`{"deleted":true,"forced":true,"commits":[]}`, 0, true},
		"no list":               {`{}`, 0, false},
		"null":                  {`{"commits":null}`, 0, false},
		"wrong shape":           {`{"commits":[1,{"added":[1]},null]}`, 0, false},
		"a list is missing":     {`{"commits":[{"added":["a"],"removed":["b"]}]}`, 2, false},
		"one below the limit":   {`{"commits":[` + strings.Repeat(commit+",", maxPushCommits-2) + commit + `]}`, 3 * (maxPushCommits - 1), true},
		"cut at the limit":      {`{"commits":[` + strings.Repeat(commit+",", maxPushCommits-1) + commit + `]}`, 3 * maxPushCommits, false},
		"a commit of all files": {`{"commits":[{"added":[` + strings.Repeat(`"x",`, maxCommitFiles-1) + `"x"],"modified":[],"removed":[]}]}`, maxCommitFiles, false},
	} {
		t.Run(name, func(t *testing.T) {
			body, err := decodeBody([]byte(c.payload))
			if err != nil {
				t.Fatal(err)
			}
			if files, complete := pushedFiles(body); len(files) != c.files || complete != c.complete {
				t.Errorf("got %d files, complete %v, want %d, %v", len(files), complete, c.files, c.complete)
			}
		})
	}
}
