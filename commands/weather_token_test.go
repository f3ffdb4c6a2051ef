package commands

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/fixtures/githubfake"
	"github.com/seed-de999ace/preloop/queue"
)

// tokenTriggers write the token where the test finds it, and into their output, where nobody should.
const tokenTriggers = `
triggers:
  - name: deploy
    on: [issues.opened, installation.created]
    permission: none
    github_token: { contents: read, pull_requests: read }
    run: { command: [sh, -c, 'printf %s "$GITHUB_TOKEN" >DIR/token-$PRELOOP_DELIVERY_ID; echo "the token is $GITHUB_TOKEN"'] }
`

func (w *weather) leftToken(id string) (token string, ran bool) {
	text, err := os.ReadFile(filepath.Join(w.tempDir, "token-"+id))
	return string(text), err == nil
}

func TestATokenForTheRun(t *testing.T) {
	inWeather(t, tokenTriggers, func(w *weather) {
		w.work(nil)
		id := w.enqueue(w.event(1, "issues", 1, "ann"))
		w.pass(2 * time.Second)
		r := w.run(id)
		token, _ := w.leftToken(id)
		if r.State != queue.Succeeded || r.Attempts != 1 || !strings.HasPrefix(token, "ghs_") {
			t.Fatalf("run %+v, token %.8q", r.Run, token)
		}
		if out := string(r.Output); out != "the token is ***\n" {
			t.Errorf("output %q", out)
		}
		var calls []string
		for _, c := range w.sky.between(0, w.now()) {
			calls = append(calls, c.what)
			if strings.HasSuffix(c.what, "/access_tokens") && c.asked != `{"permissions":{"contents":"read","pull_requests":"read"},"repositories":["widgets"]}` {
				t.Errorf("asked for %s", c.asked)
			}
		}
		if got := strings.Join(calls, ", "); got != "POST /app/installations/41/access_tokens, DELETE /installation/token" {
			t.Errorf("calls: %s", got)
		}
		if n := w.sky.Tokens(); n != 0 {
			t.Errorf("%d tokens are still valid", n)
		}
		if strings.Contains(w.logs.String(), token) {
			t.Error("the token is in the log")
		}
	})
}

func TestATokenThatCannotBeMade(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(w *weather, d *queue.Delivery)
		error []string
	}{
		"permissions refused": {func(w *weather, _ *queue.Delivery) {
			w.sky.EditInstallation(41, func(i *githubfake.Installation) { i.Permissions = map[string]string{"metadata": "read"} })
		}, []string{"minting a token", "422 The permissions requested are not granted", "grant the app these permissions in its settings"}},
		"suspended installation": {func(w *weather, _ *queue.Delivery) {
			w.sky.EditInstallation(41, func(i *githubfake.Installation) { i.Suspended = true })
		}, []string{"403 This installation has been suspended", "unsuspend the installation"}},
		"app not installed": {func(w *weather, d *queue.Delivery) {
			w.sky.EditInstallation(41, func(i *githubfake.Installation) { i.Deleted = true })
			d.Installation = 0
		}, []string{"404 Not Found", "the app is not installed there: install it"}},
		"source without an app": {func(_ *weather, d *queue.Delivery) {
			d.Source, d.SourceName, d.Installation = "hook-acme/widgets", "acme-widgets", 0
		}, []string{"minting a token for the run: "}},
		"source that is not configured any more": {func(_ *weather, d *queue.Delivery) {
			d.Source, d.SourceName = "app-99", "gone"
		}, []string{"minting a token for the run: no credential is configured"}},
		"event without a repository": {func(_ *weather, d *queue.Delivery) {
			d.Event, d.Action, d.Facts = "installation", "created", queue.Facts{Action: "created", Sender: "ann", Installation: 41}
		}, []string{"the event names no repository"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWeather(t, tokenTriggers, func(w *weather) {
				w.work(nil)
				d, body := w.event(1, "issues", 1, "ann")
				c.spoil(w, &d)
				id := w.enqueue(d, body)
				w.pass(2 * time.Second)
				r := w.run(id)
				if r.State != queue.RunFailed || r.Reason != queue.ReasonGitHubToken || r.Attempts != 1 {
					t.Errorf("run is %s, %s, after %d attempts", r.State, r.Reason, r.Attempts)
				}
				for _, part := range c.error {
					if !strings.Contains(r.Error, part) {
						t.Errorf("%q is not in %q", part, r.Error)
					}
				}
				if _, ran := w.leftToken(id); ran {
					t.Error("the command ran without its token")
				}
			})
		})
	}
}

