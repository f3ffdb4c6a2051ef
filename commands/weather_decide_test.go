package commands

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/fixtures/githubfake"
	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/trigger"
)

const decidingTriggers = `
triggers:
  - { name: role, on: [issues.opened], permission: write, run: { command: ["true"] } }
  - { name: pull, on: [pull_request.opened], paths: ["services/**"], run: { command: ["true"] } }
  - { name: pushed, on: [push], paths: ["services/**"], run: { command: ["true"] } }
`

// decided is the only decision about a delivery.
func (w *weather) decided(c *queue.DeliveryClaim) queue.Decision {
	w.Helper()
	s, err := w.decide(w.Context(), c)
	if err != nil || len(s.Decisions) != 1 || s.Kind != queue.SettleDone {
		w.Fatalf("deciding: %+v, %v", s, err)
	}
	if matched := s.Decisions[0].Verdict == queue.Matched; matched != (len(s.Admissions) == 1) {
		w.Errorf("admissions %v of %+v", s.Admissions, s.Decisions)
	}
	return s.Decisions[0]
}

// push is a delivery of acme's about a push.
func (w *weather) push(body map[string]any) *queue.DeliveryClaim {
	d, _ := w.event(1, "push", 0, "ann")
	d.Action, d.Subject = "", ""
	text, err := json.Marshal(body)
	if err != nil {
		w.Fatal(err)
	}
	return w.claim(d, text)
}

func commits(files ...string) []map[string]any {
	return []map[string]any{{"added": files, "modified": []string{}, "removed": []string{}}}
}

func many(n int) (files []githubfake.File) {
	for i := range n {
		files = append(files, githubfake.File{Name: fmt.Sprintf("docs/%04d.md", i)})
	}
	return files
}

func TestPathsOfPushesAndPullRequests(t *testing.T) {
	zero := strings.Repeat("0", 40)
	for name, c := range map[string]struct {
		claim   func(w *weather) *queue.DeliveryClaim
		verdict queue.Verdict
		reason  string
		calls   int // beside the one for the token
	}{
		"a push lists what it changes": {func(w *weather) *queue.DeliveryClaim {
			return w.push(map[string]any{"commits": commits("services/a.go")})
		}, queue.Matched, "on: push", 0},
		"a push lists nothing that counts": {func(w *weather) *queue.DeliveryClaim {
			return w.push(map[string]any{"commits": commits("docs/a.md")})
		}, queue.Filtered, "paths: none of 1 changed files", 0},
		"a forced push is compared": {func(w *weather) *queue.DeliveryClaim {
			return w.push(map[string]any{"forced": true, "before": "a1", "after": "b2", "commits": commits("docs/a.md")})
		}, queue.Matched, "on: push", 1},
		"a comparison has a limit": {func(w *weather) *queue.DeliveryClaim {
			return w.push(map[string]any{"forced": true, "before": "a1", "after": "c3", "commits": commits("docs/a.md")})
		}, queue.Matched, "paths: GitHub lists only 300 of the changed files, so one may match", 1},
		"a new branch has nothing to be compared with": {func(w *weather) *queue.DeliveryClaim {
			return w.push(map[string]any{"created": true, "before": zero, "after": "b2", "commits": commits()[:0]})
		}, queue.Matched, "paths: GitHub lists only 0 of the changed files, so one may match", 0},
		"a pull request of three pages": {func(w *weather) *queue.DeliveryClaim {
			return w.claim(w.event(1, "pull_request", 250, "ann"))
		}, queue.Matched, "on: pull_request.opened", 3},
		"a renamed file counts under its old name": {func(w *weather) *queue.DeliveryClaim {
			return w.claim(w.event(1, "pull_request", 2, "ann"))
		}, queue.Matched, "on: pull_request.opened", 1},
		"a pull request that touches something else": {func(w *weather) *queue.DeliveryClaim {
			return w.claim(w.event(1, "pull_request", 1, "ann"))
		}, queue.Filtered, "paths: none of 1 changed files", 1},
		"a pull request beyond GitHub's limit": {func(w *weather) *queue.DeliveryClaim {
			return w.claim(w.event(1, "pull_request", 3500, "ann"))
		}, queue.Matched, "paths: GitHub lists only 3000 of the changed files, so one may match", 30},
	} {
		t.Run(name, func(t *testing.T) {
			inWeather(t, decidingTriggers, func(w *weather) {
				w.repo(1, func(r *githubfake.Repo) {
					r.Pulls[1] = many(1)
					r.Pulls[2] = []githubfake.File{{Name: "docs/b.go", Previous: "services/a.go"}}
					r.Pulls[250] = append(many(249), githubfake.File{Name: "services/a.go"})
					r.Pulls[3500] = append(many(3499), githubfake.File{Name: "services/beyond.go"})
					r.Compares["a1...b2"] = []githubfake.File{{Name: "services/a.go"}}
					r.Compares["a1...c3"] = many(301)
				})
				d := w.decided(c.claim(w))
				if d.Verdict != c.verdict || d.Reason != c.reason {
					t.Errorf("got %s, %q", d.Verdict, d.Reason)
				}
				asked := 0
				for _, call := range w.sky.between(0, w.now()+1) {
					if !strings.HasSuffix(call.what, "/access_tokens") {
						asked++
					}
				}
				if asked != c.calls {
					t.Errorf("%d calls, want %d", asked, c.calls)
				}
			})
		})
	}
}

