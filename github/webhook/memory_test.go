package webhook

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/seed-de999ace/preloop/queue"
)

func TestMemoryIsGrantedAndGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(100, 40) // 60 to share, 40 set apart
		var a, b, c, d hold
		grow := func(h *hold, size int64, want bool, after time.Duration) {
			t.Helper()
			waited, ok := m.grow(h, size, 8*time.Second)
			if ok != want || waited != after {
				t.Errorf("to %d: %v after %v, want %v after %v", size, ok, waited, want, after)
			}
		}
		grow(&a, 30, true, 0)
		grow(&a, 20, true, 0) // has more already
		grow(&b, 30, true, 0)
		grow(&b, 40, true, 0) // nothing is free: b gets the room set apart
		grow(&c, 30, true, 0) // what b had held
		grow(&d, 10, false, 8*time.Second)
		grow(&b, 1000, true, 0) // enough for any body
		go func() {
			time.Sleep(3 * time.Second)
			m.release(&a)
		}()
		grow(&d, 10, true, 3*time.Second)
		for _, h := range []*hold{&b, &c, &d, &d} {
			m.release(h)
		}
		if m.free != 60 || !m.spare || len(m.waiters) != 0 {
			t.Errorf("in the end: %+v", m)
		}
	})
}

func TestSmallWaiterIsNotHeldUpByABigOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(100, 40)
		var spare, a, b, big, small hold
		m.grow(&a, 50, 0)
		m.grow(&b, 10, 0)
		m.grow(&spare, 40, 0)
		var order []string
		for _, w := range []struct {
			name string
			h    *hold
			size int64
		}{{"big", &big, 40}, {"small", &small, 5}} {
			go func() {
				if _, ok := m.grow(w.h, w.size, time.Minute); ok {
					order = append(order, w.name)
				}
			}()
			synctest.Wait()
		}
		m.release(&b)
		synctest.Wait()
		m.release(&spare)
		synctest.Wait()
		if strings.Join(order, " ") != "small big" || !big.spare {
			t.Errorf("order %q, %+v", order, big)
		}
	})
}

// Whatever bodies of whatever sizes come, all that are read to their end are granted their memory:
// half-read ones cannot hold each other up. And no more is given out than there is.
func TestHalfReadBodiesCannotDeadlock(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		largest := rapid.Int64Range(1, 100).Draw(rt, "largest")
		total := rapid.Int64Range(1, 400).Draw(rt, "total")
		bodies := rapid.SliceOfN(rapid.SliceOfN(rapid.Int64Range(1, largest), 1, 4), 1, 12).Draw(rt, "bodies")
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(total, largest)
			var all sync.WaitGroup
			for _, sizes := range bodies {
				all.Go(func() {
					var h hold
					defer m.release(&h)
					for _, size := range sizes {
						// Each step takes a second; waiting for the others must end.
						if _, ok := m.grow(&h, size, time.Hour); !ok {
							t.Errorf("no memory within an hour: total %d, largest %d, %v", total, largest, bodies)
						}
						m.mu.Lock()
						if m.free < 0 {
							t.Errorf("%d free", m.free)
						}
						m.mu.Unlock()
						time.Sleep(time.Second)
					}
				})
			}
			all.Wait()
			if m.free != max(0, total-largest) || !m.spare || len(m.waiters) != 0 {
				t.Errorf("in the end: %+v", m)
			}
		})
	})
}

// stalledBody sends some bytes, then waits for the test.
func stalledBody(start string, more <-chan struct{}, end string) io.ReadCloser {
	return io.NopCloser(io.MultiReader(strings.NewReader(start), readFunc(func() { <-more }), strings.NewReader(end)))
}

