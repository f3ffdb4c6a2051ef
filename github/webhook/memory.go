package webhook

import (
	"slices"
	"sync"
	"time"
)

// memory bounds the bytes of all bodies in flight. Bodies are charged as they grow, so half-read
// ones can hold everything and wait for each other. Therefore the room for one whole body is set
// apart: when nothing is free, the one that has waited longest gets it, never has to wait again, and
// so ends and frees what it holds. A waiter that fits is not held up by a bigger one before it.
type memory struct {
	mu      sync.Mutex
	free    int64
	spare   bool      // the room set apart is not taken
	waiters []*waiter // in the order of their coming
}

// hold is what one body has of the memory. It belongs to the goroutine of its request, except while
// that waits: then memory.mu guards it.
type hold struct {
	bytes int64
	spare bool // it has the room set apart, enough for any body; bytes is 0
}

type waiter struct {
	hold    *hold
	more    int64
	granted chan struct{}
}

// newMemory sets the room for the largest body apart from the total.
func newMemory(total, largest int64) *memory {
	return &memory{free: max(0, total-largest), spare: true}
}

// grow lets h hold size bytes in all. It waits at most for patience and reports how long it waited,
// and false when that was in vain.
func (m *memory) grow(h *hold, size int64, patience time.Duration) (waited time.Duration, ok bool) {
	if h.spare || size <= h.bytes {
		return 0, true
	}
	m.mu.Lock()
	w := &waiter{hold: h, more: size - h.bytes}
	if m.grant(w, len(m.waiters) == 0) {
		m.mu.Unlock()
		return 0, true
	}
	w.granted = make(chan struct{})
	m.waiters = append(m.waiters, w)
	m.mu.Unlock()

	start := time.Now()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.granted:
		return time.Since(start), true
	case <-timer.C:
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.Index(m.waiters, w)
	if i < 0 { // granted just now
		return time.Since(start), true
	}
	m.waiters = slices.Delete(m.waiters, i, i+1)
	m.wake() // another may be the first now
	return time.Since(start), false
}

// release gives back all that h holds.
func (m *memory) release(h *hold) {
	if *h == (hold{}) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free += h.bytes
	m.spare = m.spare || h.spare
	*h = hold{}
	m.wake()
}

// grant gives w what it asks for, if that is free or, for the first in the queue, from the room set
// apart. Callers hold mu.
func (m *memory) grant(w *waiter, first bool) bool {
	switch {
	case w.more <= m.free:
		m.free -= w.more
		w.hold.bytes += w.more
	case first && m.spare:
		m.spare = false
		m.free += w.hold.bytes
		*w.hold = hold{spare: true}
	default:
		return false
	}
	return true
}

// wake grants what waiters can have now. Callers hold mu.
func (m *memory) wake() {
	for i := 0; i < len(m.waiters); {
		w := m.waiters[i]
		if !m.grant(w, i == 0) {
			i++
			continue
		}
		m.waiters = slices.Delete(m.waiters, i, i+1)
		close(w.granted)
		if w.hold.spare {
			i = 0 // it freed what it had held
		}
	}
}
