package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-de999ace/preloop/queue"
)

// heldRun is a run with what its settlement needs to know.
type heldRun struct {
	queue.Run
	id, attemptAt, uncertainAfter int64
	token                         int64
	subjectKey, history           string
	follows, idempotent, canceled bool
	accepted                      bool
	probes                        int
	leaseUntil, deadline          int64
}

const heldColumns = runColumns + `, COALESCE(attempt_at, 0), uncertain_after, token, subject_key, history, follows, idempotent, cancel_asked, state = 'running' AND lease_until IS NULL, probes, COALESCE(lease_until, 0), COALESCE(deadline_at, 0)`

// held reads the run that a WHERE clause over runs selects; sql.ErrNoRows without one.
func (t *tx) held(where string, args ...any) (h heldRun, err error) {
	stmt, err := t.w.prepare(`SELECT ` + heldColumns + ` FROM runs WHERE ` + where)
	if err != nil {
		return h, err
	}
	h.id, h.Run, err = scanRun(stmt.QueryRow(args...), &h.attemptAt, &h.uncertainAfter, &h.token, &h.subjectKey, &h.history, &h.follows, &h.idempotent, &h.canceled, &h.accepted, &h.probes, &h.leaseUntil, &h.deadline)
	return h, err
}

// leased reads the run of a lease that still holds.
func (t *tx) leased(l queue.Lease, doing string) (heldRun, error) {
	h, err := t.held(`id = ? AND token = ? AND lease_until > ?`, l.Row, l.Token, t.now)
	if errors.Is(err, sql.ErrNoRows) {
		return h, fmt.Errorf("%s: %w", doing, queue.ErrLeaseLost)
	}
	return h, err
}

// SettleRun implements queue.Runs.
func (s *Store) SettleRun(ctx context.Context, l queue.Lease, o queue.Outcome) (*queue.Run, error) {
	return get(ctx, s, func(t *tx) (*queue.Run, error) {
		h, err := t.leased(l, "settling the run")
		if err != nil {
			return nil, err
		}
		if len(o.Output) > 0 {
			if _, err := t.exec(`INSERT INTO run_outputs (id, output) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET output = excluded.output`, h.id, o.Output); err != nil {
				return nil, err
			}
		}
		return t.settleRun(s, h, o)
	})
}

// settleRun moves a run on after an attempt, and its session with it.
func (t *tx) settleRun(s *Store, h heldRun, o queue.Outcome) (*queue.Run, error) {
	v := s.NextRun(queue.RunFacts{
		Kind: h.Kind, Attempts: h.Attempts, Outages: h.Outages, Idempotent: h.idempotent, CancelAsked: h.canceled,
	}, o)
	var history []queue.Attempt
	if err := fromJSON(h.history, &history); err != nil {
		return nil, err
	}
	history = queue.AppendAttempt(history, queue.Attempt{
		Generation: h.Generation, Attempt: h.Attempts, Node: h.Node, StartedAt: at(h.attemptAt), FinishedAt: at(t.now), Outcome: v.Word, Error: o.Error,
	})
	var due, deadline, finished int64
	switch {
	case v.State.Ended():
		finished = t.now
		t.tally("run:"+string(v.State), 1)
	case v.State == queue.Uncertain:
		due, deadline = t.now, t.now+h.uncertainAfter
	case v.State == queue.Running:
		deadline = o.Deadline.UnixMicro()
	default:
		due = t.now + v.Wait.Microseconds()
	}
	kind := h.Kind
	if v.BecomesStart {
		kind, due = queue.Start, 0
	}
	if _, err := t.exec(`UPDATE runs SET state = ?2, kind = ?3, reason = ?4, error = ?5, attempts = ?6, outages = ?7, due_at = ?8, deadline_at = ?9, finished_at = ?10,
			exit_code = ?11, http_status = ?12, lease_until = NULL, cancel_asked = 0, probes = 0, history = ?13, session = CASE WHEN ?14 THEN '' ELSE session END WHERE id = ?1`,
		h.id, string(v.State), string(kind), v.Reason, o.Error, v.Attempts, v.Outages, null(due), null(deadline), null(finished),
		o.ExitCode, o.HTTPStatus, toJSON(history), v.BecomesStart); err != nil {
		return nil, err
	}
	if err := t.settleSession(s, h, v, o); err != nil {
		return nil, err
	}
	t.wakes = true
	return t.run(h.id)
}

