package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goccy/go-yaml/ast"
)

// Options say where Load looks.
type Options struct {
	Path      string // --config; empty: PRELOOP_CONFIG, else the usual places
	Flags     Flags
	LookupEnv func(string) (string, bool) // nil: os.LookupEnv

	// Serve asks for what only a server needs: a system token on Postgres.
	Serve bool
	// LenientSecrets leaves a secret that cannot be read unset instead of failing: for commands that
	// open the store and nothing else, run by somebody who may not read the app's key.
	LenientSecrets bool
}

// Flags are values from the command line; empty means not given.
type Flags struct {
	Listen         string
	OperatorListen string
	Store          string
	PublicURL      string
	Server         string
	Components     string // comma-separated
}

// Load reads the configuration. Its error, if any, is Errors with everything that is wrong.
func Load(o Options) (*Config, error) {
	if o.LookupEnv == nil {
		o.LookupEnv = os.LookupEnv
	}
	r := &reader{
		options: o, at: map[string]place{}, anchors: map[string]ast.Node{}, cut: map[int]int{},
		unknown: map[string]bool{}, namedInEnv: map[string]bool{},
	}
	c := defaults()
	c.StateDir = stateDir(r.env)
	path, data, err := r.find()
	if err != nil {
		return nil, Errors{err}
	}
	if path != "" {
		c.Path, r.file, r.dir = path, path, filepath.Dir(path)
		root, ok := r.parse(data)
		if !ok {
			return nil, r.finish()
		}
		r.at[""] = root.place()
		c.read(root)
	}
	c.environment(r)
	c.flags(r)
	c.check(r)
	if len(r.errs) > 0 {
		return nil, r.finish()
	}
	c.secrets, c.secretEnv = r.secrets, r.secretEnv
	return c, nil
}

// find gives the file's name and content. A file that was asked for must be there; of the usual
// places, the first that has one counts, and none needs to.
func (r *reader) find() (string, []byte, *Error) {
	for _, asked := range []struct{ by, path string }{{"--config", r.options.Path}, {"PRELOOP_CONFIG", r.env("PRELOOP_CONFIG")}} {
		if asked.path == "" {
			continue
		}
		data, err := readFile(asked.path)
		if err != nil {
			return "", nil, &Error{Field: asked.by, Message: "reading the configuration: " + err.Error()}
		}
		return asked.path, data, nil
	}
	for _, path := range r.usualPlaces() {
		data, err := readFile(path)
		switch {
		case err == nil:
			return path, data, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", nil, &Error{Message: "reading the configuration: " + err.Error()}
		}
	}
	return "", nil, nil
}

func (r *reader) usualPlaces() []string {
	places := []string{"preloop.yaml"}
	if dir := r.env("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		places = append(places, filepath.Join(dir, "preloop", "preloop.yaml"))
	} else if home := r.env("HOME"); filepath.IsAbs(home) {
		places = append(places, filepath.Join(home, ".config", "preloop", "preloop.yaml"))
	}
	return append(places, "/etc/preloop/preloop.yaml")
}

// env gives a variable; an empty one counts as unset, as container files leave them.
func (r *reader) env(name string) string {
	if text, ok := r.options.LookupEnv(name); ok {
		return text
	}
	return ""
}
