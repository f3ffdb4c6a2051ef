package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/seed-de999ace/preloop/queue"
)

// settling is a settlement on its way into a batch.
type settling struct {
	lease queue.Lease
	st    queue.Settlement
}

// SettleDelivery implements queue.Deliveries. What waits is settled by the batch; what admits runs
// has batches of its own, under the locks of their triggers.
func (s *Store) SettleDelivery(ctx context.Context, l queue.Lease, st queue.Settlement) (queue.Settled, error) {
	group := s.settles
	if st.Kind == queue.SettleDone && slices.ContainsFunc(st.Decisions, matched) {
		group = s.admits
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	out, _, err := group.do(ctx, settling{l, st})
	return out, err
}

func matched(d queue.Decision) bool { return d.Verdict == queue.Matched }

// underWay is a processing delivery with what its settlement needs to know.
type underWay struct {
	seq, token, started           int64
	attempts, outages, generation int
	node, lastError               string
	history, decisions            string
}

const underWayColumns = `d.seq, d.token, COALESCE(d.started_at, 0), d.attempts, d.outages, d.generation, d.node, d.last_error, d.history, d.decisions`

func (a *underWay) fields() []any {
	return []any{&a.seq, &a.token, &a.started, &a.attempts, &a.outages, &a.generation, &a.node, &a.lastError, &a.history, &a.decisions}
}

// settleMany settles a batch in two round trips.
func (s *Store) settleMany(ctx context.Context, ops []*op[settling, queue.Settled]) error {
	leases := make([]queue.Lease, len(ops))
	for i, o := range ops {
		leases[i] = o.in.lease
	}
	rows, tokens := unzip(leases)
	held := make(map[int64]underWay, len(ops))
	first := reading{
		q: `SELECT ` + underWayColumns + ` FROM deliveries AS d JOIN unnest($1::bigint[], $2::bigint[]) AS g (seq, token) ON d.seq = g.seq AND d.token = g.token
			WHERE d.state = 'processing' AND d.due_at > ` + clock + ` ORDER BY d.seq FOR UPDATE OF d`,
		args: []any{rows, tokens},
		scan: func(_ *tx, r pgx.Rows) error {
			var a underWay
			err := r.Scan(a.fields()...)
			held[a.seq] = a
			return err
		},
	}
	wakes, err := s.once(ctx, &first, func(t *tx) (err error) {
		var c changes
		for _, o := range ops {
			o.out, o.err = queue.Settled{}, nil
			a, ok := held[o.in.lease.Row]
			if !ok || a.token != o.in.lease.Token {
				o.err = fmt.Errorf("settling the delivery: %w", queue.ErrLeaseLost)
				continue
			}
			delete(held, a.seq) // settled once
			for _, dec := range o.in.st.Decisions {
				if o.in.st.Kind == queue.SettleDone {
					dec.Generation = a.generation
					o.out.Decisions = append(o.out.Decisions, dec)
				}
			}
			if o.out.State, err = t.end(s, a, o.in.st, o.out.Decisions, &c); err != nil {
				return err
			}
		}
		t.apply(&c)
		return nil
	})
	if wakes {
		s.woken()
	}
	return err
}

// admitMany makes the deliveries of a batch done together with their runs. One delivery after the
// other is decided on: what counts for the next one is what the one before has left.
func (s *Store) admitMany(ctx context.Context, ops []*op[settling, queue.Settled]) error {
	leases := make([]queue.Lease, len(ops))
	var triggers []string
	for i, o := range ops {
		leases[i] = o.in.lease
		for _, dec := range o.in.st.Decisions {
			if matched(dec) {
				triggers = append(triggers, dec.Trigger)
			}
		}
	}
	wakes, err := s.once(ctx, nil, func(t *tx) error {
		if err := t.lock(triggers...); err != nil {
			return err
		}
		held, err := t.underWay(leases)
		if err != nil {
			return err
		}
		var c changes
		for _, o := range ops {
			o.out, o.err = queue.Settled{}, nil
			d, ok := held[o.in.lease.Row]
			if !ok || d.token != o.in.lease.Token {
				o.err = fmt.Errorf("settling the delivery: %w", queue.ErrLeaseLost)
				continue
			}
			delete(held, d.seq) // settled once
			if o.err = admissible(&d.Delivery, o.in.st); o.err != nil {
				continue
			}
			if o.out.Decisions, o.out.Runs, err = t.admitAll(&d.Delivery, o.in.st); err != nil {
				return err
			}
			t.wakes = t.wakes || len(o.out.Runs) > 0
			if o.out.State, err = t.end(s, d.underWay, o.in.st, o.out.Decisions, &c); err != nil {
				return err
			}
		}
		t.apply(&c)
		return nil
	})
	if wakes {
		s.woken()
	}
	return err
}

// heldDelivery is a delivery that its lease still holds.
type heldDelivery struct {
	queue.Delivery
	underWay
}

// underWay locks the deliveries that are still held by leases, by their rows. The locks of the
// triggers may have been waited for: the leases are judged by the time of this statement.
func (t *tx) underWay(leases []queue.Lease) (map[int64]heldDelivery, error) {
	held := make(map[int64]heldDelivery, len(leases))
	rows, tokens := unzip(leases)
	err := t.rows(`SELECT `+deliveryColumns+`, `+underWayColumns+` FROM deliveries AS d JOIN unnest($1::bigint[], $2::bigint[]) AS g (seq, token) ON d.seq = g.seq AND d.token = g.token
		WHERE d.state = 'processing' AND d.due_at > `+clock+` ORDER BY d.seq FOR UPDATE OF d`, []any{rows, tokens}, func(r pgx.Rows) (err error) {
		var h heldDelivery
		h.Delivery, err = scanDelivery(r, h.fields()...)
		held[h.seq] = h
		return err
	})
	return held, err
}

// end adds what a settlement makes of an attempt to c.
func (t *tx) end(s *Store, a underWay, st queue.Settlement, decisions []queue.Decision, c *changes) (queue.DeliveryState, error) {
	next := s.NextState(st.Kind, a.attempts, a.outages, st.Wait, st.Outage)
	if next.State == queue.Done && len(decisions) > 0 {
		var all []queue.Decision
		if err := fromJSON(a.decisions, &all); err != nil {
			return "", err
		}
		a.decisions = toJSON(append(all, decisions...))
	}
	var history []queue.Attempt
	if err := fromJSON(a.history, &history); err != nil {
		return "", err
	}
	a.history = toJSON(queue.AppendAttempt(history, queue.Attempt{
		Generation: a.generation, Attempt: a.attempts, Node: a.node, StartedAt: at(a.started), FinishedAt: at(t.now), Outcome: next.Word, Error: st.Error,
	}))
	if next.Refund {
		a.attempts--
	}
	if next.Outage {
		a.outages++
	}
	var due, finished int64
	if next.State.Terminal() {
		finished = t.now
		t.tally("delivery:"+string(next.State), 1)
	} else {
		due = t.now + next.Wait.Microseconds()
		t.wakes = t.wakes || next.Wait == 0
	}
	switch {
	case next.State == queue.Done:
		a.lastError = ""
	case st.Error != "":
		a.lastError = st.Error
	}
	c.add(a, next.State, due, finished)
	return next.State, nil
}

// changes are what a batch makes of its rows, a slice for each column.
type changes struct {
	seq, due, finished                   []int64
	attempts, outages                    []int32
	state, lastError, history, decisions []string
}

func (c *changes) add(a underWay, state queue.DeliveryState, due, finished int64) {
	c.seq, c.due, c.finished = append(c.seq, a.seq), append(c.due, due), append(c.finished, finished)
	c.attempts, c.outages = append(c.attempts, int32(a.attempts)), append(c.outages, int32(a.outages)) //nolint:gosec // small numbers
	c.state, c.lastError = append(c.state, string(state)), append(c.lastError, a.lastError)
	c.history, c.decisions = append(c.history, a.history), append(c.decisions, a.decisions)
}

func (t *tx) apply(c *changes) {
	if len(c.seq) == 0 {
		return
	}
	t.last(`UPDATE deliveries AS d SET state = g.state, attempts = g.attempts, outages = g.outages, due_at = NULLIF(g.due, 0), finished_at = NULLIF(g.finished, 0),
			last_error = g.last_error, history = g.history, decisions = g.decisions
		FROM unnest($1::bigint[], $2::text[], $3::integer[], $4::integer[], $5::bigint[], $6::bigint[], $7::text[], $8::text[], $9::text[])
			AS g (seq, state, attempts, outages, due, finished, last_error, history, decisions)
		WHERE d.seq = g.seq`,
		c.seq, c.state, c.attempts, c.outages, c.due, c.finished, c.lastError, c.history, c.decisions)
}

// admissible says whether a settlement has what its matched decisions need.
func admissible(d *queue.Delivery, st queue.Settlement) error {
	for _, dec := range st.Decisions {
		if matched(dec) && !slices.ContainsFunc(st.Admissions, func(a queue.Admission) bool { return a.Trigger == dec.Trigger }) {
			return fmt.Errorf("settling %s: %w: trigger %s matched without an admission", d.Key(), queue.ErrInvalid, dec.Trigger)
		}
	}
	return nil
}

// admitAll turns a delivery's matched decisions into runs, in the transaction that makes it done.
func (t *tx) admitAll(d *queue.Delivery, st queue.Settlement) (decisions []queue.Decision, runs []queue.Run, err error) {
	byTrigger := map[string]queue.Admission{}
	for _, a := range st.Admissions {
		byTrigger[a.Trigger] = a
	}
	for _, dec := range st.Decisions {
		dec.Generation = d.Generation
		if matched(dec) {
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
