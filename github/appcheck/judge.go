package appcheck

import (
	"slices"
)

// Need is what one enabled trigger needs of a source.
type Need struct {
	Trigger     string
	On          []string          // event, or event.action
	Permissions map[string]string // of an app: name → read or write, beyond what the events need
	Named       bool              // the trigger names this source, or has no other
}

// Expect is what a source should be like.
type Expect struct {
	URL     string // where deliveries should go; empty: unknown
	WebHost string // GitHub's, for links, such as github.com
	Needs   []Need
}

// Verdict is what was found. No finding means healthy.
type Verdict struct {
	HookURL            string // as configured at GitHub, without credentials
	SettingsURL        string // GitHub's page where that is changed
	URLDrifted         bool
	MissingEvents      []string // sorted
	MissingPermissions []string // name:level, sorted
	Problems           []string // sentences, with what to do

	told map[[2]string]bool // trigger and permission that a problem is about
}

// Healthy reports whether nothing was found.
func (v Verdict) Healthy() bool {
	return !v.URLDrifted && len(v.MissingEvents) == 0 && len(v.MissingPermissions) == 0 && len(v.Problems) == 0
}

// rule adds its findings to a verdict.
type rule func(f Facts, e Expect, v *Verdict)

// rules judge independently of each other, in the order in which a person would look.
var rules = []rule{inactive, drifted, secretless, contentType, insecureTLS, events, permissions}

// Judge compares the facts with what is expected. It is pure.
func Judge(f Facts, e Expect) Verdict {
	v := Verdict{HookURL: shown(f.Hook.URL), SettingsURL: settingsPage(f, e.WebHost), told: map[[2]string]bool{}}
	for _, r := range rules {
		r(f, e, &v)
	}
	for _, list := range []*[]string{&v.MissingEvents, &v.MissingPermissions} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return v
}
