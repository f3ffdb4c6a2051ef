package commands

import (
	"context"
	"fmt"

	"github.com/seed-de999ace/preloop/commands/config"
	"github.com/seed-de999ace/preloop/queue"
)

// PruneCmd deletes once what the retention no longer keeps.
type PruneCmd struct {
	DryRun bool `short:"n" help:"Only say how many would be deleted."`
	Output
}

type pruned struct {
	Deleted int  `json:"deleted"`
	DryRun  bool `json:"dry_run"`
}

// Run prunes the store itself: it is what `serve` does every few minutes.
func (c *PruneCmd) Run(ctx context.Context, a *app) error {
	if a.Server != "" {
		return usagef("prune works on the store itself; a server prunes by itself")
	}
	cfg, err := a.load(config.Options{LenientSecrets: true})
	if err != nil {
		return err
	}
	store, err := openStore(ctx, cfg, false, a.log)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // every write has been answered
	n, err := store.Prunable(ctx)
	if err != nil {
		return err
	}
	if !c.DryRun { // with nothing to delete, too: closed repairs go as well
		bar := a.progress("pruning", n)
		n, err = queue.PruneOnce(ctx, store, cfg.Retention.Batch, bar.at)
		bar.done()
		if err != nil {
			return err
		}
	}
	if c.asJSON() {
		return c.print(a.out, pruned{n, c.DryRun})
	}
	verb := "deleted"
	if c.DryRun {
		verb = "would delete"
	}
	_, err = fmt.Fprintf(a.out, "%s %d deliveries older than %s, with their runs\n", verb, n, span(cfg.Retention.Keep))
	return err
}