func TestRefusalsBecomeTheTriggersError(t *testing.T) {
	for name, c := range map[string]struct {
		number int64 // of a pull request; 0: the sender's role is asked for
		spoil  func(w *weather)
		reason []string
	}{
		"suspended installation": {0, func(w *weather) {
			w.sky.EditInstallation(41, func(i *githubfake.Installation) { i.Suspended = true })
		}, []string{"permission: the role of ann cannot be read: ", "403 This installation has been suspended", "unsuspend the installation"}},
		"suspended installation, files": {1, func(w *weather) {
			w.sky.EditInstallation(41, func(i *githubfake.Installation) { i.Suspended = true })
		}, []string{"paths: the changed files cannot be read: ", "403 This installation has been suspended", "unsuspend"}},
		"suspended after a token was made": {0, func(w *weather) {
			w.decided(w.claim(w.event(1, "issues", 1, "bob")))
			w.sky.EditInstallation(41, func(i *githubfake.Installation) { i.Suspended = true })
		}, []string{"403 This installation has been suspended", "unsuspend"}},
		"removed installation": {0, func(w *weather) {
			w.sky.EditInstallation(41, func(i *githubfake.Installation) { i.Deleted = true })
		}, []string{"404 Not Found", "the app is not installed there: install it"}},
		"a role that nobody knows": {0, func(w *weather) {
			w.repo(1, func(r *githubfake.Repo) {
				r.Collaborators["ann"] = githubfake.Collaborator{Role: "boss", Base: "chief"}
			})
		}, []string{"permission: the role of ann cannot be read: ", "no role that we know"}},
		"the app may not see pull requests": {1, func(w *weather) {
			w.sky.EditInstallation(41, func(i *githubfake.Installation) { i.Permissions = map[string]string{"metadata": "read"} })
		}, []string{"422 The permissions requested are not granted", "grant the app these permissions"}},
		"a plain 403 is no rate limit": {0, func(w *weather) {
			w.sky.Fault("GET /repos/{owner}/{repo}/collaborators/{user}/permission", 0, githubfake.Refuse(http.StatusForbidden, "Must have push access"))
		}, []string{"403 Must have push access"}},
	} {
		t.Run(strings.ReplaceAll(name, ",", ""), func(t *testing.T) {
			inWeather(t, decidingTriggers, func(w *weather) {
				w.repo(1, func(r *githubfake.Repo) {
					r.Pulls[1] = many(1)
					r.Collaborators["ann"] = githubfake.Collaborator{Role: "admin"}
					r.Collaborators["bob"] = githubfake.Collaborator{Role: "admin"}
				})
				c.spoil(w)
				event := "issues"
				if c.number != 0 {
					event = "pull_request"
				}
				d := w.decided(w.claim(w.event(1, event, max(c.number, 1), "ann"))) // received a moment ago
				if d.Verdict != queue.Errored {
					t.Errorf("got %s", d.Verdict)
				}
				for _, part := range c.reason {
					if !strings.Contains(d.Reason, part) {
						t.Errorf("%q is not in %q", part, d.Reason)
					}
				}
				if wait := w.hub.breakers.Wait("app:app-1", time.Now()); wait != 0 {
					t.Errorf("a refusal opened the breaker for %s", wait)
				}
			})
		})
	}
}

