package queue

import "time"

// SessionState says whether a conversation can take a follow-up.
type SessionState string

// The states of a session.
const (
	SessionLive     SessionState = "live"     // its run is running
	SessionSleeping SessionState = "sleeping" // its run has ended, a hand-over wakes it
	SessionEnded    SessionState = "ended"
)

// Session is the conversation that a run opened and that follow-ups on its subject can join.
// There is at most one that is not ended per trigger and subject.
type Session struct {
	ID         string // what the target knows it by: the run's id unless it reported another
	Trigger    string
	SubjectKey string
	Subject    string
	RunID      string // the run that opened it
	State      SessionState
	Reported   bool // the target itself has named the session
	CreatedAt  time.Time
	ExpiresAt  time.Time // while sleeping
}
