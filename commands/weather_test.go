package commands

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/fixtures/githubfake"
	"github.com/seed-de999ace/preloop/queue"
)

// askingTriggers have to ask GitHub before they can decide. The queue is read seldom, because what
// matters is whether wakes and breakers make things go on.
const askingTriggers = `
queue: { poll: 1m }
triggers:
  - { name: triage, on: [issues.opened], permission: write, queue: { size: 2000 }, concurrency: 100, run: { command: ["true"] } }
  - { name: build, on: [pull_request.opened], paths: ["services/**"], queue: { size: 2000 }, concurrency: 100, run: { command: ["true"] } }
`

// asking fills the world with what GitHub is asked about n deliveries, and delivers some of them at
// once: the apps take turns, issues and pull requests too. One in seven matches.
func asking(w *weather, n int) (deliver func(from, to int), matches func(d queue.Delivery) bool) {
	matching := func(i int) bool { return i%7 == 0 }
	for app := 1; app <= 2; app++ {
		w.repo(app, func(r *githubfake.Repo) {
			for i := range n {
				role, file := "write", "services/api/main.go"
				if !matching(i) {
					role, file = "read", "docs/index.md"
				}
				r.Collaborators[fmt.Sprintf("user-%d", i)] = githubfake.Collaborator{Role: role}
				r.Pulls[int64(i+1)] = []githubfake.File{{Name: "README.md"}, {Name: file}}
			}
		})
	}
	deliver = func(from, to int) {
		var all sync.WaitGroup
		for i := from; i < to; i++ {
			d, body := w.event(1+i%2, []string{"issues", "pull_request"}[i/2%2], int64(i+1), fmt.Sprintf("user-%d", i))
			all.Go(func() { w.enqueue(d, body) })
		}
		all.Wait()
	}
	return deliver, func(d queue.Delivery) bool { return matching(int(d.SubjectNum) - 1) }
}

// ran collects the runs that were started.
type ran struct {
	mu   sync.Mutex
	seqs []int64
}

func (r *ran) execute(c queue.RunClaim) queue.Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seqs = append(r.seqs, c.DeliverySeq)
	return queue.Outcome{State: queue.Succeeded}
}

func ascending(list []claimAt) bool {
	return slices.IsSortedFunc(list, func(a, b claimAt) int { return cmp.Compare(a.seq, b.seq) })
}

