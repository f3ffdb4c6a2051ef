package target

import (
	"bytes"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-de999ace/preloop/queue"
)

const (
	// wordsEvery is how often the file behind PRELOOP_OUTPUT is looked at while the command runs.
	wordsEvery = 250 * time.Millisecond

	// wordsLimit bounds what is read of that file: its end, should it be longer.
	wordsLimit = 1 << 20

	// sessionLimit bounds the id of a session, in bytes.
	sessionLimit = 256
)

// words are what a command says of its session through the file PRELOOP_OUTPUT.
type words struct {
	session string
	state   queue.SessionState
}

// read takes the name=value lines of text into account; the last of a name counts. Until the
// command has ended a line without its line end may still be growing and is left alone.
// Unknown names and unusable values are ignored: other versions may know them.
func (w *words) read(text []byte, ended bool) {
	if !ended {
		text = text[:bytes.LastIndexByte(text, '\n')+1]
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name, value = strings.TrimSpace(name), strings.TrimSpace(value); name {
		case "session":
			if validSession(value) {
				w.session = value
			}
		case "state":
			if s := sessionState(value); s != "" {
				w.state = s
			}
		}
	}
}

// validSession reports whether an id can be kept, shown in a line and sent in a header.
func validSession(id string) bool {
	return id != "" && len(id) <= sessionLimit && utf8.ValidString(id) &&
		!strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) })
}

// sessionState reads a state that a target may report; empty for any other.
func sessionState(s string) queue.SessionState {
	switch state := queue.SessionState(strings.ToLower(strings.TrimSpace(s))); state {
	case queue.SessionSleeping, queue.SessionEnded:
		return state
	}
	return ""
}

// watch reads the words in the file name until done is closed, reports every change and returns
// the last ones. The file is read whole each time it has changed, so it does not matter whether
// the command appends to it, writes it anew or replaces it.
func watch(name string, done <-chan struct{}, report Report) words {
	var (
		now  words
		seen os.FileInfo
	)
	ticker := time.NewTicker(wordsEvery)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			now.read(readWords(name), true)
			return now
		case <-ticker.C:
		}
		info, err := os.Lstat(name)
		if err != nil || seen != nil && os.SameFile(seen, info) && seen.Size() == info.Size() && seen.ModTime().Equal(info.ModTime()) {
			continue
		}
		seen = info
		before := now
		if now.read(readWords(name), false); now != before && report != nil {
			report(now.session, now.state)
		}
	}
}

// readWords returns the end of the file; nothing of what is no regular file. A command that has
// put a pipe in its place must not make the node wait, hence the non-blocking open.
func readWords(name string) []byte {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	text, _ := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-wordsLimit), wordsLimit))
	return text
}
