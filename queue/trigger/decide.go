package trigger

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// clauses are asked in this order, after on and sources have matched. A clause returns Matched to
// let the delivery through to the next one; otherwise its verdict is the trigger's, and the
// reason is its name, a colon and what it says. With Matched, words make a note of something that
// an operator should know of a match. An error ends the whole Decide.
var clauses = []struct {
	name string
	ask  func(context.Context, *Trigger, *answers) (queue.Verdict, string, error)
}{
	{"off", askOff},
	{"repos", askRepos},
	{"bots", askBots},
	{"max_age", askMaxAge},
	{"if", askIf},
	{"paths", askPaths},
	{"permission", askPermission},
}

// decide goes through the clauses. A panic is this trigger's error; its value is not repeated, as
// it may hold payload.
func (t *Trigger) decide(ctx context.Context, a *answers) (d queue.Decision, err error) {
	clause := "on"
	d = queue.Decision{Generation: a.event.Delivery.Generation, Trigger: t.Spec.Name, Verdict: queue.Matched, Reason: "on: " + a.event.on()}
	defer func() {
		if p := recover(); p != nil {
			d.Verdict, d.Reason, err = queue.Errored, clause+": "+panicked(p), nil
		}
	}()
	for _, c := range clauses {
		clause = c.name
		verdict, words, err := c.ask(ctx, t, a)
		if err != nil {
			return d, fmt.Errorf("deciding %s of trigger %s: %w", c.name, t.Spec.Name, err)
		}
		if words != "" {
			d.Reason = c.name + ": " + words
		}
		if verdict != queue.Matched {
			d.Verdict = verdict
			return d, nil
		}
	}
	return d, nil
}

func panicked(p any) string {
	if _, ok := p.(runtime.Error); ok {
		return "panicked with a runtime error"
	}
	return fmt.Sprintf("panicked with a %T", p)
}

func askOff(_ context.Context, t *Trigger, _ *answers) (queue.Verdict, string, error) {
	if !t.Spec.Enabled {
		return queue.Ignored, "the trigger is not enabled", nil
	}
	return queue.Matched, "", nil
}

func askRepos(_ context.Context, t *Trigger, a *answers) (queue.Verdict, string, error) {
	repo := a.event.Delivery.Repo
	switch {
	case t.repos.match(repo):
		return queue.Matched, "", nil
	case repo == "":
		return queue.Filtered, "the event names no repository", nil
	}
	return queue.Filtered, repo + " is not among them", nil
}

func askBots(_ context.Context, t *Trigger, a *answers) (queue.Verdict, string, error) {
	if a.event.Delivery.SenderBot && !t.Spec.Bots {
		return queue.Ignored, "sent by the bot " + a.event.Delivery.Sender, nil
	}
	return queue.Matched, "", nil
}

func askMaxAge(_ context.Context, t *Trigger, a *answers) (queue.Verdict, string, error) {
	age := a.event.Now.Sub(a.event.Delivery.ReceivedAt)
	if limit := t.Spec.MaxAge; limit > 0 && age > limit && !a.event.Delivery.Force {
		return queue.Filtered, fmt.Sprintf("received %s ago, more than %s", short(age), short(limit)), nil
	}
	return queue.Matched, "", nil
}

func askIf(ctx context.Context, t *Trigger, a *answers) (queue.Verdict, string, error) {
	if t.filter == nil {
		return queue.Matched, "", nil
	}
	verdict, words := t.filter.eval(ctx, a.event)
	return verdict, words, ctx.Err() // a lost lease must not look like a slow filter
}

func askPaths(ctx context.Context, t *Trigger, a *answers) (queue.Verdict, string, error) {
	if len(t.Spec.Paths) == 0 {
		return queue.Matched, "", nil
	}
	body, err := a.event.Body()
	if err != nil {
		return queue.Errored, err.Error(), nil
	}
	var files []string
	complete := false
	switch push := a.event.Delivery.Event == "push"; {
	case push:
		files, complete = pushedFiles(body)
	case !namesPullRequest(a.event, body):
		return queue.Filtered, "the event changes no files", nil
	}
	if slices.ContainsFunc(files, t.paths.match) {
		return queue.Matched, "", nil
	}
	if !complete {
		files, complete, err = a.changedFiles(ctx, body)
		if err != nil {
			if a.stops(ctx, err) {
				return "", "", err
			}
			return queue.Errored, "the changed files cannot be read: " + line(err), nil
		}
	}
	switch {
	case slices.ContainsFunc(files, t.paths.match):
		return queue.Matched, "", nil
	case complete:
		return queue.Filtered, fmt.Sprintf("none of %d changed files", len(files)), nil
	}
	// Work that is not done is worse than work done once too often.
	return queue.Matched, fmt.Sprintf("GitHub lists only %d of the changed files, so one may match", len(files)), nil
}

func askPermission(ctx context.Context, t *Trigger, a *answers) (queue.Verdict, string, error) {
	need := t.Spec.Permission
	if need == "" || need == "none" {
		return queue.Matched, "", nil
	}
	d := a.event.Delivery
	switch {
	case d.Sender == "":
		return queue.Filtered, "the event names no sender", nil
	case d.Repo == "":
		return queue.Filtered, "the event names no repository", nil
	}
	role, err := a.permission(ctx)
	switch {
	case err != nil && a.stops(ctx, err):
		return "", "", err
	case err != nil:
		return queue.Errored, "the role of " + d.Sender + " cannot be read: " + line(err), nil
	case slices.Index(Roles, role) < slices.Index(Roles, need):
		return queue.Filtered, fmt.Sprintf("%s has %s, less than %s", d.Sender, role, need), nil
	}
	return queue.Matched, "", nil
}

// maxLine has room for GitHub's longest refusal and, after it, what to do about it.
const maxLine = 400

// line bounds an error to what a reason can hold.
func line(err error) string {
	s := strings.Join(strings.Fields(err.Error()), " ")
	if len(s) > maxLine {
		s = strings.ToValidUTF8(s[:maxLine], "") + "…"
	}
	return s
}

// short writes 72h0m0s as 72h.
func short(d time.Duration) string {
	s := d.Round(time.Second).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
