package trigger

import (
	"fmt"
	"strings"
)

// Part names one of a trigger's targets, by its key in the configuration.
type Part string

// The parts.
const (
	PartRun      Part = "run"
	PartFollowUp Part = "follow_up"
	PartProbe    Part = "probe"
)

// Vars are what templates see: .event, .action, .body, .headers, .repo, .sender, .subject and
// .delivery_id come from Event, .trigger from the trigger, the rest from here.
type Vars struct {
	Event   *Event
	Prompt  string // as Prompt rendered it; not seen by the prompt itself
	Session string
	RunID   string
	Attempt int
}

// ArgumentError refuses to build an argument vector: the run fails with queue.ReasonArgument. It
// names the element and never holds its value.
type ArgumentError struct {
	Part  Part
	Index int
	Err   error
}

func (e *ArgumentError) Error() string {
	return fmt.Sprintf("%s.command[%d]: %v", e.Part, e.Index, e.Err)
}

// Unwrap returns what was wrong with the element.
func (e *ArgumentError) Unwrap() error { return e.Err }

// Prompt renders the trigger's instructions for one event.
func (t *Trigger) Prompt(v Vars) (string, error) {
	v.Prompt = ""
	data, err := t.data(v, t.prompt)
	if err != nil {
		return "", fmt.Errorf("rendering prompt: %w", err)
	}
	s, err := t.prompt.render(data)
	if err != nil {
		return "", fmt.Errorf("rendering prompt: %w", err)
	}
	return s, nil
}

// Argv renders the command of one target. It is nil where the trigger has no such command. Every
// error is an *ArgumentError.
//
// An element that begins with an action must not turn out to begin with -, as the payload could
// then pass options to the program, unless an earlier element is written as --.
func (t *Trigger) Argv(v Vars, part Part) ([]string, error) {
	elements := t.argv[part]
	if elements == nil {
		return nil, nil
	}
	data, err := t.data(v, elements...)
	if err != nil {
		return nil, &ArgumentError{part, 0, err}
	}
	argv := make([]string, len(elements))
	optionsEnded := false
	for i, element := range elements {
		argv[i], err = element.render(data)
		switch {
		case err != nil:
		case element.dynamic && !optionsEnded && strings.HasPrefix(argv[i], "-"):
			err = fmt.Errorf("it begins with a template and renders to a leading -: put -- before it")
		case strings.Contains(argv[i], "\x00"):
			err = fmt.Errorf("it holds a zero byte, which no argument can")
		}
		if err != nil {
			return nil, &ArgumentError{part, i, err}
		}
		// As written, not as rendered: a payload must not be able to supply it.
		optionsEnded = optionsEnded || element.source == "--"
	}
	return argv, nil
}

// data is the map that the templates see, with the payload only if one of them may read it.
func (t *Trigger) data(v Vars, templates ...*textTemplate) (map[string]any, error) {
	d := v.Event.Delivery
	data := map[string]any{
		"event":       d.Event,
		"action":      d.Action,
		"headers":     v.Event.Headers(),
		"repo":        d.Repo,
		"sender":      d.Sender,
		"subject":     d.Subject,
		"prompt":      v.Prompt,
		"session":     v.Session,
		"delivery_id": d.ID,
		"run_id":      v.RunID,
		"trigger":     t.Spec.Name,
		"attempt":     int64(v.Attempt),
	}
	for _, tt := range templates {
		if tt.body {
			body, err := v.Event.Body()
			if err != nil {
				return nil, err
			}
			data["body"] = body
			break
		}
	}
	return data, nil
}
