package queue

import (
	"context"
	"encoding/json"
	"time"
)

// Store is what both databases keep. Every method is safe for concurrent use by many goroutines
// and, on Postgres, by many nodes. Every method that returns an error has changed nothing, except
// where the connection was lost while a commit was under way: then the change may have happened,
// and every write is made so that doing it again does no harm (Enqueue answers Duplicate, a
// settlement ErrLeaseLost).
//
// Durable means flushed to disk: SQLite in WAL mode with synchronous=FULL, Postgres with
// synchronous_commit on. The clock is the process's on SQLite and the database's on Postgres.
// Times are kept in microseconds. A request that the row's state does not allow answers
// ErrNotFound, ErrConflict, ErrAmbiguous or ErrInvalid, wrapped.
type Store interface {
	Deliveries
	Runs
	Triggers
	Fleet
	Repairs

	// Kind is "sqlite" or "postgres".
	Kind() string
	// Wakes tells this node that something has become claimable: after a commit of its own at
	// once, after another node's (Postgres) as soon as its notification arrives. A wake may be
	// lost or superfluous. The channel has room for one; cancel ends the subscription.
	Wakes() (wakes <-chan struct{}, cancel func())
	// Prune deletes at most limit deliveries that have been terminal for longer than
	// Settings.Keep, with their payloads, runs and output, and says how many. A delivery stays as
	// long as a run of it has not ended, ended later than that, or opened a session that is not
	// ended. Ingest goes on meanwhile.
	Prune(ctx context.Context, limit int) (deleted int, err error)
	// Prunable counts what Prune would delete now.
	Prunable(ctx context.Context) (int, error)
	// Compact gives space that pruning freed back to the file system, a little at a time.
	Compact(ctx context.Context) error
	Close() error
}

// Deliveries is the delivery queue.
type Deliveries interface {
	// Enqueue makes d and its payload durable before it returns a result. d.Seq, State and the
	// times are the store's. The key is (Source, ID): a second one changes nothing and is a
	// Duplicate, unless the first is Failed: then it is Requeued (Received, attempts 0, due now,
	// QueuedAt now, as whoever asked for it again did so now; same generation). The use of d.Secret
	// is counted in every case. Payload is not kept after the return.
	Enqueue(ctx context.Context, d Delivery, payload []byte) (EnqueueResult, error)
	// ClaimDeliveries leases up to n claimable deliveries, oldest first: Received and due, or
	// Processing with an expired lease. Each is charged one attempt. One with an expired lease and
	// no attempt left becomes Failed instead. Nothing is claimed while another live node has
	// loaded a different set of triggers later than this node (see Heartbeat).
	ClaimDeliveries(ctx context.Context, node string, n int) ([]DeliveryClaim, error)
	// RenewDeliveries extends leases by Settings.Lease and returns those still held, with their
	// new deadlines.
	RenewDeliveries(ctx context.Context, leases []Lease) ([]Lease, error)
	// SettleDelivery ends an attempt as Settings.NextState says. SettleDone inserts the runs of
	// s.Admissions in the same transaction; what became of each stands in Settled. ErrLeaseLost
	// when the lease has expired or passed on, whatever the settlement.
	SettleDelivery(ctx context.Context, l Lease, s Settlement) (Settled, error)

	// ListDeliveries returns newest first, and a cursor when there are more.
	ListDeliveries(ctx context.Context, f DeliveryFilter) (list []Delivery, next string, err error)
	// Delivery finds one by "ID" or "SOURCE/ID", SOURCE being a key or a name. ErrAmbiguous when
	// the ID alone has two.
	Delivery(ctx context.Context, ref string) (*DeliveryDetail, error)
	// Payload returns the JSON as it was signed.
	Payload(ctx context.Context, ref string) ([]byte, error)
	// Replay makes a terminal delivery Received again: attempts 0, generation + 1, QueuedAt now.
	// Earlier runs, attempts and decisions stay. ErrConflict while Received or Processing.
	Replay(ctx context.Context, ref string, o ReplayOptions) (*Delivery, error)
}

// DeliveryClaim is a leased delivery.
type DeliveryClaim struct {
	Delivery
	Payload []byte
	Lease   Lease
}

// SettleKind says how an attempt at a delivery ended.
type SettleKind int

// The ways an attempt ends.
const (
	SettleDone    SettleKind = iota // decided
	SettleRetry                     // failed, transiently
	SettleFail                      // failed, permanently
	SettlePark                      // a dependency is unavailable; the attempt is refunded
	SettleRelease                   // shutdown; the attempt is refunded, claimable at once
)

