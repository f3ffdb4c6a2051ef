package trigger

import (
	"context"
	"strings"

	"github.com/seed-de999ace/preloop/queue"
)

// Description is what a trigger would do with a delivery.
type Description struct {
	Decision queue.Decision
	Prompt   string   // rendered where Decision is Matched and the trigger has one
	Command  []string // rendered where Decision is Matched and the trigger runs a command
	Err      error    // the prompt or the command could not be rendered: the run would fail
}

// Describe decides as Decide does and renders what each match would run, with sample as the run
// (its Event is ignored). With names it describes exactly those triggers, in their order, also
// those whose on or sources do not match; unknown names are left out.
func (s *Set) Describe(ctx context.Context, ev *Event, q Questions, sample Vars, names ...string) ([]Description, error) {
	var results []Result
	a := &answers{questions: q, event: ev}
	for _, name := range names {
		t := s.Get(name)
		if t == nil {
			continue
		}
		r := Result{t, queue.Decision{Generation: ev.Delivery.Generation, Trigger: name, Verdict: queue.Filtered}}
		var err error
		switch {
		case !t.wants(ev.Delivery):
			r.Reason = "on: " + ev.on() + " is not among " + strings.Join(t.Spec.On, ", ")
		case !t.wantsSource(ev.Delivery):
			r.Reason = "sources: " + ev.Delivery.SourceName + " is not among " + strings.Join(t.Spec.Sources, ", ")
		default:
			r.Decision, err = t.decide(ctx, a)
		}
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	if len(names) == 0 {
		var err error
		if results, err = s.Decide(ctx, ev, q); err != nil {
			return nil, err
		}
	}
	all := make([]Description, len(results))
	sample.Event = ev
	for i, r := range results {
		all[i].Decision = r.Decision
		if r.Verdict == queue.Matched {
			all[i].Prompt, all[i].Command, all[i].Err = r.Trigger.Start(sample)
		}
	}
	return all, nil
}

// Start renders the prompt, and the command of run with it.
func (t *Trigger) Start(v Vars) (prompt string, argv []string, err error) {
	if prompt, err = t.Prompt(v); err != nil {
		return "", nil, err
	}
	v.Prompt = prompt
	argv, err = t.Argv(v, PartRun)
	return prompt, argv, err
}
