package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// target executes what a test says and notes what was started when, and what stopped it.
type target struct {
	b       *bubble
	execute func(ctx context.Context, c queue.RunClaim, report func(string, queue.SessionState)) queue.Outcome

	started list[string] // delivery ids
	at      list[time.Duration]
	ended   list[time.Duration]
	causes  list[error]
}

func (t *target) run(ctx context.Context, c queue.RunClaim, report func(string, queue.SessionState)) queue.Outcome {
	t.started.add(c.DeliveryID)
	t.at.add(t.b.now())
	o := t.execute(ctx, c, report)
	t.causes.add(context.Cause(ctx))
	t.ended.add(t.b.now())
	return o
}

type executed = func(context.Context, queue.RunClaim, func(string, queue.SessionState)) queue.Outcome

// answering ends at once.
func answering(o queue.Outcome) executed {
	return func(context.Context, queue.RunClaim, func(string, queue.SessionState)) queue.Outcome { return o }
}

// lasting succeeds after so long; when it is stopped it takes a second to die, uncertain.
func lasting(d time.Duration) executed {
	return func(ctx context.Context, _ queue.RunClaim, _ func(string, queue.SessionState)) queue.Outcome {
		select {
		case <-time.After(d):
			return queue.Outcome{State: queue.Succeeded}
		case <-ctx.Done():
		}
		time.Sleep(time.Second)
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, queue.ErrCanceled):
			return queue.Outcome{State: queue.Canceled}
		case errors.Is(cause, queue.ErrLeaseLost):
			return queue.Outcome{State: queue.Uncertain, Reason: queue.ReasonWorkerLost}
		}
		return queue.Outcome{State: queue.Uncertain, Reason: queue.ReasonInterrupted}
	}
}

func dispatcher(b *bubble, execute executed, rules ...queue.DispatchRule) (*queue.Dispatcher, *target) {
	if rules == nil {
		rules = []queue.DispatchRule{{Trigger: "deploy", Concurrency: 1}}
	}
	t := &target{b: b, execute: execute}
	return &queue.Dispatcher{
		Store: b.faulty, Node: "node-1", Rules: func() []queue.DispatchRule { return rules },
		Execute: t.run, ShutdownGrace: 30 * time.Second, Logger: b.logs.logger(),
	}, t
}

var succeeded = queue.Outcome{State: queue.Succeeded}

func TestDispatcherNeedsItsParts(t *testing.T) {
	if err := (&queue.Dispatcher{}).Run(t.Context()); err == nil {
		t.Error("a dispatcher without parts runs")
	}
}

func TestDispatcherIsWoken(t *testing.T) {
	in(t, func(b *bubble) {
		d, target := dispatcher(b, answering(succeeded))
		b.service(d.Run)
		b.pass(2 * time.Second)
		run := b.admit(anything, admission("deploy"))[0]
		synctest.Wait()
		want(t, "started at", target.at.all(), []time.Duration{2 * time.Second})
		b.wantRun(run.ID, queue.Succeeded, "", 1)
	})
}

func TestDispatcherPollsWhereWakesAreLost(t *testing.T) {
	in(t, func(b *bubble) {
		b.deaf = true
		d, target := dispatcher(b, answering(succeeded))
		b.service(d.Run)
		b.pass(2 * time.Second)
		b.admit(anything, admission("deploy"))
		b.pass(10 * time.Second)
		want(t, "started at", target.at.all(), []time.Duration{5 * time.Second})
	})
}

func TestDispatcherStartsTheNextWhenASlotIsFree(t *testing.T) {
	in(t, func(b *bubble) {
		b.deaf = true // an ended run wakes its own dispatcher whatever the store says
		var ids []string
		for range 5 {
			ids = append(ids, b.admit(anything, admission("deploy"))[0].DeliveryID)
		}
		d, target := dispatcher(b, lasting(11*time.Second), queue.DispatchRule{Trigger: "deploy", Concurrency: 2})
		b.service(d.Run)
		b.pass(time.Minute)
		want(t, "started at", target.at.all(), []time.Duration{0, 0, 11 * time.Second, 11 * time.Second, 22 * time.Second})
		order := target.started.all()
		slices.Sort(order[:2]) // two at once: whichever goroutine is first
		slices.Sort(order[2:4])
		want(t, "order", order, ids)
	})
}