func (t *tx) settleSession(s *Store, h heldRun, v queue.RunNext, o queue.Outcome) error {
	switch {
	case !h.follows || h.subjectKey == "":
		return nil
	case h.Kind == queue.FollowUp:
		return t.handedOver(s, h.Trigger, h.subjectKey, o.SessionState, o.SessionEnded, v.State == queue.Delivered)
	}
	if err := t.report(s, h.ID, o.Session, o.SessionState); err != nil || v.State == queue.Running {
		return err
	}
	return t.runEnded(h.ID)
}

// run reads a run as it stands now.
func (t *tx) run(id int64) (*queue.Run, error) {
	stmt, err := t.w.prepare(`SELECT ` + runColumns + ` FROM runs WHERE id = ?`)
	if err != nil {
		return nil, err
	}
	_, r, err := scanRun(stmt.QueryRow(id))
	return &r, err
}

// ReleaseRun implements queue.Runs.
func (s *Store) ReleaseRun(ctx context.Context, l queue.Lease) error {
	return s.write(ctx, func(t *tx) error { return t.release(s, l) })
}

func (t *tx) release(s *Store, l queue.Lease) error {
	h, err := t.leased(l, "releasing the run")
	if err != nil {
		return err
	}
	_, err = t.settleRun(s, h, queue.Outcome{State: queue.Waiting, Refund: true})
	return err
}

// DisownRuns implements queue.Runs.
func (s *Store) DisownRuns(ctx context.Context, node string, held []queue.Lease) (int, error) {
	return get(ctx, s, func(t *tx) (int, error) {
		var lost []queue.Lease
		err := t.rows(`SELECT id, token FROM runs WHERE lease_until > ? AND node = ? AND state IN ('running', 'routing')`, []any{t.now, node}, func(r *sql.Rows) error {
			var l queue.Lease
			err := r.Scan(&l.Row, &l.Token)
			if !slices.ContainsFunc(held, l.Same) {
				lost = append(lost, l)
			}
			return err
		})
		if err != nil {
			return 0, err
		}
		for _, l := range lost {
			if err := t.release(s, l); err != nil {
				return 0, err
			}
		}
		return len(lost), nil
	})
}

// SweepRuns implements queue.Runs.
func (s *Store) SweepRuns(ctx context.Context) (int, error) {
	return get(ctx, s, func(t *tx) (n int, err error) {
		var ids []int64
		err = t.rows(`SELECT id FROM runs WHERE lease_until <= ?1 UNION SELECT id FROM runs WHERE deadline_at <= ?1`, []any{t.now}, func(r *sql.Rows) error {
			var id int64
			err := r.Scan(&id)
			ids = append(ids, id)
			return err
		})
		if err != nil {
			return 0, err
		}
		for _, id := range ids {
			moved, err := t.sweep(s, id)
			if err != nil {
				return n, err
			}
			if moved {
				n++
			}
		}
		expired, err := t.exec(`UPDATE runs SET state = 'dropped', reason = 'expired', finished_at = ?1, expires_at = NULL, due_at = NULL
			WHERE expires_at IS NOT NULL AND expires_at <= ?1 AND state = 'waiting' AND tries = 0`, t.now)
		if err != nil {
			return n, err
		}
		t.tally("run:dropped", expired)
		slept, err := t.exec(`UPDATE sessions SET state = 'ended', expires_at = NULL WHERE state = 'sleeping' AND expires_at <= ?`, t.now)
		t.wakes = t.wakes || slept > 0
		return n + int(expired) + int(slept), err
	})
}

// sweep moves one run on that nobody holds any more.
func (t *tx) sweep(s *Store, id int64) (moved bool, err error) {
	h, err := t.held(`id = ?`, id)
	if err != nil {
		return false, err
	}
	switch {
	case h.State == queue.Uncertain && h.leaseUntil > t.now:
		// Its time is over while a probe is asking: the answer, or the end of the lease, comes first.
		return false, nil
	case h.State == queue.Uncertain && h.deadline <= t.now:
		return true, t.resolve(h, queue.RunFailed, queue.ReasonUncertainTime, "nobody could say in time whether it happened")
	case h.State == queue.Uncertain:
		return true, t.probed(s, h, queue.ProbeUnknown)
	case h.accepted:
		_, err := t.settleRun(s, h, queue.Outcome{State: queue.Uncertain, Reason: queue.ReasonUnconfirmed, Error: "the target accepted the run and did not report its end in time", HTTPStatus: h.HTTPStatus})
		return true, err
	}
	_, err = t.settleRun(s, h, queue.Outcome{State: queue.Uncertain, Reason: queue.ReasonWorkerLost, Error: "the worker's lease expired before it said how the run ended"})
	return true, err
}

