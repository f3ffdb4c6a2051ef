package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// FuzzLoad holds the reader to three promises: it does not crash, a mistake has a place in the
// file, and no secret is in what it says.
func FuzzLoad(f *testing.F) {
	f.Add(Sample)
	for _, text := range []string{
		"", "a", "-", "{", "[", "? a", "a: &a [*a]", "a: *a", "<<: {}", "&a a: b", "triggers:\n- on: [", "\t", "%YAML 1.2\n---\na: b",
		"triggers:\n  - name: a\n    on: push\n    run:\n      command: ['{{']\n", "listen: !!binary x", "a: |\n  b\n c", "x: \"\\u0000\"",
		"hooks: [ { repo: a/b, webhook_secrets: [ { env: S } ] } ]\n", "apps:\n- id: 1\n- id: 1\n", "queue: {lease: 1s, renew: 1s}", "\"\n\": 1", "---\n---\n", "a: |", "a: >", "- |-", "a: !",
	} {
		f.Add([]byte(text))
	}
	dir := f.TempDir()
	path := filepath.Join(dir, "preloop.yaml")
	const secret = "hunter2hunter2hunter2hunter2"
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(Options{Path: path, LookupEnv: func(name string) (string, bool) {
			if name == "HOME" {
				return "/home/me", true
			}
			return secret, name == "S" || name == "GH_TOKEN"
		}})
		if err == nil {
			return
		}
		var all Errors
		if !errors.As(err, &all) || len(all) == 0 {
			t.Fatalf("no Errors: %v", err)
		}
		lines := strings.Count(string(data), "\n") + 1
		for _, e := range all {
			if e.File != path || e.Line < 1 || e.Line > lines || e.Column < 1 {
				t.Errorf("no place in a file of %d lines: %v", lines, e)
			}
			if shown := e.Error() + e.Snippet(); strings.Contains(shown, secret) && !strings.Contains(string(data), secret) {
				t.Errorf("a secret in %q", shown)
			}
		}
	})
}

// Wherever a secret is written by mistake as a value, no message and no snippet shows it.
func TestMisplacedSecretsStayHidden(t *testing.T) {
	const secret = "hunter2hunter2"
	dir := inDir(t, nil)
	path := filepath.Join(dir, "preloop.yaml")
	spots := []string{
		"system_token: %", "system_token: { value: % }", "system_token: [ % ]", "token: %", "webhook_secret: %",
		"apps: [ { id: 1, webhook_secret: %, bogus: 1 } ]", "apps: [ { id: 1, private_key: %, bogus: 1 } ]",
		"apps:\n  - id: 1\n    webhook_secrets: %\n", "apps:\n  - id: 1\n    webhook_secrets: [ % ]\n",
		"apps:\n  - id: 1\n    webhook_secrets:\n      - secret: %\n        bogus: 1\n",
		"hooks: [ { repo: a/b, token: %, webhook_secrets: [ { secret: % } ], bogus: 1 } ]",
		"store: postgres://u:%@h:x/db", "store: mysql://u:%@h/db", "store: %", "store_listen: sqlite://%", "public_url: https://u:%@h",
		"github_api_url: 'http://u:%@h'", "triggers: [ { name: a, on: push, run: { http: { url: 'https://%@x', secret: %, bogus: 1 } } } ]",
		"triggers: [ { name: a, on: push, run: { http: { url: x, headers: { A: %, 'b c': % }, bogus: 1 } } } ]",
		"system_token: '%", "system_token %", "listen: :1\n- %\n", "listen: :1\n%\n", "system_token: \"%\n  x\"\nbogus: 1", "system_token: |\n  %\nbogus: 1", "secrets:\n  - %\n  - a: %\nbogus: 1",
	}
	forms := []string{secret, "'" + secret + "'", `"` + secret + `"`, "&x " + secret, "!!str " + secret}
	rapid.Check(t, func(t *rapid.T) {
		form := rapid.SampledFrom(forms).Draw(t, "form")
		text := strings.ReplaceAll(rapid.SampledFrom(spots).Draw(t, "spot"), "%", form)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(Options{Path: path, LookupEnv: state().lookup})
		var all Errors
		if !errors.As(err, &all) {
			t.Fatalf("loads: %s", text)
		}
		for _, e := range all {
			if shown := e.Error() + "\n" + e.Snippet(); strings.Contains(shown, secret) {
				t.Errorf("shown in\n%s\nof\n%s", shown, text)
			}
		}
	})
}