// One trigger with a long queue and a target that never ends, another with its first run.
func TestDispatcherIsFair(t *testing.T) {
	in(t, func(b *bubble) {
		const waiting = 150
		long := admission("hangs")
		var crowd sync.WaitGroup
		for i := range waiting {
			crowd.Go(func() {
				_, err := b.Store.Enqueue(b.Context(), queue.Delivery{ID: fmt.Sprintf("crowd-%05d", i), Source: "app-1", SourceName: "acme-bot", Event: "push"}, []byte("{}"))
				if err != nil {
					t.Error(err)
				}
			})
		}
		crowd.Wait()
		admitting := &queue.Worker{
			Store: b.faulty, Node: "node-1", InFlight: 256,
			Decide: func(context.Context, *queue.DeliveryClaim) (queue.Settlement, error) { return matched(long), nil },
		}
		stop := b.service(admitting.Run)
		synctest.Wait()
		stop()
		if c, err := b.Counts(b.Context()); err != nil || c.Runs[queue.Waiting] != waiting {
			t.Fatalf("%d runs wait (%v), want %d", c.Runs[queue.Waiting], err, waiting)
		}
		d, _ := dispatcher(b, func(ctx context.Context, c queue.RunClaim, report func(string, queue.SessionState)) queue.Outcome {
			if c.Trigger == "hangs" {
				return lasting(time.Hour)(ctx, c, report)
			}
			return succeeded
		}, queue.DispatchRule{Trigger: "hangs", Concurrency: 70}, queue.DispatchRule{Trigger: "quick", Concurrency: 1})
		b.service(d.Run)
		first := b.admit(anything, admission("quick"))[0]
		synctest.Wait()
		got := b.wantRun(first.ID, queue.Succeeded, "", 1)
		want(t, "waited", got.StartedAt.Sub(got.CreatedAt), time.Duration(0))
		if c, _ := b.Counts(b.Context()); c.Runs[queue.Running] != 70 {
			t.Errorf("%d runs of the first trigger hang, want 70", c.Runs[queue.Running])
		}
		if claims := len(b.times("ClaimRuns")); claims > 20 {
			t.Errorf("%d claims while nothing could start", claims)
		}
	})
}

func TestDispatcherTriesAgain(t *testing.T) {
	in(t, func(b *bubble) {
		d, target := dispatcher(b, answering(queue.Outcome{State: queue.Waiting, Error: "exit 75"}))
		run := b.admit(anything, admission("deploy"))[0]
		b.service(d.Run)
		b.pass(10 * time.Minute)
		want(t, "started at", target.at.all(), []time.Duration{0, 1 * time.Second, 6 * time.Second, 21 * time.Second, 51 * time.Second, 81 * time.Second})
		want(t, "error", b.wantRun(run.ID, queue.RunFailed, "", 6).Error, "exit 75")
	})
}

func TestDispatcherRefunds(t *testing.T) {
	in(t, func(b *bubble) {
		d, target := dispatcher(b, func(_ context.Context, c queue.RunClaim, _ func(string, queue.SessionState)) queue.Outcome {
			if b.now() < 10*time.Minute {
				return queue.Outcome{State: queue.Waiting, Refund: true, RetryAfter: 90 * time.Second, Error: "GitHub is away"}
			}
			return succeeded
		})
		run := b.admit(anything, admission("deploy"))[0]
		b.service(d.Run)
		b.pass(20 * time.Minute)
		want(t, "starts", len(target.at.all()), 8)
		b.wantRun(run.ID, queue.Succeeded, "", 1)
	})
}

func TestDispatcherMakesSoundOutcomes(t *testing.T) {
	cases := map[string]struct {
		execute executed
		error   string
	}{
		"a panic": {func(_ context.Context, c queue.RunClaim, _ func(string, queue.SessionState)) queue.Outcome {
			panic(errors.New("no pipe\n" + string(c.Payload)))
		}, "panic: *errors.errorString: no pipe"},
		"no outcome":       {answering(queue.Outcome{}), "the target gave no outcome"},
		"dropped":          {answering(queue.Outcome{State: queue.Dropped}), "the target gave no outcome"},
		"unstorable error": {answering(queue.Outcome{State: queue.RunFailed, Error: "\xff\x00"}), "\uFFFD\uFFFD"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in(t, func(b *bubble) {
				d, _ := dispatcher(b, c.execute)
				run := b.admit(anything, admission("deploy"))[0]
				next := b.admit(anything, admission("deploy"))[0]
				b.service(d.Run)
				b.pass(time.Second)
				want(t, "error", b.wantRun(run.ID, queue.RunFailed, "", 1).Error, c.error)
				b.wantRun(next.ID, queue.RunFailed, "", 1)
				if b.logs.count("s3cr3t") > 0 {
					t.Error("the log quotes a payload")
				}
			})
		})
	}
}

