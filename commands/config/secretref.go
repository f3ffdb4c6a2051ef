package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// maxFile bounds every file that is read, so that a device or a log named by mistake ends.
const maxFile = 1 << 20

const refForm = "use {env: NAME} or {file: PATH}"

// ref is where a secret is to be found.
type ref struct{ env, file string }

func (f *ref) fields() fields {
	return fields{
		"env":  scalar(matching(&f.env, variable, "the name of an environment variable")),
		"file": scalar(plain(&f.file)),
	}
}

// secret reads {env: NAME} or {file: PATH} and what it leads to. check may refuse the value.
func secret(dst *Secret, check func(string) error) func(value) {
	return func(v value) {
		if v.inline() {
			return
		}
		var from ref
		v.object(from.fields())
		v.follow(from, dst, check)
	}
}

// follow reads the secret that from leads to. Without dst it is check that takes the value, and
// there is no doing without it.
func (v value) follow(from ref, dst *Secret, check func(string) error) {
	if from == (ref{}) {
		if !v.given("env") && !v.given("file") {
			v.missing("where is the secret? " + refForm)
		}
		return
	}
	if from.env != "" && from.file != "" {
		v.fail("both env and file: a secret is in one place")
		return
	}
	place := "env"
	if from.file != "" {
		place = "file"
	}
	text, err := v.r.fetch(from)
	if err == nil && check != nil {
		err = check(text)
	}
	if err != nil {
		if !v.r.options.LenientSecrets || dst == nil {
			v.r.failAt(join(v.path, place), "%v", err)
		}
		return
	}
	if dst != nil {
		*dst = v.r.remember(text)
	}
}

// fetch reads a secret. Its error never holds any of it.
func (r *reader) fetch(from ref) (string, error) {
	if from.env != "" {
		r.namedInEnv[from.env] = true
		r.secretEnv = append(r.secretEnv, from.env)
		text, ok := r.options.LookupEnv(from.env)
		if !ok {
			return "", fmt.Errorf("the environment variable %s is not set", from.env)
		}
		if text = strings.TrimRight(text, "\r\n"); text == "" {
			return "", fmt.Errorf("the environment variable %s is empty", from.env)
		}
		return text, nil
	}
	return readSecret(r.resolve(from.file))
}

// readSecret reads a file and drops the newline that editors leave at its end.
func readSecret(path string) (string, error) {
	data, err := readFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the secret: %w", err)
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" {
		return "", fmt.Errorf("reading the secret: %s is empty", path)
	}
	return text, nil
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	var failed *fs.PathError
	switch {
	case errors.As(err, &failed):
		return nil, fmt.Errorf("%s: %w", path, failed.Err)
	case err != nil:
		return nil, err
	case len(data) > maxFile:
		return nil, fmt.Errorf("%s is larger than 1 MiB", path)
	}
	return data, nil
}

// resolve makes a path in the file absolute: it starts at the file's own folder, wherever the
// process was started.
func (r *reader) resolve(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(r.dir, path)
}

// remember notes a secret for masking.
func (r *reader) remember(text string) Secret {
	s := NewSecret(text)
	r.secrets = append(r.secrets, s)
	return s
}

// inline reports a secret that is written in the file itself, and keeps it out of snippets.
func (v value) inline() bool {
	if _, mapping := v.resolved().(*ast.MappingNode); mapping || v.null() {
		return false
	}
	v.r.hide(v.node)
	v.fail("a secret is never written here: " + refForm)
	return true
}
