package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/seed-de999ace/preloop/queue"
)

// SettleDelivery implements queue.Deliveries.
func (s *Store) SettleDelivery(ctx context.Context, l queue.Lease, st queue.Settlement) (queue.Settled, error) {
	return get(ctx, s, func(t *tx) (queue.Settled, error) { return t.settle(s, l, st) })
}

func (t *tx) settle(s *Store, l queue.Lease, st queue.Settlement) (out queue.Settled, err error) {
	var node, historyText, decisionsText string
	var started int64
	row, err := t.w.prepare(`SELECT ` + deliveryColumns + `, node, COALESCE(started_at, 0), history, decisions FROM deliveries
		WHERE seq = ? AND token = ? AND state = 'processing' AND due_at > ?`)
	if err != nil {
		return out, err
	}
	d, err := scanDelivery(row.QueryRow(l.Row, l.Token, t.now), &node, &started, &historyText, &decisionsText)
	if errors.Is(err, sql.ErrNoRows) {
		return out, fmt.Errorf("settling the delivery: %w", queue.ErrLeaseLost)
	}
	if err != nil {
		return out, err
	}
	next := s.NextState(st.Kind, d.Attempts, d.Outages, st.Wait, st.Outage)
	out.State = next.State
	if next.State == queue.Done {
		if out.Decisions, out.Runs, err = t.admitAll(&d, st); err != nil {
			return out, err
		}
		if len(out.Decisions) > 0 {
			var all []queue.Decision
			if err := fromJSON(decisionsText, &all); err != nil {
				return out, err
			}
			decisionsText = toJSON(append(all, out.Decisions...))
		}
		t.wakes = t.wakes || len(out.Runs) > 0
	}
	var history []queue.Attempt
	if err := fromJSON(historyText, &history); err != nil {
		return out, err
	}
	history = queue.AppendAttempt(history, queue.Attempt{
		Generation: d.Generation, Attempt: d.Attempts, Node: node, StartedAt: at(started), FinishedAt: at(t.now), Outcome: next.Word, Error: st.Error,
	})
	if next.Refund {
		d.Attempts--
	}
	if next.Outage {
		d.Outages++
	}
	var due, finished int64
	if next.State.Terminal() {
		finished = t.now
		t.tally("delivery:"+string(next.State), 1)
	} else {
		due = t.now + next.Wait.Microseconds()
		t.wakes = t.wakes || next.Wait == 0
	}
	lastError := st.Error
	if next.State == queue.Done {
		lastError = ""
	} else if lastError == "" {
		lastError = d.LastError
	}
	_, err = t.exec(`UPDATE deliveries SET state = ?2, attempts = ?3, outages = ?4, due_at = ?5, finished_at = ?6, last_error = ?7, history = ?8, decisions = ?9 WHERE seq = ?1`,
		d.Seq, string(next.State), d.Attempts, d.Outages, null(due), null(finished), lastError, toJSON(history), decisionsText)
	return out, err
}

// admitAll turns a delivery's matched decisions into runs, in the transaction that makes it done.
func (t *tx) admitAll(d *queue.Delivery, st queue.Settlement) (decisions []queue.Decision, runs []queue.Run, err error) {
	byTrigger := map[string]queue.Admission{}
	for _, a := range st.Admissions {
		byTrigger[a.Trigger] = a
	}
	for _, dec := range st.Decisions { // before anything is written
		if _, ok := byTrigger[dec.Trigger]; dec.Verdict == queue.Matched && !ok {
			return nil, nil, fmt.Errorf("settling %s: %w: trigger %s matched without an admission", d.Key(), queue.ErrInvalid, dec.Trigger)
		}
	}
	for _, dec := range st.Decisions {
		dec.Generation = d.Generation
		if dec.Verdict == queue.Matched {
			run, err := t.admit(d, byTrigger[dec.Trigger], &dec)
			if err != nil {
				return nil, nil, err
			}
			if run != nil {
				dec.RunID = run.ID
				runs = append(runs, *run)
			}
		}
		decisions = append(decisions, dec)
	}
	return decisions, runs, nil
}
