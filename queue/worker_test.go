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

// decider answers with what a test says and notes when it was asked, and what ended its work.
type decider struct {
	b      *bubble
	answer func(ctx context.Context, c *queue.DeliveryClaim) (queue.Settlement, error)

	asked  list[string] // delivery ids
	at     list[time.Duration]
	causes list[error]
}

func (d *decider) decide(ctx context.Context, c *queue.DeliveryClaim) (queue.Settlement, error) {
	d.asked.add(c.ID)
	d.at.add(d.b.now())
	s, err := queue.Settlement{Kind: queue.SettleDone}, error(nil)
	if d.answer != nil {
		s, err = d.answer(ctx, c)
	}
	d.causes.add(context.Cause(ctx))
	return s, err
}

func worker(b *bubble, answer func(context.Context, *queue.DeliveryClaim) (queue.Settlement, error)) (*queue.Worker, *decider) {
	d := &decider{b: b, answer: answer}
	return &queue.Worker{Store: b.faulty, Node: "node-1", Decide: d.decide, Logger: b.logs.logger()}, d
}

func failing(err error) func(context.Context, *queue.DeliveryClaim) (queue.Settlement, error) {
	return func(context.Context, *queue.DeliveryClaim) (queue.Settlement, error) { return queue.Settlement{}, err }
}

// taking decides after so long, unless its context ends first.
func taking(d time.Duration) func(context.Context, *queue.DeliveryClaim) (queue.Settlement, error) {
	return func(ctx context.Context, _ *queue.DeliveryClaim) (queue.Settlement, error) {
		select {
		case <-time.After(d):
			return queue.Settlement{Kind: queue.SettleDone}, nil
		case <-ctx.Done():
			return queue.Settlement{}, ctx.Err()
		}
	}
}

func TestWorkerNeedsItsParts(t *testing.T) {
	if err := (&queue.Worker{}).Run(t.Context()); err == nil {
		t.Error("a worker without parts runs")
	}
}

func TestWorkerIsWoken(t *testing.T) {
	in(t, func(b *bubble) {
		w, d := worker(b, func(context.Context, *queue.DeliveryClaim) (queue.Settlement, error) {
			return matched(admission("deploy")), nil
		})
		b.service(w.Run)
		synctest.Wait()
		b.pass(2 * time.Second)
		id := b.enqueue()
		synctest.Wait()
		want(t, "decided at", d.at.all(), []time.Duration{2 * time.Second})
		if got := b.wantDelivery(id, queue.Done, 1, "done"); len(got.Runs) != 1 || got.Runs[0].State != queue.Waiting {
			t.Errorf("admitted %+v, want one waiting run", got.Runs)
		}
	})
}

func TestWorkerPollsWhereWakesAreLost(t *testing.T) {
	in(t, func(b *bubble) {
		b.deaf = true
		w, d := worker(b, nil)
		b.service(w.Run)
		b.pass(2 * time.Second)
		b.enqueue()
		b.pass(10 * time.Second)
		want(t, "decided at", d.at.all(), []time.Duration{5 * time.Second})
	})
}

func TestWorkerHearsAWakeDuringAClaim(t *testing.T) {
	in(t, func(b *bubble) {
		w, d := worker(b, nil)
		var once sync.Once
		b.before = func(method string) {
			if method == "SettleDelivery" { // the claim loop is past its claim, or in the next one
				once.Do(func() { b.enqueue() })
			}
		}
		b.service(w.Run)
		synctest.Wait()
		b.enqueue()
		synctest.Wait()
		want(t, "decided at", d.at.all(), []time.Duration{0, 0})
	})
}

func TestWorkerDrainsInOrderWithoutWaiting(t *testing.T) {
	in(t, func(b *bubble) {
		var ids []string
		for range 200 {
			ids = append(ids, b.enqueue())
		}
		b.deaf = true // nothing but a full batch says that there is more
		w, d := worker(b, nil)
		w.Workers = 1
		b.service(w.Run)
		b.pass(time.Second)
		if !slices.Equal(d.asked.all(), ids) {
			t.Errorf("decided %d in another order than they came, or not all", len(d.asked.all()))
		}
		if claims := len(b.times("ClaimDeliveries")); claims > 60 {
			t.Errorf("200 deliveries took %d claims", claims)
		}
		want(t, "the last one decided at", d.at.all()[199], time.Duration(0))
	})
}

func TestWorkerClaimsLittleAfterAStart(t *testing.T) {
	in(t, func(b *bubble) {
		for range 30 {
			b.enqueue()
		}
		w, d := worker(b, taking(time.Hour))
		b.service(w.Run)
		synctest.Wait()
		processing := func() int {
			c, err := b.Counts(b.Context())
			if err != nil {
				t.Fatal(err)
			}
			return c.Deliveries[queue.Processing]
		}
		// What is claimed with a payload that kills the process is charged an attempt each time.
		want(t, "claimed at the start", processing(), 1)
		b.pass(30 * time.Second)
		want(t, "claimed while all are stuck", processing(), 8)
		want(t, "decisions", len(d.at.all()), 8)
	})
}

func TestWorkerRetriesThenFails(t *testing.T) {
	in(t, func(b *bubble) {
		w, d := worker(b, failing(errors.New("no route")))
		id := b.enqueue()
		b.service(w.Run)
		b.pass(10 * time.Minute)
		want(t, "decided at", d.at.all(), []time.Duration{0, 1 * time.Second, 6 * time.Second, 21 * time.Second, 51 * time.Second, 81 * time.Second})
		got := b.wantDelivery(id, queue.Failed, 6, "retry", "retry", "retry", "retry", "retry", "failed")
		want(t, "last error", got.LastError, "no route")
	})
}