// Settlement ends an attempt.
type Settlement struct {
	Kind       SettleKind
	Error      string        // for people
	Wait       time.Duration // SettlePark: until the next claim. SettleRetry: 0 means the usual wait
	Outage     bool          // SettlePark: a transport or 5xx failure with the breaker closed
	Decisions  []Decision    // SettleDone: one for each trigger whose `on` matched
	Admissions []Admission   // SettleDone: one for each Matched decision, by Trigger
}

// Admission asks for a run of a matched trigger. In one write, under the trigger's lock, the
// store decides in this order:
//
//  1. the trigger was paused when the delivery was queued: the decision becomes Ignored, "paused: …";
//  2. a run of (trigger, GUID) belongs to another source: Ignored, "double_subscription: …" naming it;
//  3. LoopLimit (kind start) or FollowLimit (kind follow_up) reached for the subject: a Dropped
//     run, loop_limit. Runs that were dropped do not count, or a subject that is talked about
//     without end would never have a run again;
//  4. Coalesce: older waiting runs of the subject that have not been started become Dropped,
//     superseded;
//  5. QueueSize runs of the trigger Waiting (not expired) or Routing: a Dropped run, queue_full;
//  6. a Waiting run, of kind follow_up when FollowUp is set and the subject has a session that is
//     not ended or an earlier run that is Waiting, Running or Routing; else of kind start.
//
// A delivery never has two runs of one trigger in one generation.
type Admission struct {
	Trigger        string
	QueueSize      int
	QueueWait      time.Duration
	LoopCount      int // 0: no limit
	LoopPer        time.Duration
	FollowUp       bool
	FollowCount    int // 0: no limit
	FollowPer      time.Duration
	Coalesce       bool
	SerializeKey   string // "" when runs need not be serialized
	Idempotent     bool
	UncertainAfter time.Duration
}

// Settled says what became of a settlement.
type Settled struct {
	State     DeliveryState
	Decisions []Decision // as kept: with run ids, and with what admission changed
	Runs      []Run      // admitted or dropped
}

// DeliveryFilter selects deliveries. Zero fields select everything.
type DeliveryFilter struct {
	States  []DeliveryState
	Event   string
	Repo    string // owner/name, case-insensitive
	Source  string // key or name
	Trigger string // has a decision of this trigger
	Since   time.Time
	Limit   int // 0: 50
	Cursor  string
}

// DeliveryDetail is one delivery's whole story.
type DeliveryDetail struct {
	Delivery
	History   []Attempt
	Decisions []Decision
	Runs      []Run
}

// ReplayOptions narrow a replay.
type ReplayOptions struct {
	Force    bool
	Triggers []string
}

