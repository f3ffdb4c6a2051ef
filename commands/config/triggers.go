package config

import (
	"errors"
	"maps"
	"regexp"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/seed-de999ace/preloop/queue/trigger"
)

// How long a target may take unless the trigger says. A session that answers 202 has this long to
// report its end, a probe only looks something up.
const (
	commandTimeout = time.Hour
	httpTimeout    = 10 * time.Minute
	probeTimeout   = time.Minute
)

var (
	permissionName = regexp.MustCompile(`^[a-z]+(?:_[a-z]+)*$`)
	headerName     = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
)

func newTrigger() trigger.Spec {
	return trigger.Spec{
		Enabled: true, Concurrency: 1, Serialize: "none", Coalesce: "none",
		LoopLimit: trigger.Rate{Count: 20, Per: time.Hour},
		QueueSize: 50, QueueWait: day, UncertainAfter: day,
	}
}

func (c *Config) readTriggers(v value) {
	v.list(func(_ int, item value) {
		t := newTrigger()
		item.object(fields{
			"name":            scalar(matching(&t.Name, triggerName, "a name of a-z, 0-9 and dash")),
			"on":              words(&t.On),
			"sources":         words(&t.Sources),
			"repos":           words(&t.Repos),
			"if":              scalar(plain(&t.If)),
			"paths":           words(&t.Paths),
			"enabled":         scalar(boolean(&t.Enabled)),
			"permission":      scalar(oneOf(&t.Permission, trigger.Roles...)),
			"bots":            scalar(boolean(&t.Bots)),
			"max_age":         scalar(duration(&t.MaxAge, time.Second)),
			"concurrency":     scalar(count(&t.Concurrency, 1)),
			"serialize":       scalar(oneOf(&t.Serialize, "none", "subject", "repo")),
			"coalesce":        scalar(oneOf(&t.Coalesce, "none", "subject")),
			"loop_limit":      scalar(rate(&t.LoopLimit)),
			"idempotent":      scalar(boolean(&t.Idempotent)),
			"uncertain_after": scalar(duration(&t.UncertainAfter, time.Second)),
			"github_token":    permissions(&t.GitHubToken),
			"prompt":          scalar(plain(&t.Prompt)),
			"run":             func(v value) { v.target(&t.Run, startTarget, fields{}) },
			"follow_up":       func(v value) { t.FollowUp = v.followUp() },
			"probe": func(v value) {
				t.Probe = new(trigger.Target)
				v.target(t.Probe, probeTarget, fields{})
			},
			"queue": object(fields{
				"size": scalar(count(&t.QueueSize, 1)),
				"wait": scalar(duration(&t.QueueWait, tick)),
			}),
		})
		for _, key := range []string{"name", "on", "run"} {
			item.require(key)
		}
		if item.given("on") && len(t.On) == 0 {
			item.r.failAt(join(item.path, "on"), "want at least one event")
		}
		c.Triggers = append(c.Triggers, t)
	})
}

// permissions reads github_token: permission → read or write.
func permissions(dst *map[string]string) func(value) {
	return func(v value) {
		*dst = map[string]string{}
		v.entries(func(name string, entry value) {
			if !permissionName.MatchString(name) {
				entry.failKey("want a permission as GitHub's API spells it, like pull_requests")
				return
			}
			var level string
			scalar(oneOf(&level, "read", "write"))(entry)
			(*dst)[name] = level
		})
		if len(*dst) == 0 {
			v.fail("want at least one permission, like contents: read")
		}
	}
}

// headers reads literal header values; one that is a secret is named like every secret.
func headers(dst *map[string]string) func(value) {
	return func(v value) {
		*dst = map[string]string{}
		v.entries(func(name string, entry value) {
			if !headerName.MatchString(name) {
				entry.failKey("this is not the name of a header")
				return
			}
			if _, named := entry.resolved().(*ast.MappingNode); named {
				var s Secret
				secret(&s, headerValue)(entry)
				(*dst)[name] = s.Reveal()
				return
			}
			v.r.hide(entry.node)
			scalar(func(text string) error {
				(*dst)[name] = text
				return headerValue(text)
			})(entry)
		})
	}
}

func headerValue(text string) error {
	if strings.ContainsAny(text, "\r\n\x00") {
		return errors.New("a header is one line")
	}
	return nil
}

// entries reads an object whose keys are the operator's own.
func (v value) entries(entry func(string, value)) {
	own := fields{}
	if m, ok := v.resolved().(*ast.MappingNode); ok {
		for _, e := range m.Values {
			name := e.Key.GetToken().Value
			own[name] = func(v value) { entry(name, v) }
		}
	}
	v.object(own)
}

// targetKind tells apart the three places where a target stands.
type targetKind int

const (
	startTarget targetKind = iota
	followUpTarget
	probeTarget
)

// target reads {command | http, timeout} and the keys of more.
func (v value) target(t *trigger.Target, kind targetKind, more fields) {
	keys := maps.Clone(more)
	keys["command"] = words(&t.Command)
	keys["http"] = func(v value) { t.HTTP = v.http(t, kind) }
	keys["timeout"] = scalar(duration(&t.Timeout, tick))
	v.object(keys)

	switch command, http := v.given("command"), v.given("http"); {
	case command && http:
		v.r.failAt(join(v.path, "http"), "both command and http: a target is one of them")
	case !command && !http:
		v.missing("command or http is missing")
	case command && len(t.Command) == 0:
		v.r.failAt(join(v.path, "command"), "want a program and its arguments, like [make, deploy]")
	case v.given("timeout") && v.given("http.timeout"):
		v.r.failAt(join(v.path, "timeout"), "given twice, here and in http")
	}
	if t.Timeout == 0 {
		t.Timeout = defaultTimeout(t, kind)
	}
}

func defaultTimeout(t *trigger.Target, kind targetKind) time.Duration {
	switch {
	case kind == probeTarget:
		return probeTimeout
	case t.HTTP != nil:
		return httpTimeout
	}
	return commandTimeout
}

func (v value) http(t *trigger.Target, kind targetKind) *trigger.HTTP {
	// A follow-up always posts the envelope: it has more to say than the event.
	h := &trigger.HTTP{Envelope: kind == followUpTarget}
	var key Secret
	keys := fields{
		"url":     scalar(targetURL(&h.URL)),
		"headers": headers(&h.Headers),
		"secret":  secret(&key, nil),
		"timeout": scalar(duration(&t.Timeout, tick)),
	}
	if kind == startTarget {
		keys["body"] = func(v value) {
			var body string
			scalar(oneOf(&body, "forward", "envelope"))(v)
			h.Envelope = body == "envelope"
		}
	}
	v.object(keys)
	v.require("url")
	if key.IsSet() {
		h.Secret = []byte(key.Reveal())
	}
	return h
}

// targetURL takes a URL with whatever query it needs.
func targetURL(dst *string) setter {
	return func(text string) error {
		_, err := parseWebURL(text)
		*dst = text
		return err
	}
}

func (v value) followUp() *trigger.FollowUp {
	f := &trigger.FollowUp{Limit: trigger.Rate{Count: 100, Per: time.Hour}}
	v.target(&f.Target, followUpTarget, fields{
		"session": func(v value) {
			var word string
			scalar(oneOf(&word, "reported"))(v)
			f.Reported = word == "reported"
		},
		"limit": scalar(rate(&f.Limit)),
	})
	return f
}
