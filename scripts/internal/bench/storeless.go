package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// storeless is this program again, as the server without a store: a process of its own, as the
// durable server is one.
type storeless struct {
	addr    string
	process *exec.Cmd
}

func startStoreless(ctx context.Context) (*storeless, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addr, err := harness.FreeAddr()
	if err != nil {
		return nil, err
	}
	s := &storeless{addr, exec.Command(self, "-serve-storeless", addr)}
	s.process.Stdout, s.process.Stderr = os.Stdout, os.Stderr
	if err := s.process.Start(); err != nil {
		return nil, fmt.Errorf("starting the server without a store: %w", err)
	}
	for ctx := within(ctx, 10*time.Second); ; {
		if conn, err := net.Dial("tcp", addr); err == nil {
			return s, conn.Close()
		}
		select {
		case <-ctx.Done():
			s.stop()
			return nil, fmt.Errorf("starting the server without a store: nobody listens at %s", addr)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *storeless) stop() {
	_ = s.process.Process.Signal(syscall.SIGTERM)
	_ = s.process.Wait()
}