// GitHub's words about a credential that it does not take, and what each means: one sentence that
// says what to do, whole, in the decision.
func TestEveryRefusedCredentialGetsOneSentence(t *testing.T) {
	for message, c := range map[string]struct {
		status int
		advice string
	}{
		"A JSON web token could not be decoded":                                                                               {401, "the private key is not one of this app's"},
		"'Expiration time' claim ('exp') is too far in the future":                                                            {401, "clock is ahead of GitHub's"},
		"'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires": {401, "clock is behind GitHub's"},
		"'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued":                    {401, "clock is ahead of GitHub's"},
		"Missing 'issuer' claim ('iss') in assertion":                                                                         {401, "neither an id nor a client id"},
		"'Issuer' claim ('iss') must be an Integer":                                                                           {401, "set id and leave out client_id"},
		"Integration must generate a public key":                                                                              {401, "generate a key in the app's settings"},
		"Integration not found":                                                                                               {404, "check id and github_api_url"},
		"Bad credentials":                                                                                                     {401, "was revoked, has expired or is not valid on this host"},
		"This installation has been suspended":                                                                                {403, "unsuspend the installation"},
		"Not Found":                                                                                                           {404, "install it, or give it access to the repository"},
	} {
		t.Run(message[:min(len(message), 40)], func(t *testing.T) {
			inWeather(t, decidingTriggers, func(w *weather) {
				w.sky.Fault("POST /app/installations/{id}/access_tokens", 0, githubfake.Refuse(c.status, message))
				d := w.decided(w.claim(w.event(1, "issues", 1, "ann")))
				if d.Verdict != queue.Errored || !strings.Contains(d.Reason, message) || !strings.Contains(d.Reason, c.advice) || strings.Contains(d.Reason, "…") || strings.Contains(d.Reason, "\n") {
					t.Errorf("%s, %q", d.Verdict, d.Reason)
				}
			})
		})
	}
}

func TestAMissingAnswerIsTransientForAMinute(t *testing.T) {
	inWeather(t, decidingTriggers, func(w *weather) {
		stop := w.work(func(queue.RunClaim) queue.Outcome { return queue.Outcome{State: queue.Succeeded} })
		late := w.enqueue(w.event(1, "pull_request", 9, "ann"))   // GitHub's replicas do not have it yet
		never := w.enqueue(w.event(1, "pull_request", 10, "ann")) // nor ever
		w.pass(10 * time.Second)
		if d := w.delivery(late); d.State != queue.Received || d.Attempts != 3 || !strings.Contains(d.LastError, "404") {
			t.Errorf("after 10 s: %s, attempts %d, %s", d.State, d.Attempts, d.LastError)
		}
		w.repo(1, func(r *githubfake.Repo) { r.Pulls[9] = []githubfake.File{{Name: "services/a.go"}} })
		w.pass(15 * time.Second)
		if d := w.delivery(late); d.State != queue.Done || d.Decisions[0].Verdict != queue.Matched {
			t.Errorf("after 25 s: %s, %+v", d.State, d.Decisions)
		}
		w.pass(70 * time.Second)
		d := w.delivery(never)
		if d.State != queue.Done || d.Decisions[0].Verdict != queue.Errored || !strings.Contains(d.Decisions[0].Reason, "paths: the changed files cannot be read: ") {
			t.Errorf("after 95 s: %s, %+v", d.State, d.Decisions)
		}
		stop()
	})
}

