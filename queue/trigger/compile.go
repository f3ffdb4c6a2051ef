package trigger

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Trigger is a compiled Spec. It is immutable and safe for concurrent use.
type Trigger struct {
	Spec Spec // as compiled; do not change it

	on     []pattern
	repos  globs
	paths  globs
	filter *filter // nil: true
	prompt *textTemplate
	argv   map[Part][]*textTemplate
}

// pattern is one element of on; without an action it means all of them.
type pattern struct{ event, action string }

// matches reports whether the pattern wants this event.
func (p pattern) matches(event, action string) bool {
	return p.event == event && (p.action == "" || p.action == action)
}

var (
	nameForm  = regexp.MustCompile(`^[a-z0-9-]{1,100}$`)
	eventForm = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)
)

// Compile checks s and prepares it for use: its own languages, and what later steps rely on. What
// takes the rest of the configuration to judge, the configuration judges. The error is one or
// several *FieldError, joined.
func Compile(s Spec) (*Trigger, error) {
	c := compiler{t: &Trigger{Spec: s, argv: map[Part][]*textTemplate{}}}
	c.which()
	c.clauses()
	c.limits()
	c.targets()
	if len(c.problems) > 0 {
		return nil, errors.Join(c.problems...)
	}
	return c.t, nil
}

// compiler gathers problems, so that an operator sees them all at once.
type compiler struct {
	t        *Trigger
	problems []error
}

func (c *compiler) check(ok bool, field, format string, args ...any) {
	if !ok {
		c.problem(field, fmt.Errorf(format, args...))
	}
}

func (c *compiler) problem(field string, err error) {
	if err != nil {
		c.problems = append(c.problems, &FieldError{Field: field, Err: err})
	}
}

func (c *compiler) which() {
	s := &c.t.Spec
	c.check(nameForm.MatchString(s.Name), "name", "a name has 1 to 100 of a-z, 0-9 and -")
	c.check(len(s.On) > 0, "on", "name at least one event, as issues or issues.opened")
	for i, on := range s.On {
		event, action, dotted := strings.Cut(on, ".")
		ok := eventForm.MatchString(event) && dotted == (action != "") && !strings.ContainsAny(action, " \t\r\n*")
		c.check(ok, at("on", i), "%q is neither an event nor event.action", on)
		c.t.on = append(c.t.on, pattern{event, action})
	}
	for i, source := range s.Sources {
		c.check(source != "", at("sources", i), "a source has a name")
	}
}

func (c *compiler) clauses() {
	s, t := &c.t.Spec, c.t
	t.repos.fold = true
	for i, p := range s.Repos {
		if !strings.Contains(p, "/") && !strings.Contains(p, "**") {
			c.problem(at("repos", i), fmt.Errorf("%q has no /: write OWNER/NAME or OWNER/*", p))
			continue
		}
		c.problem(at("repos", i), t.repos.add(p))
	}
	for i, p := range s.Paths {
		rest := strings.TrimPrefix(p, "!")
		switch {
		case strings.HasPrefix(rest, "/"), strings.HasPrefix(rest, "./"):
			c.problem(at("paths", i), fmt.Errorf("%q: paths begin at the repository's root, without / or ./ before them", p))
		case strings.HasSuffix(rest, "/"):
			c.problem(at("paths", i), fmt.Errorf("%q matches no file: write %s**", p, p))
		default:
			c.problem(at("paths", i), t.paths.add(p))
		}
	}
	if strings.TrimSpace(s.If) != "" {
		var err error
		t.filter, err = compileFilter(s.If)
		c.problem("if", err)
	}
	c.check(s.Permission == "" || slices.Contains(Roles, s.Permission), "permission",
		"%q is none of %s", s.Permission, strings.Join(Roles, ", "))
	c.check(s.MaxAge >= 0, "max_age", "it is negative")
}

func (c *compiler) limits() {
	s := &c.t.Spec
	c.check(s.Concurrency >= 1, "concurrency", "it is at least 1")
	c.check(slices.Contains([]string{"none", "subject", "repo"}, s.Serialize), "serialize", "%q is none of none, subject, repo", s.Serialize)
	c.check(slices.Contains([]string{"none", "subject"}, s.Coalesce), "coalesce", "%q is neither none nor subject", s.Coalesce)
	c.check(s.QueueSize >= 1, "queue.size", "it is at least 1")
	c.check(s.QueueWait > 0, "queue.wait", "it is more than 0")
}

func (c *compiler) targets() {
	s, t := &c.t.Spec, c.t
	var err error
	t.prompt, err = compileTemplate("prompt", s.Prompt)
	c.problem("prompt", err)

	c.target(PartRun, s.Run)
	if s.FollowUp != nil {
		c.target(PartFollowUp, s.FollowUp.Target)
	}
	if s.Probe != nil {
		c.target(PartProbe, *s.Probe)
	}
}

func (c *compiler) target(part Part, target Target) {
	field := string(part)
	switch {
	case target.HTTP != nil && len(target.Command) > 0:
		c.check(false, field, "it has a command and an http request: keep one")
	case target.HTTP != nil: // literal, so there is nothing to compile
	case len(target.Command) == 0:
		c.check(false, field, "it needs a command or an http request")
	default:
		elements := make([]*textTemplate, len(target.Command))
		for i, source := range target.Command {
			element := fmt.Sprintf("%s.command[%d]", field, i)
			c.check(i > 0 || source != "", element, "the program has no name")
			var err error
			elements[i], err = compileTemplate(element, source)
			c.problem(element, err)
		}
		c.t.argv[part] = elements
	}
}

func at(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }
