package watchdog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-de999ace/preloop/github"
)

// scene is one source with its store, polled once so that later deliveries are judged.
type scene struct {
	*history
	store *memory
	dog   *Watchdog
	src   Source
}

func inScene(t *testing.T, act func(t *testing.T, s *scene)) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{history: newHistory(), store: newMemory()}
		s.deliver = s.store.receive
		s.dog = dog(s.store, rulesForTests())
		s.src = Source{Key: "app-1", Name: "bot", GitHub: s.history, Pacer: NewPacer(time.Second)}
		s.record("adopted", 502)
		time.Sleep(time.Hour)
		if r := s.pass(t); r.Err != nil || r.Missing != 0 {
			t.Fatalf("the first pass: %+v", r)
		}
		time.Sleep(time.Hour)
		act(t, s)
	})
}

func (s *scene) pass(t *testing.T) Result {
	t.Helper()
	return s.dog.Pass(t.Context(), s.src, Options{})
}

func TestMissingDeliveriesComeBack(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene) {
		s.record("failed", 502)
		s.record("acked", 200)
		s.record("stored", 200)
		s.record("retried", 502)
		s.record("retried", 200)
		s.store.rows["stored"], s.store.rows["retried"] = true, true
		time.Sleep(3 * time.Minute)
		s.record("young", 502)
		r := s.pass(t)
		if r.Err != nil || r.Examined != 4 || r.Missing != 2 || r.Redelivered != 2 || r.SkippedGrace != 1 || r.OpenRepairs != 2 {
			t.Fatalf("got %+v", r)
		}
		if !slices.Equal(s.asked, []string{"failed", "acked"}) || s.store.repairs["failed"].Reason != RemoteFailure || s.store.repairs["acked"].Reason != PhantomAck {
			t.Errorf("asked for %v, %+v", s.asked, s.store.repairs)
		}
		time.Sleep(5 * time.Minute)
		if r = s.pass(t); r.OpenRepairs != 1 || s.store.repairs["failed"].State != Arrived || s.store.repairs["young"].State != Open {
			t.Errorf("after the arrival: %+v %s", r, s.store.states())
		}
		if r.Cursor.Requested != 3 || r.Cursor.LastError != "" {
			t.Errorf("the cursor: %+v", r.Cursor)
		}
	})
}

func TestFirstPassAdoptsBeforeItReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, m := newHistory(), newMemory()
		h.record("before", 502)
		time.Sleep(10 * time.Minute)
		h.failRead = func(int) error { return errors.New("away") }
		src := Source{Key: "app-1", GitHub: h}
		if r := dog(m, rulesForTests()).Pass(t.Context(), src, Options{}); r.Err == nil || !r.PollFailed {
			t.Fatalf("got %+v", r)
		}
		if m.cursor.Version == 0 || time.Since(m.cursor.Floor) != 2*time.Minute {
			t.Fatalf("nothing was adopted: %+v", m.cursor)
		}
		h.record("after", 502)
		h.failRead = nil
		time.Sleep(10 * time.Minute)
		if r := dog(m, rulesForTests()).Pass(t.Context(), src, Options{}); r.Err != nil || !slices.Equal(h.asked, []string{"after"}) {
			t.Errorf("asked for %v, %v", h.asked, r.Err)
		}
	})
}

func TestSinceRepairsThePastOnAnyPass(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene) {
		r := s.dog.Pass(t.Context(), s.src, Options{Since: time.Now().Add(-24 * time.Hour), DryRun: true})
		if r.Err != nil || r.Missing != 1 || len(r.Due) != 1 || r.Due[0].GUID != "adopted" || len(s.asked) != 0 || len(s.store.repairs) != 0 {
			t.Fatalf("dry: %+v, asked for %v", r, s.asked)
		}
		if r = s.pass(t); r.Missing != 0 {
			t.Fatalf("a dry run moved the watermark: %+v", r)
		}
		if r = s.dog.Pass(t.Context(), s.src, Options{Since: time.Now().Add(-24 * time.Hour)}); r.Err != nil || r.Redelivered != 1 {
			t.Errorf("got %+v", r)
		}
	})
}

