package commands

import (
	"context"
	"errors"

	"github.com/seed-de999ace/preloop/commands/config"
)

// WorkerCmd processes and runs without a listener.
type WorkerCmd struct{}

// Run works until it is told to stop.
func (c *WorkerCmd) Run(ctx context.Context, a *app) error {
	cfg, err := a.load(config.Options{})
	if err != nil {
		return err
	}
	n, err := openNode(ctx, a, cfg, []string{"worker"})
	if err != nil {
		return err
	}
	n.finishBase = cfg.PublicURL
	n.log.Info("working", "store", cfg.Store.String(), "triggers", len(cfg.Triggers))
	err = together(ctx, n.services())
	return errors.Join(err, n.close())
}
