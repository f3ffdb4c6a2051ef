package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/seed-de999ace/preloop/queue"
)

// openSession opens a live session for a run that has just started. Where the subject has one
// already (an operator retried an older run), the run gets none.
func (t *tx) openSession(run int64) error {
	_, err := t.exec(`INSERT INTO sessions (trigger, subject_key, subject, run_id, session, state, created_at)
		SELECT trigger, subject_key, subject, run_id, run_id, 'live', $2 FROM runs WHERE id = $1 AND subject_key <> '' AND follows = 1
		ON CONFLICT (trigger, subject_key) WHERE state <> 'ended' DO NOTHING`, run, t.now)
	if err != nil {
		return err
	}
	_, err = t.exec(`UPDATE runs SET session = run_id WHERE id = $1 AND EXISTS (SELECT 1 FROM sessions WHERE run_id = runs.run_id AND state <> 'ended')`, run)
	return err
}

// handOver gives each subject's oldest follow-up to its session, one at a time a session. It
// returns how many it leased.
func (t *tx) handOver(s *Store, node string, rule queue.DispatchRule, limit int, c *dispatched) (int, error) {
	type head struct {
		id      int64
		state   queue.RunState
		subject string
		due     bool
	}
	// A routing row comes before the waiting ones of its subject: until it is settled, they wait.
	var heads []head
	seen := map[string]bool{}
	err := t.rows(`SELECT id, state, subject_key, lease_until IS NULL AND (due_at IS NULL OR due_at <= $2) FROM runs
		WHERE trigger = $1 AND kind = 'follow_up' AND state IN ('waiting', 'routing') AND follows = 1
		ORDER BY (state = 'waiting'), delivery_seq, generation`, []any{rule.Trigger, t.now},
		func(r pgx.Rows) error {
			var h head
			if err := r.Scan(&h.id, &h.state, &h.subject, &h.due); err != nil {
				return err
			}
			if !seen[h.subject] {
				seen[h.subject] = true
				heads = append(heads, h)
			}
			return nil
		})
	if err != nil {
		return 0, err
	}
	n := 0
	for _, h := range heads {
		if !h.due || n >= limit {
			continue
		}
		var session string
		var reported bool
		err := t.row(`SELECT session, reported = 1 FROM sessions WHERE trigger = $1 AND subject_key = $2 AND state <> 'ended'`, []any{rule.Trigger, h.subject}, &session, &reported)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			if err := t.becomeStart(h.id, rule.Trigger, h.subject); err != nil {
				return n, err
			}
			continue
		case err != nil:
			return n, err
		case rule.SessionReported && !reported:
			continue
		}
		if _, err := t.exec(`UPDATE sessions SET state = 'live' WHERE trigger = $1 AND subject_key = $2 AND state = 'sleeping'`, rule.Trigger, h.subject); err != nil {
			return n, err
		}
		if err := t.take(s, node, h.id, queue.Routing, session, c); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// becomeStart turns a follow-up that has nothing left to follow into a waiting start in its place.
// It stays behind a start of its subject that waits or runs.
func (t *tx) becomeStart(id int64, trigger, subject string) error {
	_, err := t.exec(`UPDATE runs SET kind = 'start', state = 'waiting', session = '' WHERE id = $1 AND NOT EXISTS (
		SELECT 1 FROM runs WHERE trigger = $2 AND subject_key = $3 AND follows = 1 AND kind = 'start' AND state IN ('waiting', 'running'))`, id, trigger, subject)
	return err
}

// ReportSession implements queue.Runs.
func (s *Store) ReportSession(ctx context.Context, l queue.Lease, session string, state queue.SessionState) error {
	return s.write(ctx, func(t *tx) error {
		if err := t.lockOf(l.Row); err != nil {
			return err
		}
		var runID string
		err := t.row(`SELECT run_id FROM runs WHERE id = $1 AND token = $2 AND lease_until > `+clock+` FOR UPDATE`, []any{l.Row, l.Token}, &runID)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("recording the session: %w", queue.ErrLeaseLost)
		}
		if err != nil {
			return err
		}
		return t.report(s, runID, session, state)
	})
}

// report records what a target says of the session that its run opened.
func (t *tx) report(s *Store, runID, session string, state queue.SessionState) error {
	if session != "" {
		if _, err := t.exec(`UPDATE sessions SET session = $2, reported = 1 WHERE run_id = $1 AND state <> 'ended'`, runID, session); err != nil {
			return err
		}
		if _, err := t.exec(`UPDATE runs SET session = $2 WHERE run_id = $1`, runID, session); err != nil {
			return err
		}
		t.wakes = true
	}
	switch state {
	case queue.SessionSleeping:
		_, err := t.exec(`UPDATE sessions SET state = 'sleeping', expires_at = $2 WHERE run_id = $1 AND state <> 'ended'`, runID, t.now+s.SessionTTL.Microseconds())
		return err
	case queue.SessionEnded:
		_, err := t.exec(`UPDATE sessions SET state = 'ended', expires_at = NULL WHERE run_id = $1`, runID)
		return err
	}
	return nil
}

// runEnded ends the session that a run opened, unless it sleeps.
func (t *tx) runEnded(runID string) error {
	t.wakes = true
	_, err := t.exec(`UPDATE sessions SET state = 'ended', expires_at = NULL WHERE run_id = $1 AND state = 'live'`, runID)
	return err
}

// handedOver settles the session behind a hand-over: ended by its own word, live while its run
// runs, else asleep again, with a new time to live when the hand-over was confirmed.
func (t *tx) handedOver(s *Store, trigger, subject string, state queue.SessionState, ended, confirmed bool) error {
	if ended || state == queue.SessionEnded {
		_, err := t.exec(`UPDATE sessions SET state = 'ended', expires_at = NULL WHERE trigger = $1 AND subject_key = $2 AND state <> 'ended'`, trigger, subject)
		return err
	}
	_, err := t.exec(`UPDATE sessions SET state = CASE WHEN EXISTS (SELECT 1 FROM runs r WHERE r.run_id = sessions.run_id AND r.state = 'running') THEN 'live' ELSE 'sleeping' END,
			expires_at = CASE WHEN $3::boolean OR expires_at IS NULL THEN $4 ELSE expires_at END
		WHERE trigger = $1 AND subject_key = $2 AND state <> 'ended'`, trigger, subject, confirmed, t.now+s.SessionTTL.Microseconds())
	return err
}
