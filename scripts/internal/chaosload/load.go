package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// runsEvery is how many deliveries there are for each that matches the trigger. Starting processes
// costs far more than owning deliveries; the queue has to drain.
const runsEvery = 6

// sent is what the senders know.
type sent struct {
	acknowledged map[string]string // GUID to event: answered 202
	unanswered   map[string]string // sent at least once and never answered 202
	failures     int               // requests that got no answer, or another one
	duplicates   int               // answers that said the delivery was there: a 202 had been lost
}

// load is a number of senders under way.
type load struct {
	cancel context.CancelFunc // of what is being tried
	ending chan struct{}      // closed: begin no further delivery
	done   sync.WaitGroup
	begun  atomic.Int64 // deliveries

	mu   sync.Mutex // over the fields below
	sent sent
	errs []error
}

// startLoad starts the senders. Each sends one delivery again until it is acknowledged, as somebody
// who presses Redeliver does, then the next.
func startLoad(ctx context.Context, o options, nodes []*harness.Node) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{cancel: cancel, ending: make(chan struct{})}
	l.sent.acknowledged, l.sent.unanswered = map[string]string{}, map[string]string{}
	pause := time.Duration(float64(o.senders) / o.rate * float64(time.Second))
	for i := range o.senders {
		l.done.Go(func() { l.send(ctx, o, nodes, pause, rand.New(rand.NewPCG(o.seed, uint64(i)+1)), i) })
	}
	return l
}

func (l *load) send(ctx context.Context, o options, nodes []*harness.Node, pause time.Duration, r *rand.Rand, number int) {
	senders := make([]*harness.Sender, len(nodes))
	for i, n := range nodes {
		senders[i] = harness.NewSender(n.Addr, 10*time.Second)
		defer senders[i].Close()
	}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-l.ending:
			return
		case <-tick.C:
		}
		if l.begun.Add(1) > int64(o.deliveries) && o.deliveries > 0 {
			return
		}
		event, body := "push", []byte(nil)
		if n%runsEvery == 0 {
			event, body = "issues", harness.IssueOpened(r, number*1_000_000+n/runsEvery, 8192)
		} else {
			body = harness.Push(r, 8192)
		}
		l.deliver(ctx, senders, r, harness.NewRequest(event, body, harness.Secret), harness.GUID(r))
	}
}

// deliver sends one delivery until it is acknowledged.
func (l *load) deliver(ctx context.Context, senders []*harness.Sender, r *rand.Rand, req *harness.Request, guid string) {
	l.note(func(s *sent) { s.unanswered[guid] = req.Event })
	for {
		status, answer, err := senders[r.IntN(len(senders))].Post(req, guid)
		switch {
		case err == nil && status == http.StatusAccepted:
			again := bytes.Contains(answer, []byte(`"duplicate"`))
			l.note(func(s *sent) {
				delete(s.unanswered, guid)
				s.acknowledged[guid] = req.Event
				if again {
					s.duplicates++
				}
			})
			return
		case err == nil && status < 500:
			// A refusal would be refused again.
			l.mu.Lock()
			l.errs = append(l.errs, fmt.Errorf("a delivery was answered %d: %s", status, answer))
			l.mu.Unlock()
			return
		}
		l.note(func(s *sent) { s.failures++ })
		if !sleep(ctx, 5*time.Millisecond+upTo(r, 20*time.Millisecond)) {
			return
		}
	}
}

func (l *load) note(change func(*sent)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.sent)
}

// stop lets each sender finish its delivery, or all that were asked for, and ends what takes too long.
func (l *load) stop(o options) (sent, error) {
	within := 30 * time.Second
	if o.deliveries > 0 {
		within = o.limit
	} else {
		close(l.ending)
	}
	timer := time.AfterFunc(within, l.cancel)
	l.done.Wait()
	timer.Stop()
	l.cancel()
	if len(l.sent.acknowledged) == 0 {
		l.errs = append(l.errs, errors.New("not one delivery was acknowledged"))
	}
	return l.sent, errors.Join(l.errs...)
}
