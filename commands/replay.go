package commands

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/api"
)

// ReplayCmd requeues stored payloads. It needs no GitHub.
type ReplayCmd struct {
	IDs []string `arg:"" optional:"" name:"id" help:"Delivery ids (or SOURCE/ID); - reads them from stdin, one a line."`
	DeliverySelection
	Only   []string `name:"for" placeholder:"TRIGGER" help:"Decide anew for these triggers alone."`
	Force  bool     `help:"Run even what is older than a trigger's max_age."`
	DryRun bool     `short:"n" help:"Only say what would be replayed."`
	Output
}

// Run replays, and goes on after a refusal.
func (c *ReplayCmd) Run(ctx context.Context, a *app) error {
	selection := c.DeliverySelection
	chosen := len(selection.State) > 0 || selection.Event != "" || selection.Repo != "" || selection.Source != "" || selection.Trigger != "" || selection.Since != ""
	if len(c.IDs) == 0 && !chosen {
		return usagef("replay: name deliveries, - for stdin, or a selection such as --state failed --since 2h")
	}
	if len(c.IDs) > 0 && chosen {
		return usagef("replay: ids and a selection exclude each other")
	}
	f, err := selection.filter()
	if err != nil {
		return err
	}
	ops, done, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer done()
	ids, err := c.ids(a)
	if err != nil {
		return err
	}
	if chosen {
		if len(f.States) == 0 { // what is under way cannot be replayed and needs no replay
			f.States = []queue.DeliveryState{queue.Done, queue.Failed}
		}
		// Collected first: a replayed delivery moves out of the very list that is walked.
		if err := eachDelivery(ctx, ops, f, 0, func(d api.Delivery) error {
			ids = append(ids, d.Source+"/"+d.DeliveryID)
			return nil
		}); err != nil {
			return err
		}
	}
	if len(ids) == 0 {
		_, err := fmt.Fprintln(a.err, "No deliveries match; nothing to replay.")
		return err
	}
	if len(ids) > 1 || c.DryRun {
		verb := "Replaying"
		if c.DryRun {
			verb = "Would replay"
		}
		_, _ = fmt.Fprintf(a.err, "%s %d deliveries.\n", verb, len(ids))
	}
	return c.replay(ctx, a, ops, ids)
}

func (c *ReplayCmd) replay(ctx context.Context, a *app, ops api.Operations, ids []string) error {
	bar := a.progress("replaying", len(ids))
	defer bar.done()
	refused := 0
	for i, id := range ids {
		bar.at(i)
		r := &api.Replayed{DeliveryID: id, Status: "would_requeue"}
		if c.DryRun {
			d, err := ops.Delivery(ctx, id)
			if err != nil {
				return err
			}
			r.DeliveryID, r.Source = d.DeliveryID, d.Source
			if s := queue.DeliveryState(d.State); !s.Terminal() {
				r.Status = d.State
			}
		} else {
			done, err := ops.Replay(ctx, id, api.ReplayRequest{Force: c.Force, Triggers: c.Only})
			if err != nil && exitCode(err) != exitFound {
				return err
			}
			if err != nil {
				bar.done()
				report(a.err, err)
				refused++
				continue
			}
			r = done
		}
		if c.asJSON() {
			if err := c.print(a.out, r); err != nil {
				return err
			}
		} else if _, err := fmt.Fprintf(a.out, "%s\t%s\t%s\n", r.DeliveryID, r.Source, r.Status); err != nil {
			return err
		}
	}
	if refused > 0 {
		bar.done()
		_, _ = fmt.Fprintf(a.err, "%d of %d could not be requeued.\n", refused, len(ids))
		return errQuiet
	}
	return nil
}

// ids are the arguments, with - replaced by what stdin holds.
func (c *ReplayCmd) ids(a *app) (ids []string, err error) {
	for _, id := range c.IDs {
		if id != "-" {
			ids = append(ids, id)
			continue
		}
		lines := bufio.NewScanner(a.in)
		for lines.Scan() {
			if line := strings.TrimSpace(lines.Text()); line != "" {
				ids = append(ids, strings.Fields(line)[0])
			}
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("reading ids from stdin: %w", err)
		}
	}
	return ids, nil
}
