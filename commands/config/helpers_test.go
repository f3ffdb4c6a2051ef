package config

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// env is a closed environment: nothing of the machine's own reaches a test.
type env map[string]string

func (e env) lookup(name string) (string, bool) {
	text, ok := e[name]
	return text, ok
}

// inDir puts the test into a folder of its own with these files.
func inDir(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	return dir
}

// state is an environment in which the state directory is known.
func state(more ...string) env {
	e := env{"HOME": "/home/me"}
	for i := 0; i < len(more); i += 2 {
		e[more[i]] = more[i+1]
	}
	return e
}

// load reads a file of this text with these options.
func load(t testing.TB, text string, o Options) (*Config, error) {
	t.Helper()
	inDir(t, map[string]string{"preloop.yaml": text, "key.pem": keyPEM()})
	if o.LookupEnv == nil {
		o.LookupEnv = state().lookup
	}
	return Load(o)
}

func mustLoad(t testing.TB, text string, o Options) *Config {
	t.Helper()
	c, err := load(t, text, o)
	if err != nil {
		t.Fatalf("loading a good file:\n%v", err)
	}
	return c
}

// wantErrors compares the lines of err, in order.
func wantErrors(t *testing.T, err error, want ...string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != strings.Join(want, "\n") {
		t.Errorf("errors:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}

// rsaKey is short, as nothing is signed with it.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		panic(err)
	}
	return key
})

// keyPEM is a private key as GitHub hands it out.
func keyPEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey())}))
}
