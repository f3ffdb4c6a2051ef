package harness

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Postgres is the private server that scripts/postgres has started, in the directory that
// PRELOOP_POSTGRES_DIR names. The working directory is the repository's.
type Postgres struct{}

// Halt stops the server and keeps its data: "fast" as an administrator does, "immediate" as a crash
// does, "kill" with kill -9.
func (Postgres) Halt(ctx context.Context, how string) error { return postgres(ctx, "halt", how) }

// Resume starts the server again at the same address, with more options (-c name=value), and returns
// when it answers.
func (Postgres) Resume(ctx context.Context, options ...string) error {
	return postgres(ctx, append([]string{"resume"}, options...)...)
}

func postgres(ctx context.Context, args ...string) error {
	if out, err := exec.CommandContext(ctx, "scripts/postgres", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("scripts/postgres %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
