package watchdog

import (
	"context"
	"log/slog"
	"time"

	"github.com/seed-de999ace/preloop/github"
)

// GitHub is what a pass asks of GitHub. *github.Client is one.
type GitHub interface {
	Deliveries(ctx context.Context, h github.Hook, cursor string) (github.DeliveryPage, error)
	Redeliver(ctx context.Context, h github.Hook, id int64) error
	HookConfig(ctx context.Context, h github.Hook) (github.HookConfig, error)
}

// Store is what a pass keeps. A source is named by its key.
type Store interface {
	// Lock takes or keeps a named lease. False: another owner holds it.
	Lock(ctx context.Context, name, owner string, ttl time.Duration) (bool, error)
	Unlock(ctx context.Context, name, owner string) error
	// LoadCursor returns the zero Cursor for a source that was never polled.
	LoadCursor(ctx context.Context, source string) (Cursor, error)
	// SaveCursor replaces the cursor that was loaded or saved last, and tells c its new version.
	// It fails when somebody else has replaced it since.
	SaveCursor(ctx context.Context, source string, c *Cursor) error
	// Present says which of these GUIDs have a row of this source.
	Present(ctx context.Context, source string, guids []string) (map[string]bool, error)
	// Repairs returns those of a source in every state.
	Repairs(ctx context.Context, source string) ([]Repair, error)
	SaveRepairs(ctx context.Context, repairs []Repair) error
	// Downtime returns when no server of this store could take deliveries, over the last day.
	Downtime(ctx context.Context) ([]Span, error)
}

// Rules are the watchdog's settings.
type Rules struct {
	Grace       time.Duration // a younger delivery is not judged
	Keep        time.Duration // an older one neither: the store may have pruned it
	History     time.Duration // how long GitHub keeps a delivery at least
	MaxPages    int           // of 100 rows, a pass
	MaxAttempts int           // redeliveries of one GUID
	Backoff     []time.Duration
	Budget      int  // redeliveries a pass
	Redeliver   bool // false: report only
}

// wait is how long the redelivery after n earlier ones has to wait.
func (r Rules) wait(n int) time.Duration {
	if len(r.Backoff) == 0 {
		return 0
	}
	return r.Backoff[min(n, len(r.Backoff)-1)]
}

// Source is an app or a webhook whose history is watched.
type Source struct {
	Key, Name string
	Hook      github.Hook // the zero Hook: the app's own
	GitHub    GitHub
	Mine      func(hookURL string) bool // whether that URL is this server's; nil: unknown, so any is
	Pacer     *Pacer                    // of the credential; nil: no pace
}

// Watchdog makes passes. It is safe for concurrent use.
type Watchdog struct {
	Store Store
	Owner string // of leases: unique to this process
	Rules Rules
	Log   *slog.Logger
}

// Options shape one pass.
type Options struct {
	Since  time.Time     // judge what was delivered since then, whatever was adopted or judged before
	DryRun bool          // change nothing and ask for nothing
	Unless time.Duration // leave it when another node polled less than that ago
}

// Result says what one pass did.
type Result struct {
	Source, Name string
	Held         bool // another node has the source; nothing was done
	Examined     int  // deliveries that were judged
	Missing      int  // of those, the store has not
	Redelivered  int  // redeliveries that GitHub has accepted
	SkippedGrace int  // deliveries that are too young
	OpenRepairs  int
	Unfinished   bool     // the page limit came first: the next pass reads on
	Withheld     string   // why nothing was asked for although something was due
	Due          []Repair // with DryRun: what would be asked for
	Cursor       Cursor   // as it was saved
	Blind        time.Duration
	PollFailed   bool
	Err          error // nil: the pass did all that it should
}

// The reasons and states of a Repair.
const (
	RemoteFailure = "remote_failure" // GitHub recorded a failure
	PhantomAck    = "phantom_ack"    // GitHub recorded a success

	Open    = "open"
	Arrived = "arrived"
	Lost    = "lost" // it has left GitHub's history
)

// Repair is the way back of one delivery.
type Repair struct {
	Source, SourceName string
	GUID               string
	AttemptID          int64 // GitHub's id of its newest attempt
	Event, Action      string
	Reason             string
	State              string
	Attempts           int       // redeliveries asked for
	DeliveredAt        time.Time // GitHub's time of the newest attempt
	FoundAt            time.Time
	NextAttempt        time.Time // zero: none is to come
	LastAttempt        time.Time
	ClosedAt           time.Time
	LastError          string
}

// Cursor is what a source's passes remember.
type Cursor struct {
	Version     int64     `json:"-"`         // of the stored document; 0: there is none
	Floor       time.Time `json:"floor"`     // what was delivered before was adopted unjudged
	Watermark   time.Time `json:"watermark"` // what was delivered before is judged
	Scan        *Scan     `json:"scan,omitempty"`
	Requested   int       `json:"requested"` // redeliveries, ever
	Examined    int       `json:"examined"`  // by the last pass
	Failing     bool      `json:"failing"`   // the newest 10 rows were failures
	Marks       []Mark    `json:"marks,omitempty"`
	LastPoll    time.Time `json:"last_poll,omitzero"`
	LastSuccess time.Time `json:"last_success,omitzero"`
	LastError   string    `json:"last_error,omitempty"`
}

// Scan is a reading that the page limit interrupted.
type Scan struct {
	Next  string    `json:"next"`  // the page to go on with
	Until time.Time `json:"until"` // the watermark once everything is read
}
