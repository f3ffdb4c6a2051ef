package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// answer is what became of one delivery, which is sent once.
type answer struct {
	guid, event string
	sent        time.Time
	took        time.Duration
	status      int // 0: none
	text        string
}

// traffic is a number of senders under way.
type traffic struct {
	cancel   context.CancelFunc
	done     sync.WaitGroup
	returned time.Time // when the store was back for all

	mu      sync.Mutex // over answers
	answers []answer
}

const (
	senders   = 4                      // for each node
	sendEvery = 100 * time.Millisecond // each of them
	issuesOf  = 3                      // one of so many deliveries has a run
)

func startTraffic(nodes []*harness.Node) *traffic {
	ctx, cancel := context.WithCancel(context.Background())
	t := &traffic{cancel: cancel}
	for i := range senders * len(nodes) {
		t.done.Go(func() { t.send(ctx, nodes[i%len(nodes)].Addr, i) })
	}
	return t
}

func (t *traffic) send(ctx context.Context, addr string, number int) {
	s := harness.NewSender(addr, 20*time.Second)
	defer s.Close()
	r := rand.New(rand.NewPCG(rand.Uint64(), uint64(number)))
	for n := 0; sleep(ctx, sendEvery); n++ {
		event, body := "push", []byte(nil)
		if n%issuesOf == 0 {
			event, body = "issues", harness.IssueOpened(r, number*1_000_000+n, 4096)
		} else {
			body = harness.Push(r, 4096)
		}
		a := answer{guid: harness.GUID(r), event: event, sent: time.Now()}
		status, text, err := s.Post(harness.NewRequest(event, body, harness.Secret), a.guid)
		a.took, a.status, a.text = time.Since(a.sent), status, string(text)
		if err != nil {
			a.status, a.text = 0, err.Error()
		}
		t.mu.Lock()
		t.answers = append(t.answers, a)
		t.mu.Unlock()
	}
}

func (t *traffic) noteReturn(at time.Time) { t.returned = at }

// stop waits for the answers that are still to come.
func (t *traffic) stop() []answer {
	t.cancel()
	t.done.Wait()
	return t.answers
}
