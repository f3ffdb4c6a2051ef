package target

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// TestMain lets the test binary play the node that a test kills.
func TestMain(m *testing.M) {
	if script := os.Getenv("TEST_NODE_RUNS"); script != "" {
		(Command{}).Run(context.Background(), job("sh", "-c", script), nil)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// job is a start for an issue comment.
func job(argv ...string) Job {
	return Job{
		Run: &queue.Run{
			ID: "0e4a1c9e-6f0a-4a4e-9f39-5f0c3f4ad7b1", Trigger: "triage", DeliveryID: "d-1", Kind: queue.Start,
			Event: "issue_comment", Attempts: 1,
			Facts: queue.Facts{Action: "created", Repo: "acme/widgets", Subject: "acme/widgets#7", SubjectNum: 7, Sender: "octocat"},
		},
		Payload: []byte(`{"action":"created","n":1e400,"html":"<b>&"}`),
		Prompt:  "look into it",
		Session: "0e4a1c9e-6f0a-4a4e-9f39-5f0c3f4ad7b1",
		Argv:    argv,
	}
}

// fifo makes a named pipe for a script to hold or to wait at.
func fifo(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// holders are the processes that have the other end of a fifo open.
type holders struct {
	t      *testing.T
	r      *bufio.Reader
	waiter *os.File // keeps the fifo open until the first of them has come
}

func watchHolders(t *testing.T, name string) *holders {
	t.Helper()
	r, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return &holders{t, bufio.NewReader(r), w}
}

// come waits for the line that one of them writes.
func (h *holders) come() {
	h.t.Helper()
	if line, err := h.r.ReadString('\n'); err != nil {
		h.t.Fatalf("waiting for the script's line, got %q: %v", line, err)
	}
	h.waiter.Close()
}

// gone waits until nobody has the other end any more: all who had it have ended.
func (h *holders) gone() {
	h.t.Helper()
	h.waiter.Close()
	if rest, err := io.ReadAll(h.r); err != nil {
		h.t.Fatalf("somebody still holds the pipe (%q): %v", rest, err)
	}
}

func code(o queue.Outcome) string {
	if o.ExitCode == nil {
		return "none"
	}
	return fmt.Sprint(*o.ExitCode)
}

func status(o queue.Outcome) string {
	if o.HTTPStatus == nil {
		return "none"
	}
	return fmt.Sprint(*o.HTTPStatus)
}
