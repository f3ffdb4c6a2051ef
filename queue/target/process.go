package target

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

const (
	// leftoverGrace is how long what a command leaves behind in its group may take to obey TERM.
	leftoverGrace = time.Second

	// outputGrace is how long output is still read after the group is gone. What was written is
	// in the pipe already; only a process that has left the group can keep it open for longer.
	outputGrace = 500 * time.Millisecond
)

// process is a command at work, the leader of its own process group.
//
// No child survives its node, as far as a process can see to that: a run that ends, whichever
// way, takes its whole group with it, so a node that stops leaves nothing behind. Should the
// node itself be killed, Linux kills the leader; what the leader has started learns of it from
// closed pipes alone, and so does everything on other systems. A process that makes itself a
// session or group of its own (setsid, a daemon) has left the run, and a setuid program is out
// of reach of the kernel's signal.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed once the leader has ended and cmd.ProcessState is set
}

// startProcess starts cmd, whose standard streams must all be files: then waiting is for the
// process alone and not for those who hold its output.
func startProcess(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = groupAttr()
	p := &process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The parent-death signal comes when the *thread* that forked ends. Holding on to it until
		// the command has ended makes sure that the runtime does not end it before.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // what it says is in cmd.ProcessState
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// wait returns when the leader and its group have ended, and says who ended it. TERM goes to the
// whole group, KILL follows after killAfter; a lost lease leaves no time for manners.
func (p *process) wait(ctx context.Context, timeout, killAfter time.Duration) stop {
	s := p.waitLeader(ctx, timeout)
	if s == notStopped {
		p.endGroup(ctx, min(leftoverGrace, killAfter))
		return s
	}
	deadline := time.Now().Add(killAfter)
	_ = p.signal(syscall.SIGTERM)
	if !p.endedBy(ctx, deadline) {
		_ = p.signal(syscall.SIGKILL)
		<-p.ended
	}
	p.endGroup(ctx, time.Until(deadline))
	return s
}

// endedBy waits for the leader to end until the deadline; not at all once the lease is lost.
func (p *process) endedBy(ctx context.Context, deadline time.Time) bool {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	stopped := ctx.Done()
	for {
		select {
		case <-p.ended:
			return true
		case <-timer.C:
			return false
		case <-stopped:
			if stopOf(ctx) == leaseLost {
				return false
			}
			stopped = nil
		}
	}
}

// waitLeader waits for the leader's own end, or for the reason to end it.
func (p *process) waitLeader(ctx context.Context, timeout time.Duration) (s stop) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.ended:
		return notStopped
	case <-timer.C:
		s = timedOut
	case <-ctx.Done():
		s = stopOf(ctx)
	}
	select {
	case <-p.ended:
		// Its own end came first: what it says counts.
		return notStopped
	default:
		return s
	}
}

// endGroup ends what the leader has left behind: TERM, and KILL after grace.
func (p *process) endGroup(ctx context.Context, grace time.Duration) {
	// The leader is reaped, but its id stays taken while its group has members, and a system does
	// not come round to a free one between two of these steps.
	if p.signal(syscall.SIGTERM) != nil {
		return
	}
	deadline := time.Now().Add(grace)
	for wait := time.Millisecond; time.Now().Before(deadline) && stopOf(ctx) != leaseLost; wait = min(2*wait, 100*time.Millisecond) {
		if p.signal(0) != nil || !groupAlive(p.cmd.Process.Pid) {
			return
		}
		time.Sleep(min(wait, time.Until(deadline)))
	}
	_ = p.signal(syscall.SIGKILL)
}

// signal sends to the whole group; an error says that nothing of it is left within reach.
func (p *process) signal(sig syscall.Signal) error {
	return syscall.Kill(-p.cmd.Process.Pid, sig)
}

// drain copies what a command writes into t until the write end is closed everywhere, or until
// outputGrace after ended. The channel it returns is closed when t is complete.
func drain(r *os.File, t *tail, ended <-chan struct{}) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer r.Close()
		buf := make([]byte, 32<<10)
		for {
			n, err := r.Read(buf)
			_, _ = t.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	go func() {
		select {
		case <-done:
		case <-ended:
			_ = r.SetReadDeadline(time.Now().Add(outputGrace))
		}
	}()
	return done
}
