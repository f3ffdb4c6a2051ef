package github

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// eventTable lists what GitHub's documentation and schemas say of each event: one line an event,
// tab-separated, the first line names the columns.
//
//go:embed github-events.tsv
var eventTable string

// Subscription says how a GitHub App comes to receive an event.
type Subscription string

// The ways.
const (
	SubscriptionOptIn     Subscription = "opt-in"    // chosen in the App's settings; listed by GET /app
	SubscriptionGlobal    Subscription = "global"    // chosen in the App's settings, but never listed by GET /app
	SubscriptionAlways    Subscription = "always"    // sent unasked
	SubscriptionUncertain Subscription = "uncertain" // documented for organization webhooks alone, though seen with an App's
	SubscriptionNever     Subscription = "never"     // not sent to Apps
)

// EventInfo is what is known of one webhook event.
type EventInfo struct {
	Name string
	Plan string // where it exists: "github.com", "GHES only", …

	// Permissions are the App permissions of which one, at Level or more, gates the event. Empty
	// where no permission gates it or GET /app does not show the one that does.
	Permissions []string
	Level       string // read
	Scope       string // repository, organization, or both with a | between

	App, RepoHook, OrgHook, EnterpriseHook bool // who can receive it
	Subscription                           Subscription
	SubscriptionNote                       string // the rule in words

	Actions    []string // known ones, sorted; nil where the payload has no action
	AnyAction  bool     // the list is not complete: the sender chooses, or it was not published whole
	Repository string   // presence of the payload's field: always, optional, no, "varies by action"
	Org        string
	Sender     string
	Install    string

	SubjectKind string // issue, pull_request, discussion, joined by |; with "(0..n)" for lists; none
	SubjectPath string // where the number stands
	SubjectRepo string // where its repository stands
	Note        string
}

// LookupEvent returns what is known of an event. GitHub adds events at any time, so an unknown one
// is not an error.
func LookupEvent(name string) (EventInfo, bool) {
	info, ok := eventsByName[name]
	return info, ok
}

// KnownEvents returns every event of the table, sorted by name.
func KnownEvents() []EventInfo {
	events := make([]EventInfo, 0, len(eventsByName))
	for _, info := range eventsByName {
		events = append(events, info)
	}
	slices.SortFunc(events, func(a, b EventInfo) int { return strings.Compare(a.Name, b.Name) })
	return events
}

// KnowsAction reports whether GitHub is known to send the event with that action. A false is a hint,
// not a verdict: GitHub adds actions at any time.
func (e EventInfo) KnowsAction(action string) bool {
	return e.AnyAction || slices.Contains(e.Actions, action)
}

// HasSubject reports whether the event can name an issue, a pull request or a discussion by number.
func (e EventInfo) HasSubject() bool {
	_, ok := subjectRules[e.Name]
	return ok
}

// SentUnasked reports whether an App with these permissions (name to read, write or admin, as in
// GET /app) receives the event without a subscription that GET /app would list: GitHub sends it
// always, implies it by a permission, or does not list it.
func (e EventInfo) SentUnasked(permissions map[string]string) bool {
	switch e.Subscription {
	case SubscriptionAlways, SubscriptionGlobal:
		return true
	case SubscriptionOptIn:
		return impliedByChecksWrite[e.Name] != nil && levelOf(permissions["checks"]) >= levelOf("write")
	}
	return false
}

// MissingPermission returns the permission and level that an App with these permissions lacks to
// receive the event with that action ("" for any), or ok. Of several that would do it names the
// first.
func (e EventInfo) MissingPermission(action string, permissions map[string]string) (name, level string, ok bool) {
	if len(e.Permissions) == 0 {
		return "", "", true
	}
	level = e.Level
	if slices.Contains(impliedByChecksWrite[e.Name], action) {
		level = "write"
	}
	for _, name := range e.Permissions {
		if levelOf(permissions[name]) >= levelOf(level) {
			return "", "", true
		}
	}
	return e.Permissions[0], level, false
}

// impliedByChecksWrite holds the events to which checks:write subscribes an App by itself, with the
// actions that only it brings.
var impliedByChecksWrite = map[string][]string{
	"check_run":   {"rerequested", "requested_action"},
	"check_suite": {"requested", "rerequested"},
}

// levelOf orders permission levels; what is unknown or absent is below read.
func levelOf(level string) int { return slices.Index([]string{"read", "write", "admin"}, level) }

var eventsByName = func() map[string]EventInfo {
	events, err := parseEventTable(eventTable)
	if err != nil {
		panic(err) // embedded: a test would have failed
	}
	return events
}()

func parseEventTable(table string) (map[string]EventInfo, error) {
	lines := strings.Split(strings.TrimSpace(table), "\n")
	columns := strings.Split(lines[0], "\t")
	events := make(map[string]EventInfo, len(lines)-1)
	for i, line := range lines[1:] {
		values := strings.Split(line, "\t")
		if len(values) != len(columns) {
			return nil, fmt.Errorf("reading the event table: line %d has %d columns, the head has %d", i+2, len(values), len(columns))
		}
		row := make(map[string]string, len(columns))
		for n, column := range columns {
			if values[n] != "-" {
				row[column] = values[n]
			}
		}
		info, err := parseEvent(row)
		if err != nil {
			return nil, fmt.Errorf("reading the event table: line %d: %w", i+2, err)
		}
		if _, ok := events[info.Name]; ok || info.Name == "" {
			return nil, fmt.Errorf("reading the event table: line %d: %q is empty or there twice", i+2, info.Name)
		}
		events[info.Name] = info
	}
	return events, nil
}

func parseEvent(row map[string]string) (EventInfo, error) {
	info := EventInfo{
		Name: row["event"], Plan: row["plan"],
		Level: row["permission_level"], Scope: row["permission_scope"],
		App: row["app"] == "yes", RepoHook: row["repo_hook"] == "yes",
		OrgHook: row["org_hook"] == "yes", EnterpriseHook: row["enterprise_hook"] == "yes",
		SubscriptionNote: row["app_subscription"],
		Repository:       row["repository_field"], Org: row["organization_field"],
		Sender: row["sender_field"], Install: row["installation_field"],
		SubjectKind: row["subject_kind"], SubjectPath: row["subject_number_path"], SubjectRepo: row["subject_repo_path"],
		Note: row["notes"],
	}
	// "none", "none stated", and names with a remark in parentheses cannot be checked with GET /app.
	if key := row["app_permission_key"]; !strings.HasPrefix(key, "none") && !strings.Contains(key, "(") {
		info.Permissions = strings.Split(key, "|")
	}
	for action := range strings.SplitSeq(row["actions"], ",") {
		switch {
		case action == "(no action field)":
		case strings.HasPrefix(action, "("):
			info.AnyAction = true
		default:
			info.Actions = append(info.Actions, action)
		}
	}
	slices.Sort(info.Actions)

	note := info.SubscriptionNote
	switch {
	case strings.HasPrefix(note, "always"), strings.HasPrefix(note, "sent by GitHub"):
		info.Subscription = SubscriptionAlways
	case strings.Contains(note, "never listed in GET /app"):
		info.Subscription = SubscriptionGlobal
	case strings.HasPrefix(note, "opt-in"):
		info.Subscription = SubscriptionOptIn
	case strings.HasPrefix(note, "documented for organization hooks only"):
		info.Subscription = SubscriptionUncertain
	case strings.HasPrefix(note, "not delivered to Apps"):
		info.Subscription = SubscriptionNever
	default:
		return info, fmt.Errorf("%s: no rule for the subscription %q", info.Name, note)
	}
	return info, nil
}
