package target

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

func TestCommandExit(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		script   string
		run      queue.RunState
		code     string
		handOver queue.RunState
		reason   string // of the hand-over
		ended    bool
		probe    Probe
	}{
		"success":     {"exit 0", queue.Succeeded, "0", queue.Delivered, "", false, Happened},
		"failure":     {"exit 3", queue.RunFailed, "3", queue.Uncertain, queue.ReasonUnconfirmed, false, Unknown},
		"did not":     {"exit 10", queue.RunFailed, "10", queue.Uncertain, queue.ReasonUnconfirmed, false, DidNot},
		"unavailable": {"exit 69", queue.RunFailed, "69", queue.Waiting, "", true, Unknown},
		"try again":   {"exit 75", queue.Waiting, "75", queue.Waiting, "", false, Unknown},
		"signal":      {"kill -KILL $$", queue.RunFailed, "137", queue.Uncertain, queue.ReasonUnconfirmed, false, Unknown},
		"128+15":      {"exit 143", queue.RunFailed, "143", queue.Uncertain, queue.ReasonUnconfirmed, false, Unknown},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job("sh", "-c", "echo out; "+tt.script)
			o := Command{}.Run(t.Context(), j, nil)
			if o.State != tt.run || code(o) != tt.code || o.Reason != "" || string(o.Output) != "out\n" {
				t.Errorf("Run: state %q, code %s, reason %q, output %q", o.State, code(o), o.Reason, o.Output)
			}
			if (o.Error == "") != (o.State == queue.Succeeded) {
				t.Errorf("Run: error %q", o.Error)
			}
			o = Command{}.HandOver(t.Context(), j, nil)
			if o.State != tt.handOver || o.Reason != tt.reason || o.SessionEnded != tt.ended || code(o) != tt.code {
				t.Errorf("HandOver: state %q, reason %q, ended %v, code %s", o.State, o.Reason, o.SessionEnded, code(o))
			}
			if p := (Command{}).Probe(t.Context(), j); p != tt.probe {
				t.Errorf("Probe: %v", p)
			}
		})
	}
}

func TestCommandThatCannotStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := map[string]struct {
		command Command
		argv    []string
		state   queue.RunState
		reason  string
		text    string
	}{
		"unknown program":   {argv: []string{"no-such-program"}, text: "ENOENT"},
		"missing file":      {argv: []string{filepath.Join(dir, "missing")}, text: "ENOENT"},
		"missing directory": {command: Command{Dir: filepath.Join(dir, "gone")}, argv: []string{"true"}, text: "working directory"},
		"not executable":    {argv: []string{write("plain", "exit 0", 0o600)}, text: "EACCES"},
		"a directory":       {argv: []string{dir}, text: "EACCES"},
		"no interpreter":    {argv: []string{write("script", "#!/no/such/shell\n", 0o700)}, text: "ENOENT"},
		"not a program":     {argv: []string{write("text", "hello", 0o700)}, text: "ENOEXEC"},
		"too long":          {argv: []string{"true", strings.Repeat("x", 4<<20)}, text: "E2BIG"},
		"nothing":           {argv: nil, reason: queue.ReasonArgument, text: "empty"},
		"empty name":        {argv: []string{""}, reason: queue.ReasonArgument, text: "empty"},
		"NUL":               {argv: []string{"echo", "a\x00b"}, reason: queue.ReasonArgument, text: "NUL"},
		"no place for files": {
			command: Command{TempDir: filepath.Join(dir, "gone")}, argv: []string{"true"},
			state: queue.Waiting, text: "directory",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.state == "" {
				tt.state = queue.RunFailed
			}
			if tt.reason == "" {
				tt.reason = queue.ReasonStartFailed
			}
			for method, o := range map[string]queue.Outcome{
				"Run":      tt.command.Run(t.Context(), job(tt.argv...), nil),
				"HandOver": tt.command.HandOver(t.Context(), job(tt.argv...), nil),
			} {
				if o.State != tt.state || o.Reason != tt.reason || !strings.Contains(o.Error, tt.text) || o.ExitCode != nil {
					t.Errorf("%s: state %q, reason %q, error %q, code %s", method, o.State, o.Reason, first(o.Error, 500), code(o))
				}
				if len(o.Error) > 500 {
					t.Errorf("%s: an error of %d bytes", method, len(o.Error))
				}
			}
			if p := tt.command.Probe(t.Context(), job(tt.argv...)); p != Unknown {
				t.Errorf("Probe: %v", p)
			}
		})
	}
}

