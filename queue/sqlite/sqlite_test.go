package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/queuetest"
	"github.com/seed-de999ace/preloop/queue/sqlite"
)

func TestConformance(t *testing.T) {
	queuetest.Run(t, func(t *testing.T, s queue.Settings) queuetest.Opened {
		path := filepath.Join(t.TempDir(), "preloop.db")
		open := func(t *testing.T, serve bool) queue.Store {
			store, err := sqlite.Open(t.Context(), path, sqlite.Options{Settings: s, Serve: serve})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			})
			return store
		}
		return queuetest.Opened{Store: open(t, true), Another: func(t *testing.T) queue.Store { return open(t, false) }}
	})
}