func TestDispatcherRenews(t *testing.T) {
	in(t, func(b *bubble) {
		d, _ := dispatcher(b, lasting(150*time.Second))
		run := b.admit(anything, admission("deploy"))[0]
		b.service(d.Run)
		b.pass(151 * time.Second)
		want(t, "renewed at", b.times("RenewRuns"), []int{20, 40, 60, 80, 100, 120, 140})
		b.wantRun(run.ID, queue.Succeeded, "", 1)
	})
}

func TestDispatcherRenewsOnceASecondHoweverOftenItIsWoken(t *testing.T) {
	in(t, func(b *bubble) {
		d, _ := dispatcher(b, lasting(10*time.Second))
		b.admit(anything, admission("deploy"))
		b.service(d.Run)
		for range 50 {
			b.pass(100 * time.Millisecond)
			b.enqueue()
		}
		if n := len(b.times("RenewRuns")); n < 4 || n > 6 {
			t.Errorf("renewed %d times in 5 s full of wakes, want about 5", n)
		}
	})
}

func TestDispatcherCancels(t *testing.T) {
	in(t, func(b *bubble) {
		d, target := dispatcher(b, lasting(time.Hour))
		run := b.admit(anything, admission("deploy"))[0]
		next := b.admit(anything, admission("deploy"))[0]
		b.service(d.Run)
		b.pass(10 * time.Second)
		if _, err := b.CancelRun(b.Context(), run.ID); err != nil {
			t.Fatal(err)
		}
		b.pass(2 * time.Second)
		want(t, "ended at", target.ended.all(), []time.Duration{11 * time.Second})
		want(t, "cause", target.causes.all()[0], queue.ErrCanceled)
		b.wantRun(run.ID, queue.Canceled, "", 1)
		b.wantRun(next.ID, queue.Running, "", 1)
	})
}

func TestDispatcherEndsWhatCannotBeRenewed(t *testing.T) {
	for name, arm := range map[string]fault{"refused": refuse, "hanging": hang} {
		t.Run(name, func(t *testing.T) {
			in(t, func(b *bubble) {
				d, target := dispatcher(b, lasting(time.Hour))
				run := b.admit(anything, admission("deploy"))[0]
				b.service(d.Run)
				synctest.Wait()
				b.set("RenewRuns", arm)
				b.pass(50 * time.Second)
				// A quarter of the lease early: time for its processes to die.
				want(t, "ended at", target.ended.all(), []time.Duration{46 * time.Second})
				want(t, "cause", target.causes.all()[0], queue.ErrLeaseLost)
				b.wantRun(run.ID, queue.Uncertain, queue.ReasonWorkerLost, 1)
			})
		})
	}
}

func TestDispatcherRecordsThroughFaults(t *testing.T) {
	cases := map[string]struct {
		arm    fault
		until  time.Duration
		state  queue.RunState
		reason string
	}{
		"failed and not stored":      {refuse, 30 * time.Second, queue.Succeeded, ""},
		"stored, answer lost":        {lose, 30 * time.Second, queue.Succeeded, ""},
		"no answer, not stored":      {hang, 30 * time.Second, queue.Succeeded, ""},
		"away until the lease ended": {refuse, 61 * time.Second, queue.Uncertain, queue.ReasonWorkerLost},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in(t, func(b *bubble) {
				d, target := dispatcher(b, answering(succeeded))
				var errs list[error]
				d.Observe = func(a queue.RunAttempt) { errs.add(a.Err) }
				run := b.admit(anything, admission("deploy"))[0]
				b.set("SettleRun", c.arm)
				b.service(d.Run)
				b.pass(c.until)
				b.set("SettleRun", 0)
				b.pass(time.Minute)
				b.wantRun(run.ID, c.state, c.reason, 1)
				want(t, "starts", len(target.at.all()), 1)
				told := errs.all()
				want(t, "told", len(told), 1)
				if unrecorded := told[0] != nil; unrecorded != (c.arm == lose || c.state == queue.Uncertain) {
					t.Errorf("told %v", told)
				}
			})
		})
	}
}