func TestCommandSeesThePayload(t *testing.T) {
	t.Parallel()
	j := job("sh", "-c", `cat; cmp - "$PRELOOP_PAYLOAD" < "$GITHUB_EVENT_PATH" && echo same`)
	o := Command{}.Run(t.Context(), j, nil)
	if want := string(j.Payload) + "same\n"; string(o.Output) != want {
		t.Errorf("output %q, want %q", o.Output, want)
	}

	// Far more than a pipe holds, to one who does not read it.
	j = job("true")
	j.Payload = bytes.Repeat([]byte(" "), 5<<20)
	if o := (Command{}).Run(t.Context(), j, nil); o.State != queue.Succeeded {
		t.Errorf("unread payload: %q %s", o.State, o.Error)
	}
}

func TestCommandFilesArePrivateAndRemoved(t *testing.T) {
	t.Parallel()
	c := Command{TempDir: t.TempDir()}
	hold := fifo(t)
	var modes []string
	report := func(string, queue.SessionState) {
		_ = filepath.Walk(c.TempDir, func(path string, info os.FileInfo, err error) error {
			if err == nil && path != c.TempDir {
				modes = append(modes, info.Mode().String())
			}
			return err
		})
		if err := os.WriteFile(hold, []byte("go\n"), 0); err != nil {
			t.Error(err)
		}
	}
	o := c.Run(t.Context(), job("sh", "-c", `umask 0; echo session=s1 >> "$PRELOOP_OUTPUT"; read _ < "$0"`, hold), report)
	if o.State != queue.Succeeded {
		t.Fatalf("state %q: %s", o.State, o.Error)
	}
	if want := []string{"drwx------", "-rw-------", "-rw-------", "-rw-------"}; !slices.Equal(modes, want) {
		t.Errorf("modes %v, want %v", modes, want)
	}
	if left, err := os.ReadDir(c.TempDir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A branch may be called anything that git allows, and a shell must never read it.
func TestCommandArgumentsMeetNoShell(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := job("echo", "$(touch x)", "`touch x`", "; touch x", "a b", "*")
	j.Run.Event = "create"
	j.Payload = []byte(`{"ref":"$(touch x)","ref_type":"branch"}`)
	o := Command{Dir: dir}.Run(t.Context(), j, nil)
	if want := "$(touch x) `touch x` ; touch x a b *\n"; string(o.Output) != want {
		t.Errorf("output %q", o.Output)
	}
	j.Argv = []string{"sh", "-c", `echo "$GITHUB_REF"; pwd; echo "$PWD"`}
	o = Command{Dir: dir}.Run(t.Context(), j, nil)
	if want := "refs/heads/$(touch x)\n" + dir + "\n" + dir + "\n"; string(o.Output) != want {
		t.Errorf("output %q, want %q", o.Output, want)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("somebody made %v", left)
	}
}

func TestCommandOutput(t *testing.T) {
	t.Parallel()
	t.Run("in the order of writing", func(t *testing.T) {
		t.Parallel()
		o := Command{}.Run(t.Context(), job("sh", "-c", "echo a; echo b >&2; echo c"), nil)
		if string(o.Output) != "a\nb\nc\n" {
			t.Errorf("output %q", o.Output)
		}
	})
	t.Run("masked", func(t *testing.T) {
		t.Parallel()
		j := job("sh", "-c", `printf 'own %s\n' "$GITHUB_TOKEN"; printf 'hook-'; printf 'secret-1 mask-me\n'; printf 'store %s\n' s3cret-in-store`)
		j.Token, j.Secret, j.Mask = "an-installation-token", []byte("hook-secret-1"), []string{"mask-me"}
		o := Command{SecretValues: [][]byte{[]byte("s3cret-in-store\n")}}.Run(t.Context(), j, nil)
		if want := "own ***\n*** ***\nstore ***\n"; string(o.Output) != want {
			t.Errorf("output %q, want %q", o.Output, want)
		}
	})
}

// Not in parallel with others, whose memory it would count.
func TestCommandFloodStaysInBounds(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	o := Command{}.Run(t.Context(), job("sh", "-c", `head -c 100000000 /dev/zero | tr '\0' x; echo end`), nil)
	runtime.ReadMemStats(&after)
	if o.State != queue.Succeeded || len(o.Output) != OutputLimit || !bytes.HasSuffix(o.Output, []byte("xxend\n")) {
		t.Errorf("state %q, %d bytes of output", o.State, len(o.Output))
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Errorf("allocated %d bytes", used)
	}
}

func TestCommandTimeout(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"obeys":            `echo up > "$0"; sleep 1000`,
		"says success":     `trap 'exit 0' TERM; echo up > "$0"; sleep 1000`,
		"asks for another": `trap 'exit 75' TERM; echo up > "$0"; sleep 1000`,
		"ignores TERM":     `trap '' TERM; exec 3> "$0"; echo up >&3; while :; do sleep 1000; done`,
		"child ignores":    `exec 3> "$0"; (trap '' TERM; echo up >&3; sleep 1000) & wait`,
	}
	for name, script := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pipe := fifo(t)
			held := watchHolders(t, pipe)
			c := Command{Timeout: 200 * time.Millisecond, KillAfter: 100 * time.Millisecond}
			o := c.Run(t.Context(), job("sh", "-c", script, pipe), nil)
			if o.State != queue.RunFailed || o.Reason != queue.ReasonTimeout || o.ExitCode != nil || o.Error == "" {
				t.Errorf("Run: state %q, reason %q, code %s", o.State, o.Reason, code(o))
			}
			held.gone()
			held = watchHolders(t, pipe)
			o = c.HandOver(t.Context(), job("sh", "-c", script, pipe), nil)
			if o.State != queue.Uncertain || o.Reason != queue.ReasonUnconfirmed || o.ExitCode != nil {
				t.Errorf("HandOver: state %q, reason %q, code %s", o.State, o.Reason, code(o))
			}
			held.gone()
			if p := c.Probe(t.Context(), job("sh", "-c", `trap 'exit 0' TERM; sleep 1000`)); p != Unknown {
				t.Errorf("Probe: %v", p)
			}
		})
	}
}