func TestPageLimitReadsOnWhereItStopped(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene) {
		for i := range 2000 {
			s.record(fmt.Sprint("d", i), 502)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(3 * time.Minute)
		passes := 0
		for {
			before, watermark := s.reads, s.store.cursor.Watermark
			r := s.pass(t)
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			passes++
			if n := s.reads - before; n > 5 {
				t.Fatalf("pass %d read %d pages", passes, n)
			}
			if r.Redelivered > 100 {
				t.Fatalf("pass %d asked for %d", passes, r.Redelivered)
			}
			if r.Unfinished && !s.store.cursor.Watermark.Equal(watermark) {
				t.Fatalf("pass %d moved the watermark across what was not read", passes)
			}
			if len(s.store.rows) == 2000 && r.OpenRepairs == 0 {
				break
			}
			if passes > 40 {
				t.Fatalf("not repaired after %d passes: %s", passes, s.store.states())
			}
			time.Sleep(5 * time.Minute)
		}
		if len(s.asked) != 2000 {
			t.Errorf("asked %d times for 2000 deliveries", len(s.asked))
		}
		for i := 1; i < len(s.askedAt); i++ {
			if d := s.askedAt[i].Sub(s.askedAt[i-1]); d < time.Second {
				t.Fatalf("redeliveries %d and %d are %s apart", i-1, i, d)
			}
		}
	})
}

func TestNewFailuresAreFoundWhileABacklogIsRead(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene) {
		for i := range 1000 {
			s.record(fmt.Sprint("ok", i), 200)
			s.store.rows[fmt.Sprint("ok", i)] = true
		}
		time.Sleep(3 * time.Minute)
		if r := s.pass(t); !r.Unfinished {
			t.Fatalf("got %+v", r)
		}
		s.record("new", 502)
		time.Sleep(3 * time.Minute)
		if r := s.pass(t); r.Redelivered != 1 {
			t.Errorf("got %+v", r)
		}
	})
}

func TestFailedPollMovesNothing(t *testing.T) {
	for name, failAt := range map[string]int{"the first page": 1, "a later page": 3} {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(t *testing.T, s *scene) {
				for i := range 350 {
					s.record(fmt.Sprint("d", i), 502)
				}
				time.Sleep(3 * time.Minute)
				watermark, first := s.store.cursor.Watermark, s.reads
				s.failRead = func(n int) error {
					if n-first >= failAt {
						return &github.UnavailableError{Op: "reading", Reason: "GitHub is unavailable", RetryIn: time.Minute}
					}
					return nil
				}
				r := s.pass(t)
				if !r.PollFailed || r.Err == nil || !s.store.cursor.Watermark.Equal(watermark) || s.store.cursor.LastError == "" || len(s.asked) != 0 {
					t.Fatalf("got %+v, asked for %d", r, len(s.asked))
				}
				if s.store.cursor.LastSuccess.Equal(s.store.cursor.LastPoll) {
					t.Error("a failed poll is a success")
				}
				s.failRead = nil
				for range 10 {
					time.Sleep(5 * time.Minute)
					if r = s.pass(t); r.Err != nil {
						t.Fatal(r.Err)
					}
				}
				if len(s.store.rows) != 350 || len(s.asked) != 350 {
					t.Errorf("%d of 350 have come back, %d were asked for", len(s.store.rows), len(s.asked))
				}
			})
		})
	}
}

func TestAForgottenPageStartsOver(t *testing.T) {
	for name, pages := range map[string]int{"one page a pass": 1, "two": 2, "five": 5} {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(t *testing.T, s *scene) {
				s.dog.Rules.MaxPages, s.perPage = pages, 3
				for i := range 40 {
					s.record(fmt.Sprint("d", i), 502)
					time.Sleep(time.Second)
				}
				time.Sleep(3 * time.Minute)
				if r := s.pass(t); r.Err != nil || !r.Unfinished {
					t.Fatalf("got %+v", r)
				}
				s.store.cursor.Scan.Next = "12345"
				for range 90 {
					time.Sleep(5 * time.Minute)
					if r := s.pass(t); r.Err != nil {
						t.Fatal(r.Err)
					}
				}
				if len(s.store.rows) != 40 {
					t.Errorf("%d of 40 have come back", len(s.store.rows))
				}
			})
		})
	}
}

