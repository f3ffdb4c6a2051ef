package trigger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"
	"cel.dev/cel-go/interpreter"

	"github.com/seed-de999ace/preloop/queue"
)

// Bounds of one evaluation. The cost limit alone stops what a payload of 25 MiB can make of a
// nested expression, in tens of milliseconds; the deadline is for what cost does not measure.
const (
	filterCost     = 200_000
	filterDeadline = time.Second
	filterCheck    = 100 // comprehension steps between two looks at the deadline
)

// filterEnv is shared: building one takes longer than compiling many filters.
var filterEnv = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("event", cel.StringType),
		cel.Variable("action", cel.StringType),
		cel.Variable("repo", cel.StringType),
		cel.Variable("sender", cel.StringType),
		cel.Variable("subject", cel.StringType),
		cel.Variable("body", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("headers", cel.MapType(cel.StringType, cel.StringType)),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		ext.Strings(),
	)
})

// filter is a compiled if clause.
type filter struct {
	source  string
	program cel.Program
	places  *ast.SourceInfo
}

func compileFilter(source string) (*filter, error) {
	env, err := filterEnv()
	if err != nil {
		return nil, fmt.Errorf("setting up CEL: %w", err)
	}
	checked, issues := env.Compile(source)
	if issues.Err() != nil {
		var problems []string
		for _, e := range issues.Errors() {
			problems = append(problems, fmt.Sprintf("%d:%d: %s", e.Location.Line(), e.Location.Column()+1, e.Message))
		}
		return nil, errors.New(strings.Join(problems, "; "))
	}
	if t := checked.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("the expression gives %s, where true or false is needed", t)
	}
	program, err := env.Program(checked,
		cel.EvalOptions(cel.OptOptimize), // constant regular expressions are compiled, and refused, here
		cel.CostLimit(filterCost),
		cel.InterruptCheckFrequency(filterCheck))
	if err != nil {
		return nil, err
	}
	return &filter{source: source, program: program, places: checked.NativeRep().SourceInfo()}, nil
}

// variables lets CEL read an Event; a payload is decoded when the expression comes to it.
type variables struct {
	event   *Event
	bodyErr error
}

func (v *variables) ResolveName(name string) (any, bool) {
	d := v.event.Delivery
	switch name {
	case "event":
		return d.Event, true
	case "action":
		return d.Action, true
	case "repo":
		return d.Repo, true
	case "sender":
		return d.Sender, true
	case "subject":
		return d.Subject, true
	case "headers":
		return v.event.Headers(), true
	case "body":
		body, err := v.event.Body()
		v.bodyErr = err
		return body, err == nil
	}
	return nil, false
}

func (*variables) Parent() interpreter.Activation { return nil }

// eval gives Matched, Filtered with the key that was missing, or Errored with a category and a
// place in the expression: CEL's own messages can repeat what the payload said.
func (f *filter) eval(ctx context.Context, ev *Event) (queue.Verdict, string) {
	ctx, cancel := context.WithTimeout(ctx, filterDeadline)
	defer cancel()
	vars := &variables{event: ev}
	value, _, err := f.program.ContextEval(ctx, vars)
	switch {
	case vars.bodyErr != nil:
		return queue.Errored, vars.bodyErr.Error()
	case err != nil:
		return f.explain(ctx, err)
	case value == types.True:
		return queue.Matched, ""
	case value == types.False:
		return queue.Filtered, "false"
	}
	return queue.Errored, fmt.Sprintf("the expression gave %s, where true or false is needed", value.Type().TypeName())
}

// knownFailures are CEL's messages, and beginnings of messages, that quote no values.
var knownFailures = []string{
	"no such overload", "division by zero", "modulus by zero", "integer overflow", "unsigned integer overflow",
	"duration overflow", "timestamp overflow", "type conversion error", "error parsing regexp",
}

func (f *filter) explain(ctx context.Context, err error) (queue.Verdict, string) {
	if canceled := (interpreter.EvalCancelledError{}); errors.As(err, &canceled) {
		if canceled.Cause == interpreter.CostLimitExceeded {
			return queue.Errored, fmt.Sprintf("stopped: this payload takes more than %d steps of evaluation", filterCost)
		}
		return queue.Errored, "stopped: evaluation was interrupted"
	}
	if ctx.Err() != nil {
		return queue.Errored, fmt.Sprintf("stopped: evaluation took more than %v", filterDeadline)
	}
	// The interpreter's types for these two are not exported, and compare by message themselves.
	message := err.Error()
	if key, ok := strings.CutPrefix(message, "no such key: "); ok {
		if key != "" && strings.Contains(f.source, key) {
			return queue.Filtered, message // the operator's own word
		}
		return queue.Filtered, "no such key"
	}
	if strings.HasPrefix(message, "index out of bounds") {
		return queue.Filtered, "no such element"
	}
	reason := "evaluation failed"
	if i := slices.IndexFunc(knownFailures, func(k string) bool { return strings.HasPrefix(message, k) }); i >= 0 {
		reason = knownFailures[i]
	}
	return queue.Errored, reason + f.place(err)
}

// place says where in the expression err arose, if the interpreter knows.
func (f *filter) place(err error) string {
	var failed *types.Err
	if !errors.As(err, &failed) || failed.NodeID() == 0 {
		return ""
	}
	at := f.places.GetStartLocation(failed.NodeID())
	if at.Line() < 1 {
		return ""
	}
	return fmt.Sprintf(" at %d:%d", at.Line(), at.Column()+1)
}