func TestARoleIsBelievedForAMinute(t *testing.T) {
	inWeather(t, decidingTriggers, func(w *weather) {
		role := func(role string) {
			w.repo(1, func(r *githubfake.Repo) { r.Collaborators["Ann"] = githubfake.Collaborator{Role: role} })
		}
		asked := func() (n int) {
			for _, c := range w.sky.between(0, w.now()+1) {
				if strings.HasSuffix(c.what, "/permission") {
					n++
				}
			}
			return n
		}
		role("maintain")
		if d := w.decided(w.claim(w.event(1, "issues", 1, "Ann"))); d.Verdict != queue.Matched {
			t.Errorf("got %+v", d)
		}
		role("triage")
		time.Sleep(59 * time.Second)
		if d := w.decided(w.claim(w.event(1, "issues", 2, "ann"))); d.Verdict != queue.Matched || asked() != 1 {
			t.Errorf("within the minute: %+v after %d questions", d, asked())
		}
		time.Sleep(2 * time.Second)
		if d := w.decided(w.claim(w.event(1, "issues", 3, "Ann"))); d.Verdict != queue.Filtered || d.Reason != "permission: Ann has triage, less than write" || asked() != 2 {
			t.Errorf("after it: %+v after %d questions", d, asked())
		}
	})
}

func TestWhatParksADelivery(t *testing.T) {
	for name, c := range map[string]struct {
		fault  http.HandlerFunc
		wait   time.Duration
		outage bool
	}{
		"no answer, breaker closed": {githubfake.Reset(), 0, true},
		"502, breaker closed":       {githubfake.Unicorn(http.StatusBadGateway), 0, true},
		"a portal's page":           {githubfake.Portal(), 0, true},
		"half an answer":            {githubfake.HalfJSON(), 0, true},
		"old words for a limit":     {githubfake.Abuse(), time.Minute, false},
	} {
		t.Run(strings.ReplaceAll(name, ",", ""), func(t *testing.T) {
			inWeather(t, decidingTriggers, func(w *weather) {
				w.sky.setFault(func(skyCall) http.HandlerFunc { return c.fault })
				_, err := w.decide(w.Context(), w.claim(w.event(1, "issues", 1, "ann")))
				var park *queue.ParkError
				if !errors.As(err, &park) || park.Wait != c.wait || park.Outage != c.outage || !errors.Is(err, trigger.ErrUnavailable) {
					t.Errorf("%+v, %v", park, err)
				}
			})
		})
	}
	t.Run("the breaker opens", func(t *testing.T) {
		inWeather(t, decidingTriggers, func(w *weather) {
			w.sky.setFault(outage())
			var park *queue.ParkError
			for i, want := range []time.Duration{0, 0, 30 * time.Second, 30 * time.Second} {
				_, err := w.decide(w.Context(), w.claim(w.event(1, "issues", 1, "ann")))
				if !errors.As(err, &park) || park.Wait != want || park.Outage != (i < 2) {
					t.Errorf("failure %d: %+v, %v", i+1, park, err)
				}
			}
			if n := len(w.sky.between(0, w.now()+1)); n != 3 {
				t.Errorf("%d calls", n)
			}
		})
	})
	t.Run("switched off", func(t *testing.T) {
		inWeather(t, decidingTriggers+"\nbreaker: { enabled: false }\n", func(w *weather) {
			w.sky.setFault(outage())
			for range 5 {
				_, err := w.decide(w.Context(), w.claim(w.event(1, "issues", 1, "ann")))
				var park *queue.ParkError
				if !errors.As(err, &park) || park.Wait != 0 || !park.Outage {
					t.Errorf("%+v, %v", park, err)
				}
			}
			if _, open := w.gate(); !open || w.status().GitHubBreaker.Open || len(w.status().Conditions) != 0 {
				t.Errorf("the gate is open: %v; status %+v", open, w.status().GitHubBreaker)
			}
		})
	})
}

// An open breaker that a store still has stops nobody who has no credential left to probe it with.
func TestWithoutCredentialsTheGateIsOpen(t *testing.T) {
	inWeather(t, decidingTriggers, func(w *weather) {
		w.sky.setFault(outage())
		for range 3 {
			_, _ = w.decide(w.Context(), w.claim(w.event(1, "issues", 1, "ann")))
		}
		if _, open := w.gate(); open {
			t.Fatal("the gate is open")
		}
		cfg := *w.current().cfg
		cfg.Apps = nil
		w.hub.configure(&cfg)
		if _, open := w.gate(); !open {
			t.Error("the gate is shut for ever")
		}
	})
}
