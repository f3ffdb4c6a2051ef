package trigger

import (
	"slices"
	"strings"
)

// Needs is what an app or hook must give for a trigger to work.
type Needs struct {
	Trigger     string
	Sources     []string          // names; empty means all
	Events      []string          // to subscribe to, sorted
	Permissions map[string]string // an app's permission → read or write, beyond what the events themselves need
}

// Needs says what t needs, whether it is enabled or not.
func (t *Trigger) Needs() Needs {
	n := Needs{Trigger: t.Spec.Name, Sources: t.Spec.Sources, Permissions: map[string]string{}}
	for _, p := range t.on {
		n.Events = append(n.Events, p.event)
	}
	slices.Sort(n.Events)
	n.Events = slices.Compact(n.Events)

	if t.Spec.Permission != "" && t.Spec.Permission != "none" {
		n.Permissions["metadata"] = "read"
	}
	if len(t.Spec.Paths) > 0 {
		for _, event := range n.Events {
			switch {
			case event == "push": // a forced push or a long one is compared on GitHub
				n.Permissions["contents"] = "read"
			case event == "pull_request", strings.HasPrefix(event, "pull_request_"), event == "issue_comment", event == "issues":
				n.Permissions["pull_requests"] = "read"
			}
		}
	}
	for permission, level := range t.Spec.GitHubToken {
		if n.Permissions[permission] != "write" {
			n.Permissions[permission] = level
		}
	}
	return n
}

// Needs lists those of the enabled triggers.
func (s *Set) Needs() []Needs {
	var all []Needs
	for _, t := range s.triggers {
		if t.Spec.Enabled {
			all = append(all, t.Needs())
		}
	}
	return all
}
