package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/codec"
)

// bodies holds compressed payloads between Enqueue's two halves.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

// arrival is a delivery on its way in.
type arrival struct {
	d       *queue.Delivery
	headers string
	size    int
	codec   int
	body    []byte
}

type key struct{ guid, source string }

// Enqueue implements queue.Deliveries. The payload is compressed here, by its sender, before it
// waits for its batch.
func (s *Store) Enqueue(ctx context.Context, d queue.Delivery, payload []byte) (queue.EnqueueResult, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	buf := bodies.Get().(*[]byte)
	body, kind := codec.Encode((*buf)[:0], payload)
	result, settled, err := s.enqueues.do(ctx, arrival{d: &d, headers: toJSON(d.Headers), size: len(payload), codec: kind, body: body})
	if settled {
		*buf = body
		bodies.Put(buf)
	}
	return result, err
}

// insertDeliveries takes in a batch, in its order. Nothing happens to a key that is there already.
const insertDeliveries = `WITH kept AS (
		INSERT INTO deliveries (source, source_name, guid, event, action, repo, repo_id, subject, subject_num, sender, sender_bot, org, installation,
			headers, size, received_at, queued_at, due_at)
		SELECT g.*, ` + clock + `, ` + clock + `, ` + clock + `
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::bigint[], $10::text[], $11::smallint[], $12::text[],
			$13::bigint[], $14::text[], $15::integer[]) AS g
		ON CONFLICT (guid, source) DO NOTHING RETURNING seq, guid, source
	), stored AS (
		INSERT INTO payloads (seq, codec, body)
		SELECT kept.seq, b.codec, b.body FROM kept JOIN unnest($3::text[], $1::text[], $16::smallint[], $17::bytea[]) AS b (guid, source, codec, body) USING (guid, source)
	)
	SELECT guid, source FROM kept`

// countSecrets is the last statement of its transaction: the rows that all nodes share are locked
// no longer than the commit takes.
const countSecrets = `INSERT INTO secret_uses (source, name, deliveries, last_used_at)
	SELECT source, name, count(*), ` + clock + ` FROM unnest($1::text[], $2::text[]) AS g (source, name) GROUP BY source, name ORDER BY source, name
	ON CONFLICT (source, name) DO UPDATE SET deliveries = secret_uses.deliveries + excluded.deliveries, last_used_at = excluded.last_used_at`

// enqueue takes in a batch in one round trip.
func (s *Store) enqueue(ctx context.Context, ops []*op[arrival, queue.EnqueueResult]) error {
	first := make(map[key]*op[arrival, queue.EnqueueResult], len(ops))
	var c columns
	var sources, names []string
	for _, o := range ops {
		d := o.in.d
		o.err = nil
		if d.Secret != "" {
			sources, names = append(sources, text(d.Source)), append(names, text(d.Secret))
		}
		k := key{text(d.ID), text(d.Source)}
		if first[k] != nil {
			o.out = queue.Duplicate // of one in this very batch
			continue
		}
		first[k] = o
		c.add(&o.in)
	}
	var b pgx.Batch
	if s.flush {
		b.Queue(flushing)
	}
	kept := make(map[key]bool, len(first))
	b.Queue(insertDeliveries, c.args()...).Query(func(rows pgx.Rows) error {
		clear(kept)
		return each(rows, nil, func(r pgx.Rows) error {
			var k key
			err := r.Scan(&k.guid, &k.source)
			kept[k] = true
			return err
		})
	})
	if len(names) > 0 {
		b.Queue(countSecrets, sources, names)
	}
	if err := s.pool.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	var known []key
	for k, o := range first {
		if o.out = queue.Accepted; !kept[k] {
			o.out = queue.Duplicate
			known = append(known, k)
		}
	}
	if len(kept) > 0 {
		s.woken()
	}
	if len(known) == 0 {
		return nil
	}
	requeued, err := s.redelivered(ctx, known)
	for _, k := range known {
		if err != nil {
			first[k].err = err // the batch itself is committed
		} else if requeued[k] {
			first[k].out = queue.Requeued
		}
	}
	return nil
}

// redelivered is what a second delivery of a key does: it brings a dead letter back.
func (s *Store) redelivered(ctx context.Context, keys []key) (map[key]bool, error) {
	guids, sources := make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		guids[i], sources[i] = k.guid, k.source
	}
	var dead bool
	err := s.readRow(ctx, "reading", `SELECT EXISTS (SELECT 1 FROM deliveries JOIN unnest($1::text[], $2::text[]) AS g (guid, source) USING (guid, source) WHERE dead)`,
		[]any{guids, sources}, func(r scanner) error { return r.Scan(&dead) })
	if err != nil || !dead {
		return nil, err
	}
	requeued := map[key]bool{}
	err = s.write(ctx, func(t *tx) error {
		clear(requeued)
		err := t.rows(`UPDATE deliveries AS d SET state = 'received', attempts = 0, outages = 0, due_at = $3, queued_at = $3, finished_at = NULL
			FROM unnest($1::text[], $2::text[]) AS g (guid, source) WHERE d.guid = g.guid AND d.source = g.source AND d.state = 'failed' RETURNING d.guid, d.source`,
			[]any{guids, sources, t.now}, func(r pgx.Rows) error {
				var k key
				err := r.Scan(&k.guid, &k.source)
				requeued[k] = true
				return err
			})
		t.tally("delivery:failed", -int64(len(requeued)))
		t.wakes = len(requeued) > 0
		return err
	})
	return requeued, err
}

// columns are a batch's values, a slice for each column of insertDeliveries.
type columns struct {
	source, sourceName, guid, event, action, repo, subject, sender, org, headers []string
	repoID, subjectNum, installation                                             []int64
	bot, codec                                                                   []int16
	size                                                                         []int32
	body                                                                         [][]byte
}

func (c *columns) add(a *arrival) {
	d := a.d
	c.source, c.sourceName, c.guid = append(c.source, d.Source), append(c.sourceName, d.SourceName), append(c.guid, d.ID)
	c.event, c.action, c.repo, c.repoID = append(c.event, d.Event), append(c.action, d.Action), append(c.repo, d.Repo), append(c.repoID, d.RepoID)
	c.subject, c.subjectNum = append(c.subject, d.Subject), append(c.subjectNum, d.SubjectNum)
	c.sender, c.bot, c.org, c.installation = append(c.sender, d.Sender), append(c.bot, flag(d.SenderBot)), append(c.org, d.Org), append(c.installation, d.Installation)
	c.headers, c.size = append(c.headers, a.headers), append(c.size, int32(a.size)) //nolint:gosec // far below 2 GiB
	c.codec, c.body = append(c.codec, int16(a.codec)), append(c.body, a.body)       //nolint:gosec // a small number
}

func (c *columns) args() []any {
	return storable([]any{
		c.source, c.sourceName, c.guid, c.event, c.action, c.repo, c.repoID, c.subject, c.subjectNum, c.sender, c.bot, c.org, c.installation, c.headers, c.size, c.codec, c.body,
	})
}