// Clients that announce the largest body and stall hold only what they sent.
func TestAnnouncedBodiesHoldNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(store)
		rc, _ := receiver(Config{}, s)
		more := make(chan struct{})
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				r := request("")
				r.Body, r.ContentLength = stalledBody("{", more, ""), 25<<20
				if w := post(rc, r); w.Code != 401 {
					t.Errorf("answer %d", w.Code)
				}
			})
		}
		synctest.Wait()
		wantAnswer(t, post(rc, request("{}")), 202, accepted("accepted"))
		close(more)
		all.Wait()
	})
}

// When all memory is taken a request waits, and is answered 503 when the time that GitHub gives is
// nearly over; what it held is free again.
func TestRequestsWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(store)
		const limit = smallestBuffer - 1                                      // each body takes 16 KiB
		rc, _ := receiver(Config{MaxBody: limit, Memory: 2 * (limit + 1)}, s) // room for two
		more := make(chan struct{})
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				r := request("{}")
				r.Body = stalledBody("{", more, "}")
				wantAnswer(t, post(rc, r), 202, accepted("accepted"))
			})
		}
		synctest.Wait()
		start := time.Now()
		wantRefusal(t, post(rc, request("{}")), 503, "too many bodies")
		if took := time.Since(start); took != 8*time.Second {
			t.Errorf("refused after %v", took)
		}
		start = time.Now()
		all.Go(func() {
			time.Sleep(5 * time.Second)
			close(more)
		})
		wantAnswer(t, post(rc, request("{}")), 202, accepted("accepted"))
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("accepted after %v", took)
		}
		all.Wait()
	})
}

// Waiting for memory and enqueueing share one budget.
func TestWaitingTakesFromTheBudgetOfEnqueueing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{enqueue: func(ctx context.Context, _ int) (queue.EnqueueResult, error) { return hang(ctx) }}
		rc, _ := receiver(Config{MaxBody: 100, Memory: 101}, s)
		var held hold
		rc.memory.grow(&held, 101, 0)
		go func() {
			time.Sleep(5 * time.Second)
			rc.memory.release(&held)
		}()
		start := time.Now()
		wantRefusal(t, post(rc, request("{}")), 500, "could not be stored")
		if took := time.Since(start); took != 8*time.Second {
			t.Errorf("answered after %v", took)
		}
	})
}

// pipes is a listener in memory, so that connections can be watched in fake time.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// A client that trickles its body is cut off, and one that was refused cannot hold its connection by
// not sending the rest.
func TestSlowClients(t *testing.T) {
	for name, tt := range map[string]struct {
		head, status string
		after        time.Duration
	}{
		"body stalls":   {"X-Hub-Signature-256: sha256=" + strings.Repeat("0", 64) + "\r\n", "HTTP/1.1 408 ", 30 * time.Second},
		"refused early": {"", "HTTP/1.1 401 ", 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rc, _ := receiver(Config{}, new(store))
				listener := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
				server := &http.Server{Handler: rc}
				served := make(chan error)
				go func() { served <- server.Serve(listener) }()

				client, conn := net.Pipe()
				listener.conns <- conn
				start := time.Now()
				var writer sync.WaitGroup
				writer.Go(func() {
					_, _ = io.WriteString(client, "POST /api/v1/github/webhooks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
						"X-GitHub-Event: push\r\nX-GitHub-Delivery: 1\r\n"+tt.head+"Content-Length: 2000\r\n\r\n")
					for { // a byte a second until the server has enough
						if _, err := io.WriteString(client, " "); err != nil {
							return
						}
						time.Sleep(time.Second)
					}
				})
				answer, err := io.ReadAll(client)
				if err != nil || !strings.HasPrefix(string(answer), tt.status) {
					t.Errorf("answer %q, %v", answer, err)
				}
				if took := time.Since(start); took < tt.after || took > tt.after+time.Second {
					t.Errorf("cut off after %v", took)
				}
				if rc.memory.free != 256<<20-(25<<20+1) {
					t.Error("its memory is not free")
				}
				_ = client.Close()
				_ = server.Close()
				<-served
				writer.Wait()
			})
		})
	}
}
