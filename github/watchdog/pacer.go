package watchdog

import (
	"context"
	"sync"
	"time"
)

// Pacer keeps a distance between redeliveries of one credential. The nil Pacer keeps none.
type Pacer struct {
	every time.Duration

	mu   sync.Mutex
	next time.Time
}

// NewPacer returns a Pacer that lets one through at once and then one each every.
func NewPacer(every time.Duration) *Pacer { return &Pacer{every: every} }

// wait returns when it is the caller's turn.
func (p *Pacer) wait(ctx context.Context) error {
	if p == nil {
		return ctx.Err()
	}
	p.mu.Lock()
	now := time.Now()
	turn := now
	if p.next.After(now) {
		turn = p.next
	}
	p.next = turn.Add(p.every)
	p.mu.Unlock()
	if turn == now {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(turn.Sub(now)):
		return nil
	}
}
