package commands

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// service is a part of a process that runs until its context ends.
type service struct {
	name string
	run  func(ctx context.Context) error
}

// together runs services as one. The first that fails stops the others, and its error is returned;
// a context that ends is no failure.
func together(ctx context.Context, services []service) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range services {
		group.Go(func() error {
			if err := s.run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if ctx.Err() == nil {
				return fmt.Errorf("%s ended by itself", s.name)
			}
			return nil
		})
	}
	return group.Wait()
}
