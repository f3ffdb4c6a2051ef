package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/codec"
)

// stored is a payload as it is kept.
type stored struct {
	codec int
	body  []byte
}

type claimed struct {
	claims []queue.DeliveryClaim
	bodies []stored
}

// claimDeliveries leases what is due, oldest first, and returns it as it is now with what it was
// before. Rows that another node is claiming are passed over.
const claimDeliveries = `WITH picked AS MATERIALIZED (
		SELECT seq, state, attempts, history, node, started_at, size FROM deliveries
		WHERE finished_at IS NULL AND due_at <= ` + clock + ` AND NOT ` + outdated + `
		ORDER BY seq + 0 LIMIT $2 FOR UPDATE SKIP LOCKED
	), fitting AS (
		SELECT * FROM (SELECT *, row_number() OVER w AS place, sum(size) OVER w AS total FROM picked WINDOW w AS (ORDER BY seq)) AS summed WHERE place = 1 OR total <= $5
	)
	UPDATE deliveries AS d SET state = 'processing', attempts = d.attempts + 1, token = d.token + 1, node = $1, started_at = ` + clock + `, due_at = ` + clock + ` + $3
	FROM fitting AS p LEFT JOIN payloads AS b ON b.seq = p.seq WHERE d.seq = p.seq
	RETURNING ` + deliveryColumns + `, d.token, p.state, p.attempts, p.history, p.node, COALESCE(p.started_at, 0), COALESCE(b.codec, -1), b.body, (SELECT count(*) FROM picked)`

// maxClaim bounds, in bytes of payload, what one claim takes beyond its first delivery.
const maxClaim = 32 << 20

// inOrder keeps the planner from gathering and sorting all that is due, which it thinks cheap
// while its statistics know nothing of a backlog: the index's order costs the same whatever they
// say. No other index than the partial one has the order of seq + 0. What is so discouraged counts
// as very expensive where it is needed all the same, which must not make the server compile it.
const inOrder = `SELECT set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true)`

// outdated says whether another live node than $1 has loaded a different set of triggers later; a
// node whose heartbeat is $4 old is not live.
const outdated = `EXISTS (SELECT 1 FROM nodes AS mine JOIN nodes AS other ON other.id <> mine.id
			WHERE mine.id = $1 AND other.triggers_hash <> mine.triggers_hash AND other.triggers_loaded_at > mine.triggers_loaded_at AND other.heartbeat_at > ` + clock + ` - $4)`

// ClaimDeliveries implements queue.Deliveries.
func (s *Store) ClaimDeliveries(ctx context.Context, node string, n int) ([]queue.DeliveryClaim, error) {
	// A transaction costs three round trips; an idle queue is seen by one.
	if !s.flowing.Load() {
		var due bool
		err := s.readRow(ctx, "reading", `SELECT EXISTS (SELECT 1 FROM deliveries WHERE finished_at IS NULL AND due_at <= `+clock+` ORDER BY seq + 0 LIMIT 1)`, nil, func(r scanner) error { return r.Scan(&due) })
		if err != nil || !due {
			return nil, err
		}
	}
	c, err := s.claim(ctx, node, n)
	s.flowing.Store(len(c.claims) > 0)
	if err != nil {
		return nil, err
	}
	sound := c.claims[:0]
	for i, claim := range c.claims {
		if claim.Payload, err = codec.Decode(c.bodies[i].codec, c.bodies[i].body); err == nil {
			sound = append(sound, claim)
			continue
		}
		// A damaged row fails alone.
		if _, err := s.SettleDelivery(ctx, claim.Lease, queue.Settlement{Kind: queue.SettleFail, Error: err.Error()}); err != nil {
			return sound, nil // its lease will expire; what was claimed with it goes on
		}
	}
	return sound, nil
}

