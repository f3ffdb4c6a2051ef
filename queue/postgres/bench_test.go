package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/postgres"
)

var payload = bytes.Repeat([]byte(`{"action":"opened","number":7,"title":"a b c d"},`), 8192/49)

// fill enqueues n deliveries of 8 KiB from 64 senders.
func fill(b *testing.B, s queue.Store, prefix string, n int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(n) {
					return
				}
				d := queue.Delivery{
					ID: fmt.Sprintf("%s-cc78-11e3-81ab-%012d", prefix, i), Source: "app-1", SourceName: "acme", Event: "issues", Secret: "current",
					Facts:   queue.Facts{Action: "opened", Repo: "acme/widgets", RepoID: 1, Subject: "acme/widgets#7", SubjectNum: 7, Sender: "ann"},
					Headers: map[string]string{"X-GitHub-Event": "issues"},
				}
				if _, err := s.Enqueue(context.Background(), d, payload); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkEnqueue inserts 8 KiB payloads from 64 senders, flushed to disk.
func BenchmarkEnqueue(b *testing.B) {
	s := open(b, newDatabase(b), postgres.Options{})
	b.ResetTimer()
	fill(b, s, "72d3162e", b.N)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkWork claims and settles without runs, as the product's worker does.
func BenchmarkWork(b *testing.B) {
	work(b, func(*queue.DeliveryClaim) queue.Settlement {
		return queue.Settlement{Decisions: []queue.Decision{{Trigger: "a", Verdict: queue.Filtered, Reason: "if: false"}}}
	})
}

// BenchmarkAdmit claims and settles with a run each, of one trigger or of four in turns. Nothing
// starts them, so that most are dropped: a queue that is full costs the most to look at.
func BenchmarkAdmit(b *testing.B) {
	for _, triggers := range []int{1, 4} {
		b.Run(fmt.Sprint("triggers=", triggers), func(b *testing.B) {
			work(b, func(c *queue.DeliveryClaim) queue.Settlement {
				name := fmt.Sprint("t", int(c.Seq)%triggers)
				return queue.Settlement{
					Decisions:  []queue.Decision{{Trigger: name, Verdict: queue.Matched, Reason: "matched"}},
					Admissions: []queue.Admission{{Trigger: name, QueueSize: 200, QueueWait: time.Hour}},
				}
			})
		})
	}
}

func work(b *testing.B, decide func(*queue.DeliveryClaim) queue.Settlement) {
	s := open(b, newDatabase(b), postgres.Options{})
	fill(b, s, "72d3162e", b.N)
	ctx, stop := context.WithCancel(b.Context())
	var done atomic.Int64
	w := queue.Worker{
		Store: s, Node: "node", Settings: queue.DefaultSettings(),
		Decide: func(_ context.Context, c *queue.DeliveryClaim) (queue.Settlement, error) { return decide(c), nil },
		Observe: func(queue.DeliveryAttempt) {
			if done.Add(1) == int64(b.N) {
				stop()
			}
		},
	}
	b.ResetTimer()
	if err := w.Run(ctx); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkWorkWhileGrowing has the worker keep up while rows arrive, and compares the last
// quarter's rate with the first's.
func BenchmarkWorkWhileGrowing(b *testing.B) {
	s := open(b, newDatabase(b), postgres.Options{})
	ctx, stop := context.WithCancel(b.Context())
	began := time.Now()
	var done atomic.Int64
	var quarter [4]atomic.Int64 // nanoseconds
	w := queue.Worker{
		Store: s, Node: "node", Settings: queue.DefaultSettings(),
		Decide: func(context.Context, *queue.DeliveryClaim) (queue.Settlement, error) { return queue.Settlement{}, nil },
		Observe: func(queue.DeliveryAttempt) {
			n := done.Add(1)
			for i := range quarter {
				if n == int64(b.N)*int64(i+1)/4 {
					quarter[i].Store(int64(time.Since(began)))
				}
			}
			if n == int64(b.N) {
				stop()
			}
		},
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.Run(ctx) })
	fill(b, s, "82d3162e", b.N)
	wg.Wait()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "rows/s")
	if last := quarter[3].Load() - quarter[2].Load(); last > 0 {
		b.ReportMetric(float64(quarter[0].Load())/float64(last), "last/first")
	}
}
