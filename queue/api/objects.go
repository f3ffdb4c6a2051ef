package api

import (
	"encoding/json"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// The objects of the API, the same in `--json`. An absent value is null. Times are RFC 3339 UTC.

// Delivery is a delivery as a list shows it. It never has the payload.
type Delivery struct {
	DeliveryID    string     `json:"delivery_id"`
	Source        string     `json:"source"`
	Event         string     `json:"event"`
	Action        *string    `json:"action"`
	Repo          *string    `json:"repo"`
	Subject       *string    `json:"subject"`
	Sender        *string    `json:"sender"`
	State         string     `json:"state"`
	Attempts      int        `json:"attempts"`
	Generation    int        `json:"generation"`
	ReceivedAt    *time.Time `json:"received_at"`
	AgeSeconds    int64      `json:"age_seconds"`
	FinishedAt    *time.Time `json:"finished_at"`
	LeaseUntil    *time.Time `json:"lease_until"`
	NextAttemptAt *time.Time `json:"next_attempt_at"`
	LastError     *string    `json:"last_error"`
	Size          int        `json:"size"`
}

// DeliveryDetail is one delivery's whole story.
type DeliveryDetail struct {
	Delivery
	Headers        map[string]string `json:"headers"`
	AttemptHistory []Attempt         `json:"attempt_history"`
	Decisions      []Decision        `json:"decisions"`
	Runs           []Run             `json:"runs"`
}

// Attempt is one attempt at a delivery or a run.
type Attempt struct {
	Generation int        `json:"generation"`
	Attempt    int        `json:"attempt"`
	Node       string     `json:"node"`
	StartedAt  *time.Time `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at"`
	Outcome    *string    `json:"outcome"`
	Error      *string    `json:"error"`
}

// Decision is what a trigger said of a delivery.
type Decision struct {
	Trigger    string  `json:"trigger"`
	Decision   string  `json:"decision"`
	Reason     *string `json:"reason"`
	RunID      *string `json:"run_id"`
	Generation int     `json:"generation"`
}

// Run is a run as a list shows it.
type Run struct {
	ID            string     `json:"id"`
	Trigger       string     `json:"trigger"`
	DeliveryID    string     `json:"delivery_id"`
	Source        string     `json:"source"`
	Kind          string     `json:"kind"`
	State         string     `json:"state"`
	Reason        *string    `json:"reason"`
	Repo          *string    `json:"repo"`
	Subject       *string    `json:"subject"`
	Session       *string    `json:"session"`
	Attempts      int        `json:"attempts"`
	CreatedAt     *time.Time `json:"created_at"`
	NextAttemptAt *time.Time `json:"next_attempt_at"`
	ExpiresAt     *time.Time `json:"expires_at"`
	StartedAt     *time.Time `json:"started_at"`
	FinishedAt    *time.Time `json:"finished_at"`
	ExitCode      *int       `json:"exit_code"`
	HTTPStatus    *int       `json:"http_status"`
	Error         *string    `json:"error"`
	Node          *string    `json:"node"`
}

// RunDetail is one run's whole story.
type RunDetail struct {
	Run
	Output         *string    `json:"output"`
	AttemptHistory []Attempt  `json:"attempt_history"`
	Sessions       *Session   `json:"session_detail"`
	UncertainUntil *time.Time `json:"uncertain_until"`
	CancelAsked    bool       `json:"cancel_asked"`
}

// Session is the conversation that a run opened or joined.
type Session struct {
	ID        string     `json:"id"`
	State     string     `json:"state"`
	RunID     string     `json:"run_id"`
	Subject   string     `json:"subject"`
	Reported  bool       `json:"reported"`
	CreatedAt *time.Time `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"`
}

// Trigger is a trigger with its counts.
type Trigger struct {
	Name             string     `json:"name"`
	State            string     `json:"state"` // active, paused, off
	Concurrency      *int       `json:"concurrency"`
	QueueSize        *int       `json:"queue_size"`
	QueueWaitSeconds *int64     `json:"queue_wait_seconds"`
	Running          int        `json:"running"`
	Waiting          int        `json:"waiting"`
	Routing          int        `json:"routing"`
	Dropped24h       int        `json:"dropped_24h"`
	Uncertain        int        `json:"uncertain"`
	LastRunAt        *time.Time `json:"last_run_at"`
}

// Repair is a delivery that GitHub has and the store had not.
type Repair struct {
	DeliveryID    string     `json:"delivery_id"`
	Source        string     `json:"source"`
	Event         string     `json:"event"`
	Action        *string    `json:"action"`
	Reason        string     `json:"reason"`
	State         string     `json:"state"`
	Attempts      int        `json:"attempts"`
	DeliveredAt   *time.Time `json:"delivered_at"`
	FoundAt       *time.Time `json:"found_at"`
	NextAttemptAt *time.Time `json:"next_attempt_at"`
	LastAttemptAt *time.Time `json:"last_attempt_at"`
	ClosedAt      *time.Time `json:"closed_at"`
	LastError     *string    `json:"last_error"`
}

// Replayed answers a replay.
type Replayed struct {
	DeliveryID string `json:"delivery_id"`
	Source     string `json:"source"`
	Status     string `json:"status"`
}

// ReplayRequest is a replay's body.
type ReplayRequest struct {
	Force    bool     `json:"force,omitempty"`
	Triggers []string `json:"triggers,omitempty"`
}

// EndRequest is the body of resolve and finish.
type EndRequest struct {
	As      string `json:"as"`
	Session string `json:"session,omitempty"`
	State   string `json:"state,omitempty"` // of the session: sleeping or ended
	Error   string `json:"error,omitempty"`
}

// Lists are pages.
type (
	// DeliveryList is a page of deliveries.
	DeliveryList struct {
		Deliveries []Delivery `json:"deliveries"`
		NextCursor *string    `json:"next_cursor"`
	}
	// RunList is a page of runs.
	RunList struct {
		Runs       []Run   `json:"runs"`
		NextCursor *string `json:"next_cursor"`
	}
	// TriggerList is every trigger.
	TriggerList struct {
		Triggers []Trigger `json:"triggers"`
	}
	// RepairList is every repair that a filter selects.
	RepairList struct {
		Repairs []Repair `json:"repairs"`
	}
)

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func delivery(d queue.Delivery, now time.Time) Delivery {
	return Delivery{
		DeliveryID: d.ID, Source: d.SourceName, Event: d.Event, Action: text(d.Action), Repo: text(d.Repo), Subject: text(d.Subject), Sender: text(d.Sender),
		State: string(d.State), Attempts: d.Attempts, Generation: d.Generation, ReceivedAt: when(d.ReceivedAt), AgeSeconds: int64(max(0, now.Sub(d.ReceivedAt)).Seconds()),
		FinishedAt: when(d.FinishedAt), LeaseUntil: when(d.LeaseUntil), NextAttemptAt: when(d.NextAttempt), LastError: text(d.LastError), Size: d.Size,
	}
}

func deliveryDetail(d *queue.DeliveryDetail, now time.Time) *DeliveryDetail {
	out := &DeliveryDetail{
		Delivery: delivery(d.Delivery, now), Headers: d.Headers,
		AttemptHistory: attempts(d.History), Decisions: []Decision{}, Runs: []Run{},
	}
	for _, x := range d.Decisions {
		out.Decisions = append(out.Decisions, Decision{Trigger: x.Trigger, Decision: string(x.Verdict), Reason: text(x.Reason), RunID: text(x.RunID), Generation: x.Generation})
	}
	for _, r := range d.Runs {
		out.Runs = append(out.Runs, run(r))
	}
	return out
}

func attempts(list []queue.Attempt) []Attempt {
	out := []Attempt{}
	for _, a := range list {
		out = append(out, Attempt{Generation: a.Generation, Attempt: a.Attempt, Node: a.Node, StartedAt: when(a.StartedAt), FinishedAt: when(a.FinishedAt), Outcome: text(a.Outcome), Error: text(a.Error)})
	}
	return out
}

func run(r queue.Run) Run {
	return Run{
		ID: r.ID, Trigger: r.Trigger, DeliveryID: r.DeliveryID, Source: r.SourceName, Kind: string(r.Kind), State: string(r.State), Reason: text(r.Reason),
		Repo: text(r.Repo), Subject: text(r.Subject), Session: text(r.Session), Attempts: r.Attempts, CreatedAt: when(r.CreatedAt), NextAttemptAt: when(r.NextAttempt),
		ExpiresAt: when(r.ExpiresAt), StartedAt: when(r.StartedAt), FinishedAt: when(r.FinishedAt), ExitCode: r.ExitCode, HTTPStatus: r.HTTPStatus, Error: text(r.Error), Node: text(r.Node),
	}
}

func runDetail(d *queue.RunDetail) *RunDetail {
	out := &RunDetail{Run: run(d.Run), AttemptHistory: attempts(d.History), UncertainUntil: when(d.UncertainUntil), CancelAsked: d.CancelAsked}
	if d.Output != nil {
		s := string(d.Output)
		out.Output = &s
	}
	if s := d.SessionDetail; s != nil {
		out.Sessions = &Session{ID: s.ID, State: string(s.State), RunID: s.RunID, Subject: s.Subject, Reported: s.Reported, CreatedAt: when(s.CreatedAt), ExpiresAt: when(s.ExpiresAt)}
	}
	return out
}

func repair(r queue.Repair) Repair {
	return Repair{
		DeliveryID: r.GUID, Source: r.SourceName, Event: r.Event, Action: text(r.Action), Reason: r.Reason, State: r.State, Attempts: r.Attempts,
		DeliveredAt: when(r.DeliveredAt), FoundAt: when(r.FoundAt), NextAttemptAt: when(r.NextAttempt), LastAttemptAt: when(r.LastAttempt), ClosedAt: when(r.ClosedAt), LastError: text(r.LastError),
	}
}

// TriggerInfo is what a node publishes of a trigger's definition, so that every process shows the
// same.
type TriggerInfo struct {
	Name             string `json:"name"`
	Enabled          bool   `json:"enabled"`
	Concurrency      int    `json:"concurrency"`
	QueueSize        int    `json:"queue_size"`
	QueueWaitSeconds int64  `json:"queue_wait_seconds"`
}

// The kinds of documents that nodes share through the store.
const (
	DocBreaker  = "breaker"  // by credential or host: breaker.State
	DocTriggers = "triggers" // "current": PublishedTriggers
	DocApp      = "app"      // by source: AppVerdict
	DocMonitor  = "monitor"  // "pass": MonitorPass
	DocWatchdog = "watchdog" // by source: WatchdogSource
)

// PublishedTriggers is the newest set of triggers that a node has loaded.
type PublishedTriggers struct {
	LoadedAt time.Time     `json:"loaded_at"`
	Triggers []TriggerInfo `json:"triggers"`
}

func decodeDoc[T any](d queue.Doc) (v T, ok bool) {
	if d.Version == 0 {
		return v, false
	}
	return v, json.Unmarshal(d.Body, &v) == nil
}