func TestAnHourWithoutGitHubLosesNothing(t *testing.T) {
	const n, before, burst, during = 1000, 300, 100, 500
	inWeather(t, askingTriggers, func(w *weather) {
		deliver, matches := asking(w, n)
		started := &ran{}
		w.work(started.execute)
		for i := 0; i < before; i += 10 {
			deliver(i, i+10)
			w.pass(2 * time.Second)
		}
		deliver(before, before+burst)
		time.Sleep(250 * time.Millisecond) // many are under way
		w.sky.setFault(outage())
		fell := w.now()
		for i := before + burst; i < before+during; i += 20 {
			deliver(i, i+20)
			w.pass(time.Hour / (during - burst) * 20)
			if _, open := w.gate(); open {
				w.Fatalf("%s after GitHub fell the gate is open", w.now()-fell)
			}
		}
		if lost := w.sky.between(fell, fell+10*time.Second); len(lost) > 3+8 {
			w.Errorf("%d calls were needed to see that GitHub is away", len(lost))
		}
		host := w.status().GitHubBreaker
		if !host.Open || host.LastError == nil {
			w.Errorf("the host's breaker: %+v", host)
		}

		// One probe a window, and nothing else.
		probes := w.sky.between(fell+10*time.Second, w.now())
		interval, due := 30*time.Second, time.Duration(0)
		for i, p := range probes {
			if p.what != "GET /app" {
				w.Errorf("a call other than a probe: %+v", p)
			}
			if i > 0 && (p.at < due || p.at > due+50*time.Millisecond) {
				w.Errorf("probe %d came at %s instead of %s", i, p.at, due)
			}
			interval = min(2*interval, 5*time.Minute)
			due = p.at + skyLatency + interval
		}
		if len(probes) != 14 { // at about 30 s, 90 s, 210 s, 450 s, and then every 300 s
			w.Errorf("%d probes in an hour", len(probes))
		}
		// Nothing was claimed, nothing was charged, nothing died.
		if got := w.claimed.between(fell+time.Second, w.now()); len(got) > 0 {
			w.Errorf("%d deliveries were claimed while GitHub was away", len(got))
		}
		for _, d := range w.deliveries() {
			if d.State == queue.Received && d.Attempts != 0 || d.State == queue.Failed || d.State == queue.Processing {
				w.Fatalf("delivery %s is %s after %d attempts: %s", d.ID, d.State, d.Attempts, d.LastError)
			}
		}
		waiting := w.counts()[queue.Received]

		rose := w.now()
		w.sky.setFault(nil)
		for i := before + during; i < n; i += 20 {
			deliver(i, i+20)
			w.pass(10 * time.Second)
		}
		over := w.passUntil(10*time.Minute, 2*time.Second, "the end of all deliveries", func() bool { return w.counts()[queue.Done] == n })

		// The probe came first, both credentials' second, and only then was anything claimed.
		after := w.sky.between(rose, over)
		if len(after) < 2 || after[0].what != "GET /app" || after[0].at-rose > 5*time.Minute {
			w.Fatalf("the first calls after recovery: %+v", after[:min(3, len(after))])
		}
		claimed := w.claimed.between(rose, over)
		if first := claimed[0].at; first < after[0].at+skyLatency || first > after[0].at+6*time.Second {
			w.Errorf("the probe went out at %s, the first claim was at %s", after[0].at, first)
		}
		if !ascending(claimed) {
			w.Error("after recovery deliveries were not taken in the order of their receipt")
		}
		if len(claimed) != n-(before+during)+waiting {
			w.Errorf("%d claims for %d deliveries", len(claimed), n-(before+during)+waiting)
		}
		if w.sky.busiest > 8 {
			w.Errorf("%d calls at once", w.sky.busiest)
		}
		matched := 0
		for _, d := range w.deliveries() {
			if d.Attempts != 1 {
				w.Errorf("%s was charged %d attempts", d.ID, d.Attempts)
			}
			want := matches(d)
			if want {
				matched++
			}
			if d.Seq%5 != 0 {
				continue
			}
			if detail := w.delivery(d.ID); len(detail.Decisions) != 1 || (detail.Decisions[0].Verdict == queue.Matched) != want {
				w.Errorf("%s: %+v", d.ID, detail.Decisions)
			}
		}
		w.pass(10 * time.Second)
		if len(started.seqs) != matched {
			w.Errorf("%d runs of %d matches were started", len(started.seqs), matched)
		}
		s := w.status()
		if s.GitHubBreaker.Open || slices.Contains(conditionNames(s.Conditions), "github_unavailable") {
			w.Errorf("status after recovery: %+v, %v", s.GitHubBreaker, s.Conditions)
		}
		w.Logf("outage %s; calls before it was seen %d, probes %d; %d deliveries waited; recovery seen after %s, all done %s after that; %d calls at once, %d calls after recovery",
			rose-fell, len(w.sky.between(fell, fell+10*time.Second)), len(probes), waiting, after[0].at-rose, (over - after[0].at).Round(time.Second), w.sky.busiest, len(after))
	})
}

func TestARateLimitIsOneCredentialsAlone(t *testing.T) {
	const n = 120
	for name, c := range map[string]struct {
		lasts   time.Duration
		limit   func(s *sky, over time.Duration) http.HandlerFunc
		windows int // how often the limited credential tries; a limit without a header is 60 s
	}{
		"primary": {time.Hour, func(s *sky, over time.Duration) http.HandlerFunc {
			return s.PrimaryLimit(http.StatusForbidden, over-time.Since(s.began))
		}, 1},
		"secondary": {10 * time.Minute, func(s *sky, _ time.Duration) http.HandlerFunc {
			return s.SecondaryLimit(http.StatusTooManyRequests, 0)
		}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			inWeather(t, askingTriggers, func(w *weather) {
				deliver, _ := asking(w, n)
				started := &ran{}
				w.work(started.execute)
				began := w.now()
				over := began + c.lasts
				w.sky.setFault(func(call skyCall) http.HandlerFunc {
					// What the app asks as itself has a limit of its own.
					if call.who == "acme" {
						return c.limit(w.sky, over)
					}
					return nil
				})
				for i := 0; i < n; i += 4 {
					deliver(i, i+4)
					w.pass((c.lasts - 2*time.Second) / n * 4)
				}
				for _, d := range w.deliveries() {
					switch {
					case d.Source == "app-2" && (d.State != queue.Done || d.Attempts != 1 || d.FinishedAt.Sub(d.ReceivedAt) > 2*time.Second):
						w.Fatalf("the other app's delivery %s is %s after %s", d.ID, d.State, d.FinishedAt.Sub(d.ReceivedAt))
					case d.Source == "app-1" && (d.State != queue.Received || d.Attempts != 0 || d.Outages != 0):
						w.Fatalf("the limited app's delivery %s is %s, attempts %d, outages %d: %s", d.ID, d.State, d.Attempts, d.Outages, d.LastError)
					}
				}
				s := w.status()
				if s.GitHubBreaker.Open || len(s.Breakers) == 0 || s.Breakers[0].Credential != "app:app-1" || !s.Breakers[0].Open || !s.Breakers[0].RateLimited {
					w.Errorf("breakers: host %+v, credentials %+v", s.GitHubBreaker, s.Breakers)
				}
				limited := 0
				for _, call := range w.sky.between(began, over) {
					if call.fault {
						limited++
					}
				}
				if limited == 0 || limited > 8*c.windows {
					w.Errorf("%d calls met the limit in %d windows", limited, c.windows)
				}
				w.until(over)
				w.sky.setFault(nil)
				done := w.passUntil(2*time.Minute, time.Second, "the end of all deliveries", func() bool { return w.counts()[queue.Done] == n })
				for _, d := range w.deliveries() {
					if d.Attempts != 1 {
						w.Errorf("%s was charged %d attempts", d.ID, d.Attempts)
					}
				}
				w.Logf("%d calls met the limit; all done %s after its end", limited, done-over)
			})
		})
	}
}

