package config

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSample(t *testing.T) {
	inDir(t, map[string]string{
		"preloop.yaml": string(Sample), "token": "0123456789abcdef01234567\n", "acme-bot.pem": keyPEM(), "old-secret": "old\n",
	})
	c, err := Load(Options{LookupEnv: state("ACME_WEBHOOK_SECRET", "new", "WIDGETS_SECRET", "w", "GH_TOKEN", "t", "JENKINS_WEBHOOK_SECRET", "j").lookup})
	if err != nil {
		t.Fatalf("the sample does not load:\n%v", err)
	}
	// What the sample calls a default is one.
	d := defaults()
	for name, pair := range map[string][2]any{
		"queue": {c.Queue, d.Queue}, "retention": {c.Retention, d.Retention}, "watchdog": {c.Watchdog, d.Watchdog},
		"breaker": {c.Breaker, d.Breaker}, "app_monitor": {c.AppMonitor, d.AppMonitor}, "ingress": {c.Ingress, d.Ingress},
		"listen": {c.Listen, d.Listen}, "session_ttl": {c.SessionTTL, d.SessionTTL}, "shutdown_grace": {c.ShutdownGrace, d.ShutdownGrace},
		"limits": {c.Limits, Limits{Concurrency: 10, QueueSize: 200, QueueWait: 72 * time.Hour}},
	} {
		if diff := cmp.Diff(pair[1], pair[0]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// The sample shows every key: each unknown-key suggestion list is its own table, so the names are
// taken from the sources' text.
func TestSampleHasEveryKey(t *testing.T) {
	for _, file := range []string{"file.go", "sources.go", "triggers.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			key, rest, found := strings.Cut(strings.TrimSpace(line), `":`)
			if key, ok := strings.CutPrefix(key, `"`); ok && found && rest != "" && !strings.Contains(string(Sample), key+":") {
				t.Errorf("%s has %q, the sample does not", file, key)
			}
		}
	}
}
