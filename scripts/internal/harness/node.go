package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Secret signs every delivery of a test; Token is the system token. They guard nothing.
const (
	Secret = "a-webhook-secret-for-tests"
	Token  = "a-system-token-for-tests-only"
)

// Node is a preloop that runs as a process of its own, as it does in production. Its fields are not
// changed after the first Start; its methods are not for concurrent use.
type Node struct {
	Binary     string
	Dir        string // configuration, state and log; made on Start
	Addr       string
	Store      string // a store's URL
	Components string // empty: all
	Config     string // more of the configuration, in YAML

	process *exec.Cmd
	ended   chan struct{} // closed when the process has ended
	err     error         // how; to be read when it has
}

// FreeAddr is a loopback address at which nobody listens.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Start runs the binary and does not wait for it to be ready.
func (n *Node) Start() error {
	if err := os.MkdirAll(n.Dir, 0o700); err != nil {
		return err
	}
	file := filepath.Join(n.Dir, "preloop.yaml")
	text := fmt.Sprintf("listen: %s\nstore: %s\n%s\n", n.Addr, n.Store, n.Config)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	log, err := os.OpenFile(n.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()

	// What a killed node leaves behind goes with its folder.
	args := []string{"serve", "--config", file}
	if n.Components != "" {
		args = append(args, "--components", n.Components)
	}
	process := exec.Command(n.Binary, args...)
	process.Env = append(environment(), "STATE_DIRECTORY="+n.Dir, "TMPDIR="+n.Dir, "PRELOOP_WEBHOOK_SECRET="+Secret, "PRELOOP_SYSTEM_TOKEN="+Token)
	process.Stdout, process.Stderr = log, log
	if err := process.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", n.Binary, err)
	}
	n.process = process
	n.ended = make(chan struct{})
	go func() {
		n.err = n.process.Wait()
		close(n.ended)
	}()
	return nil
}

// Ready waits until the node takes deliveries, and says how long that took.
func (n *Node) Ready(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		if answer, err := client.Get("http://" + n.Addr + "/readyz"); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return time.Since(began), nil
			}
		}
		select {
		case <-n.ended:
			return 0, fmt.Errorf("the node ended before it was ready (%v): %s", n.err, n.LogTail())
		case <-ctx.Done():
			return 0, fmt.Errorf("the node was not ready in time: %s", n.LogTail())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// Kill ends the process as a power cut would, by the id it was started with, and waits for its end.
func (n *Node) Kill() error {
	if err := n.process.Process.Kill(); err != nil {
		return fmt.Errorf("killing the node: it had ended by itself: %s", n.LogTail())
	}
	<-n.ended
	return nil
}

// Stop asks the process to end and waits. It must end cleanly.
func (n *Node) Stop(ctx context.Context) error {
	if err := n.process.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping the node: it had ended by itself: %s", n.LogTail())
	}
	select {
	case <-n.ended:
	case <-ctx.Done():
		return errors.Join(errors.New("stopping the node: it did not end in time"), n.Kill())
	}
	if n.err != nil {
		return fmt.Errorf("stopping the node: %w: %s", n.err, n.LogTail())
	}
	return nil
}

// Discard makes sure that no process stays behind, however the test went.
func (n *Node) Discard() {
	if n.process != nil {
		_ = n.process.Process.Kill() // it may have ended
		<-n.ended
	}
}

// PID is the process's id.
func (n *Node) PID() int { return n.process.Process.Pid }

// LogTail is the end of the node's log.
func (n *Node) LogTail() string {
	text, err := os.ReadFile(n.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

func (n *Node) logFile() string { return filepath.Join(n.Dir, "serve.log") }

// environment is this process's, without what would configure a preloop.
func environment() []string {
	var kept []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "PRELOOP_") {
			kept = append(kept, pair)
		}
	}
	return kept
}