func TestDispatcherClaimsThroughFaults(t *testing.T) {
	t.Run("failed and not stored", func(t *testing.T) {
		in(t, func(b *bubble) {
			d, target := dispatcher(b, answering(succeeded))
			run := b.admit(anything, admission("deploy"))[0]
			b.set("ClaimRuns", refuse)
			b.service(d.Run)
			b.pass(time.Minute)
			b.set("ClaimRuns", 0)
			b.pass(5 * time.Second)
			b.wantRun(run.ID, queue.Succeeded, "", 1)
			want(t, "starts", len(target.at.all()), 1)
			want(t, "lines that say it is gone", b.logs.count("the store does not answer"), 1)
			want(t, "lines that say it is back", b.logs.count("the store answers again"), 1)
		})
	})
	t.Run("stored, answer lost", func(t *testing.T) {
		in(t, func(b *bubble) {
			d, target := dispatcher(b, answering(succeeded))
			run := b.admit(anything, admission("deploy"))[0]
			b.set("ClaimRuns", lose)
			b.service(d.Run)
			b.pass(time.Second)
			b.set("ClaimRuns", 0)
			b.pass(2 * time.Minute)
			// Nobody can know that it never began.
			b.wantRun(run.ID, queue.Uncertain, queue.ReasonWorkerLost, 1)
			want(t, "starts", len(target.at.all()), 0)
		})
	})
	t.Run("a sweep that fails holds nothing up", func(t *testing.T) {
		in(t, func(b *bubble) {
			d, _ := dispatcher(b, answering(succeeded))
			b.set("SweepRuns", refuse)
			run := b.admit(anything, admission("deploy"))[0]
			b.service(d.Run)
			b.pass(time.Second)
			b.wantRun(run.ID, queue.Succeeded, "", 1)
		})
	})
}

func TestDispatcherSweeps(t *testing.T) {
	in(t, func(b *bubble) {
		lost, idempotent := admission("deploy"), admission("again")
		lost.UncertainAfter = 10 * time.Minute
		idempotent.Idempotent = true
		runs := b.admit(anything, lost, idempotent)
		rules := []queue.DispatchRule{{Trigger: "deploy", Concurrency: 1}, {Trigger: "again", Concurrency: 1}}
		if claims, _, err := b.Store.ClaimRuns(b.Context(), "dead-node", rules, 10); err != nil || len(claims) != 2 {
			t.Fatalf("claimed %d, %v", len(claims), err)
		}
		brief := admission("deploy")
		brief.QueueWait = 30 * time.Second
		late := b.admit(anything, brief)[0]
		b.pass(61 * time.Second)
		d, target := dispatcher(b, answering(succeeded), rules[1])
		b.service(d.Run)
		b.pass(2 * time.Second)
		b.wantRun(runs[0].ID, queue.Uncertain, queue.ReasonWorkerLost, 1)
		b.wantRun(late.ID, queue.Dropped, queue.ReasonExpired, 0)
		b.wantRun(runs[1].ID, queue.Succeeded, "", 2)
		want(t, "starts", len(target.at.all()), 1)
		b.pass(10 * time.Minute)
		b.wantRun(runs[0].ID, queue.RunFailed, queue.ReasonUncertainTime, 1)
	})
}

