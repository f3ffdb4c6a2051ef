package commands

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/api"
)

// DeliveriesCmd groups what is about deliveries.
type DeliveriesCmd struct {
	List    DeliveriesListCmd    `cmd:"" default:"withargs" aliases:"ls" help:"List deliveries, newest first."`
	Show    DeliveriesShowCmd    `cmd:"" help:"Tell one delivery's whole story: attempts, what each trigger decided and why, runs."`
	Payload DeliveriesPayloadCmd `cmd:"" help:"Print one delivery's JSON as GitHub sent it."`
}

// DeliverySelection are the flags that select deliveries.
type DeliverySelection struct {
	State   []string `placeholder:"STATE" help:"received, processing, done, failed; several with commas."`
	Event   string   `placeholder:"EVENT" help:"Only this event, as issues."`
	Repo    string   `short:"R" placeholder:"OWNER/REPO" help:"Only this repository."`
	Source  string   `placeholder:"NAME" help:"Only this app or hook."`
	Trigger string   `placeholder:"NAME" help:"Only what this trigger decided on."`
	Since   string   `placeholder:"WHEN" help:"Only since then: 2h, 3d, 2026-08-20, an RFC 3339 time."`
}

func (s *DeliverySelection) filter() (f queue.DeliveryFilter, err error) {
	f = queue.DeliveryFilter{Event: s.Event, Repo: s.Repo, Source: s.Source, Trigger: s.Trigger}
	if f.States, err = states(s.State, queue.DeliveryStates); err != nil {
		return f, err
	}
	f.Since, err = since(s.Since)
	return f, err
}

// DeliveriesListCmd lists deliveries.
type DeliveriesListCmd struct {
	DeliverySelection
	Output
	Limit int `short:"L" default:"30" help:"How many at most; 0: all."`
}

// Run prints the list.
func (c *DeliveriesListCmd) Run(ctx context.Context, a *app) error {
	f, err := c.filter()
	if err != nil {
		return err
	}
	ops, done, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer done()
	t := &table{header: []string{"ID", "SOURCE", "EVENT", "SUBJECT", "SENDER", "STATE", "ATTEMPTS", "RECEIVED", "ERROR"}, flex: []int{8, 3, 4, 1}, empty: "No deliveries match."}
	err = eachDelivery(ctx, ops, f, c.Limit, func(d api.Delivery) error {
		if c.asJSON() {
			return c.print(a.out, d)
		}
		about := orDash(d.Subject)
		if d.Subject == nil {
			about = orDash(d.Repo)
		}
		t.add(d.DeliveryID, d.Source, eventName(d.Event, d.Action), about, orDash(d.Sender), d.State, strconv.Itoa(d.Attempts), a.moment(d.ReceivedAt), orDash(d.LastError))
		return nil
	})
	if err != nil || c.asJSON() {
		return err
	}
	return t.print(a)
}

func eventName(event string, action *string) string {
	if action == nil {
		return event
	}
	return event + "." + *action
}

// eachDelivery walks through the pages of a list, up to limit rows (0: all).
func eachDelivery(ctx context.Context, ops api.Operations, f queue.DeliveryFilter, limit int, yield func(api.Delivery) error) error {
	for n := 0; limit == 0 || n < limit; {
		f.Limit = api.MaxLimit
		if limit > 0 {
			f.Limit = min(limit-n, api.MaxLimit)
		}
		page, err := ops.Deliveries(ctx, f)
		if err != nil {
			return err
		}
		for _, d := range page.Deliveries {
			if err := yield(d); err != nil {
				return err
			}
		}
		if n += len(page.Deliveries); page.NextCursor == nil {
			return nil
		}
		f.Cursor = *page.NextCursor
	}
	return nil
}

// DeliveriesShowCmd shows one.
type DeliveriesShowCmd struct {
	ID string `arg:"" help:"The delivery's id, or SOURCE/ID."`
	Output
}

// Run prints the delivery.
func (c *DeliveriesShowCmd) Run(ctx context.Context, a *app) error {
	ops, done, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer done()
	d, err := ops.Delivery(ctx, c.ID)
	if err != nil {
		return err
	}
	if c.asJSON() {
		return c.print(a.out, d)
	}
	return a.story(d)
}

