package queue_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

func TestWorkerStops(t *testing.T) {
	t.Run("what is under way may finish", func(t *testing.T) {
		in(t, func(b *bubble) {
			w, _ := worker(b, taking(3*time.Second))
			id := b.enqueue()
			stop := b.service(w.Run)
			synctest.Wait()
			stop()
			want(t, "stopped after", b.now(), 3*time.Second)
			b.wantDelivery(id, queue.Done, 1, "done")
		})
	})
	t.Run("what cannot is given back", func(t *testing.T) {
		in(t, func(b *bubble) {
			w, d := worker(b, taking(time.Hour))
			w.Workers = 2
			var ids []string
			for range 10 {
				ids = append(ids, b.enqueue())
			}
			stop := b.service(w.Run)
			b.pass(10 * time.Second)
			stop()
			want(t, "stopped after", b.now(), 15*time.Second)
			want(t, "causes", fmt.Sprint(d.causes.all()), fmt.Sprint([]error{queue.ErrShutdown, queue.ErrShutdown}))
			for i, id := range ids {
				if i < 2 {
					b.wantDelivery(id, queue.Received, 0, "released")
				} else {
					b.wantDelivery(id, queue.Received, 0)
				}
			}
		})
	})
	t.Run("what was claimed and not begun is given back at once", func(t *testing.T) {
		in(t, func(b *bubble) {
			slow := taking(time.Hour)
			w, d := worker(b, func(ctx context.Context, c *queue.DeliveryClaim) (queue.Settlement, error) {
				if b.now() == 0 {
					return queue.Settlement{Kind: queue.SettleDone}, nil
				}
				return slow(ctx, c)
			})
			w.Workers = 1
			for range 20 { // quick ones open the window
				b.enqueue()
			}
			ctx, stop := context.WithCancel(b.Context())
			done := make(chan error, 1)
			go func() { done <- w.Run(ctx) }()
			b.pass(time.Second)
			var ids []string
			for range 5 {
				ids = append(ids, b.enqueue())
			}
			b.pass(time.Second)
			for _, id := range ids {
				want(t, "state", b.delivery(id).State, queue.Processing)
			}
			stop()
			b.pass(time.Second)
			for _, id := range ids[1:] {
				b.wantDelivery(id, queue.Received, 0, "released")
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			b.wantDelivery(ids[0], queue.Received, 0, "released")
			want(t, "decisions", len(d.at.all()), 21)
		})
	})
	t.Run("a decision that does not stop is left behind", func(t *testing.T) {
		in(t, func(b *bubble) {
			release := make(chan struct{})
			w, _ := worker(b, func(context.Context, *queue.DeliveryClaim) (queue.Settlement, error) {
				<-release
				return queue.Settlement{Kind: queue.SettleDone}, nil
			})
			id := b.enqueue()
			stop := b.service(w.Run)
			synctest.Wait()
			stop()
			want(t, "stopped after", b.now(), 10*time.Second)
			b.wantDelivery(id, queue.Received, 0, "released")
			close(release)
			synctest.Wait()
			b.wantDelivery(id, queue.Received, 0, "released") // its late word counts for nothing
		})
	})
	t.Run("without a store", func(t *testing.T) {
		in(t, func(b *bubble) {
			w, _ := worker(b, taking(time.Hour))
			b.enqueue()
			stop := b.service(w.Run)
			synctest.Wait()
			b.down(hang)
			stop()
			if b.now() > 30*time.Second {
				t.Errorf("stopping without a store took %v", b.now())
			}
		})
	})
}