// claim takes two round trips.
func (s *Store) claim(ctx context.Context, node string, n int) (c claimed, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var expired []abandoned
	var picked, taken int
	first := reading{
		plan: inOrder, q: claimDeliveries, args: []any{node, n, s.Lease.Microseconds(), s.DeadNode.Microseconds(), int64(maxClaim)},
		scan: func(t *tx, r pgx.Rows) error {
			var o abandoned
			var state string
			var token int64
			var p stored
			var err error
			o.d, err = scanDelivery(r, &token, &state, &o.attempts, &o.history, &o.node, &o.startedAt, &p.codec, &p.body, &picked)
			if err != nil {
				return err
			}
			taken++
			if queue.DeliveryState(state) == queue.Processing {
				expired = append(expired, o)
				if o.attempts >= s.MaxAttempts {
					return nil
				}
			}
			c.claims = append(c.claims, queue.DeliveryClaim{Delivery: o.d, Lease: queue.Lease{Row: o.d.Seq, Token: token, Until: t.local(o.d.LeaseUntil.UnixMicro())}})
			c.bodies = append(c.bodies, p)
			return nil
		},
	}
	_, err = retried(ctx, s, func() (bool, error) {
		c, expired, picked, taken = claimed{}, nil, 0, 0
		return s.once(ctx, &first, func(t *tx) error { return t.abandoned(s, expired) })
	})
	if err != nil {
		return claimed{}, s.explain("claiming from", err)
	}
	if picked > taken { // there is more than fits into one claim
		s.wake()
	}
	c.sort()
	return c, nil
}

// abandoned is a delivery whose lease has expired, as it was before it was claimed again.
type abandoned struct {
	d         queue.Delivery
	history   string
	startedAt int64
	node      string
	attempts  int
}

// abandoned notes how the last attempts ended, and fails what has none left.
func (t *tx) abandoned(s *Store, expired []abandoned) error {
	for _, o := range expired {
		var history []queue.Attempt
		if err := fromJSON(o.history, &history); err != nil {
			return err
		}
		a := queue.Attempt{
			Generation: o.d.Generation, Attempt: o.attempts, Node: o.node, StartedAt: at(o.startedAt), FinishedAt: at(t.now),
			Outcome: "lease_expired", Error: "the worker's lease expired before it said how the attempt ended",
		}
		kept := toJSON(queue.AppendAttempt(history, a))
		if o.attempts < s.MaxAttempts {
			t.last(`UPDATE deliveries SET history = $2 WHERE seq = $1`, o.d.Seq, kept)
		} else {
			t.tally("delivery:failed", 1)
			t.last(`UPDATE deliveries SET state = 'failed', attempts = attempts - 1, due_at = NULL, finished_at = $2, history = $3, last_error = $4, node = $5, started_at = $6 WHERE seq = $1`,
				o.d.Seq, t.now, kept, a.Error, o.node, o.startedAt)
		}
	}
	return nil
}

// sort brings the claims in the order of receipt, which an UPDATE does not keep.
func (c *claimed) sort() {
	order := make([]int, len(c.claims))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(c.claims[a].Seq - c.claims[b].Seq) })
	claims, bodies := make([]queue.DeliveryClaim, len(order)), make([]stored, len(order))
	for to, from := range order {
		claims[to], bodies[to] = c.claims[from], c.bodies[from]
	}
	c.claims, c.bodies = claims, bodies
}

// RenewDeliveries implements queue.Deliveries.
func (s *Store) RenewDeliveries(ctx context.Context, leases []queue.Lease) ([]queue.Lease, error) {
	if len(leases) == 0 {
		return nil, nil
	}
	return get(ctx, s, func(t *tx) ([]queue.Lease, error) {
		until := t.now + s.Lease.Microseconds()
		var held []queue.Lease
		rows, tokens := unzip(leases)
		err := t.rows(`WITH held AS (
				SELECT d.seq FROM deliveries AS d JOIN unnest($1::bigint[], $2::bigint[]) AS g (seq, token) ON d.seq = g.seq AND d.token = g.token
				WHERE d.state = 'processing' AND d.due_at > $4 ORDER BY d.seq FOR UPDATE OF d
			)
			UPDATE deliveries AS d SET due_at = $3 FROM held WHERE d.seq = held.seq RETURNING d.seq, d.token`, []any{rows, tokens, until, t.now},
			func(r pgx.Rows) error {
				l := queue.Lease{Until: t.local(until)}
				err := r.Scan(&l.Row, &l.Token)
				held = append(held, l)
				return err
			})
		return held, err
	})
}

func unzip(leases []queue.Lease) (rows, tokens []int64) {
	for _, l := range leases {
		rows, tokens = append(rows, l.Row), append(tokens, l.Token)
	}
	return rows, tokens
}
