package dashboard

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/seed-de999ace/preloop/queue/api"
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

// Sampler remembers the queue's numbers over the last hours, in memory. It is safe for concurrent
// use.
type Sampler struct {
	operations api.Operations
	log        *slog.Logger

	mu   sync.Mutex // guards ring, oldest first
	ring []sample
}

// NewSampler makes a sampler; Run fills it.
func NewSampler(o api.Operations, log *slog.Logger) *Sampler {
	return &Sampler{operations: o, log: log}
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
	st, err := s.operations.Status(ctx)
	if err != nil {
		return err
	}
	q := st.Queue
	now := sample{at: time.Now(), depth: q.Received + q.Processing, settled: q.Done + q.DeadLetters}
	if q.OldestPendingAgeSecond != nil {
		now.oldest = time.Duration(*q.OldestPendingAgeSecond) * time.Second
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
