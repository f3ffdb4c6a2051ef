package commands

import (
	"context"
	"strconv"

	"github.com/seed-de999ace/preloop/queue"
)

// RepairsCmd groups what is about repairs.
type RepairsCmd struct {
	List RepairsListCmd `cmd:"" default:"withargs" aliases:"ls" help:"List what was lost and asked for again, newest first."`
}

// RepairsListCmd lists repairs.
type RepairsListCmd struct {
	State  string `placeholder:"STATE" enum:"open,arrived,lost," default:"" help:"open, arrived or lost."`
	Source string `placeholder:"NAME" help:"Only this app or hook."`
	Output
}

// Run prints the list.
func (c *RepairsListCmd) Run(ctx context.Context, a *app) error {
	ops, done, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer done()
	list, err := ops.Repairs(ctx, queue.RepairFilter{Source: c.Source, State: c.State})
	if err != nil {
		return err
	}
	t := &table{header: []string{"DELIVERY", "SOURCE", "EVENT", "REASON", "STATE", "ATTEMPTS", "DELIVERED", "NEXT TRY", "ERROR"}, flex: []int{8, 2}, empty: "No repairs match: nothing is known to be lost."}
	for _, r := range list.Repairs {
		if c.asJSON() {
			if err := c.print(a.out, r); err != nil {
				return err
			}
			continue
		}
		t.add(r.DeliveryID, r.Source, eventName(r.Event, r.Action), r.Reason, r.State, strconv.Itoa(r.Attempts), a.moment(r.DeliveredAt), a.moment(r.NextAttemptAt), orDash(r.LastError))
	}
	if c.asJSON() {
		return nil
	}
	return t.print(a)
}