// A context that ends while the command is at work, as its cause and the command's manners have it.
func TestCommandStopped(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cause    error
		onTerm   string // the script's trap
		run      queue.RunState
		handOver queue.RunState
		reason   string // of both
		code     string
	}{
		"shutdown, ends well":       {queue.ErrShutdown, "exit 0", queue.Succeeded, queue.Delivered, "", "0"},
		"shutdown, asks again":      {queue.ErrShutdown, "exit 75", queue.Waiting, queue.Waiting, "", "75"},
		"shutdown, breaks off":      {queue.ErrShutdown, "exit 3", queue.Uncertain, queue.Uncertain, queue.ReasonInterrupted, "3"},
		"shutdown, dies":            {queue.ErrShutdown, "-", queue.Uncertain, queue.Uncertain, queue.ReasonInterrupted, "none"},
		"shutdown, ignores it":      {queue.ErrShutdown, "", queue.Uncertain, queue.Uncertain, queue.ReasonInterrupted, "none"},
		"unknown cause, dies":       {context.Canceled, "-", queue.Uncertain, queue.Uncertain, queue.ReasonInterrupted, "none"},
		"canceled, ends well":       {queue.ErrCanceled, "exit 0", queue.Canceled, queue.Canceled, "", "none"},
		"canceled, dies":            {queue.ErrCanceled, "-", queue.Canceled, queue.Canceled, "", "none"},
		"lease lost, would end":     {queue.ErrLeaseLost, "exit 0", queue.Uncertain, queue.Uncertain, queue.ReasonWorkerLost, "none"},
		"lease lost, would not end": {queue.ErrLeaseLost, "", queue.Uncertain, queue.Uncertain, queue.ReasonWorkerLost, "none"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The lease leaves no time for KillAfter; the test's own limit would show it.
			c := Command{KillAfter: time.Hour}
			if tt.cause != queue.ErrLeaseLost {
				c.KillAfter = 10 * time.Second
			}
			if tt.onTerm == "" && tt.cause == queue.ErrShutdown {
				c.KillAfter = 50 * time.Millisecond
			}
			trap := "trap '" + tt.onTerm + "' TERM; "
			if tt.onTerm == "-" {
				trap = ""
			}
			pipe := fifo(t)
			// Its child says that it is up: a TERM between that and the start of a child would reach
			// the shell alone, which then waits for the child before it minds its trap.
			j := job("sh", "-c", trap+`exec 3> "$0"; echo session=s1 > "$PRELOOP_OUTPUT"; sh -c 'echo up >&3; exec sleep 1000'; exit`, pipe)
			try := func(do func(context.Context, Job, Report) queue.Outcome, want queue.RunState) {
				t.Helper()
				held := watchHolders(t, pipe)
				ctx, cancel := context.WithCancelCause(t.Context())
				outcome := make(chan queue.Outcome, 1)
				go func() { outcome <- do(ctx, j, nil) }()
				held.come()
				cancel(tt.cause)
				o := <-outcome
				if o.State != want || o.Reason != tt.reason || code(o) != tt.code || o.Session != "s1" {
					t.Errorf("state %q, reason %q, code %s, session %q", o.State, o.Reason, code(o), o.Session)
				}
				held.gone()
			}
			try(c.Run, tt.run)
			try(c.HandOver, tt.handOver)
		})
	}
}

