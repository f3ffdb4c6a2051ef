package dashboard

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"
)

const (
	sessionCookie = "preloop_session"
	sessionAge    = 12 * time.Hour
	maxSessions   = 256
)

// sessions are the logged-in browsers of this process. Only digests of their cookies are kept.
type sessions struct {
	mu   sync.Mutex // guards ends
	ends map[[sha256.Size]byte]time.Time
}

func newSessions() *sessions { return &sessions{ends: map[[sha256.Size]byte]time.Time{}} }

// open starts a session and returns its cookie's value. With too many sessions the one that would
// end first gives way.
func (s *sessions) open(now time.Time) string {
	id := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, end := range s.ends {
		if !now.Before(end) {
			delete(s.ends, key)
		}
	}
	for len(s.ends) >= maxSessions {
		var first [sha256.Size]byte
		var soonest time.Time
		for key, end := range s.ends {
			if soonest.IsZero() || end.Before(soonest) {
				first, soonest = key, end
			}
		}
		delete(s.ends, first)
	}
	s.ends[sha256.Sum256([]byte(id))] = now.Add(sessionAge)
	return id
}

func (s *sessions) valid(id string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	end, ok := s.ends[sha256.Sum256([]byte(id))]
	return ok && now.Before(end)
}

func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ends, sha256.Sum256([]byte(id)))
}
