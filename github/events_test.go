package github

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEventTable(t *testing.T) {
	events := KnownEvents()
	if len(events) != 86 {
		t.Errorf("%d events, want 86", len(events))
	}
	if !slices.IsSortedFunc(events, func(a, b EventInfo) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("not sorted")
	}
	for _, e := range events {
		if len(e.Permissions) > 0 && e.Level != "read" {
			t.Errorf("%s: level %q", e.Name, e.Level)
		}
		if (e.Subscription == SubscriptionNever || e.Subscription == SubscriptionUncertain) == e.App {
			t.Errorf("%s: sent to Apps %v, subscription %s", e.Name, e.App, e.Subscription)
		}
		for _, action := range e.Actions {
			if strings.ContainsAny(action, " ()") {
				t.Errorf("%s: action %q", e.Name, action)
			}
		}
	}
}

// What the table says of subjects and what ReadFacts does may not drift apart.
func TestSubjectRulesFollowTheTable(t *testing.T) {
	for _, e := range KnownEvents() {
		// projects_v2_item names its issue by an opaque node id alone.
		want := e.SubjectKind != "none" && e.Name != "projects_v2_item"
		if e.HasSubject() != want {
			t.Errorf("%s: subject kind %q, rule %v", e.Name, e.SubjectKind, e.HasSubject())
		}
		if rule := subjectRules[e.Name]; rule != nil && rule.kind != mergeQueue && rule.kind != contentURL {
			for _, path := range rule.paths {
				path = strings.TrimSuffix(path, ".pull_requests")
				if !strings.Contains(e.SubjectPath+e.Note, path) {
					t.Errorf("%s: the table does not know %s", e.Name, path)
				}
			}
		}
	}
	for event := range subjectRules {
		if _, ok := LookupEvent(event); !ok {
			t.Errorf("a rule for the unknown event %s", event)
		}
	}
}

func TestLookupEvent(t *testing.T) {
	got, ok := LookupEvent("milestone")
	if diff := cmp.Diff(EventInfo{
		Name: "milestone", Plan: "github.com", Permissions: []string{"issues", "pull_requests"}, Level: "read", Scope: "repository",
		App: true, RepoHook: true, OrgHook: true, Subscription: SubscriptionOptIn, SubscriptionNote: "opt-in with the permission",
		Actions:    []string{"closed", "created", "deleted", "edited", "opened"},
		Repository: "always", Org: "optional", Sender: "always", Install: "optional",
		SubjectKind: "none", SubjectPath: "- (milestone.number is a different number space)", SubjectRepo: "repository.full_name",
	}, got); diff != "" || !ok {
		t.Errorf("milestone (-want +got):\n%s", diff)
	}
	if _, ok := LookupEvent("widget_inspection"); ok {
		t.Error("an invented event is known")
	}
}

func TestKnowsAction(t *testing.T) {
	for name, tt := range map[string]struct {
		event, action string
		want          bool
	}{
		"known":             {"issues", "opened", true},
		"unknown":           {"issues", "teleported", false},
		"without an action": {"push", "created", false},
		"free text":         {"repository_dispatch", "nightly", true},
		"list cut off":      {"dismissal_request_dependabot", "response_dismissed", true},
	} {
		t.Run(name, func(t *testing.T) {
			event, _ := LookupEvent(tt.event)
			if got := event.KnowsAction(tt.action); got != tt.want {
				t.Errorf("KnowsAction = %v", got)
			}
		})
	}
}

func TestSubscriptions(t *testing.T) {
	write := map[string]string{"checks": "write", "issues": "read", "pull_requests": "admin"}
	read := map[string]string{"checks": "read"}
	for name, tt := range map[string]struct {
		event, action string
		permissions   map[string]string
		unasked       bool
		missing       string
	}{
		"opt-in":                           {"issues", "opened", write, false, ""},
		"opt-in without its permission":    {"issues", "opened", read, false, "issues:read"},
		"more than needed":                 {"pull_request", "", write, false, ""},
		"one of two permissions":           {"milestone", "", write, false, ""},
		"none of two permissions":          {"milestone", "", read, false, "issues:read"},
		"always":                           {"installation", "created", nil, true, ""},
		"always, not to be switched off":   {"github_app_authorization", "revoked", nil, true, ""},
		"ping":                             {"ping", "", nil, true, ""},
		"never listed":                     {"security_advisory", "published", nil, true, ""},
		"permission outside the schema":    {"meta", "deleted", nil, true, ""},
		"checks:write implies":             {"check_run", "completed", write, true, ""},
		"checks:read does not":             {"check_run", "completed", read, false, ""},
		"action that needs checks:write":   {"check_suite", "requested", read, false, "checks:write"},
		"the same with it":                 {"check_suite", "requested", write, true, ""},
		"unknown level is none":            {"issues", "", map[string]string{"issues": "none"}, false, "issues:read"},
		"organization hooks only, perhaps": {"projects_v2", "", nil, false, "organization_projects:read"},
	} {
		t.Run(name, func(t *testing.T) {
			event, ok := LookupEvent(tt.event)
			if !ok {
				t.Fatal("unknown event")
			}
			if got := event.SentUnasked(tt.permissions); got != tt.unasked {
				t.Errorf("SentUnasked = %v", got)
			}
			key, level, ok := event.MissingPermission(tt.action, tt.permissions)
			if missing := strings.Trim(key+":"+level, ":"); missing != tt.missing || ok != (tt.missing == "") {
				t.Errorf("MissingPermission = %q, %v, want %q", missing, ok, tt.missing)
			}
		})
	}
}

func TestMalformedEventTable(t *testing.T) {
	head, rest, _ := strings.Cut(eventTable, "\n")
	line, _, _ := strings.Cut(rest, "\n")
	for name, table := range map[string]string{
		"missing column":       head + "\n" + line[:strings.LastIndexByte(line, '\t')],
		"event twice":          head + "\n" + line + "\n" + line,
		"unknown subscription": head + "\n" + strings.Replace(line, "opt-in with the permission", "by mail", 1),
	} {
		if _, err := parseEventTable(table); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