func TestDispatcherProbes(t *testing.T) {
	cases := map[string]struct {
		answers []queue.ProbeAnswer // the last one repeats
		at      []time.Duration
		state   queue.RunState
		starts  int
	}{
		"it happened": {
			[]queue.ProbeAnswer{queue.ProbeHappened},
			[]time.Duration{0}, queue.Succeeded, 1,
		},
		"unknown at first": {
			[]queue.ProbeAnswer{queue.ProbeUnknown, queue.ProbeUnknown, queue.ProbeUnknown, queue.ProbeHappened},
			[]time.Duration{0, 1 * time.Second, 6 * time.Second, 21 * time.Second}, queue.Succeeded, 1,
		},
		"it did not": {
			[]queue.ProbeAnswer{queue.ProbeDidNot},
			[]time.Duration{0}, queue.Succeeded, 2,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in(t, func(b *bubble) {
				d, target := dispatcher(b, func(_ context.Context, c queue.RunClaim, _ func(string, queue.SessionState)) queue.Outcome {
					if c.Attempts == 1 {
						return queue.Outcome{State: queue.Uncertain, Reason: queue.ReasonUnconfirmed}
					}
					return succeeded
				})
				var at list[time.Duration]
				d.Probed = func() []string { return []string{"deploy"} }
				d.Probe = func(context.Context, queue.RunClaim) queue.ProbeAnswer {
					at.add(b.now())
					return c.answers[min(len(at.all()), len(c.answers))-1]
				}
				run := b.admit(anything, admission("deploy"))[0]
				b.service(d.Run)
				b.pass(2 * time.Minute)
				want(t, "asked at", at.all(), c.at)
				want(t, "starts", len(target.at.all()), c.starts)
				want(t, "state", b.run(run.ID).State, c.state)
			})
		})
	}
}

func TestDispatcherOutlivesItsProbes(t *testing.T) {
	in(t, func(b *bubble) {
		rules := []queue.DispatchRule{{Trigger: "hangs", Concurrency: 20}, {Trigger: "panics", Concurrency: 1}, {Trigger: "quick", Concurrency: 1}}
		d, _ := dispatcher(b, answering(queue.Outcome{State: queue.Uncertain, Reason: queue.ReasonUnconfirmed}), rules...)
		d.Probed = func() []string { return []string{"hangs", "panics", "quick"} }
		var panics atomic.Int32
		d.Probe = func(ctx context.Context, c queue.RunClaim) queue.ProbeAnswer {
			switch c.Trigger {
			case "hangs":
				<-ctx.Done()
				return queue.ProbeDidNot // cut off, it knows nothing
			case "panics":
				panics.Add(1)
				panic("no probe")
			}
			return queue.ProbeHappened
		}
		var hanging []string
		for range 20 {
			hanging = append(hanging, b.admit(anything, admission("hangs"))[0].ID)
		}
		stop := b.service(d.Run)
		b.pass(time.Second)
		others := b.admit(anything, admission("panics"), admission("quick"))
		b.pass(10 * time.Second)
		b.wantRun(others[0].ID, queue.Uncertain, queue.ReasonUnconfirmed, 1)
		b.wantRun(others[1].ID, queue.Succeeded, queue.ReasonResolved, 1)
		if panics.Load() < 2 {
			t.Errorf("asked %d times where the probe panics, want again and again", panics.Load())
		}
		b.pass(5 * time.Minute)
		stop()
		for _, id := range hanging {
			b.wantRun(id, queue.Uncertain, queue.ReasonUnconfirmed, 1)
		}
	})
}

func TestDispatcherReportsSessions(t *testing.T) {
	in(t, func(b *bubble) {
		rule := queue.DispatchRule{Trigger: "agent", Concurrency: 1, FollowUp: true, SessionReported: true}
		d, target := dispatcher(b, func(ctx context.Context, c queue.RunClaim, report func(string, queue.SessionState)) queue.Outcome {
			if c.Kind == queue.FollowUp {
				return queue.Outcome{State: queue.Delivered, Session: c.Session}
			}
			time.Sleep(5 * time.Second)
			report("conversation-7", "")
			report("", queue.SessionLive)
			return lasting(time.Minute)(ctx, c, report)
		}, rule)
		follow := admission("agent")
		follow.FollowUp = true
		start := b.admit(subject(1), follow)[0]
		after := b.admit(subject(1), follow)[0]
		b.set("ReportSession", refuse)
		b.service(d.Run)
		b.pass(20 * time.Second)
		want(t, "hand-overs before the session is known", len(target.at.all()), 1)
		b.set("ReportSession", 0)
		b.pass(6 * time.Second)
		want(t, "session", b.run(start.ID).SessionDetail.ID, "conversation-7")
		got := b.wantRun(after.ID, queue.Delivered, "", 1)
		want(t, "handed over to", got.Session, "conversation-7")
		b.wantRun(start.ID, queue.Running, "", 1)
	})
}

