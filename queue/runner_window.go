package queue

import (
	"sync"
	"time"
)

// window bounds the deliveries that are claimed and not yet decided. It opens slowly, one more
// for each decision, for two reasons. A payload that kills the process is charged an attempt in
// each life, and so is whatever was claimed with it: after a restart the window is narrow, so
// that its neighbours are decided in other company. And where decisions are slow, what one node
// claims ahead is what another node could be working on.
type window struct {
	workers int // decided at the same time
	limit   int // never more than this
	freed   signal

	mu        sync.Mutex
	size      int // guarded by mu
	undecided int // guarded by mu
}

// Decisions that are quicker widen the window beyond the number of workers, slower ones narrow it.
const (
	quickDecision = 100 * time.Millisecond
	slowDecision  = time.Second
)

func newWindow(workers, limit int) *window {
	return &window{workers: workers, limit: max(limit, workers), size: 1, freed: newSignal()}
}

// room is how many to claim now. While every worker has something to do, a claim waits until it
// is worth its transaction.
func (w *window) room() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	free := w.size - w.undecided
	if w.undecided >= w.workers && free < w.size/2 {
		return 0
	}
	return max(free, 0)
}

func (w *window) claimed(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.undecided += n
}

// decided frees one place after a decision that took so long.
func (w *window) decided(took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.undecided--
	switch {
	case w.size < w.workers, took < quickDecision && w.size < w.limit:
		w.size++
	case took > slowDecision && w.size > w.workers:
		w.size--
	}
	w.freed.set()
}

// harmless widens a narrow window when what is being decided takes long and has killed nobody, so
// that one slow delivery does not hold up all others after a start.
func (w *window) harmless() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.size < w.workers {
		w.size++
		w.freed.set()
	}
}
