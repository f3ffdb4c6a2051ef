package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/sqlite"
)

// A file that has held more than it holds gives the space back once its rows are pruned.
func TestFileShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "preloop.db")
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{Settings: queue.DefaultSettings(), Serve: true})
		if err != nil {
			t.Fatal(err)
		}
		random := rand.NewChaCha8([32]byte{})
		body := make([]byte, 64<<10)
		for i := range 100 {
			_, _ = random.Read(body) // does not compress
			if _, err := s.Enqueue(t.Context(), queue.Delivery{ID: fmt.Sprint("guid-", i), Source: "app-1", SourceName: "acme", Event: "push"}, body); err != nil {
				t.Fatal(err)
			}
		}
		claims, err := s.ClaimDeliveries(t.Context(), "node", 100)
		if err != nil || len(claims) != 100 {
			t.Fatalf("claimed %d: %v", len(claims), err)
		}
		for _, c := range claims {
			if _, err := s.SettleDelivery(t.Context(), c.Lease, queue.Settlement{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(31 * 24 * time.Hour)
		if n, err := queue.PruneOnce(t.Context(), s, 256, nil); err != nil || n != 100 {
			t.Fatalf("pruned %d: %v", n, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > 1<<20 {
			t.Errorf("the file has %d bytes after everything was pruned", info.Size())
		}
	})
}