func TestDispatcherStops(t *testing.T) {
	t.Run("what runs may finish", func(t *testing.T) {
		in(t, func(b *bubble) {
			d, target := dispatcher(b, lasting(20*time.Second))
			run := b.admit(anything, admission("deploy"))[0]
			next := b.admit(anything, admission("deploy"))[0]
			stop := b.service(d.Run)
			b.pass(time.Second)
			stop()
			want(t, "stopped after", b.now(), 20*time.Second)
			want(t, "cause", fmt.Sprint(target.causes.all()), "[<nil>]")
			b.wantRun(run.ID, queue.Succeeded, "", 1)
			b.wantRun(next.ID, queue.Waiting, "", 0)
		})
	})
	t.Run("then it is interrupted", func(t *testing.T) {
		in(t, func(b *bubble) {
			d, target := dispatcher(b, lasting(time.Hour))
			run := b.admit(anything, admission("deploy"))[0]
			stop := b.service(d.Run)
			b.pass(50 * time.Second)
			stop()
			want(t, "stopped after", b.now(), 81*time.Second)
			want(t, "cause", target.causes.all()[0], queue.ErrShutdown)
			want(t, "renewed at", b.times("RenewRuns"), []int{20, 40, 60, 80})
			b.wantRun(run.ID, queue.Uncertain, queue.ReasonInterrupted, 1)
		})
	})
	t.Run("what was claimed and not begun is given back", func(t *testing.T) {
		for name, arm := range map[string]fault{"at once": 0, "though its answer is lost": lose} {
			t.Run(name, func(t *testing.T) {
				in(t, func(b *bubble) {
					d, target := dispatcher(b, answering(succeeded))
					run := b.admit(anything, admission("deploy"))[0]
					ctx, stop := context.WithCancel(b.Context())
					b.set("ReleaseRun", arm)
					b.before = func(method string) {
						if method == "ClaimRuns" {
							stop()
						}
					}
					if err := d.Run(ctx); err != nil {
						t.Fatal(err)
					}
					want(t, "starts", len(target.at.all()), 0)
					b.wantRun(run.ID, queue.Waiting, "", 0)
				})
			})
		}
	})
	t.Run("a target that does not stop is left behind", func(t *testing.T) {
		in(t, func(b *bubble) {
			release := make(chan struct{})
			d, _ := dispatcher(b, func(context.Context, queue.RunClaim, func(string, queue.SessionState)) queue.Outcome {
				<-release
				return succeeded
			})
			run := b.admit(anything, admission("deploy"))[0]
			stop := b.service(d.Run)
			b.pass(time.Second)
			stop()
			want(t, "stopped after", b.now(), 46*time.Second)
			if b.logs.count("targets did not stop") != 1 {
				t.Error("the log does not say so")
			}
			close(release)
			synctest.Wait()
			b.wantRun(run.ID, queue.Running, "", 1) // until another node's sweep finds the lease ended
			b.pass(time.Minute)
			if _, err := b.Store.SweepRuns(b.Context()); err != nil {
				t.Fatal(err)
			}
			b.wantRun(run.ID, queue.Uncertain, queue.ReasonWorkerLost, 1)
		})
	})
	t.Run("without a store", func(t *testing.T) {
		in(t, func(b *bubble) {
			d, _ := dispatcher(b, lasting(time.Hour))
			b.admit(anything, admission("deploy"))
			stop := b.service(d.Run)
			synctest.Wait()
			b.down(hang)
			stop()
			if b.now() > 50*time.Second {
				t.Errorf("stopping without a store took %v", b.now())
			}
		})
	})
}

func TestDispatcherAsksForItsRulesAnew(t *testing.T) {
	in(t, func(b *bubble) {
		d, target := dispatcher(b, answering(succeeded))
		var mu sync.Mutex
		var rules []queue.DispatchRule
		d.Rules = func() []queue.DispatchRule {
			mu.Lock()
			defer mu.Unlock()
			return rules
		}
		b.admit(anything, admission("deploy"))
		b.service(d.Run)
		b.pass(22 * time.Second)
		want(t, "claims without rules", len(b.times("ClaimRuns")), 0)
		mu.Lock()
		rules = []queue.DispatchRule{{Trigger: "deploy", Concurrency: 1}}
		mu.Unlock()
		b.pass(10 * time.Second)
		want(t, "started at", target.at.all(), []time.Duration{25 * time.Second})
		if gap := time.Since(d.LastClaim()); gap > 5*time.Second || !strings.Contains(fmt.Sprint(d.LastClaim()), "2000") {
			t.Errorf("the last claim was %v ago", gap)
		}
	})
}