func TestGitHubsClockBehindOursLosesNothing(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene) {
		s.record("before", 200)
		s.store.rows["before"] = true
		s.rows[len(s.rows)-1].DeliveredAt = time.Now().Add(-5 * time.Minute)
		s.pass(t)
		s.record("after", 502) // GitHub's time of it is before our grace boundary of the last pass
		s.rows[len(s.rows)-1].DeliveredAt = time.Now().Add(-4 * time.Minute)
		time.Sleep(2 * time.Hour) // beyond the overlap
		if r := s.pass(t); r.Redelivered != 1 {
			t.Errorf("got %+v", r)
		}
	})
}

func TestStoreAwayMeansNothingIsAskedFor(t *testing.T) {
	for _, op := range []string{"lock", "load", "repairs", "present", "saveRepairs", "save", "downtime"} {
		t.Run(op, func(t *testing.T) {
			inScene(t, func(t *testing.T, s *scene) {
				s.record("d", 502)
				time.Sleep(3 * time.Minute)
				away := errors.New("disk I/O error")
				s.store.broken = func(name string) error {
					if name == op {
						return away
					}
					return nil
				}
				r := s.pass(t)
				if op == "lock" && r.Held {
					t.Error("a store that is away is no other node")
				}
				if !errors.Is(r.Err, away) || len(s.asked) != 0 {
					t.Errorf("got %v, asked for %v", r.Err, s.asked)
				}
				s.store.broken = nil
				time.Sleep(5 * time.Minute)
				if r := s.pass(t); r.Err != nil || !slices.Equal(s.asked, []string{"d"}) {
					t.Errorf("afterwards: %v, asked for %v", r.Err, s.asked)
				}
			})
		})
	}
}

func TestStoreThatGoesAwayAmongRedeliveriesStopsThem(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene) {
		for i := range 10 {
			s.record(fmt.Sprint("d", i), 502)
		}
		time.Sleep(3 * time.Minute)
		s.store.broken = func(name string) error {
			if len(s.asked) == 3 {
				return errors.New("disk I/O error")
			}
			return nil
		}
		if r := s.pass(t); r.Err == nil || len(s.asked) != 3 {
			t.Errorf("got %v, asked for %v", r.Err, s.asked)
		}
	})
}

func TestAttemptsFollowTheBackoffAndEndAsAFinding(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene) {
		s.deliver = func(string) int { return 502 }
		s.record("d", 502)
		start := time.Now()
		for time.Since(start) < 24*time.Hour {
			time.Sleep(time.Minute)
			if r := s.pass(t); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		r := s.store.repairs["d"]
		if len(s.asked) != 5 || r.State != Open || r.Attempts != 5 {
			t.Fatalf("asked %d times: %+v", len(s.asked), r)
		}
		for i, least := range []time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour} {
			if d := s.askedAt[i+1].Sub(s.askedAt[i]); d < least || d > least+2*time.Minute {
				t.Errorf("redelivery %d came %s after the one before", i+2, d)
			}
		}
		s.keep = 0 // it leaves the history
		time.Sleep(72 * time.Hour)
		if s.pass(t); s.store.repairs["d"].State != Lost {
			t.Errorf("got %+v", s.store.repairs["d"])
		}
	})
}

func TestWhatHasLeftTheHistoryIsLost(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene) {
		s.dog.Rules.Redeliver = false
		s.record("d", 502)
		time.Sleep(3 * time.Minute)
		if r := s.pass(t); r.Missing != 1 || r.Withheld == "" || len(s.asked) != 0 || r.OpenRepairs != 1 {
			t.Fatalf("got %+v", r)
		}
		time.Sleep(72 * time.Hour)
		s.dog.Rules.Redeliver = true
		if r := s.pass(t); r.Err != nil || r.OpenRepairs != 0 || s.store.repairs["d"].State != Lost {
			t.Errorf("got %+v %+v", r, s.store.repairs["d"])
		}
	})
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		posts int // tries in one pass, of 10 deliveries
	}{
		"no right to redeliver": {&github.Error{Status: 404}, maxRefusals},
		"forbidden":             {&github.Error{Status: 403}, maxRefusals},
		"GitHub goes away":      {&github.UnavailableError{Reason: "503"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(t *testing.T, s *scene) {
				for i := range 10 {
					s.record(fmt.Sprint("d", i), 502)
				}
				time.Sleep(3 * time.Minute)
				posts := 0
				s.failPost = func(int64) error { posts++; return c.err }
				r := s.pass(t)
				if !errors.Is(r.Err, c.err) || r.PollFailed || posts != c.posts || r.OpenRepairs != 10 {
					t.Fatalf("%d posts: %+v", posts, r)
				}
				if d := s.store.repairs["d0"]; d.Attempts != 0 || d.LastError == "" {
					t.Errorf("it was charged: %+v", d)
				}
				s.failPost = nil
				for range 3 {
					time.Sleep(5 * time.Minute)
					s.pass(t)
				}
				if len(s.store.rows) != 10 {
					t.Errorf("%d of 10 have come back", len(s.store.rows))
				}
			})
		})
	}
}

