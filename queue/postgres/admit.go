package postgres

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/jackc/pgx/v5"

	"github.com/seed-de999ace/preloop/queue"
)

// admit decides on one matched trigger, in the order that queue.Admission gives. It returns the
// run that it inserted, waiting or dropped, or nil where dec became Ignored.
func (t *tx) admit(d *queue.Delivery, a queue.Admission, dec *queue.Decision) (*queue.Run, error) {
	if why, err := t.refused(d, a.Trigger); err != nil || why != "" {
		dec.Verdict, dec.Reason = queue.Ignored, why
		return nil, err
	}
	r := queue.Run{
		ID: uuid.Must(uuid.NewV7()).String(), Trigger: a.Trigger, DeliverySeq: d.Seq, DeliveryID: d.ID, Source: d.Source, SourceName: d.SourceName,
		Generation: d.Generation, Kind: queue.Start, State: queue.Waiting, Event: d.Event, Facts: d.Facts,
		CreatedAt: at(t.now), ExpiresAt: at(t.now + a.QueueWait.Microseconds()),
	}
	subject := d.SubjectKey()
	var err error
	if r.Kind, err = t.kind(a, subject); err != nil {
		return nil, err
	}
	if r.Reason, err = t.dropReason(a, r.Kind, subject); err != nil {
		return nil, err
	}
	var finished int64
	if r.Reason != "" {
		r.State, r.ExpiresAt, r.FinishedAt, finished = queue.Dropped, time.Time{}, at(t.now), t.now
		t.tally("run:dropped", 1)
	}
	_, err = t.exec(`INSERT INTO runs (run_id, trigger, delivery_seq, guid, source, source_name, generation, kind, state, reason, event, action, repo, repo_id,
			subject, subject_num, subject_key, sender, sender_bot, org, installation, serialize_key, follows, idempotent, uncertain_after, created_at, expires_at, finished_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28)`,
		r.ID, r.Trigger, r.DeliverySeq, r.DeliveryID, r.Source, r.SourceName, r.Generation, string(r.Kind), string(r.State), r.Reason, r.Event, r.Action, r.Repo, r.RepoID,
		r.Subject, r.SubjectNum, subject, r.Sender, flag(r.SenderBot), r.Org, r.Installation, a.SerializeKey, flag(a.FollowUp && subject != ""), flag(a.Idempotent), a.UncertainAfter.Microseconds(),
		t.now, us(r.ExpiresAt), null(finished))
	return &r, err
}

// refused says why a matched event makes no row at all: its trigger was paused when it was
// queued, or another source's delivery of the same event is the trigger's already.
func (t *tx) refused(d *queue.Delivery, trigger string) (why string, err error) {
	var since int64
	queued := d.QueuedAt.UnixMicro()
	err = t.row(`SELECT since FROM pauses WHERE trigger = $1 AND since <= $2 AND (until IS NULL OR until > $2) LIMIT 1`, []any{trigger, queued}, &since)
	if err == nil {
		return fmt.Sprintf("paused: the trigger was paused at %s, before this event came", at(since).Format(time.RFC3339)), nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return "", err
	}
	var owner, ownerName string
	err = t.row(`SELECT source, source_name FROM runs WHERE guid = $1 AND trigger = $2 AND source <> $3 LIMIT 1`, []any{d.ID, trigger, d.Source}, &owner, &ownerName)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	_, err = t.exec(`INSERT INTO double_subscriptions (trigger, owner, other, last_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (trigger, owner, other) DO UPDATE SET last_at = excluded.last_at`, trigger, ownerName, d.SourceName, t.now)
	return "double_subscription: the same event came through " + ownerName + ", which owns it", err
}

// kind says whether the event starts something or follows what is under way on its subject.
func (t *tx) kind(a queue.Admission, subject string) (queue.RunKind, error) {
	if !a.FollowUp || subject == "" {
		return queue.Start, nil
	}
	busy, err := t.exists(`SELECT 1 FROM sessions WHERE trigger = $1 AND subject_key = $2 AND state <> 'ended'
		UNION ALL SELECT 1 FROM runs WHERE trigger = $1 AND subject_key = $2 AND follows = 1 AND state IN ('waiting', 'running', 'routing') LIMIT 1`, a.Trigger, subject)
	if busy {
		return queue.FollowUp, err
	}
	return queue.Start, err
}

// dropReason checks the limits in their order. Superseding frees its place before the cap is checked.
func (t *tx) dropReason(a queue.Admission, kind queue.RunKind, subject string) (string, error) {
	limit, per := a.LoopCount, a.LoopPer
	if kind == queue.FollowUp {
		limit, per = a.FollowCount, a.FollowPer
	}
	if limit > 0 && subject != "" {
		var n int
		if err := t.row(`SELECT COUNT(*) FROM runs WHERE trigger = $1 AND subject_key = $2 AND subject_key <> '' AND created_at > $3 AND kind = $4 AND state <> 'dropped'`,
			[]any{a.Trigger, subject, t.now - per.Microseconds(), string(kind)}, &n); err != nil {
			return "", err
		}
		if n >= limit {
			return queue.ReasonLoopLimit, nil
		}
	}
	if a.Coalesce && subject != "" {
		n, err := t.exec(`UPDATE runs SET state = 'dropped', reason = 'superseded', finished_at = $3, expires_at = NULL, due_at = NULL
			WHERE trigger = $1 AND subject_key = $2 AND subject_key <> '' AND state = 'waiting' AND tries = 0`, a.Trigger, subject, t.now)
		if err != nil {
			return "", err
		}
		t.tally("run:dropped", n)
	}
	// Counted no further than the answer needs.
	var held int
	if err := t.row(`SELECT COUNT(*) FROM (SELECT 1 FROM runs WHERE trigger = $1 AND state IN ('waiting', 'running', 'routing', 'uncertain')
			AND (state = 'routing' OR state = 'waiting' AND (expires_at IS NULL OR expires_at > $2)) LIMIT $3) AS held`,
		[]any{a.Trigger, t.now, a.QueueSize}, &held); err != nil {
		return "", err
	}
	if held >= a.QueueSize {
		return queue.ReasonQueueFull, nil
	}
	return "", nil
}
