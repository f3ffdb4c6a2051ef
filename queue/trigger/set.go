package trigger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-de999ace/preloop/queue"
)

// maxListed is how many triggers may share an event before those for other repositories are left
// out of its decisions. Below, every trigger whose on matches gets a decision, also that repos
// filtered it; a fleet of a trigger for each repository would write thousands of those for each
// delivery and read none of them.
const maxListed = 100

// Set is the triggers of one configuration, in its order. It is immutable and safe for concurrent
// use.
type Set struct {
	triggers []*Trigger
	byName   map[string]int
	byOn     map[pattern]*listed
}

// listed are the triggers with one pattern, as ascending indexes into Set.triggers.
type listed struct {
	all    []int
	open   []int            // those whose repository globs are not all literal
	byRepo map[string][]int // the others, by lower-cased repository
}

// NewSet indexes triggers. Two of one name are an error.
func NewSet(triggers []*Trigger) (*Set, error) {
	s := &Set{triggers: triggers, byName: map[string]int{}, byOn: map[pattern]*listed{}}
	for i, t := range triggers {
		if _, taken := s.byName[t.Spec.Name]; taken {
			return nil, fmt.Errorf("two triggers are named %s", t.Spec.Name)
		}
		s.byName[t.Spec.Name] = i
		repos, literal := t.repos.literals()
		for _, on := range t.on {
			l := s.byOn[on]
			if l == nil {
				l = &listed{byRepo: map[string][]int{}}
				s.byOn[on] = l
			}
			l.all = append(l.all, i)
			if !literal {
				l.open = append(l.open, i)
			}
			for _, repo := range repos {
				if literal {
					l.byRepo[repo] = append(l.byRepo[repo], i)
				}
			}
		}
	}
	return s, nil
}

// Triggers returns all of them in the order of the configuration. Do not change the slice.
func (s *Set) Triggers() []*Trigger { return s.triggers }

// Get returns the trigger of that name, or nil.
func (s *Set) Get(name string) *Trigger {
	if i, ok := s.byName[name]; ok {
		return s.triggers[i]
	}
	return nil
}

// Hash identifies what the triggers say, so that nodes can tell whether theirs are the same.
// Secrets are no part of it, as it is published.
func (s *Set) Hash() string {
	h := sha256.New()
	for _, t := range s.triggers {
		b, err := json.Marshal(t.Spec.public())
		if err != nil {
			panic(err) // a Spec holds nothing that JSON cannot
		}
		h.Write(append(b, '\n'))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// public returns s without its secrets.
func (s Spec) public() Spec {
	hide := func(t Target) Target {
		if t.HTTP != nil {
			http := *t.HTTP
			http.Secret, http.Headers = nil, nil
			t.HTTP = &http
		}
		return t
	}
	s.Run = hide(s.Run)
	if s.FollowUp != nil {
		f := *s.FollowUp
		f.Target = hide(f.Target)
		s.FollowUp = &f
	}
	if s.Probe != nil {
		p := hide(*s.Probe)
		s.Probe = &p
	}
	return s
}

// Result is one trigger's decision.
type Result struct {
	Trigger *Trigger
	queue.Decision
}

// Decide returns a decision for each trigger whose on and sources match ev, in the order of the
// configuration; where more than a hundred share the event, those whose repositories are all
// written out and are others are left out. A replay for certain triggers decides those alone.
// Pausing and double subscription are not known here: admission may still turn Matched into
// Ignored. What is wrong with one trigger is that trigger's decision.
//
// An error means that nothing is decided: ctx ended, or GitHub could not be asked (ErrUnavailable:
// park the delivery) or may lag (ErrNotFound: try it again). q may be nil; what would need an
// answer is then an error of that trigger.
func (s *Set) Decide(ctx context.Context, ev *Event, q Questions) ([]Result, error) {
	candidates := s.candidates(ev.Delivery)
	if len(candidates) == 0 {
		return nil, nil
	}
	a := &answers{questions: q, event: ev}
	results := make([]Result, 0, len(candidates))
	for _, i := range candidates {
		t := s.triggers[i]
		if !t.wantsSource(ev.Delivery) {
			continue
		}
		d, err := t.decide(ctx, a)
		if err != nil {
			return nil, err
		}
		results = append(results, Result{t, d})
	}
	return results, nil
}

// candidates are the indexes of the triggers to decide, ascending.
func (s *Set) candidates(d *queue.Delivery) []int {
	var found []int
	if len(d.Triggers) > 0 {
		for _, name := range d.Triggers {
			if i, ok := s.byName[name]; ok && s.triggers[i].wants(d) {
				found = append(found, i)
			}
		}
	} else {
		anyAction, thisAction := s.byOn[pattern{d.Event, ""}], s.byOn[pattern{d.Event, d.Action}]
		if d.Action == "" {
			thisAction = nil
		}
		lists := make([]*listed, 0, 2)
		total := 0
		for _, l := range []*listed{anyAction, thisAction} {
			if l != nil {
				lists = append(lists, l)
				total += len(l.all)
			}
		}
		for _, l := range lists {
			if total <= maxListed {
				found = append(found, l.all...)
				continue
			}
			found = append(found, l.open...)
			found = append(found, l.byRepo[strings.ToLower(d.Repo)]...)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// wants reports whether on matches.
func (t *Trigger) wants(d *queue.Delivery) bool {
	return slices.ContainsFunc(t.on, func(p pattern) bool { return p.matches(d.Event, d.Action) })
}

// wantsSource accepts a source's name and its key.
func (t *Trigger) wantsSource(d *queue.Delivery) bool {
	return len(t.Spec.Sources) == 0 ||
		slices.Contains(t.Spec.Sources, d.SourceName) || slices.Contains(t.Spec.Sources, d.Source)
}
