package target

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

func TestWords(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text    string
		ended   bool
		session string
		state   queue.SessionState
	}{
		"nothing":              {"", true, "", ""},
		"both":                 {"session=abc\nstate=sleeping\n", false, "abc", queue.SessionSleeping},
		"the last counts":      {"session=a\nsession=b\n", false, "b", ""},
		"a line still growing": {"session=a\nsession=bc", false, "a", ""},
		"the last line":        {"session=a\nsession=bc", true, "bc", ""},
		"spaces and CRLF":      {" session = a b \r\nstate=Sleeping\r\n", false, "a b", queue.SessionSleeping},
		"a value with =":       {"session=a=b\n", false, "a=b", ""},
		"ended":                {"state=ended\n", false, "", queue.SessionEnded},
		"unusable values":      {"session=a\nsession=\nsession=a\x00b\nsession=a\x1bb\nsession=\xff\nstate=live\nstate=\n", false, "a", ""},
		"too long":             {"session=" + strings.Repeat("x", 257) + "\n", false, "", ""},
		"noise":                {"hello\n=\nname=value\nSESSION=x\n", false, "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w words
			if w.read([]byte(tt.text), tt.ended); w.session != tt.session || w.state != tt.state {
				t.Errorf("session %q, state %q", w.session, w.state)
			}
		})
	}
}

func FuzzWords(f *testing.F) {
	f.Add([]byte("session=abc\nstate=sleeping\n"))
	f.Add([]byte("session=\xff\x00\n\r\n=\nstate"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var w words
		w.read(text, true)
		if w.session != "" && (!validSession(w.session) || strings.ContainsAny(w.session, "\r\n\x00")) {
			t.Errorf("session %q", w.session)
		}
		if w.state != "" && w.state != queue.SessionSleeping && w.state != queue.SessionEnded {
			t.Errorf("state %q", w.state)
		}
	})
}

// The file is read while the command writes it, however it writes it.
func TestWatch(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "output")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var reports []string
		done := make(chan struct{})
		result := make(chan words)
		write("")
		go func() {
			result <- watch(name, done, func(session string, state queue.SessionState) {
				reports = append(reports, session+"/"+string(state))
			})
		}()
		look := func() {
			time.Sleep(wordsEvery) // of the bubble's clock
			synctest.Wait()
		}
		look()
		write("session=a")
		look()
		write("session=a\n")
		look()
		look()
		write("session=a\nstate=sleeping\n")
		look()
		if err := os.WriteFile(name+".new", []byte("session=bb\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
		look()
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		look()
		write("session=c")
		close(done)
		if got, want := <-result, (words{"c", queue.SessionSleeping}); got != want {
			t.Errorf("at the end: %v, want %v", got, want)
		}
		if want := []string{"a/", "a/sleeping", "bb/sleeping"}; !slices.Equal(reports, want) {
			t.Errorf("reports %q, want %q", reports, want)
		}
	})
}

// What the command puts in the file's place cannot hold up the node.
func TestReadWordsOfAnythingElse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe, link, big := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "big")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(big, []byte(strings.Repeat("x\n", wordsLimit)+"session=end\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(big, link); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"a pipe": pipe, "a link": link, "a directory": dir, "nothing": filepath.Join(dir, "none")} {
		if got := readWords(path); got != nil {
			t.Errorf("%s: %d bytes", name, len(got))
		}
	}
	if got := readWords(big); len(got) != wordsLimit || !strings.HasSuffix(string(got), "session=end\n") {
		t.Errorf("a big file: %d bytes", len(got))
	}
}

func TestCommandReportsItsSession(t *testing.T) {
	t.Parallel()
	hold := fifo(t)
	var reports []string
	report := func(session string, state queue.SessionState) {
		reports = append(reports, session+"/"+string(state))
		if err := os.WriteFile(hold, []byte("go\n"), 0); err != nil {
			t.Error(err)
		}
	}
	o := Command{}.Run(t.Context(), job("sh", "-c", `
		echo session=s1 >> "$PRELOOP_OUTPUT"; read _ < "$0"
		printf state=sleeping >> "$PRELOOP_OUTPUT"`, hold), report)
	if o.State != queue.Succeeded || o.Session != "s1" || o.SessionState != queue.SessionSleeping {
		t.Errorf("state %q, session %q, %q", o.State, o.Session, o.SessionState)
	}
	if len(reports) != 1 || reports[0] != "s1/" {
		t.Errorf("reports %q", reports)
	}
	// Nobody has to listen, and a failure keeps what was said.
	o = Command{}.Run(t.Context(), job("sh", "-c", `echo session=s2 > "$PRELOOP_OUTPUT"; exit 1`), nil)
	if o.State != queue.RunFailed || o.Session != "s2" || o.SessionState != "" {
		t.Errorf("state %q, session %q, %q", o.State, o.Session, o.SessionState)
	}
}