func TestWorkerSettlesErrors(t *testing.T) {
	cases := map[string]struct {
		err      error
		state    queue.DeliveryState
		attempts int
		outcomes []string
		at       []time.Duration
		error    string
	}{
		"permanent": {
			err:   fmt.Errorf("reading the payload: %w", &queue.PermanentError{Err: errors.New("not an object")}),
			state: queue.Failed, attempts: 1, outcomes: []string{"failed"}, at: []time.Duration{0}, error: "reading the payload: not an object",
		},
		"parked": {
			err:   fmt.Errorf("asking for the role: %w", &queue.ParkError{Err: errors.New("rate limited"), Wait: 40 * time.Second}),
			state: queue.Received, attempts: 0, outcomes: []string{"parked", "parked"}, at: []time.Duration{0, 40 * time.Second}, error: "asking for the role: rate limited",
		},
		"parked in an outage": {
			err:   &queue.ParkError{Err: errors.New("502"), Outage: true},
			state: queue.Received, attempts: 0, outcomes: []string{"parked", "parked", "parked", "parked", "parked"},
			at: []time.Duration{0, 1 * time.Second, 6 * time.Second, 21 * time.Second, 51 * time.Second}, error: "502",
		},
		"text that no database keeps": {
			err:   &queue.PermanentError{Err: errors.New("a\x00b\xff" + strings.Repeat("é", 5000))},
			state: queue.Failed, attempts: 1, outcomes: []string{"failed"}, at: []time.Duration{0},
			error: "a\uFFFDb\uFFFD" + strings.Repeat("é", 1020) + "…",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in(t, func(b *bubble) {
				w, d := worker(b, failing(c.err))
				id := b.enqueue()
				b.service(w.Run)
				b.pass(time.Minute)
				want(t, "decided at", d.at.all(), c.at)
				want(t, "last error", b.wantDelivery(id, c.state, c.attempts, c.outcomes...).LastError, c.error)
			})
		})
	}
}

func TestWorkerFailsWhatGitHubNeverAnswers(t *testing.T) {
	in(t, func(b *bubble) {
		w, d := worker(b, failing(&queue.ParkError{Err: errors.New("502"), Outage: true}))
		id := b.enqueue()
		b.service(w.Run)
		b.pass(time.Hour)
		want(t, "decisions", len(d.at.all()), 20+6)
		want(t, "state", b.delivery(id).State, queue.Failed)
	})
}

func TestWorkerSurvivesPoison(t *testing.T) {
	in(t, func(b *bubble) {
		poison := b.enqueue()
		w, _ := worker(b, func(_ context.Context, c *queue.DeliveryClaim) (queue.Settlement, error) {
			if c.ID == poison {
				panic("cannot read\n" + string(c.Payload))
			}
			return queue.Settlement{Kind: queue.SettleDone}, nil
		})
		good := b.enqueue()
		b.service(w.Run)
		b.pass(time.Second)
		got := b.wantDelivery(poison, queue.Failed, 1, "failed")
		want(t, "last error", got.LastError, "panic: string: cannot read")
		b.wantDelivery(good, queue.Done, 1, "done")
		if b.logs.count("s3cr3t") > 0 {
			t.Error("the log quotes a payload")
		}
	})
}

func TestWorkerFailsADecisionThatTheStoreRefuses(t *testing.T) {
	in(t, func(b *bubble) {
		w, _ := worker(b, func(context.Context, *queue.DeliveryClaim) (queue.Settlement, error) {
			s := matched(admission("deploy"))
			s.Admissions = nil
			return s, nil
		})
		id := b.enqueue()
		b.service(w.Run)
		b.pass(time.Second)
		if got := b.wantDelivery(id, queue.Failed, 1, "failed"); !strings.HasPrefix(got.LastError, "recording the decision: ") {
			t.Errorf("last error %q does not say what was refused", got.LastError)
		}
	})
}

func TestWorkerRenews(t *testing.T) {
	in(t, func(b *bubble) {
		w, _ := worker(b, taking(150*time.Second))
		id := b.enqueue()
		b.service(w.Run)
		b.pass(151 * time.Second)
		want(t, "renewed at", b.times("RenewDeliveries"), []int{20, 40, 60, 80, 100, 120, 140})
		b.wantDelivery(id, queue.Done, 1, "done")
	})
}

func TestWorkerHeedsTheGate(t *testing.T) {
	in(t, func(b *bubble) {
		w, d := worker(b, nil)
		opens := b.began.Add(10*time.Minute + 2*time.Second)
		w.Gate = func() (time.Duration, bool) { return time.Until(opens), !time.Now().Before(opens) }
		id := b.enqueue()
		b.service(w.Run)
		b.pass(10 * time.Minute)
		synctest.Wait()
		want(t, "claims behind a closed gate", len(b.times("ClaimDeliveries")), 0)
		b.wantDelivery(id, queue.Received, 0)
		if gap := time.Since(w.LastClaim()); gap > 5*time.Second {
			t.Errorf("a worker behind a closed gate looks stalled: %v", gap)
		}
		b.pass(time.Minute)
		want(t, "decided at", d.at.all(), []time.Duration{10*time.Minute + 2*time.Second})
	})
}
