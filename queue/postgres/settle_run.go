package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

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

const heldColumns = runColumns + `, COALESCE(attempt_at, 0), uncertain_after, token, subject_key, history, follows = 1, idempotent = 1, cancel_asked = 1, state = 'running' AND lease_until IS NULL, probes, COALESCE(lease_until, 0), COALESCE(deadline_at, 0)`

// held reads the run that a WHERE clause over runs selects; pgx.ErrNoRows without one.
func (t *tx) held(where string, args ...any) (h heldRun, err error) {
	h.id, h.Run, err = scanRun(t.queryRow(`SELECT `+heldColumns+` FROM runs WHERE `+where+` FOR UPDATE`, args...), &h.attemptAt, &h.uncertainAfter, &h.token, &h.subjectKey, &h.history, &h.follows, &h.idempotent, &h.canceled, &h.accepted, &h.probes, &h.leaseUntil, &h.deadline)
	return h, err
}

// lockOf takes the lock of a run's trigger.
func (t *tx) lockOf(id int64) error {
	var trigger string
	err := t.row(`SELECT trigger FROM runs WHERE id = $1`, []any{id}, &trigger)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return t.lock(trigger)
}

// leased reads the run of a lease that still holds, under the lock of its trigger. That lock may
// have been waited for: the lease is judged by the time of the statement.
func (t *tx) leased(l queue.Lease, doing string) (heldRun, error) {
	if err := t.lockOf(l.Row); err != nil {
		return heldRun{}, err
	}
	h, err := t.held(`id = $1 AND token = $2 AND lease_until > `+clock, l.Row, l.Token)
	if errors.Is(err, pgx.ErrNoRows) {
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
			if _, err := t.exec(`INSERT INTO run_outputs (id, output) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET output = excluded.output`, h.id, o.Output); err != nil {
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
	if _, err := t.exec(`UPDATE runs SET state = $2, kind = $3, reason = $4, error = $5, attempts = $6, outages = $7, due_at = $8, deadline_at = $9, finished_at = $10,
			exit_code = $11, http_status = $12, lease_until = NULL, cancel_asked = 0, probes = 0, history = $13, session = CASE WHEN $14::boolean THEN '' ELSE session END WHERE id = $1`,
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
	_, r, err := scanRun(t.queryRow(`SELECT `+runColumns+` FROM runs WHERE id = $1`, id))
	return &r, err
}

// ReleaseRun implements queue.Runs.
func (s *Store) ReleaseRun(ctx context.Context, l queue.Lease) error {
	return s.write(ctx, func(t *tx) error {
		h, err := t.leased(l, "releasing the run")
		if err != nil {
			return err
		}
		_, err = t.settleRun(s, h, queue.Outcome{State: queue.Waiting, Refund: true})
		return err
	})
}

// DisownRuns implements queue.Runs, in one transaction a run: there are few.
func (s *Store) DisownRuns(ctx context.Context, node string, held []queue.Lease) (n int, err error) {
	var lost []queue.Lease
	err = s.read(ctx, "reading", `SELECT id, token FROM runs WHERE lease_until > `+clock+` AND node = $1 AND state IN ('running', 'routing')`, []any{node}, func(r pgx.Rows) error {
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
		err := s.ReleaseRun(ctx, l)
		if errors.Is(err, queue.ErrLeaseLost) {
			continue // ended meanwhile
		}
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// outOfTime lists by trigger what time alone has moved on.
const outOfTime = `SELECT trigger, id FROM runs WHERE lease_until <= ` + clock + `
	UNION SELECT trigger, id FROM runs WHERE deadline_at <= ` + clock + `
	UNION SELECT trigger, 0 FROM runs WHERE expires_at <= ` + clock + ` AND state = 'waiting' AND tries = 0
	UNION SELECT trigger, 0 FROM sessions WHERE state = 'sleeping' AND expires_at <= ` + clock + `
	UNION ALL (SELECT '', 0 FROM runs WHERE state IN ('waiting', 'running', 'routing', 'uncertain') LIMIT 1)
	ORDER BY 1, 2`

// restTime is how long a sweep's finding that no run is alive spares the claims that follow it at
// once, so that an idle node asks one question and not three.
const restTime = 200 * time.Microsecond

func (s *Store) rests() bool { return time.Now().UnixNano() < s.resting.Load() }

// SweepRuns implements queue.Runs, in one transaction a trigger.
func (s *Store) SweepRuns(ctx context.Context) (n int, err error) {
	found := map[string][]int64{}
	var triggers []string
	alive := false
	err = s.read(ctx, "reading", outOfTime, nil, func(r pgx.Rows) error {
		var trigger string
		var id int64
		err := r.Scan(&trigger, &id)
		if trigger == "" {
			alive = true
			return err
		}
		if _, ok := found[trigger]; !ok {
			triggers = append(triggers, trigger)
		}
		found[trigger] = append(found[trigger], id)
		return err
	})
	if err == nil && !alive && len(triggers) == 0 {
		s.resting.Store(time.Now().Add(restTime).UnixNano())
	}
	for _, trigger := range triggers {
		var moved int
		if moved, err = get(ctx, s, func(t *tx) (int, error) { return t.sweepTrigger(s, trigger, found[trigger]) }); err != nil {
			break
		}
		n += moved
	}
	if n > 0 { // the rest comes with the next sweep
		err = nil
	}
	return n, err
}

func (t *tx) sweepTrigger(s *Store, trigger string, ids []int64) (n int, err error) {
	if err := t.lock(trigger); err != nil {
		return 0, err
	}
	for _, id := range ids {
		if id == 0 {
			continue
		}
		moved, err := t.sweep(s, id)
		if err != nil {
			return n, err
		}
		if moved {
			n++
		}
	}
	expired, err := t.exec(`UPDATE runs SET state = 'dropped', reason = 'expired', finished_at = $2, expires_at = NULL, due_at = NULL
		WHERE trigger = $1 AND expires_at <= $2 AND state = 'waiting' AND tries = 0`, trigger, t.now)
	if err != nil {
		return n, err
	}
	t.tally("run:dropped", expired)
	slept, err := t.exec(`UPDATE sessions SET state = 'ended', expires_at = NULL WHERE trigger = $1 AND state = 'sleeping' AND expires_at <= $2`, trigger, t.now)
	t.wakes = t.wakes || slept > 0
	return n + int(expired) + int(slept), err
}

// sweep moves one run on that nobody holds any more.
func (t *tx) sweep(s *Store, id int64) (moved bool, err error) {
	h, err := t.held(`id = $1`, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	leased, over := h.leaseUntil > t.now, h.deadline != 0 && h.deadline <= t.now
	switch {
	case !over && (leased || h.leaseUntil == 0):
		return false, nil // another node was here first
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
	if len(triggers) == 0 || s.rests() {
		return nil, nil
	}
	due := map[string]bool{}
	err := s.read(ctx, "reading", `SELECT DISTINCT trigger FROM runs WHERE trigger = ANY($1::text[]) AND state = 'uncertain' AND lease_until IS NULL AND due_at <= `+clock+`
		AND state IN ('waiting', 'running', 'routing', 'uncertain')`, []any{triggers}, func(r pgx.Rows) error {
		var trigger string
		err := r.Scan(&trigger)
		due[trigger] = true
		return err
	})
	if err != nil {
		return nil, err
	}
	var c dispatched
	for _, trigger := range triggers {
		if !due[trigger] {
			continue
		}
		one, err := get(ctx, s, func(t *tx) (dispatched, error) { return t.claimProbes(s, trigger, limit-len(c.claims)) })
		if err != nil {
			if len(c.claims) == 0 {
				return nil, err
			}
			break // what is leased already has to be asked after
		}
		c.claims, c.bodies = append(c.claims, one.claims...), append(c.bodies, one.bodies...)
	}
	return c.decode(ctx, s), nil
}

func (t *tx) claimProbes(s *Store, trigger string, limit int) (c dispatched, err error) {
	if err := t.lock(trigger); err != nil {
		return c, err
	}
	var ids []int64
	err = t.rows(`SELECT id FROM runs WHERE trigger = $1 AND state = 'uncertain' AND lease_until IS NULL AND due_at <= $2 ORDER BY delivery_seq, generation LIMIT $3`,
		[]any{trigger, t.now, limit}, func(r pgx.Rows) error {
			var id int64
			err := r.Scan(&id)
			ids = append(ids, id)
			return err
		})
	if err != nil {
		return c, err
	}
	for _, id := range ids {
		if _, err := t.exec(`UPDATE runs SET token = token + 1, lease_until = $2 WHERE id = $1`, id, t.now+s.Lease.Microseconds()); err != nil {
			return c, err
		}
		if err := t.claimRun(id, &c); err != nil {
			return c, err
		}
	}
	return c, nil
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
			other, err := t.exists(`SELECT 1 FROM runs WHERE trigger = $1 AND subject_key = $2 AND follows = 1 AND state = 'routing' LIMIT 1`, h.Trigger, h.subjectKey)
			if err != nil {
				return err
			}
			if !other {
				state = queue.Routing
			}
		}
		_, err := t.exec(`UPDATE runs SET state = $2, reason = '', due_at = $3, deadline_at = NULL, lease_until = NULL, probes = 0 WHERE id = $1`,
			h.id, string(state), t.now+s.Wait(h.Attempts).Microseconds())
		return err
	}
	if h.deadline <= t.now {
		return t.resolve(h, queue.RunFailed, queue.ReasonUncertainTime, "nobody could say in time whether it happened")
	}
	_, err := t.exec(`UPDATE runs SET due_at = $2, lease_until = NULL, probes = probes + 1, token = token + 1 WHERE id = $1`, h.id, t.now+s.Wait(h.probes+1).Microseconds())
	return err
}

// resolve ends an uncertain run.
func (t *tx) resolve(h heldRun, as queue.RunState, reason, why string) error {
	t.wakes = true
	t.tally("run:"+string(as), 1)
	_, err := t.exec(`UPDATE runs SET state = $2, reason = $3, error = CASE WHEN $2 = 'failed' THEN $4::text ELSE '' END, finished_at = $5, due_at = NULL, deadline_at = NULL, lease_until = NULL,
		cancel_asked = 0, token = token + 1 WHERE id = $1`, h.id, string(as), reason, why, t.now)
	return err
}
