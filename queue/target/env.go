package target

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

const (
	// promptLimit keeps PRELOOP_PROMPT below Linux's 128 KiB for one string of an environment.
	promptLimit = 64 << 10

	// valueLimit bounds what else comes from a payload. No name, ref or login is as long; one
	// that is would only make every start of the run fail with E2BIG, so it is left out.
	valueLimit = 8 << 10
)

// withheld are the variables of the node's own environment that are never passed on, beside
// PRELOOP_*: credentials that preloop itself uses, what the service manager addressed to this
// process alone, and the names that describe the run.
var withheld = map[string]bool{
	"GITHUB_TOKEN": true, "GH_TOKEN": true, "GH_ENTERPRISE_TOKEN": true, "GITHUB_ENTERPRISE_TOKEN": true,
	"PGPASSWORD": true,

	"NOTIFY_SOCKET": true, "LISTEN_PID": true, "LISTEN_FDS": true, "LISTEN_FDNAMES": true,
	"WATCHDOG_PID": true, "WATCHDOG_USEC": true, "STATE_DIRECTORY": true, "CREDENTIALS_DIRECTORY": true,

	"GITHUB_EVENT_NAME": true, "GITHUB_EVENT_PATH": true, "GITHUB_REPOSITORY": true, "GITHUB_ACTOR": true,
	"GITHUB_REF": true, "GITHUB_SHA": true, "TRACEPARENT": true,
}

// inherit returns what a command may see of the node's environment: everything (PATH, HOME,
// proxies, an agent's own key) but the withheld, the names given and whatever holds one of the
// values given. A short value withholds only a variable that equals it.
func inherit(environ, names []string, values [][]byte) []string {
	holdsSecret := func(value string) bool {
		return slices.ContainsFunc(values, func(secret []byte) bool {
			secret = bytes.TrimSpace(secret)
			return len(secret) > 0 && (value == string(secret) || len(secret) >= 8 && strings.Contains(value, string(secret)))
		})
	}
	var kept []string
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if !withheld[name] && !strings.HasPrefix(name, "PRELOOP_") && !slices.Contains(names, name) && !holdsSecret(value) {
			kept = append(kept, variable)
		}
	}
	return kept
}

// describe returns the variables that tell a command about its run. The names of GitHub Actions
// are set only where the event has what they stand for, preloop's own always.
func describe(j Job, f *files) []string {
	run := j.Run
	var env []string
	set := func(name, value string) {
		// A NUL cannot be part of an environment; exec would refuse all of it.
		env = append(env, name+"="+strings.ReplaceAll(value, "\x00", ""))
	}
	bounded := func(value string) string {
		if len(value) > valueLimit {
			return ""
		}
		return value
	}
	has := func(name, value string) {
		if value = bounded(value); value != "" {
			set(name, value)
		}
	}

	ref, sha := revision(run.Event, j.Payload)
	set("GITHUB_EVENT_NAME", bounded(run.Event))
	set("GITHUB_EVENT_PATH", f.payload)
	has("GITHUB_REPOSITORY", run.Repo)
	has("GITHUB_ACTOR", run.Sender)
	has("GITHUB_REF", ref)
	has("GITHUB_SHA", sha)
	has("GITHUB_TOKEN", j.Token)
	has("TRACEPARENT", j.Traceparent)

	set("PRELOOP_EVENT", bounded(run.Event))
	set("PRELOOP_ACTION", bounded(run.Action))
	set("PRELOOP_DELIVERY_ID", run.DeliveryID)
	set("PRELOOP_REPO", bounded(run.Repo))
	set("PRELOOP_SUBJECT", bounded(run.Subject))
	set("PRELOOP_SENDER", bounded(run.Sender))
	set("PRELOOP_TRIGGER", run.Trigger)
	set("PRELOOP_RUN_ID", run.ID)
	set("PRELOOP_ATTEMPT", strconv.Itoa(run.Attempts))
	set("PRELOOP_SESSION", bounded(j.Session))
	set("PRELOOP_PROMPT", first(strings.ToValidUTF8(j.Prompt, "\uFFFD"), promptLimit))
	set("PRELOOP_PROMPT_FILE", f.prompt)
	set("PRELOOP_PAYLOAD", f.payload)
	set("PRELOOP_OUTPUT", f.output)
	return env
}

// secrets are what must not show in what is kept of a job's output.
func (j Job) secrets(more ...[]byte) [][]byte {
	all := append([][]byte{[]byte(j.Token), j.Secret, []byte(j.FinishToken)}, more...)
	for _, s := range j.Mask {
		all = append(all, []byte(s))
	}
	return all
}
