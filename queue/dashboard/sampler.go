package dashboard

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

const (
	sampleEvery = 20 * time.Second
	sampleSpan  = 6 * time.Hour
	maxSamples  = int(sampleSpan / sampleEvery)
)

// sample is the queue at one moment.
type sample struct {
	at      time.Time
	depth   int           // deliveries received or processing
	oldest  time.Duration // of those, since its receipt
	settled int           // deliveries retained as done or failed
}

// Counter is what a Sampler asks of a store.
type Counter interface {
	Counts(ctx context.Context) (queue.Counts, error)
}

// Sampler remembers the queue's numbers over the last hours, in memory. It is safe for concurrent
// use.
type Sampler struct {
	store Counter
	log   *slog.Logger

	mu   sync.Mutex // guards ring, oldest first
	ring []sample
}

// NewSampler makes a sampler; Run fills it.
func NewSampler(store Counter, log *slog.Logger) *Sampler {
	return &Sampler{store: store, log: log}
}

// Run samples until ctx ends. A store that does not answer leaves a gap.
func (s *Sampler) Run(ctx context.Context) error {
	for {
		if err := s.take(ctx); err != nil && ctx.Err() == nil {
			s.log.Debug("the queue was not sampled for the dashboard", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(sampleEvery):
		}
	}
}

func (s *Sampler) take(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sampleEvery)
	defer cancel()
	c, err := s.store.Counts(ctx)
	if err != nil {
		return err
	}
	n := c.Deliveries
	now := sample{at: time.Now(), depth: n[queue.Received] + n[queue.Processing], settled: n[queue.Done] + n[queue.Failed]}
	if !c.OldestPending.IsZero() {
		now.oldest = max(0, now.at.Sub(c.OldestPending))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ring = append(s.ring, now); len(s.ring) > maxSamples {
		s.ring = append(s.ring[:0], s.ring[1:]...)
	}
	return nil
}

func (s *Sampler) samples() []sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]sample(nil), s.ring...)
}