// Runs are the executions, their queue and their sessions.
type Runs interface {
	// ClaimRuns starts what may start, in one transaction a trigger, and leases it to node:
	//
	//   - waiting runs past ExpiresAt become Dropped, expired (a run tried before never expires);
	//   - while fewer than Concurrency runs of kind start are Running: the due waiting run of kind
	//     start with the lowest (DeliverySeq, generation) whose SerializeKey has no Running run and
	//     no earlier waiting one (one that waits for its next attempt included) becomes Running,
	//     its attempt is charged and, with FollowUp, a live session opens for its subject. With
	//     FollowUp it waits while another start of its subject runs, though that one's session has
	//     ended, or waits before it: nobody wants two at work on one issue;
	//   - with FollowUp: for each subject without a Routing run, its first waiting run of kind
	//     follow_up becomes Routing when the subject's session is live (and reported, if
	//     SessionReported) or sleeping (then live again while the hand-over lasts); it becomes
	//     kind start, keeping its place, when no session and no earlier waiting or running run is
	//     left; a Routing run that is due is leased again.
	//
	// Nothing of a paused trigger starts or is handed over, though it expires. At most max runs
	// are returned. next is when something of these triggers becomes due, or zero. Beside an error
	// claims are what was leased before it.
	ClaimRuns(ctx context.Context, node string, rules []DispatchRule, max int) (claims []RunClaim, next time.Time, err error)
	// RenewRuns extends leases and returns those still held, and which of those an operator wants
	// canceled.
	RenewRuns(ctx context.Context, leases []Lease) (held []Lease, cancel []Lease, err error)
	// SettleRun records an attempt's outcome and gives the lease back. Waiting becomes failed at
	// the last attempt; Uncertain becomes Waiting for an idempotent run. Running (an accepted HTTP
	// run) keeps its slot without a lease until FinishRun or o.Deadline. The run's session ends
	// with its run unless it sleeps; SessionEnded turns the hand-over into a waiting start in the
	// same write. A run for which cancel was asked is Canceled, unless it ended by itself.
	SettleRun(ctx context.Context, l Lease, o Outcome) (*Run, error)
	// ReportSession records what a running target says of its session.
	ReportSession(ctx context.Context, l Lease, session string, state SessionState) error
	// ReleaseRun gives back a claim that was never begun: Waiting (or Routing), attempt refunded.
	ReleaseRun(ctx context.Context, l Lease) error
	// DisownRuns gives back, as ReleaseRun does, every run that is leased to node and not by one of
	// these leases, and says how many: those of a claim whose answer was lost. held has to name all
	// that the node may have begun, and the node has to make no claim meanwhile.
	DisownRuns(ctx context.Context, node string, held []Lease) (int, error)
	// SweepRuns moves on what nobody holds any more: a lease that expired (Uncertain, worker_lost,
	// or tried again if idempotent, failed without attempts left), an accepted run past its
	// deadline (Uncertain, unconfirmed), an uncertain run past its time (Failed; while a probe asks,
	// its answer or the end of its lease comes first), waiting runs past ExpiresAt (Dropped),
	// sleeping sessions past theirs (Ended). It says how many rows it moved.
	SweepRuns(ctx context.Context) (int, error)
	// ClaimProbes leases uncertain runs of these triggers that are due to be asked after.
	ClaimProbes(ctx context.Context, node string, triggers []string, max int) ([]RunClaim, error)
	// SettleProbe records a probe's answer: it happened (Succeeded, or Delivered for a follow_up),
	// it did not (tried again, or failed at the last attempt), or unknown (asked again later).
	SettleProbe(ctx context.Context, l Lease, a ProbeAnswer) (*Run, error)

	ListRuns(ctx context.Context, f RunFilter) (list []Run, next string, err error)
	Run(ctx context.Context, id string) (*RunDetail, error)
	// CancelRun: Waiting, Uncertain and accepted Running ones are Canceled at once; for Running and
	// Routing ones under way the holder is told by RenewRuns. ErrConflict otherwise.
	CancelRun(ctx context.Context, id string) (*Run, error)
	// RetryRun: Failed, Uncertain, Canceled and Dropped ones become Waiting (kind, id and key as
	// before), attempts 0. ErrConflict otherwise.
	RetryRun(ctx context.Context, id string) (*Run, error)
	// ResolveRun: an Uncertain one becomes Succeeded (Delivered for a follow_up) or RunFailed.
	ResolveRun(ctx context.Context, id string, as RunState) (*Run, error)
	// FinishRun: a Running or an Uncertain one becomes as (Delivered for a follow_up that succeeded),
	// and its session what the target says. A target may be quicker than the answer in which it
	// accepts the run: its word counts, and the worker finds its lease lost.
	FinishRun(ctx context.Context, id string, f Finish) (*Run, error)
}

// DispatchRule is what a node knows of a trigger when it starts runs.
type DispatchRule struct {
	Trigger         string
	Concurrency     int
	FollowUp        bool
	SessionReported bool
}

// RunClaim is a leased run with what its target needs.
type RunClaim struct {
	Run
	Headers map[string]string
	Payload []byte
	Lease   Lease
}

// ProbeAnswer is what a probe says of an uncertain run.
type ProbeAnswer int

// The answers of a probe.
const (
	ProbeUnknown ProbeAnswer = iota
	ProbeHappened
	ProbeDidNot
)

// Finish is a target's own word on a run.
type Finish struct {
	As           RunState // Succeeded or RunFailed
	Session      string
	SessionState SessionState
	Error        string
}

// RunFilter selects runs. Zero fields select everything.
type RunFilter struct {
	Trigger    string
	States     []RunState
	Subject    string // owner/repo#number, case-insensitive
	DeliveryID string // ID or SOURCE/ID
	Since      time.Time
	Limit      int // 0: 50
	Cursor     string
}

// RunDetail is one run's whole story.
type RunDetail struct {
	Run
	Output         []byte
	History        []Attempt
	SessionDetail  *Session
	Idempotent     bool
	UncertainUntil time.Time
	CancelAsked    bool
}

// Triggers are the triggers' state; their definition is each node's configuration.
type Triggers interface {
	// PauseTrigger takes effect on all nodes at once and survives restarts. What is received from
	// now on is ignored by the trigger, nothing waiting starts. Pausing twice changes nothing.
	PauseTrigger(ctx context.Context, name string) error
	ResumeTrigger(ctx context.Context, name string) error
	// TriggerStats returns one for each trigger that has state or runs, by name.
	TriggerStats(ctx context.Context) (map[string]TriggerStats, error)
}

