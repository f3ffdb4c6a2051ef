package github_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-de999ace/preloop/fixtures"
	"github.com/seed-de999ace/preloop/github"
	"github.com/seed-de999ace/preloop/queue"
)

// The receiver converts one into the other.
var _ = queue.Facts(github.Facts{})

func expected(want fixtures.Expect) github.Facts {
	return github.Facts{
		Action: want.Action, Repo: want.Repo, RepoID: want.RepoID,
		Subject: want.Subject(), SubjectNum: want.SubjectNum,
		Sender: want.Sender, SenderBot: want.SenderBot, Org: want.Org, Installation: want.Installation,
	}
}

func TestReadFactsOfEveryPayload(t *testing.T) {
	for _, p := range fixtures.All() {
		t.Run(p.Name, func(t *testing.T) {
			indented := &strings.Builder{}
			encodeIndented(t, indented, p.Body)
			for form, body := range map[string]string{
				"compact": string(p.Body), "indented": indented.String(),
				"with byte order mark": "\uFEFF" + string(p.Body), "with space around": "\r\n\t " + string(p.Body) + " \n",
			} {
				got, err := github.ReadFacts(p.Event, []byte(body))
				if err != nil {
					t.Fatalf("%s: %v", form, err)
				}
				if diff := cmp.Diff(expected(p.Want), got); diff != "" {
					t.Errorf("%s: facts (-want +got):\n%s", form, diff)
				}
			}
		})
	}
}

func encodeIndented(t *testing.T, to *strings.Builder, body []byte) {
	t.Helper()
	var buf strings.Builder
	for _, c := range string(body) { // invalid UTF-8 becomes U+FFFD, which is what decoders make of it
		buf.WriteRune(c)
	}
	raw := json.RawMessage(buf.String())
	enc := json.NewEncoder(to)
	enc.SetIndent("", "\t")
	enc.SetEscapeHTML(true)
	if err := enc.Encode(raw); err != nil {
		t.Fatal(err)
	}
}

func TestReadFactsKeepsNothingOfTheBody(t *testing.T) {
	p := fixtures.Get("issues.opened")
	got, err := github.ReadFacts(p.Event, p.Body)
	if err != nil {
		t.Fatal(err)
	}
	clear(p.Body)
	if diff := cmp.Diff(expected(p.Want), got); diff != "" {
		t.Errorf("facts changed with the body (-want +got):\n%s", diff)
	}
}

func TestPushAndUnknownEventsHaveNoSubject(t *testing.T) {
	body := fixtures.Get("issues.opened").Body
	for _, event := range []string{"push", "release", "widget_inspection", ""} {
		got, err := github.ReadFacts(event, body)
		if err != nil || got.Subject != "" || got.SubjectNum != 0 {
			t.Errorf("%q: subject %q, %d, error %v", event, got.Subject, got.SubjectNum, err)
		}
		if got.Repo != "acme/widgets" {
			t.Errorf("%q: repository %q", event, got.Repo)
		}
	}
}

func TestReadFactsRefusesWhatIsNoObject(t *testing.T) {
	for name, body := range fixtures.Malformed() {
		t.Run(name, func(t *testing.T) {
			for _, body := range []string{body, "\uFEFF" + body} {
				got, err := github.ReadFacts("issues", []byte(body))
				var payloadErr *github.PayloadError
				if !errors.As(err, &payloadErr) {
					t.Fatalf("error = %v, want a PayloadError", err)
				}
				if payloadErr.NotObject != json.Valid(github.TrimBOM([]byte(body))) {
					t.Errorf("NotObject = %v", payloadErr.NotObject)
				}
				if payloadErr.Offset < 0 || payloadErr.Offset > len(body) {
					t.Errorf("offset %d of %d bytes", payloadErr.Offset, len(body))
				}
				if got != (github.Facts{}) {
					t.Errorf("facts %+v beside an error", got)
				}
			}
		})
	}
}

func TestPayloadErrorNamesThePlaceAndNotTheText(t *testing.T) {
	_, err := github.ReadFacts("issues", []byte(`{"password":"hunter2",}`))
	if err == nil || err.Error() != "reading the payload: no valid JSON at byte 22" {
		t.Errorf("error %v", err)
	}
	_, err = github.ReadFacts("issues", []byte(` "hunter2"`))
	if err == nil || err.Error() != "reading the payload: the JSON is not an object" {
		t.Errorf("error %v", err)
	}
}

