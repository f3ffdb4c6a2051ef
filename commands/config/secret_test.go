package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSecretIsNeverShown(t *testing.T) {
	const text = "s3cr3t-value"
	s := NewSecret(text)
	var log bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&log, nil))
	logger.Info("x", "s", s, "in", struct{ S Secret }{s}, "list", []Secret{s})
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "s", s, "p", &s, "in", struct{ s Secret }{s})
	encoded, err := json.Marshal(map[string]any{"s": s, "list": []Secret{s}, "p": &s})
	if err != nil {
		t.Fatal(err)
	}
	shown := log.String() + string(encoded) + fmt.Sprint(s, &s, []Secret{s}, map[string]Secret{"a": s})
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p", "%T"} {
		shown += fmt.Sprintf(verb, s) + fmt.Sprintf(verb, struct {
			Open   Secret
			hidden Secret
			nested *Secret
		}{s, s, &s}) + fmt.Sprintf(verb, App{PrivateKey: s, WebhookSecrets: []NamedSecret{{"a", s}}})
	}
	for _, form := range []string{text, fmt.Sprintf("%x", text), fmt.Sprintf("%X", text), fmt.Sprintf("%d", []byte(text))} {
		if strings.Contains(shown, form) {
			t.Errorf("shown as %q in:\n%s", form, shown)
		}
	}
	if !strings.Contains(shown, hidden) || s.Reveal() != text || fmt.Sprint(Secret{}) != "" || NewSecret("").IsSet() {
		t.Errorf("a secret is %v, none is %q", s, fmt.Sprint(Secret{}))
	}
}

func TestWholeConfigHoldsNoSecretInPrint(t *testing.T) {
	const mark = "MARK"
	e := state("S", "MARK-webhook", "T", "MARK-token-that-is-long-enough", "H", "MARK-header", "PRELOOP_STORE_URL", "postgres://u:MARK-pass@db/x?password=MARK-2")
	c := mustLoad(t, `
system_token: { env: T }
apps: [ { id: 1, private_key: { file: key.pem }, webhook_secrets: [ { env: S } ] } ]
triggers:
  - { name: a, on: push, run: { http: { url: "https://x", secret: { env: H }, headers: { A: { env: H } } } } }
`, Options{LookupEnv: e.lookup})
	encoded, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	shown := fmt.Sprintf("%v %+v", *c, c) + string(encoded) + c.Store.String()
	if strings.Contains(shown, mark) || strings.Contains(shown, "PRIVATE KEY") {
		t.Errorf("a secret is shown in %s", shown)
	}
	want := []string{
		strings.TrimSpace(keyPEM()), "postgres://u:MARK-pass@db/x?password=MARK-2", "MARK-token-that-is-long-enough",
		"MARK-webhook", "MARK-header", "MARK-pass", "MARK-2",
	}
	if diff := cmp.Diff(want, c.SecretValues()); diff != "" {
		t.Errorf("values to mask: %s", diff)
	}
	for _, name := range []string{"S", "T", "H", "PRELOOP_STORE_URL", "PRELOOP_WEBHOOK_SECRET", "PRELOOP_SYSTEM_TOKEN", "PRELOOP_GITHUB_APPS_JSON", "PRELOOP_GITHUB_APP_PRIVATE_KEY", "PGPASSWORD"} {
		if !slices.Contains(c.SecretEnvNames(), name) {
			t.Errorf("%s would be inherited", name)
		}
	}
	if slices.Contains(c.SecretEnvNames(), "GH_TOKEN") {
		t.Error("GH_TOKEN is not preloop's here")
	}
	c.Hooks = []Hook{{ID: 1}}
	if !slices.Contains(c.SecretEnvNames(), "GH_TOKEN") {
		t.Error("GH_TOKEN, which a hook falls back on, would be inherited")
	}
}

func TestShortSecretsAreNotMasked(t *testing.T) {
	c := mustLoad(t, "", Options{LookupEnv: state("PRELOOP_WEBHOOK_SECRET", "abc").lookup})
	if got := c.SecretValues(); len(got) != 0 {
		t.Errorf("masks %q", got)
	}
}

