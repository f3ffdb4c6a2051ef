package sqlite_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/sqlite"
)

// BenchmarkWork claims, decides that nothing matches, and settles.
func BenchmarkWork(b *testing.B) {
	s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "preloop.db"), sqlite.Options{Settings: queue.DefaultSettings(), Serve: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // the benchmark is over
	payload := bytes.Repeat([]byte(`{"action":"opened","number":7,"title":"a b c d"},`), 8192/49)
	var senders sync.WaitGroup
	for i := range 64 {
		senders.Go(func() {
			for n := i; n < b.N; n += 64 {
				d := queue.Delivery{ID: fmt.Sprintf("72d3162e-cc78-11e3-81ab-%012d", n), Source: "app-1", SourceName: "acme", Event: "issues", Headers: map[string]string{"X-GitHub-Event": "issues"}}
				if _, err := s.Enqueue(b.Context(), d, payload); err != nil {
					b.Error(err)
				}
			}
		})
	}
	senders.Wait()
	ctx, cancel := context.WithCancel(b.Context())
	var left sync.WaitGroup
	left.Add(b.N)
	w := &queue.Worker{
		Store: s, Node: "bench",
		Decide:  func(context.Context, *queue.DeliveryClaim) (queue.Settlement, error) { return queue.Settlement{}, nil },
		Observe: func(queue.DeliveryAttempt) { left.Done() },
	}
	b.ResetTimer()
	go func() { left.Wait(); cancel() }()
	if err := w.Run(ctx); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
}
