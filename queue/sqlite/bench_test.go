package sqlite_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/sqlite"
)

// BenchmarkEnqueue inserts 8 KiB payloads from 64 senders, flushed to disk.
func BenchmarkEnqueue(b *testing.B) {
	s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "preloop.db"), sqlite.Options{Settings: queue.DefaultSettings(), Serve: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	payload := bytes.Repeat([]byte(`{"action":"opened","number":7,"title":"a b c d"},`), 8192/49)
	var n atomic.Int64
	b.ResetTimer()
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for {
				i := n.Add(1)
				if i > int64(b.N) {
					return
				}
				d := queue.Delivery{
					ID: fmt.Sprintf("72d3162e-cc78-11e3-81ab-%012d", i), Source: "app-1", SourceName: "acme", Event: "issues", Secret: "current",
					Facts: queue.Facts{Action: "opened", Repo: "acme/widgets", RepoID: 1, Subject: "acme/widgets#7", SubjectNum: 7, Sender: "ann"}, Headers: map[string]string{"X-GitHub-Event": "issues"},
				}
				if _, err := s.Enqueue(b.Context(), d, payload); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
