package config

import (
	"slices"
	"testing"
)

func TestTriggersThatMayNeverFireAreWarnedOf(t *testing.T) {
	for name, tt := range map[string]struct {
		trigger string
		want    []string
	}{
		"all is well":                   {"on: [issues.opened, push, ping, workflow_dispatch]", nil},
		"a misspelt event":              {"on: isues", []string{`trigger a: GitHub is not known to send the event isues; did you mean "issues"?`}},
		"an event that nobody knows":    {"on: widget_inspection", []string{`trigger a: GitHub is not known to send the event widget_inspection`}},
		"a misspelt action":             {"on: issues.open", []string{`trigger a: GitHub is not known to send issues.open; did you mean "issues.opened"?`}},
		"an action that nobody knows":   {"on: issues.yodelled_loudly", []string{`trigger a: GitHub is not known to send issues.yodelled_loudly`}},
		"an event without actions":      {"on: push.created", []string{`trigger a: GitHub sends push without an action, so push.created never comes; did you mean "push"?`}},
		"the sender chooses the action": {"on: repository_dispatch.nightly", nil},
		"a trigger that is off":         {"on: isues\n    enabled: false", nil},
		"no subject to serialize by":    {"on: push\n    serialize: subject", []string{`trigger a: serialize: subject does nothing: none of its events is about an issue, a pull request or a discussion`}},
		"no subject to coalesce by":     {"on: push\n    coalesce: subject", []string{`trigger a: coalesce: subject does nothing: none of its events is about an issue, a pull request or a discussion`}},
		"no subject to follow up on":    {"on: push\n    follow_up: { command: [x] }", []string{`trigger a: follow_up does nothing: none of its events is about an issue, a pull request or a discussion`}},
		"a subject now and then":        {"on: [push, check_run]\n    serialize: subject", nil},
		"perhaps a subject":             {"on: [push, widget_inspection]\n    serialize: subject", []string{`trigger a: GitHub is not known to send the event widget_inspection`}},
	} {
		t.Run(name, func(t *testing.T) {
			c := mustLoad(t, "triggers:\n  - name: a\n    "+tt.trigger+"\n    run: { command: [make] }\n", Options{LenientSecrets: true, LookupEnv: state("PRELOOP_WEBHOOK_SECRET", "a secret of the test").lookup})
			if !slices.Equal(c.Warnings, tt.want) {
				t.Errorf("warnings %q, want %q", c.Warnings, tt.want)
			}
		})
	}
}
