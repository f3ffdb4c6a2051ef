package postgres

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// at reads a stored time; 0 stands for NULL, which every column list turns it into.
func at(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// us writes a time; the zero time is NULL.
func us(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// null writes 0 as NULL.
func null(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}

// flag writes a truth as 0 or 1, as both databases keep it.
func flag(b bool) int16 {
	if b {
		return 1
	}
	return 0
}

func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings, numbers and times only
	}
	return string(b)
}

// fromJSON reads a column that only this package writes; an empty one leaves v as it is.
func fromJSON(text string, v any) error {
	if text == "" {
		return nil
	}
	return json.Unmarshal([]byte(text), v)
}

const deliveryColumns = `d.seq, d.source, d.source_name, d.guid, d.event, d.action, d.repo, d.repo_id, d.subject, d.subject_num, d.sender, d.sender_bot = 1, d.org, d.installation,
	d.headers, d.size, d.state, d.attempts, d.outages, d.generation, d.received_at, d.queued_at, COALESCE(d.due_at, 0), COALESCE(d.finished_at, 0), d.last_error, d.forced = 1, d.only_triggers`

type scanner interface{ Scan(dest ...any) error }

// scanDelivery reads deliveryColumns and then more.
func scanDelivery(row scanner, more ...any) (d queue.Delivery, err error) {
	var headers, only, state string
	var received, queued, due, finished int64
	err = row.Scan(append([]any{
		&d.Seq, &d.Source, &d.SourceName, &d.ID, &d.Event, &d.Action, &d.Repo, &d.RepoID, &d.Subject, &d.SubjectNum, &d.Sender, &d.SenderBot, &d.Org, &d.Installation,
		&headers, &d.Size, &state, &d.Attempts, &d.Outages, &d.Generation, &received, &queued, &due, &finished, &d.LastError, &d.Force, &only,
	}, more...)...)
	if err != nil {
		return d, err
	}
	d.State = queue.DeliveryState(state)
	d.ReceivedAt, d.QueuedAt, d.FinishedAt = at(received), at(queued), at(finished)
	switch d.State {
	case queue.Received:
		d.NextAttempt = at(due)
	case queue.Processing:
		d.LeaseUntil = at(due)
	}
	if err := fromJSON(headers, &d.Headers); err != nil {
		return d, err
	}
	return d, fromJSON(only, &d.Triggers)
}

const runColumns = `id, run_id, trigger, delivery_seq, guid, source, source_name, generation, kind, state, reason, event,
	action, repo, repo_id, subject, subject_num, sender, sender_bot = 1, org, installation, session, attempts, outages, created_at,
	COALESCE(due_at, 0), COALESCE(expires_at, 0), COALESCE(started_at, 0), COALESCE(finished_at, 0), exit_code, http_status, error, node, COALESCE(lease_until, 0)`

// scanRun reads runColumns and then more; id is the run's number in this store.
func scanRun(row scanner, more ...any) (id int64, r queue.Run, err error) {
	var kind, state string
	var created, due, expires, started, finished, lease int64
	err = row.Scan(append([]any{
		&id, &r.ID, &r.Trigger, &r.DeliverySeq, &r.DeliveryID, &r.Source, &r.SourceName, &r.Generation, &kind, &state, &r.Reason, &r.Event,
		&r.Action, &r.Repo, &r.RepoID, &r.Subject, &r.SubjectNum, &r.Sender, &r.SenderBot, &r.Org, &r.Installation, &r.Session, &r.Attempts, &r.Outages, &created,
		&due, &expires, &started, &finished, &r.ExitCode, &r.HTTPStatus, &r.Error, &r.Node, &lease,
	}, more...)...)
	r.Kind, r.State = queue.RunKind(kind), queue.RunState(state)
	r.CreatedAt, r.NextAttempt, r.ExpiresAt = at(created), at(due), at(expires)
	r.StartedAt, r.FinishedAt, r.LeaseUntil = at(started), at(finished), at(lease)
	return id, r, err
}

// splitRef takes "ID" or "SOURCE/ID" apart.
func splitRef(ref string) (source, id string) {
	if i := strings.LastIndexByte(ref, '/'); i >= 0 {
		return ref[:i], ref[i+1:]
	}
	return "", ref
}
