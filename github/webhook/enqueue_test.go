package webhook

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

var errDisk = errors.New("disk I/O error")

func hang(ctx context.Context) (queue.EnqueueResult, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

// The store fails or hangs; GitHub gets its answer in time and never a 202 for what is not durable.
func TestEnqueueBudget(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg      Config
		enqueue  func(ctx context.Context, attempt int) (queue.EnqueueResult, error)
		status   int
		body     string
		took     time.Duration
		attempts int
	}{
		"at once": {
			enqueue: func(context.Context, int) (queue.EnqueueResult, error) { return queue.Accepted, nil },
			status:  202, body: accepted("accepted"), attempts: 1,
		},
		"fails once": {
			enqueue: func(_ context.Context, attempt int) (queue.EnqueueResult, error) {
				if attempt == 1 {
					return "", errDisk
				}
				return queue.Accepted, nil
			},
			status: 202, body: accepted("accepted"), took: 50 * time.Millisecond, attempts: 2,
		},
		"stored, but the answer was lost": {
			enqueue: func(ctx context.Context, attempt int) (queue.EnqueueResult, error) {
				if attempt == 1 {
					return hang(ctx)
				}
				return queue.Duplicate, nil
			},
			status: 202, body: accepted("duplicate"), took: 4*time.Second + 50*time.Millisecond, attempts: 2,
		},
		"fails twice": {
			enqueue: func(context.Context, int) (queue.EnqueueResult, error) { return "", errDisk },
			status:  500, took: 50 * time.Millisecond, attempts: 2,
		},
		"hangs twice": {
			enqueue: func(ctx context.Context, _ int) (queue.EnqueueResult, error) { return hang(ctx) },
			status:  500, took: 8 * time.Second, attempts: 2,
		},
		"answers at the last moment": {
			enqueue: func(ctx context.Context, attempt int) (queue.EnqueueResult, error) {
				if attempt == 1 {
					return hang(ctx)
				}
				time.Sleep(3900 * time.Millisecond)
				return queue.Accepted, ctx.Err()
			},
			status: 202, body: accepted("accepted"), took: 7950 * time.Millisecond, attempts: 2,
		},
		"no budget for a second attempt": {
			cfg:     Config{Budget: 4040 * time.Millisecond},
			enqueue: func(ctx context.Context, _ int) (queue.EnqueueResult, error) { return hang(ctx) },
			status:  500, took: 4 * time.Second, attempts: 1,
		},
		"as configured": {
			cfg:     Config{Attempts: 4, AttemptTimeout: 10 * time.Millisecond, RetryDelay: time.Millisecond},
			enqueue: func(ctx context.Context, _ int) (queue.EnqueueResult, error) { return hang(ctx) },
			status:  500, took: 43 * time.Millisecond, attempts: 4,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{enqueue: tt.enqueue}
				var result string
				tt.cfg.Observe = func(r string, _ time.Duration) { result = r }
				rc, log := receiver(tt.cfg, s)
				start := time.Now()
				w := post(rc, request("{}"))
				if took := time.Since(start); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
				if s.attempts != tt.attempts {
					t.Errorf("%d attempts, want %d", s.attempts, tt.attempts)
				}
				if tt.status == 202 {
					wantAnswer(t, w, 202, tt.body)
					return
				}
				wantRefusal(t, w, 500, "could not be stored")
				if result != ResultStoreFailed || len(s.rows) != 0 {
					t.Errorf("result %q, %d rows", result, len(s.rows))
				}
				if strings.Contains(w.Body.String(), errDisk.Error()) || !strings.Contains(log.String(), "level=ERROR") ||
					!strings.Contains(log.String(), "error=") || !strings.Contains(log.String(), guid) {
					t.Errorf("answer %s, log %s", w.Body, log)
				}
			})
		})
	}
}

// A client that hangs up while the store works takes nothing away: the row is written.
func TestClientThatHangsUpIsStored(t *testing.T) {
	s := &store{enqueue: func(ctx context.Context, _ int) (queue.EnqueueResult, error) { return queue.Accepted, ctx.Err() }}
	rc, _ := receiver(Config{}, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := request("{}").WithContext(ctx)
	if w := post(rc, r); w.Code != http.StatusAccepted || len(s.rows) != 1 {
		t.Errorf("answer %d, %d rows", w.Code, len(s.rows))
	}
}

// The store sees the payload as it was sent until it returns, however often it is asked.
func TestSecondAttemptSeesTheSamePayload(t *testing.T) {
	s := &store{enqueue: func(_ context.Context, attempt int) (queue.EnqueueResult, error) {
		if attempt%2 == 1 {
			return "", errDisk
		}
		return queue.Accepted, nil
	}}
	rc, _ := receiver(Config{RetryDelay: time.Nanosecond}, s)
	form := with("Content-Type", "application/x-www-form-urlencoded")
	for _, body := range []string{`{"a":1}`, `{"b":"` + strings.Repeat("y", 1000) + `"}`, `{}`} {
		post(rc, request("payload="+percentEncode([]byte(body)), form))
		if last := s.rows[len(s.rows)-1]; last.payload != body {
			t.Errorf("stored %.50s", last.payload)
		}
	}
}

// What a store does wrong must not cost the next request its memory.
func TestPanicOfTheStoreGivesMemoryBack(t *testing.T) {
	s := &store{enqueue: func(_ context.Context, attempt int) (queue.EnqueueResult, error) {
		if attempt == 1 {
			panic("store")
		}
		return queue.Accepted, nil
	}}
	rc, _ := receiver(Config{MaxBody: 1000, Memory: 1001}, s)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		post(rc, request("{}"))
	}()
	wantAnswer(t, post(rc, request("{}")), 202, accepted("accepted"))
}
