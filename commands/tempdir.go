package commands

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/seed-de999ace/preloop/commands/config"
)

// runDir makes this process's directory for what running commands are given: payloads, prompts.
// Processes that were killed could not remove theirs; what they left is removed here.
func runDir(cfg *config.Config) (string, error) {
	base := filepath.Join(os.TempDir(), "preloop-"+strconv.Itoa(os.Getuid()))
	if cfg.StateDir != "" {
		base = filepath.Join(cfg.StateDir, "runs")
	}
	dir := filepath.Join(base, strconv.Itoa(os.Getpid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("preparing a directory for runs: %w", err)
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		return "", fmt.Errorf("preparing a directory for runs: %w", err)
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != os.Getpid() && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(filepath.Join(base, e.Name())) // the next start tries again
		}
	}
	return dir, nil
}
