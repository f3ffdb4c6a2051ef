package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/codec"
)

// bodies holds compressed payloads between Enqueue's two halves.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

// Enqueue implements queue.Deliveries. The payload is compressed here, by its sender, before it
// waits for the writer.
func (s *Store) Enqueue(ctx context.Context, d queue.Delivery, payload []byte) (queue.EnqueueResult, error) {
	buf := bodies.Get().(*[]byte)
	body, kind := codec.Encode((*buf)[:0], payload)
	headers := toJSON(d.Headers)
	result, err := getBy(ctx, s, s.enqueues, func(t *tx) (queue.EnqueueResult, error) {
		return t.enqueue(&d, headers, len(payload), kind, body)
	})
	if err == nil {
		// After an error the writer may still be reading it.
		*buf = body
		bodies.Put(buf)
	}
	return result, err
}

func (t *tx) enqueue(d *queue.Delivery, headers string, size, kind int, body []byte) (queue.EnqueueResult, error) {
	seq, err := t.nextSeq()
	if err != nil {
		return "", err
	}
	n, err := t.exec(`INSERT INTO deliveries (seq, source, source_name, guid, event, action, repo, repo_id, subject, subject_num, sender, sender_bot, org, installation,
			headers, size, received_at, queued_at, due_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?17, ?17) ON CONFLICT (guid, source) DO NOTHING`,
		seq, d.Source, d.SourceName, d.ID, d.Event, d.Action, d.Repo, d.RepoID, d.Subject, d.SubjectNum, d.Sender, d.SenderBot, d.Org, d.Installation,
		headers, size, t.now)
	if err != nil {
		return "", err
	}
	if d.Secret != "" {
		if t.secrets == nil {
			t.secrets = map[[2]string]int64{}
		}
		t.secrets[[2]string{d.Source, d.Secret}]++
	}
	if n == 1 {
		t.wakes = true
		_, err := t.exec(`INSERT INTO payloads (seq, codec, body) VALUES (?, ?, ?)`, seq, kind, body)
		return queue.Accepted, err
	}
	return t.redelivered(d.Source, d.ID)
}

// redelivered is what a second delivery of a key does: it brings a dead letter back.
func (t *tx) redelivered(source, guid string) (queue.EnqueueResult, error) {
	var seq int64
	err := t.row(`SELECT seq FROM deliveries WHERE guid = ? AND source = ? AND state = 'failed'`, []any{guid, source}, &seq)
	if errors.Is(err, sql.ErrNoRows) {
		return queue.Duplicate, nil
	}
	if err != nil {
		return "", err
	}
	t.wakes = true
	t.tally("delivery:failed", -1)
	_, err = t.exec(`UPDATE deliveries SET state = 'received', attempts = 0, outages = 0, due_at = ?2, queued_at = ?2, finished_at = NULL WHERE seq = ?1`, seq, t.now)
	return queue.Requeued, err
}