func TestDepthLimitIsThatOfEncodingJSON(t *testing.T) {
	for _, depth := range []int{2, 7, 8, 9, 10, 63, 64, 65, 9_999, 10_000, 10_001, 200_000} {
		body := fixtures.Deep(depth)
		got, err := github.ReadFacts("issues", body)
		if (err == nil) != json.Valid(body) {
			t.Errorf("depth %d: error %v, json.Valid says %v", depth, err, json.Valid(body))
		}
		if err == nil && got.Subject != "acme/widgets#118" {
			t.Errorf("depth %d: subject %q", depth, got.Subject)
		}
	}
}

func TestReadFactsOfBigPayloads(t *testing.T) {
	push, err := github.ReadFacts("push", fixtures.Push(2<<20))
	if err != nil || push.Repo != "acme/widgets" || push.Sender != "jun-okafor" {
		t.Errorf("push: %+v, %v", push, err)
	}
	installation, err := github.ReadFacts("installation", fixtures.Installation(5000))
	if err != nil || installation.Installation != 5150001 || installation.Repo != "" {
		t.Errorf("installation: %+v, %v", installation, err)
	}
}

func TestLongTextIsNoFact(t *testing.T) {
	for length, want := range map[int]bool{1: true, 255: true, 256: false, 1 << 20: false} {
		action := strings.Repeat("a", length)
		got, err := github.ReadFacts("repository_dispatch", []byte(`{"action":"`+action+`"}`))
		if err != nil || (got.Action == action) != want || (got.Action == "") == want {
			t.Errorf("an action of %d bytes: %d bytes, %v", length, len(got.Action), err)
		}
	}
}

func TestMergeGroupNamesItsPullRequestInTheRef(t *testing.T) {
	for ref, want := range map[string]int64{
		"refs/heads/gh-readonly-queue/main/pr-104-0123abc":            104,
		"refs/heads/gh-readonly-queue/a/b/pr-7-0123abc":               7,
		"refs/heads/gh-readonly-queue/pr-5-x/pr-6-0123abc":            6,
		"refs/heads/pr-104-0123abc":                                   0,
		"refs/heads/gh-readonly-queue/main/pr-104":                    0,
		"refs/heads/gh-readonly-queue/main/pr--0123abc":               0,
		"refs/heads/gh-readonly-queue/main/pr-0-0123abc":              0,
		"refs/heads/gh-readonly-queue/main/pr-1e3-0123abc":            0,
		"refs/heads/gh-readonly-queue/main/xpr-104-0123abc":           0,
		"gh-readonly-queue/":                                          0,
		"":                                                            0,
		"refs/heads/gh-readonly-queue/main/pr-99999999999999999999-a": 0,
	} {
		body := `{"repository":{"full_name":"acme/widgets"},"merge_group":{"head_ref":"` + ref + `"}}`
		if got, err := github.ReadFacts("merge_group", []byte(body)); err != nil || got.SubjectNum != want {
			t.Errorf("%s: %d, %v, want %d", ref, got.SubjectNum, err, want)
		}
	}
}

func TestProjectCardNamesOnlyTheOwnRepositorysIssue(t *testing.T) {
	for url, want := range map[string]int64{
		"https://api.github.com/repos/acme/widgets/issues/118":   118,
		"https://api.github.com/repos/ACME/Widgets/pulls/9":      9,
		"https://ghe.example/api/v3/repos/acme/widgets/issues/3": 3,
		"https://api.github.com/repos/acme/gears/issues/118":     0,
		"https://api.github.com/repos/acme/widgets/commits/11":   0,
		"https://api.github.com/repos/acme/widgets/issues/":      0,
		"118":  0,
		"/118": 0,
		"":     0,
	} {
		body := `{"repository":{"full_name":"acme/widgets"},"project_card":{"content_url":"` + url + `"}}`
		if got, err := github.ReadFacts("project_card", []byte(body)); err != nil || got.SubjectNum != want {
			t.Errorf("%s: %d, %v, want %d", url, got.SubjectNum, err, want)
		}
	}
}

func TestReadFactsAllocatesOnce(t *testing.T) {
	p := fixtures.Get("workflow_run.completed")
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := github.ReadFacts(p.Event, p.Body); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 1 {
		t.Errorf("%v allocations, want 1", allocs)
	}
}

func BenchmarkReadFacts(b *testing.B) {
	for _, name := range []string{"issues.opened", "pull_request.opened", "push.branch"} {
		p := fixtures.Get(name)
		b.Run(name+"/ReadFacts", func(b *testing.B) {
			b.SetBytes(int64(len(p.Body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := github.ReadFacts(p.Event, p.Body); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/json.Valid", func(b *testing.B) {
			b.SetBytes(int64(len(p.Body)))
			b.ReportAllocs()
			for b.Loop() {
				if !json.Valid(p.Body) {
					b.Fatal("not valid")
				}
			}
		})
	}
}
