package target

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// Command runs a job's Argv, never through a shell. The payload is on its standard input and in
// the file PRELOOP_PAYLOAD, what it is about in its environment.
//
// A Command that Probe asks with has the probe's rendered argv in the job.
type Command struct {
	Timeout   time.Duration // then TERM; 0: DefaultCommandTimeout
	KillAfter time.Duration // from TERM to KILL; 0: DefaultKillAfter
	Dir       string        // working directory; empty: the node's
	TempDir   string        // where private files go; empty: os.TempDir

	// Env is the node's own environment (nil: os.Environ), of which a command sees what holds no
	// secret: none of the variables SecretNames, which the configuration reads secrets from, and
	// none that holds one of SecretValues. Those are masked in the output as well.
	Env          func() []string
	SecretNames  []string
	SecretValues [][]byte
}

// ending is how one execution of a command ended.
type ending struct {
	refused error // it certainly never ran; with retry: for a reason that may pass
	reason  string
	retry   bool

	unstarted bool // stopped before it was started
	stop      stop
	status    syscall.WaitStatus

	words  words
	output []byte
}

// Run starts a run and waits for its end. Exit 0 is Succeeded, 75 Waiting, anything else
// RunFailed; a timeout is RunFailed whatever the exit code then is.
func (c Command) Run(ctx context.Context, j Job, report Report) queue.Outcome {
	return c.execute(ctx, j, report).ofRun()
}

// HandOver gives a follow-up to a live session: exit 0 is Delivered, 69 says that the session
// has ended, 75 Waiting, and anything else is Uncertain.
func (c Command) HandOver(ctx context.Context, j Job, report Report) queue.Outcome {
	return c.execute(ctx, j, report).ofHandOver()
}

// Probe asks whether the run has happened: exit 0 yes, 10 no, anything else Unknown.
func (c Command) Probe(ctx context.Context, j Job) Probe {
	return c.execute(ctx, j, nil).ofProbe()
}

func (c Command) execute(ctx context.Context, j Job, report Report) ending {
	if s := stopOf(ctx); s != notStopped {
		return ending{stop: s, unstarted: true}
	}
	mask := newMasker(j.secrets(c.SecretValues...)...)
	if err := checkArgv(j.Argv); err != nil {
		return ending{refused: err, reason: queue.ReasonArgument}
	}
	f, err := newFiles(c.TempDir, j)
	if err != nil {
		return ending{refused: err, reason: queue.ReasonStartFailed, retry: true}
	}
	defer f.remove()

	cmd := exec.Command(j.Argv[0], j.Argv[1:]...)
	cmd.Dir = c.Dir
	cmd.Env = c.environ(j, f)
	p, out, err := start(cmd, f)
	if err != nil {
		return ending{refused: startError(cmd, err, mask), reason: queue.ReasonStartFailed, retry: mayPass[errnoOf(err)]}
	}

	// The three observers of a running command, each in a goroutine of its own so that none can
	// hold up another: its output, its words, and its end.
	output := &tail{mask: mask}
	over := make(chan struct{})
	drained := drain(out, output, over)
	said := make(chan words, 1)
	go func() { said <- watch(f.output, p.ended, report) }()
	e := ending{stop: p.wait(ctx, or(c.Timeout, DefaultCommandTimeout), or(c.KillAfter, DefaultKillAfter))}
	close(over)
	<-drained

	e.status, _ = cmd.ProcessState.Sys().(syscall.WaitStatus)
	e.words = <-said
	e.output = output.Bytes()
	return e
}

// environ is everything that the command sees. Later ones win over earlier ones.
func (c Command) environ(j Job, f *files) []string {
	base := os.Environ
	if c.Env != nil {
		base = c.Env
	}
	env := inherit(base(), c.SecretNames, c.SecretValues)
	if c.Dir != "" {
		env = append(env, "PWD="+c.Dir)
	}
	return append(env, describe(j, f)...)
}

// start starts cmd with the payload as its input and returns the end to read its output from.
// Both its streams are one pipe, so that its output keeps the order in which it was written.
// The payload's file as input needs no writer: one who does not read it costs nothing.
func start(cmd *exec.Cmd, f *files) (*process, *os.File, error) {
	stdin, err := os.Open(f.payload)
	if err != nil {
		return nil, nil, err
	}
	defer stdin.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, w, w
	p, err := startProcess(cmd)
	if err != nil {
		r.Close()
		return nil, nil, err
	}
	return p, r, nil
}

// checkArgv refuses what no system can pass to a program.
func checkArgv(argv []string) error {
	if len(argv) == 0 || argv[0] == "" {
		return errNoCommand
	}
	for _, arg := range argv {
		if strings.ContainsRune(arg, 0) {
			return errNUL
		}
	}
	return nil
}

func or(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}
