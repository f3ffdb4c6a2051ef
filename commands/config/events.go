package config

import (
	"fmt"
	"strings"

	"github.com/seed-de999ace/preloop/github"
	"github.com/seed-de999ace/preloop/queue/trigger"
)

// checkEvents warns of a trigger that may never fire, or that asks for an order that its events
// cannot have. GitHub adds events and actions at any time, so nothing of this is an error.
func (c *Config) checkEvents(t *trigger.Spec) {
	if !t.Enabled {
		return
	}
	warn := func(format string, args ...any) {
		c.Warnings = append(c.Warnings, fmt.Sprintf("trigger %s: ", t.Name)+fmt.Sprintf(format, args...))
	}
	unsure := false // an event may have a subject
	for _, on := range t.On {
		name, action, _ := strings.Cut(on, ".")
		event, known := github.LookupEvent(name)
		switch {
		case !known:
			warn("GitHub is not known to send the event %s%s", name, suggest(name, eventNames()))
		case action != "" && len(event.Actions) == 0 && !event.AnyAction:
			warn("GitHub sends %s without an action, so %s never comes; did you mean %q?", name, on, name)
		case action != "" && !event.KnowsAction(action):
			warn("GitHub is not known to send %s%s", on, suggest(on, dotted(event)))
		}
		unsure = unsure || !known || event.HasSubject()
	}
	if unsure || len(t.On) == 0 {
		return
	}
	for _, s := range []struct {
		name   string
		chosen bool
	}{{"serialize: subject", t.Serialize == "subject"}, {"coalesce: subject", t.Coalesce == "subject"}, {"follow_up", t.FollowUp != nil}} {
		if s.chosen {
			warn("%s does nothing: none of its events is about an issue, a pull request or a discussion", s.name)
		}
	}
}

// dotted lists event.action of every known action.
func dotted(e github.EventInfo) []string {
	var names []string
	for _, action := range e.Actions {
		names = append(names, e.Name+"."+action)
	}
	return names
}

func eventNames() []string {
	var names []string
	for _, e := range github.KnownEvents() {
		names = append(names, e.Name)
	}
	return names
}