func TestAnOutageWhileMintingParksTheRun(t *testing.T) {
	for name, fault := range map[string]func(w *weather) func(skyCall) http.HandlerFunc{
		"outage": func(*weather) func(skyCall) http.HandlerFunc { return outage() },
		"rate limit": func(w *weather) func(skyCall) http.HandlerFunc {
			return func(skyCall) http.HandlerFunc { return w.sky.SecondaryLimit(http.StatusForbidden, 90*time.Second) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWeather(t, tokenTriggers, func(w *weather) {
				w.work(nil)
				w.sky.setFault(fault(w))
				id := w.enqueue(w.event(1, "issues", 1, "ann"))
				for range 80 {
					w.pass(time.Second)
					if r := w.run(id); r.State != queue.Waiting || r.Attempts != 0 || r.Reason != "" || !strings.Contains(r.Error, "minting a token") {
						t.Fatalf("at %s the run is %s, %s, after %d attempts: %s", w.now(), r.State, r.Reason, r.Attempts, r.Error)
					}
				}
				w.sky.setFault(nil)
				w.pass(2 * time.Minute)
				if r := w.run(id); r.State != queue.Succeeded || r.Attempts != 1 {
					t.Errorf("after recovery the run is %s after %d attempts: %s", r.State, r.Attempts, r.Error)
				}
				if token, _ := w.leftToken(id); !strings.HasPrefix(token, "ghs_") || w.sky.Tokens() != 0 {
					t.Errorf("token %.8q, %d still valid", token, w.sky.Tokens())
				}
			})
		})
	}
}

// A stop in the middle of minting says nothing of the run: it goes back as if never begun.
func TestAStopWhileMintingGivesTheRunBack(t *testing.T) {
	inWeather(t, tokenTriggers+"\nshutdown_grace: 1s\n", func(w *weather) {
		w.sky.setFault(func(skyCall) http.HandlerFunc { return githubfake.Hang() })
		stop := w.work(nil)
		id := w.enqueue(w.event(1, "issues", 1, "ann"))
		w.pass(5 * time.Second)
		stop()
		r := w.run(id)
		if r.State != queue.Waiting || r.Attempts != 0 || r.Reason != "" {
			t.Fatalf("the run is %s, %s, after %d attempts: %s", r.State, r.Reason, r.Attempts, r.Error)
		}
		w.sky.setFault(nil)
		w.work(nil)
		w.pass(10 * time.Second)
		if r := w.run(id); r.State != queue.Succeeded || r.Attempts != 1 {
			t.Errorf("then the run is %s after %d attempts: %s", r.State, r.Attempts, r.Error)
		}
	})
}

// A token that cannot be revoked expires by itself: the run is what its command says.
func TestATokenThatCannotBeRevoked(t *testing.T) {
	inWeather(t, tokenTriggers, func(w *weather) {
		w.work(nil)
		w.sky.setFault(func(c skyCall) http.HandlerFunc {
			if strings.HasPrefix(c.what, "DELETE ") {
				return githubfake.Refuse(http.StatusInternalServerError, "Server Error")
			}
			return nil
		})
		id := w.enqueue(w.event(1, "issues", 1, "ann"))
		w.pass(2 * time.Second)
		token, _ := w.leftToken(id)
		if r := w.run(id); r.State != queue.Succeeded {
			t.Errorf("the run is %s: %s", r.State, r.Error)
		}
		logs := w.logs.String()
		if !strings.Contains(logs, "token was not revoked") || token == "" || strings.Contains(logs, token) {
			t.Errorf("the log: %.300s", logs)
		}
	})
}
