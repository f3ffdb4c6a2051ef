package config

import (
	"strings"
	"testing"
)

func TestTriggersHash(t *testing.T) {
	hash := func(text string, more ...string) string {
		t.Helper()
		return mustLoad(t, text, Options{LookupEnv: state(append([]string{"S", "target-secret"}, more...)...).lookup}).TriggersHash()
	}
	const (
		a = "  - { name: a, on: push, run: { http: { url: 'https://x', secret: { env: S }, headers: { B: b, A: { env: S } } } } }\n"
		b = "  - { name: b, on: push, run: { command: [x] }, follow_up: { http: { url: 'https://x', headers: { A: { env: S } } } } }\n"
	)
	base := hash("triggers:\n" + a + b)
	for name, same := range map[string]string{
		"again":             hash("triggers:\n" + a + b),
		"another order":     hash("triggers:\n" + b + a),
		"a default written": hash("triggers:\n" + a + strings.Replace(b, "on:", "concurrency: 1, on:", 1)),
		"other settings":    hash("listen: :1\nqueue: { workers: 3 }\ntriggers:\n" + a + b),
	} {
		if same != base {
			t.Errorf("%s: another hash", name)
		}
	}
	for name, other := range map[string]string{
		"one less":             hash("triggers:\n" + a),
		"none":                 hash(""),
		"another event":        hash("triggers:\n" + a + strings.Replace(b, "push", "create", 1)),
		"another secret":       hash("triggers:\n"+a+b, "S", "another-secret"),
		"another header":       hash("triggers:\n" + strings.Replace(a, "B: b", "B: c", 1) + b),
		"a lower ceiling":      hash("limits: { queue_size: 3 }\ntriggers:\n" + a + b),
		"one that is disabled": hash("triggers:\n" + a + strings.Replace(b, "on:", "enabled: false, on:", 1)),
	} {
		if other == base {
			t.Errorf("%s: the same hash", name)
		}
	}
}