func TestSnippet(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"unknown key": {
			"triggers:\n  - name: a\n    on: push\n    run: { command: [x] }\n    wen: x\n",
			"    5 |     wen: …\n      |     ^\n",
		},
		"bad value":       {"queue:\n  lease: soon # now\n", "    2 |   lease: soon # now\n      |          ^\n"},
		"inline secret":   {"system_token: hunter2hunter2\n", "    1 | system_token: …\n      |               ^\n"},
		"beside it":       {"apps: [ { id: 1, webhook_secrets: [ { secret: hunter2, bogus: 1 } ] } ]\n", "    1 | apps: [ { id: 1, webhook_secrets: [ { secret: …\n      |                                       ^\n"},
		"no YAML":         {"x: 1\nsystem_token: 'hunter2\n", "    2 | system_token: …\n      |               ^\n"},
		"no YAML, no key": {"listen: :1\n- hunter2\n", "    2 | …\n      | ^\n"},
		"store":           {"store: mysql://u:hunter2@h/\n", "    1 | store: …\n      |        ^\n"},
		"wide letters":    {"limits: { 'größe': 1, queue_wait: x }\n", "    1 | limits: { 'größe': …\n      |           ^\n"},
		"carriage":        {"listen: x\r\n", "    1 | listen: x\n      |         ^\n"},
		"over two lines":  {"system_token: \"hunter2\n  hunter3\"\n", "    1 | system_token: …\n      |               ^\n"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, tt.text, Options{})
			var all Errors
			if !errors.As(err, &all) {
				t.Fatalf("no Errors: %v", err)
			}
			if got := all[0].Snippet(); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
			var one *Error
			if !errors.As(err, &one) || one != all[0] {
				t.Errorf("errors.As finds %v", one)
			}
		})
	}
	if got := (&Error{Field: "PRELOOP_LISTEN", Message: "x"}).Snippet(); got != "" {
		t.Errorf("snippet %q without a file", got)
	}
}

func TestSecretFilesAreRelativeToTheFile(t *testing.T) {
	inDir(t, map[string]string{
		"conf/preloop.yaml": "store: sqlite://data/x.db\nhooks: [ { repo: o/r, webhook_secrets: [ { file: s/one } ] } ]\n",
		"conf/s/one":        "secret with spaces \r\n\n",
		"cwd/x":             "",
	})
	t.Chdir("cwd")
	c, err := Load(Options{Path: "../conf/preloop.yaml", LookupEnv: state().lookup})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Hooks[0].WebhookSecrets[0]; got.Value.Reveal() != "secret with spaces " || got.Name != "one" {
		t.Errorf("secret %q named %q", got.Value.Reveal(), got.Name)
	}
	conf, err := filepath.Abs("../conf")
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(conf, "data/x.db"); c.Store.Path != want {
		t.Errorf("store %s, want %s", c.Store.Path, want)
	}
}

func TestLenientSecrets(t *testing.T) {
	const text = "store: sqlite:///x.db\nsystem_token: { env: GONE }\napps: [ { id: 1, private_key: { file: gone }, webhook_secrets: [ { env: GONE } ] } ]\n"
	c := mustLoad(t, text, Options{LenientSecrets: true})
	if c.SystemToken.IsSet() || len(c.Apps) != 1 || len(c.Apps[0].WebhookSecrets) != 0 || c.Store.Path != "/x.db" {
		t.Errorf("%+v", c)
	}
	_, err := load(t, "store: { env: GONE }\n", Options{LenientSecrets: true})
	wantErrors(t, err, "preloop.yaml:1:15: store.env: the environment variable GONE is not set") // without it another store would be opened
}

func TestStoreFromAVariable(t *testing.T) {
	c := mustLoad(t, "store: { env: DB }\nstore_listen: { env: DIRECT }\n",
		Options{LookupEnv: state("DB", "postgresql://u:p%40ss@pool/x", "DIRECT", "postgres://db/x").lookup})
	if c.Store.Kind != Postgres || c.Store.URL.Reveal() != "postgresql://u:p%40ss@pool/x" || c.StoreListen.String() != "postgres://db/x" {
		t.Errorf("store %v, listen %v", c.Store, c.StoreListen)
	}
	if !slices.Contains(c.SecretEnvNames(), "DB") || !slices.Contains(c.SecretValues(), "p@ss") {
		t.Errorf("scrubs %v", c.SecretEnvNames())
	}
}

