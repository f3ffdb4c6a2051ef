package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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
