package commands

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/api"
)

// RunsCmd groups what is about runs.
type RunsCmd struct {
	List    RunsListCmd    `cmd:"" default:"withargs" aliases:"ls" help:"List runs, newest first."`
	Show    RunsShowCmd    `cmd:"" help:"Show one run with its attempts and output."`
	Retry   RunsRetryCmd   `cmd:"" help:"Run failed, uncertain, canceled or dropped ones again."`
	Cancel  RunsCancelCmd  `cmd:"" help:"Cancel waiting, running or uncertain ones."`
	Resolve RunsResolveCmd `cmd:"" help:"Say what became of an uncertain one."`
}

// RunsListCmd lists runs.
type RunsListCmd struct {
	Trigger  string   `placeholder:"NAME" help:"Only this trigger's."`
	State    []string `placeholder:"STATE" help:"waiting, running, routing, succeeded, failed, dropped, delivered, uncertain, canceled; several with commas."`
	Subject  string   `placeholder:"OWNER/REPO#N" help:"Only about this issue, pull request or discussion."`
	Delivery string   `placeholder:"ID" help:"Only of this delivery."`
	Since    string   `placeholder:"WHEN" help:"Only since then: 2h, 3d, 2026-08-20, an RFC 3339 time."`
	Limit    int      `short:"L" default:"30" help:"How many at most; 0: all."`
	Output
}

// Run prints the list.
func (c *RunsListCmd) Run(ctx context.Context, a *app) (err error) {
	f := queue.RunFilter{Trigger: c.Trigger, Subject: c.Subject, DeliveryID: c.Delivery}
	if f.States, err = states(c.State, queue.RunStates); err != nil {
		return err
	}
	if f.Since, err = since(c.Since); err != nil {
		return err
	}
	ops, done, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer done()
	t := &table{header: []string{"ID", "TRIGGER", "KIND", "STATE", "REASON", "SUBJECT", "ATTEMPTS", "CREATED", "ERROR"}, flex: []int{8, 5, 1}, empty: "No runs match."}
	for n := 0; c.Limit == 0 || n < c.Limit; {
		f.Limit = api.MaxLimit
		if c.Limit > 0 {
			f.Limit = min(c.Limit-n, api.MaxLimit)
		}
		page, err := ops.Runs(ctx, f)
		if err != nil {
			return err
		}
		for _, r := range page.Runs {
			if c.asJSON() {
				if err := c.print(a.out, r); err != nil {
					return err
				}
				continue
			}
			about := orDash(r.Subject)
			if r.Subject == nil {
				about = orDash(r.Repo)
			}
			t.add(r.ID, r.Trigger, r.Kind, r.State, orDash(r.Reason), about, strconv.Itoa(r.Attempts), a.moment(r.CreatedAt), orDash(r.Error))
		}
		if n += len(page.Runs); page.NextCursor == nil {
			break
		}
		f.Cursor = *page.NextCursor
	}
	if c.asJSON() {
		return nil
	}
	return t.print(a)
}

// RunsShowCmd shows one.
type RunsShowCmd struct {
	ID string `arg:"" help:"The run's id."`
	Output
}

// Run prints the run.
func (c *RunsShowCmd) Run(ctx context.Context, a *app) error {
	ops, done, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer done()
	r, err := ops.Run(ctx, c.ID)
	if err != nil {
		return err
	}
	if c.asJSON() {
		return c.print(a.out, r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s  %s%s\n", r.ID, r.Trigger, r.State, runNote(r.Run))
	field := func(name, value string) {
		if value != "" && value != "-" {
			fmt.Fprintf(&b, "  %-10s %s\n", name, plain(value))
		}
	}
	field("delivery", r.Source+"/"+r.DeliveryID)
	field("kind", r.Kind)
	field("about", orDash(r.Subject))
	field("repo", orDash(r.Repo))
	field("session", orDash(r.Session))
	if s := r.Sessions; s != nil {
		field("", "the session is "+s.State)
	}
	field("created", a.moment(r.CreatedAt))
	field("started", a.moment(r.StartedAt))
	field("finished", a.moment(r.FinishedAt))
	field("next try", a.moment(r.NextAttemptAt))
	field("expires", a.moment(r.ExpiresAt))
	field("node", orDash(r.Node))
	if len(r.AttemptHistory) > 0 {
		fmt.Fprintf(&b, "\nAttempts\n")
	}
	for _, at := range r.AttemptHistory {
		fmt.Fprintf(&b, "  %d  %-11s %s  on %s", at.Attempt, orDash(at.Outcome), a.moment(at.StartedAt), at.Node)
		if at.Error != nil {
			fmt.Fprintf(&b, ": %s", plain(*at.Error))
		}
		b.WriteString("\n")
	}
	if r.Output != nil && *r.Output != "" {
		fmt.Fprintf(&b, "\nOutput\n")
		for line := range strings.Lines(*r.Output) {
			fmt.Fprintf(&b, "  %s\n", plain(strings.TrimRight(line, "\r\n")))
		}
	}
	_, err = fmt.Fprint(a.out, b.String())
	return err
}

// RunIDs are the runs that an action is for.
type RunIDs struct {
	IDs []string `arg:"" name:"id" help:"Run ids."`
	Output
}

// act does one thing to each run and goes on after a refusal.
func (c *RunIDs) act(ctx context.Context, a *app, action, done string, body api.EndRequest) error {
	ops, closeOps, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer closeOps()
	var failed error
	for _, id := range c.IDs {
		r, err := ops.Act(ctx, id, action, body)
		switch {
		case err != nil && exitCode(err) != exitFound:
			return err
		case err != nil:
			report(a.err, err)
			failed = errQuiet
		case c.asJSON():
			if err := c.print(a.out, r); err != nil {
				return err
			}
		default:
			if _, err := fmt.Fprintf(a.out, "%s\t%s\t%s\n", r.ID, done, r.State); err != nil {
				return err
			}
		}
	}
	return failed
}

// RunsRetryCmd retries.
type RunsRetryCmd struct{ RunIDs }

// Run retries each.
func (c *RunsRetryCmd) Run(ctx context.Context, a *app) error {
	return c.act(ctx, a, "retry", "requeued", api.EndRequest{})
}

// RunsCancelCmd cancels.
type RunsCancelCmd struct{ RunIDs }

// Run cancels each.
func (c *RunsCancelCmd) Run(ctx context.Context, a *app) error {
	return c.act(ctx, a, "cancel", "cancel asked", api.EndRequest{})
}

// RunsResolveCmd resolves.
type RunsResolveCmd struct {
	RunIDs
	As string `required:"" enum:"succeeded,failed" help:"succeeded or failed."`
}

// Run resolves each.
func (c *RunsResolveCmd) Run(ctx context.Context, a *app) error {
	return c.act(ctx, a, "resolve", "resolved", api.EndRequest{As: c.As})
}