func TestAnIdleNodeSeesRecoveryByItself(t *testing.T) {
	inWeather(t, askingTriggers, func(w *weather) {
		w.service(w.hub.run)
		client, err := w.hub.client("app-1")
		if err != nil {
			w.Fatal(err)
		}
		w.sky.setFault(outage())
		for range 3 {
			if _, err := client.App(w.Context()); err == nil {
				w.Fatal("GitHub answered")
			}
		}
		opened := w.now()
		if wait, open := w.gate(); open || wait > 30*time.Second {
			w.Fatalf("the gate: %v, wait %s", open, wait)
		}
		s := w.status()
		if !s.GitHubBreaker.Open || s.GitHubBreaker.Trips != 1 || len(s.Breakers) != 1 || !s.Breakers[0].Open || !slices.Contains(conditionNames(s.Conditions), "github_unavailable") {
			w.Errorf("status: host %+v, credentials %+v, %v", s.GitHubBreaker, s.Breakers, s.Conditions)
		}
		w.sky.setFault(nil)
		w.until(opened + 30*time.Second + 2*skyLatency)
		if _, open := w.gate(); !open {
			w.Error("recovery was not seen within one open interval")
		}
		// One for the host, with the credential that was not in doubt, and one for the other.
		if probes := w.sky.between(opened, w.now()); len(probes) != 2 || probes[0].what != "GET /app" || probes[0].who != "2" || probes[1].what != "GET /app" || probes[1].who != "1" {
			w.Errorf("probes: %+v", probes)
		}
		if wait := w.hub.breakers.Wait(client.BreakerKey(), time.Now()); wait != 0 {
			w.Errorf("the credential still waits %s", wait)
		}
	})
}

func TestOneResourceThatAlwaysFailsIsChargedInTheEnd(t *testing.T) {
	inWeather(t, askingTriggers, func(w *weather) {
		w.repo(1, func(r *githubfake.Repo) { r.Pulls[13] = []githubfake.File{{Name: "a"}} })
		w.service(w.worker().Run)
		client, err := w.hub.client("app-1")
		if err != nil {
			w.Fatal(err)
		}
		w.sky.setFault(func(c skyCall) http.HandlerFunc {
			if strings.Contains(c.what, "/pulls/13/") {
				return githubfake.Refuse(http.StatusInternalServerError, "Server Error")
			}
			return nil
		})
		id := w.enqueue(w.event(1, "pull_request", 13, "ann"))
		var d *queue.DeliveryDetail
		w.passUntil(time.Hour, 1900*time.Millisecond, "the delivery's end", func() bool {
			if _, err := client.App(w.Context()); err != nil { // GitHub is well otherwise: no breaker opens
				w.Fatal(err)
			}
			d = w.delivery(id)
			return d.State == queue.Failed
		})
		var outcomes []string
		var waits []time.Duration
		for i, a := range d.History {
			outcomes = append(outcomes, a.Outcome)
			if i > 0 {
				waits = append(waits, a.StartedAt.Sub(d.History[i-1].FinishedAt).Round(time.Second))
			}
		}
		want := append(slices.Repeat([]string{"parked"}, 20), "retry", "retry", "retry", "retry", "retry", "failed")
		if !slices.Equal(outcomes, want) || d.Attempts != 6 {
			w.Errorf("attempts %d, history %v", d.Attempts, outcomes)
		}
		usual := []time.Duration{1 * time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second}
		wantWaits := slices.Concat(usual, slices.Repeat([]time.Duration{30 * time.Second}, 16), usual, []time.Duration{30 * time.Second})
		if !slices.Equal(waits, wantWaits) {
			w.Errorf("waits:\n%v, want\n%v", waits, wantWaits)
		}
		if !strings.Contains(d.LastError, "500 Server Error") {
			w.Errorf("last error: %s", d.LastError)
		}
	})
}
