package target

import (
	"fmt"
	"os"
	"path/filepath"
)

// files are a run's private files, in a directory of mode 0700 that only this run uses.
type files struct {
	dir     string
	payload string
	prompt  string
	output  string // written by the command: its words on its session
}

// newFiles writes them, each with mode 0600. After an error nothing is left behind.
func newFiles(parent string, j Job) (*files, error) {
	dir, err := os.MkdirTemp(parent, "preloop-run-")
	if err != nil {
		return nil, fmt.Errorf("making the run's directory: %w", err)
	}
	f := &files{
		dir:     dir,
		payload: filepath.Join(dir, "payload.json"),
		prompt:  filepath.Join(dir, "prompt.txt"),
		output:  filepath.Join(dir, "output"),
	}
	for name, content := range map[string][]byte{f.payload: j.Payload, f.prompt: []byte(j.Prompt), f.output: nil} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			f.remove()
			return nil, fmt.Errorf("writing the run's files: %w", err)
		}
	}
	return f, nil
}

// remove deletes the directory. What a command has locked away in it stays; nobody could do more.
func (f *files) remove() { _ = os.RemoveAll(f.dir) }