func TestCommandStoppedBeforeItStarts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cause  error
		state  queue.RunState
		refund bool
	}{
		"shutdown":   {queue.ErrShutdown, queue.Waiting, true},
		"canceled":   {queue.ErrCanceled, queue.Canceled, false},
		"lease lost": {queue.ErrLeaseLost, queue.Uncertain, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(tt.cause)
			file := filepath.Join(t.TempDir(), "made")
			for _, do := range []func(context.Context, Job, Report) queue.Outcome{Command{}.Run, Command{}.HandOver} {
				if o := do(ctx, job("touch", file), nil); o.State != tt.state || o.Refund != tt.refund {
					t.Errorf("state %q, refund %v", o.State, o.Refund)
				}
			}
			if p := (Command{}).Probe(ctx, job("touch", file)); p != Unknown {
				t.Errorf("probe %v", p)
			}
			if _, err := os.Stat(file); err == nil {
				t.Error("it ran")
			}
		})
	}
}

// A command has ended when it has ended, and what it leaves in its group ends with it.
func TestCommandLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"a child with its output":  `exec 3> "$0"; echo up >&3; sleep 1000 & echo done`,
		"one that ignores TERM":    `exec 3> "$0"; mkfifo "$0.2"; (trap '' TERM; echo up >&3; echo > "$0.2"; sleep 1000) & read _ < "$0.2"; echo done`,
		"one that floods":          `exec 3> "$0"; echo up >&3; yes & echo done; exit 0`,
		"a child without anything": `exec 3> "$0"; echo up >&3; sleep 1000 >&- 2>&- & echo done`,
	}
	for name, script := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pipe := fifo(t)
			held := watchHolders(t, pipe)
			start := time.Now()
			o := Command{KillAfter: 100 * time.Millisecond}.Run(t.Context(), job("sh", "-c", script, pipe), nil)
			if o.State != queue.Succeeded || name != "one that floods" && !bytes.Contains(o.Output, []byte("done")) {
				t.Errorf("state %q, output %q", o.State, first(o.Output, 100))
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
			held.come()
			held.gone()
		})
	}
}
