package target

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// A node that is killed cannot end its commands; the kernel does.
func TestCommandDiesWithItsNode(t *testing.T) {
	t.Parallel()
	pipe := fifo(t)
	held := watchHolders(t, pipe)
	node := exec.Command(os.Args[0])
	node.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), "PIPE="+pipe,
		`TEST_NODE_RUNS=exec 3> "$PIPE"; echo up >&3; exec sleep 1000`)
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	held.come()
	if err := node.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = node.Wait()
	held.gone()
}

// The kernel's signal comes with the end of a thread. Those of the runtime that end while a
// command is at work must not be the one that started it.
func TestCommandOutlivesThreads(t *testing.T) {
	t.Parallel()
	hold := fifo(t)
	report := func(string, queue.SessionState) {
		var threads sync.WaitGroup
		for range 50 {
			threads.Go(func() { runtime.LockOSThread() }) // never unlocked: the thread ends with the goroutine
		}
		threads.Wait()
		if err := os.WriteFile(hold, []byte("go\n"), 0); err != nil {
			t.Error(err)
		}
	}
	done := make(chan queue.Outcome)
	go func() {
		// The caller's thread is one of those that end.
		runtime.LockOSThread()
		done <- Command{}.Run(t.Context(), job("sh", "-c", `echo session=s > "$PRELOOP_OUTPUT"; read _ < "$0"`, hold), report)
	}()
	if o := <-done; o.State != queue.Succeeded {
		t.Errorf("state %q: %s", o.State, o.Error)
	}
}

// Who has left the group has left the run. Its hold on the output does not hold up the run.
func TestCommandDoesNotWaitForADaemon(t *testing.T) {
	t.Parallel()
	hold, pipe := fifo(t), fifo(t)
	held := watchHolders(t, pipe)
	start := time.Now()
	o := Command{}.Run(t.Context(), job("sh", "-c", `exec 3> "$1"; mkfifo "$0.2"; setsid sh -c 'echo up >&3; echo > "$0.2"; read _ < "$0"' "$0" & read _ < "$0.2"; echo done`, hold, pipe), nil)
	if o.State != queue.Succeeded || string(o.Output) != "done\n" {
		t.Errorf("state %q, output %q", o.State, o.Output)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	held.come()
	// It is still there: without a reader this would wait for ever.
	if err := os.WriteFile(hold, []byte("go\n"), 0); err != nil {
		t.Error(err)
	}
	held.gone()
}