// ClaimProbes implements queue.Runs.
func (s *Store) ClaimProbes(ctx context.Context, node string, triggers []string, limit int) ([]queue.RunClaim, error) {
	if len(triggers) == 0 {
		return nil, nil
	}
	c, err := get(ctx, s, func(t *tx) (c dispatched, err error) {
		for _, trigger := range triggers {
			var ids []int64
			err := t.rows(`SELECT id FROM runs WHERE trigger = ? AND state = 'uncertain' AND lease_until IS NULL AND due_at <= ? ORDER BY delivery_seq, generation LIMIT ?`,
				[]any{trigger, t.now, limit - len(c.claims)}, func(r *sql.Rows) error {
					var id int64
					err := r.Scan(&id)
					ids = append(ids, id)
					return err
				})
			if err != nil {
				return c, err
			}
			for _, id := range ids {
				if _, err := t.exec(`UPDATE runs SET token = token + 1, lease_until = ? WHERE id = ?`, t.now+s.Lease.Microseconds(), id); err != nil {
					return c, err
				}
				if err := t.claimRun(id, &c); err != nil {
					return c, err
				}
			}
		}
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	return c.decode(ctx, s), nil
}

// SettleProbe implements queue.Runs.
func (s *Store) SettleProbe(ctx context.Context, l queue.Lease, a queue.ProbeAnswer) (*queue.Run, error) {
	return get(ctx, s, func(t *tx) (*queue.Run, error) {
		h, err := t.leased(l, "recording the probe's answer")
		if err != nil {
			return nil, err
		}
		if err := t.probed(s, h, a); err != nil {
			return nil, err
		}
		return t.run(h.id)
	})
}

func (t *tx) probed(s *Store, h heldRun, a queue.ProbeAnswer) error {
	switch a {
	case queue.ProbeHappened:
		return t.resolve(h, queue.Happened(h.Kind), queue.ReasonResolved, "")
	case queue.ProbeDidNot:
		if h.Attempts >= s.MaxAttempts {
			return t.resolve(h, queue.RunFailed, queue.ReasonResolved, "the probe says that it did not happen, and no attempt is left")
		}
		t.wakes = true
		// A hand-over blocks its session again, unless another has gone on meanwhile: then it waits
		// its turn, which comes first by its place.
		state := queue.Waiting
		if h.Kind == queue.FollowUp {
			other, err := t.exists(`SELECT 1 FROM runs WHERE trigger = ?1 AND subject_key = ?2 AND follows = 1 AND state = 'routing' LIMIT 1`, h.Trigger, h.subjectKey)
			if err != nil {
				return err
			}
			if !other {
				state = queue.Routing
			}
		}
		_, err := t.exec(`UPDATE runs SET state = ?2, reason = '', due_at = ?3, deadline_at = NULL, lease_until = NULL, probes = 0 WHERE id = ?1`,
			h.id, string(state), t.now+s.Wait(h.Attempts).Microseconds())
		return err
	}
	if h.deadline <= t.now {
		return t.resolve(h, queue.RunFailed, queue.ReasonUncertainTime, "nobody could say in time whether it happened")
	}
	_, err := t.exec(`UPDATE runs SET due_at = ?2, lease_until = NULL, probes = probes + 1, token = token + 1 WHERE id = ?1`, h.id, t.now+s.Wait(h.probes+1).Microseconds())
	return err
}

// resolve ends an uncertain run.
func (t *tx) resolve(h heldRun, as queue.RunState, reason, why string) error {
	t.wakes = true
	t.tally("run:"+string(as), 1)
	_, err := t.exec(`UPDATE runs SET state = ?2, reason = ?3, error = CASE WHEN ?2 = 'failed' THEN ?4 ELSE '' END, finished_at = ?5, due_at = NULL, deadline_at = NULL, lease_until = NULL,
		cancel_asked = 0, token = token + 1 WHERE id = ?1`, h.id, string(as), reason, why, t.now)
	return err
}