func TestOneRefusedDeliveryDoesNotHoldUpTheOthers(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene) {
		s.record("poison", 502)
		poison := s.nextID
		for i := range 5 {
			s.record(fmt.Sprint("d", i), 502)
		}
		s.failPost = func(id int64) error {
			if id == poison {
				return &github.Error{Status: 422}
			}
			return nil
		}
		time.Sleep(3 * time.Minute)
		if r := s.pass(t); r.Redelivered != 5 || r.Err == nil {
			t.Errorf("got %+v", r)
		}
	})
}

func TestAnotherURLAtGitHubMeansReportOnly(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene) {
		s.src.Mine = func(url string) bool { return url == "https://laptop.example.test/" }
		s.record("d", 502)
		time.Sleep(3 * time.Minute)
		if r := s.pass(t); r.Err != nil || r.Missing != 1 || r.Redelivered != 0 || r.Withheld == "" || len(s.asked) != 0 {
			t.Fatalf("got %+v", r)
		}
		s.url = "https://laptop.example.test/"
		if r := s.pass(t); r.Redelivered != 1 {
			t.Errorf("got %+v", r)
		}
	})
}

func TestArrivalDuringThePassIsNotAskedFor(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene) {
		s.record("a", 502)
		s.record("b", 502)
		time.Sleep(3 * time.Minute)
		s.deliver = func(guid string) int {
			s.store.receive("b") // somebody has pressed Redeliver
			return s.store.receive(guid)
		}
		if r := s.pass(t); r.Redelivered != 1 || s.store.repairs["b"].State != Arrived {
			t.Errorf("got %+v %+v", r, s.store.repairs["b"])
		}
	})
}

func TestTwoNodesNeverPassAtOnce(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene) {
		for i := range 50 {
			s.record(fmt.Sprint("d", i), 502)
		}
		time.Sleep(3 * time.Minute)
		other := dog(s.store, s.dog.Rules)
		other.Owner = "other"
		results := make(chan Result, 2)
		go func() { results <- s.pass(t) }()
		go func() { results <- other.Pass(context.Background(), s.src, Options{}) }()
		a, b := <-results, <-results
		if a.Held == b.Held || a.Err != nil || b.Err != nil || a.Redelivered+b.Redelivered != 50 || len(s.asked) != 50 {
			t.Errorf("got %+v and %+v", a, b)
		}
		if s.store.holder != "" {
			t.Error("the lease was kept")
		}
		if r := other.Pass(t.Context(), s.src, Options{Unless: 2 * time.Minute}); !r.Held {
			t.Error("polled again right after the other node")
		}
	})
}

func TestLeaseThatPassesOnEndsThePass(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene) {
		for i := range 100 {
			s.record(fmt.Sprint("d", i), 502)
		}
		time.Sleep(3 * time.Minute)
		s.failPost = func(int64) error {
			if len(s.asked) == 10 {
				s.store.mu.Lock()
				s.store.holder = "thief"
				s.store.mu.Unlock()
			}
			return nil
		}
		if r := s.pass(t); !r.Held || len(s.asked) > 70 {
			t.Errorf("asked for %d after the lease had gone: %+v", len(s.asked), r)
		}
	})
}

func TestStopEndsAPassBetweenRedeliveries(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene) {
		for i := range 50 {
			s.record(fmt.Sprint("d", i), 502)
		}
		time.Sleep(3 * time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 10500*time.Millisecond)
		defer cancel()
		if r := s.dog.Pass(ctx, s.src, Options{}); !errors.Is(r.Err, context.DeadlineExceeded) || len(s.asked) != 11 || s.store.cursor.Requested != 11 || s.store.holder != "" {
			t.Errorf("asked for %d: %+v", len(s.asked), r)
		}
	})
}