// TriggerStats are counted from rows.
type TriggerStats struct {
	PausedSince time.Time // zero when not paused
	Running     int       // starts that hold a slot
	Waiting     int
	Routing     int
	Uncertain   int
	Dropped24h  int
	LastRunAt   time.Time
	LastFailed  int // how many of the newest five ended starts failed in a row, from the newest
}

// Fleet is what the nodes of a store know of each other.
type Fleet interface {
	// Heartbeat writes this node's row and reads the store's clock; it fails when the store cannot
	// be written.
	Heartbeat(ctx context.Context, n Node) error
	// Leave removes the node's row at a clean stop.
	Leave(ctx context.Context, node string) error
	// Nodes lists all, those that are gone for less than a day included.
	Nodes(ctx context.Context) ([]Node, error)
	// Counts is the queue in numbers. Its cost does not depend on how many rows are retained.
	Counts(ctx context.Context) (Counts, error)
	// SecretUses says which named secrets verified deliveries.
	SecretUses(ctx context.Context) ([]SecretUse, error)
	// DoubleSubscriptions lists triggers that were reached through two sources in the last day.
	DoubleSubscriptions(ctx context.Context) ([]DoubleSubscription, error)

	// LoadDocs returns the documents of a kind by key. Documents are small JSON values that nodes
	// share: breakers, watchdog cursors, app verdicts.
	LoadDocs(ctx context.Context, kind string) (map[string]Doc, error)
	// SwapDoc writes body if the document is still at version old (0: it does not exist yet) and
	// says whether it did.
	SwapDoc(ctx context.Context, kind, key string, old int64, body json.RawMessage) (bool, error)
	// Lock takes or keeps a named lease for owner. False: another owner holds it.
	Lock(ctx context.Context, name, owner string, ttl time.Duration) (bool, error)
	Unlock(ctx context.Context, name, owner string) error
}

// Node is one running preloop process.
type Node struct {
	ID               string // host name and a random part
	Host             string
	PID              int
	Version          string
	Components       []string
	TriggersHash     string
	TriggersLoadedAt time.Time
	StartedAt        time.Time
	HeartbeatAt      time.Time // the store's
	Gone             bool      // no heartbeat for Settings.DeadNode
	Note             string    // what an operator should know, such as a fallback to polling
}

// Counts is the queue in numbers.
type Counts struct {
	Deliveries      map[DeliveryState]int
	OldestPending   time.Time // receipt of the oldest delivery that is claimable or processing
	OldestClaimable time.Time // since when the longest-waiting claimable delivery has been claimable
	Runs            map[RunState]int
	Dropped24h      map[string]int // by reason
	Dropped1h       map[string]int
	OldestUncertain time.Time
	OldestDead      time.Time
}

// SecretUse counts what a named secret of a source verified.
type SecretUse struct {
	Source     string
	Name       string
	Deliveries int
	LastUsedAt time.Time
}

// DoubleSubscription is a trigger that one event reached through two sources, by their names.
type DoubleSubscription struct {
	Trigger string
	Owner   string // source that ran
	Other   string // source that was ignored
	LastAt  time.Time
}

// Doc is a shared document.
type Doc struct {
	Version   int64
	UpdatedAt time.Time
	Body      json.RawMessage
}

// Repairs are the deliveries that GitHub has and the store had not.
type Repairs interface {
	// Present says which of these GUIDs have a row of this source.
	Present(ctx context.Context, source string, guids []string) (map[string]bool, error)
	// SaveRepairs inserts or replaces repairs by (Source, GUID).
	SaveRepairs(ctx context.Context, repairs []Repair) error
	ListRepairs(ctx context.Context, f RepairFilter) ([]Repair, error)
	// PruneRepairs deletes at most limit repairs that have been closed for longer than
	// Settings.Keep, and says how many. One without a ClosedAt is never deleted.
	PruneRepairs(ctx context.Context, limit int) (deleted int, err error)
}

// Repair is one delivery's way back.
type Repair struct {
	Source      string
	SourceName  string
	GUID        string
	HookID      int64 // GitHub's id of the newest attempt, for redelivery
	Event       string
	Action      string
	Reason      string // remote_failure, phantom_ack
	State       string // open, arrived, lost
	Attempts    int
	DeliveredAt time.Time // GitHub's time of the newest attempt
	FoundAt     time.Time
	NextAttempt time.Time
	LastAttempt time.Time
	ClosedAt    time.Time
	LastError   string
}

// RepairFilter selects repairs, newest found first. Zero fields select everything.
type RepairFilter struct {
	Source string
	State  string
	Limit  int
}