func TestParseStoreURL(t *testing.T) {
	for text, want := range map[string]string{
		"sqlite:///abs/x.db": "sqlite:///abs/x.db", "sqlite://x.db": "sqlite:///dir/x.db", "sqlite://a/../b c.db": "sqlite:///dir/b c.db",
		"postgres://u:p@h:5432/db?sslmode=disable": "postgres://h:5432/db", "postgresql:///db?host=/run": "postgres:///db",
		"": "!", "/x.db": "!", "sqlite://": "!", "sqlite:x.db": "!", "sqlite:///dir/": "!", "sqlite://:memory:": "!",
		"sqlite:///x?mode=ro": "!", "mysql://h/db": "!", "postgres://h:port/db": "!",
	} {
		got, err := ParseStoreURL(text, "/dir")
		if (err != nil) != (want == "!") || err == nil && got.String() != want {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
		if err != nil && len(text) > len("sqlite://") && strings.Contains(err.Error(), text) {
			t.Errorf("%q is repeated in %q", text, err)
		}
	}
}

func TestStateDir(t *testing.T) {
	for want, e := range map[string]env{
		"/var/lib/preloop":        {"STATE_DIRECTORY": "/var/lib/preloop:/other", "XDG_STATE_HOME": "/xdg", "HOME": "/h"},
		"/xdg/preloop":            {"XDG_STATE_HOME": "/xdg", "HOME": "/h"},
		"/h/.local/state/preloop": {"XDG_STATE_HOME": "relative", "HOME": "/h"},
		"":                        {},
	} {
		if got := stateDir(func(name string) string { return e[name] }); got != want {
			t.Errorf("%v: %q, want %q", e, got, want)
		}
	}
}

func TestEnsureSystemToken(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "yet")
	if _, err := (&Config{StateDir: dir}).FindSystemToken(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("finds %v", err)
	}
	// Nodes that start together agree.
	tokens := make([]string, 8)
	var wg sync.WaitGroup
	for i := range tokens {
		wg.Go(func() {
			token, err := (&Config{StateDir: dir}).EnsureSystemToken()
			if err != nil {
				t.Error(err)
			}
			tokens[i] = token.Reveal()
		})
	}
	wg.Wait()
	if same := slices.Compact(slices.Clone(tokens)); len(same) != 1 || len(same[0]) < minToken {
		t.Errorf("tokens differ or are short: %d of them", len(same))
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("left behind: %v, %v", entries, err)
	}
	info, err := entries[0].Info()
	if err != nil || entries[0].Name() != "system-token" || info.Mode().Perm() != 0o600 {
		t.Errorf("%s has mode %v, %v", entries[0].Name(), info.Mode(), err)
	}
	found, err := (&Config{StateDir: dir}).FindSystemToken()
	if err != nil || found.Reveal() != tokens[0] {
		t.Errorf("found another token, %v", err)
	}

	configured := &Config{StateDir: dir, SystemToken: NewSecret("configured")}
	if got, err := configured.EnsureSystemToken(); err != nil || got.Reveal() != "configured" {
		t.Errorf("a configured token gives way to the file: %v", err)
	}
	if _, err := (&Config{}).EnsureSystemToken(); err == nil {
		t.Error("a token without a place to keep it")
	}
	if err := os.WriteFile(filepath.Join(dir, tokenFile), []byte("tiny\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Config{StateDir: dir}).EnsureSystemToken(); err == nil || strings.Contains(err.Error(), "tiny") {
		t.Errorf("a truncated token file: %v", err)
	}
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Config{StateDir: filepath.Join(blocked, "dir")}).EnsureSystemToken(); err == nil {
		t.Error("a token in a folder that cannot be")
	}
}