// story is one delivery on one screen.
func (a *app) story(d *api.DeliveryDetail) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s  %s\n", plain(d.DeliveryID), plain(eventName(d.Event, d.Action)), d.State)
	field := func(name, value string) {
		if value != "" && value != "-" {
			fmt.Fprintf(&b, "  %-10s %s\n", name, plain(value))
		}
	}
	field("source", d.Source)
	field("about", orDash(d.Subject))
	field("repo", orDash(d.Repo))
	field("sender", orDash(d.Sender))
	field("received", a.moment(d.ReceivedAt)+", "+strconv.Itoa(d.Size)+" bytes")
	field("finished", a.moment(d.FinishedAt))
	if d.NextAttemptAt != nil && d.NextAttemptAt.After(time.Now()) {
		field("next try", a.moment(d.NextAttemptAt))
	}
	if d.Generation > 0 {
		field("replayed", strconv.Itoa(d.Generation)+" times")
	}
	field("error", orDash(d.LastError))

	fmt.Fprintf(&b, "\nDecisions\n")
	if len(d.Decisions) == 0 {
		switch d.State {
		case string(queue.Done):
			fmt.Fprintf(&b, "  none: no trigger listens to %s\n", plain(eventName(d.Event, d.Action)))
		default:
			fmt.Fprintf(&b, "  none yet\n")
		}
	}
	for _, x := range d.Decisions {
		fmt.Fprintf(&b, "  %-9s %s", x.Decision, x.Trigger)
		if x.Reason != nil {
			fmt.Fprintf(&b, "  %s", plain(*x.Reason))
		}
		if x.RunID != nil {
			fmt.Fprintf(&b, "  run %s", *x.RunID)
		}
		b.WriteString("\n")
	}
	if len(d.Runs) > 0 {
		fmt.Fprintf(&b, "\nRuns\n")
		for _, r := range d.Runs {
			fmt.Fprintf(&b, "  %-9s %s  %s%s\n", r.State, r.ID, r.Trigger, runNote(r))
		}
	}
	fmt.Fprintf(&b, "\nAttempts\n")
	if len(d.AttemptHistory) == 0 {
		fmt.Fprintf(&b, "  none yet\n")
	}
	for _, at := range d.AttemptHistory {
		outcome := "under way"
		if at.Outcome != nil {
			outcome = *at.Outcome
		}
		fmt.Fprintf(&b, "  %d  %-13s %s  on %s", at.Attempt, outcome, a.moment(at.StartedAt), at.Node)
		if at.Error != nil {
			fmt.Fprintf(&b, ": %s", plain(*at.Error))
		}
		b.WriteString("\n")
	}
	_, err := fmt.Fprint(a.out, b.String())
	return err
}

func runNote(r api.Run) string {
	var parts []string
	if r.Reason != nil {
		parts = append(parts, *r.Reason)
	}
	if r.ExitCode != nil {
		parts = append(parts, fmt.Sprintf("exit %d", *r.ExitCode))
	}
	if r.HTTPStatus != nil {
		parts = append(parts, fmt.Sprintf("HTTP %d", *r.HTTPStatus))
	}
	if r.Error != nil {
		parts = append(parts, plain(*r.Error))
	}
	if len(parts) == 0 {
		return ""
	}
	return "  " + strings.Join(parts, ", ")
}

// DeliveriesPayloadCmd prints a payload.
type DeliveriesPayloadCmd struct {
	ID string `arg:"" help:"The delivery's id, or SOURCE/ID."`
}

// Run prints the payload byte for byte.
func (c *DeliveriesPayloadCmd) Run(ctx context.Context, a *app) error {
	ops, done, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer done()
	b, err := ops.Payload(ctx, c.ID)
	if err != nil {
		return err
	}
	if isTerminal(a.out) { // control characters in a payload must not reach a terminal
		return (&Output{}).print(a.out, rawJSON(b))
	}
	_, err = a.out.Write(b)
	return err
}

type rawJSON []byte

func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }
