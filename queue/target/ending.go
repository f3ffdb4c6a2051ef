package target

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"github.com/seed-de999ace/preloop/queue"
)

var (
	errNoCommand = errors.New("the command is empty")
	errNUL       = errors.New("an argument of the command contains a NUL byte, which no program can be given")
)

// ofRun maps how a command ended to the outcome of a start.
func (e ending) ofRun() queue.Outcome {
	o, final := e.common()
	if final {
		return o
	}
	switch code, ended := e.exit(); {
	case e.stop == timedOut:
		o.State, o.Reason, o.Error = queue.RunFailed, queue.ReasonTimeout, "the command did not end within its timeout"
	case e.stop == canceled, e.stop == leaseLost:
		return e.interrupted(o)
	case ended && code == 0:
		o.State = queue.Succeeded
	case ended && code == exitTempFail:
		o.State, o.Error = queue.Waiting, "the command asked to be tried again (exit 75)"
	case e.stop != notStopped:
		// Also with an exit code of its own: after TERM that says how it was interrupted, not
		// whether it had done its work.
		return e.interrupted(o)
	default:
		o.State, o.Error = queue.RunFailed, e.text()
	}
	return o
}

// ofHandOver maps how a command ended to the outcome of a hand-over.
func (e ending) ofHandOver() queue.Outcome {
	o, final := e.common()
	if final {
		return o
	}
	switch code, ended := e.exit(); {
	case e.stop == timedOut:
		o.State, o.Reason, o.Error = queue.Uncertain, queue.ReasonUnconfirmed, "the command did not end within its timeout"
	case e.stop == canceled, e.stop == leaseLost:
		return e.interrupted(o)
	case ended && code == 0:
		o.State = queue.Delivered
	case ended && code == exitUnavailable:
		o.State, o.SessionEnded, o.Error = queue.Waiting, true, "the session has ended (exit 69)"
	case ended && code == exitTempFail:
		o.State, o.Error = queue.Waiting, "the command asked to be tried again (exit 75)"
	case e.stop != notStopped:
		return e.interrupted(o)
	default:
		o.State, o.Reason, o.Error = queue.Uncertain, queue.ReasonUnconfirmed, e.text()
	}
	return o
}

// ofProbe maps how a command ended to the answer of a probe.
func (e ending) ofProbe() Probe {
	code, ended := e.exit()
	switch {
	case e.refused != nil || e.unstarted || e.stop != notStopped || !ended:
		return Unknown
	case code == 0:
		return Happened
	case code == exitDidNot:
		return DidNot
	}
	return Unknown
}

// common is what all ended commands have in common; final if there is no more to say.
func (e ending) common() (o queue.Outcome, final bool) {
	switch {
	case e.refused != nil && e.retry:
		return queue.Outcome{State: queue.Waiting, Reason: e.reason, Error: e.refused.Error()}, true
	case e.refused != nil:
		return queue.Outcome{State: queue.RunFailed, Reason: e.reason, Error: e.refused.Error()}, true
	case e.unstarted:
		return notStarted(e.stop), true
	}
	o = queue.Outcome{Output: e.output, Session: e.words.session, SessionState: e.words.state}
	code, ended := e.exit()
	// Of a command that was ended from outside only a code of its own is worth keeping; after a
	// timeout, a cancel or a lost lease not even that means anything.
	if e.stop == notStopped || e.stop == shutdown && ended {
		o.ExitCode = &code
	}
	return o, false
}

// interrupted completes o for a command that was ended in the middle.
func (e ending) interrupted(o queue.Outcome) queue.Outcome {
	s := stopped(e.stop)
	o.State, o.Reason, o.Error = s.State, s.Reason, s.Error
	return o
}

// exit returns the exit code, 128 + signal where a signal ended the command, and whether it
// ended by its own decision.
func (e ending) exit() (code int, ended bool) {
	if e.status.Signaled() {
		return 128 + int(e.status.Signal()), false
	}
	return e.status.ExitStatus(), true
}

// text says for people how a command failed.
func (e ending) text() string {
	if e.status.Signaled() {
		return fmt.Sprintf("the command was ended by signal %d (%s)", int(e.status.Signal()), e.status.Signal())
	}
	return fmt.Sprintf("the command exited with code %d", e.status.ExitStatus())
}

// startError says why a command could not be executed, with the errno by name and what to do.
// The command's name is the operator's, but may come from a template.
func startError(cmd *exec.Cmd, err error, mask masker) error {
	name := fmt.Sprintf("%q", first(mask.text(cmd.Args[0]), 200))
	errno := errnoOf(err)
	hint := ""
	switch errno {
	case syscall.E2BIG:
		hint = "; an argument or all of them are too long for this system: let the command read $PRELOOP_PROMPT_FILE or $PRELOOP_PAYLOAD instead"
	case syscall.ENOENT:
		if _, err := os.Stat(cmd.Dir); cmd.Dir != "" && err != nil {
			hint = "; the working directory does not exist"
		} else {
			hint = "; neither it nor, for a script, its interpreter may be missing"
		}
	case syscall.EACCES:
		hint = "; the file must be executable for this user"
	case syscall.ENOEXEC:
		hint = "; a script must begin with #! and its interpreter"
	case 0:
		return fmt.Errorf("starting %s: %s", name, mask.text(err.Error()))
	}
	return fmt.Errorf("starting %s: %w (%s)%s", name, errno, errnoNames[errno], hint)
}

// errnoOf returns the system's reason for a failed start; 0 if there is none.
func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		if errnoNames[errno] != "" {
			return errno
		}
	case errors.Is(err, exec.ErrNotFound):
		return syscall.ENOENT
	case errors.Is(err, fs.ErrPermission):
		return syscall.EACCES
	}
	return 0
}

// mayPass are the reasons of a failed start that lie with the system's load, not the command.
var mayPass = map[syscall.Errno]bool{
	syscall.EAGAIN: true, syscall.EMFILE: true, syscall.ENFILE: true, syscall.ENOMEM: true, syscall.ETXTBSY: true,
}

// errnoNames are the errors that starting a process can meet, as the manuals write them.
var errnoNames = map[syscall.Errno]string{
	syscall.E2BIG: "E2BIG", syscall.EACCES: "EACCES", syscall.EAGAIN: "EAGAIN", syscall.EINVAL: "EINVAL",
	syscall.EIO: "EIO", syscall.EISDIR: "EISDIR", syscall.ELOOP: "ELOOP", syscall.EMFILE: "EMFILE",
	syscall.ENAMETOOLONG: "ENAMETOOLONG", syscall.ENFILE: "ENFILE", syscall.ENOENT: "ENOENT",
	syscall.ENOEXEC: "ENOEXEC", syscall.ENOMEM: "ENOMEM", syscall.ENOTDIR: "ENOTDIR",
	syscall.EPERM: "EPERM", syscall.ETXTBSY: "ETXTBSY",
}
