package breaker

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// HostPrefix begins the key of a host's breaker; any other key is a credential's.
const HostPrefix = "host:"

// HostKey is the key of a host's breaker.
func HostKey(host string) string { return HostPrefix + strings.ToLower(host) }

// AppKey is the key of the breaker of an app's credential.
func AppKey(source string) string { return "app:" + source }

// TokenKey is the key of the breaker of a token.
func TokenKey(source string) string { return "token:" + source }

// Options are the parts of a Set.
type Options struct {
	Settings Settings
	Host     string        // the API's host name, with a port where it has one
	Store    Store         // nil: this process alone
	Node     string        // names this node as the owner of probes
	Reload   time.Duration // how often Run reads the store while not all is well; 3 s unless given
	Log      *slog.Logger  // nil: silent
}

// Set holds the breaker of one GitHub host and those of the credentials used there. It is safe
// for concurrent use.
type Set struct {
	settings Settings
	host     string
	store    Store
	owner    string // unique to this Set, so that a restarted node does not settle its predecessor's probe
	reload   time.Duration
	log      *slog.Logger
	wake     chan struct{}

	publishing sync.Mutex // held while a breaker changes and the store is told; taken before mu

	mu      sync.Mutex // guards what follows; never held during I/O
	entries map[string]*entry
	away    bool      // the store did not answer last time: do not make each call wait for it
	loaded  time.Time // when the store was last asked
}

type entry struct {
	state   State
	version int64 // of the row that state was read from or written to
	dirty   bool  // the store does not have state yet
}

// New returns a Set in which every breaker is closed until the store says otherwise.
func New(o Options) *Set {
	return &Set{
		settings: o.Settings.withDefaults(),
		host:     HostKey(o.Host),
		store:    o.Store,
		owner:    o.Node + "/" + rand.Text(),
		reload:   cmp.Or(o.Reload, reloadDefault),
		log:      cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
		wake:     make(chan struct{}, 1),
		entries:  map[string]*entry{},
	}
}

// entry returns the breaker of a key. The caller holds mu.
func (s *Set) entry(key string) *entry {
	e := s.entries[key]
	if e == nil {
		e = &entry{}
		s.entries[key] = e
	}
	return e
}

func (s *Set) state(key string) State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entry(key).state
}

// Gate says whether the way to GitHub is open. While it is not, because the host is unavailable,
// nothing that needs GitHub should be claimed, and wait is how long.
func (s *Set) Gate(now time.Time) (wait time.Duration, open bool) {
	wait = s.Wait(s.host, now)
	return wait, wait == 0
}

// Wait says how long calls that go through the breaker of key have to wait; 0 is not at all.
func (s *Set) Wait(key string, now time.Time) time.Duration {
	return s.state(key).Wait(now, s.settings)
}

// Call is a call that was allowed. Done has to be called once.
type Call struct {
	set        *Set
	credential string
	began      map[string]int64 // generation per key
}

// Begin asks for leave to call GitHub with a credential. The error is an *OpenError that names the
// longer of the waits when the credential's breaker or the host's is open.
func (s *Set) Begin(ctx context.Context, credential string) (*Call, error) {
	s.refreshStale(ctx)
	now := time.Now().UTC().Round(0)
	call := &Call{set: s, credential: credential, began: map[string]int64{}}
	var refused *OpenError
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range []string{s.host, credential} {
		state := s.entry(key).state.At(now, s.settings)
		call.began[key] = state.Generation
		if wait := state.Wait(now, s.settings); wait > 0 && (refused == nil || wait > refused.RetryIn) {
			due, ok := state.Due(now, s.settings)
			refused = &OpenError{
				Key: key, RetryIn: wait, RateLimited: state.RateLimited,
				Due: ok && !now.Before(due), Cause: state.LastError,
			}
		}
	}
	if refused != nil {
		return nil, refused
	}
	return call, nil
}

// refreshStale lets a process that does not run Run, such as a single pass from cron, see what
// other processes have published.
func (s *Set) refreshStale(ctx context.Context) {
	if s.store == nil {
		return
	}
	s.mu.Lock()
	stale := time.Since(s.loaded) >= 2*s.reload
	s.mu.Unlock()
	if !stale {
		return
	}
	if err := s.Refresh(ctx); err != nil && ctx.Err() == nil {
		s.log.Warn("breakers of other nodes are unknown for now", "error", err)
	}
}

// Done reports what became of the call, and how long the next one has to wait (0: not at all, the
// breakers are closed). An unavailability counts for credential and host, a rate limit for the
// credential alone; everything else that GitHub answers resets both.
func (c *Call) Done(ctx context.Context, r Result) (wait time.Duration) {
	s := c.set
	now := time.Now().UTC().Round(0)
	for _, key := range []string{s.host, c.credential} {
		s.update(ctx, key, func(state State) State {
			switch {
			case r.Kind == NoVerdict:
				return state
			case r.Kind == Unavailable:
				return state.Failure(now, s.settings, c.began[key], r.Message)
			case r.Kind == RateLimited && key == c.credential:
				return state.RateLimit(now, s.settings, r.Wait, r.Message)
			}
			return state.Success(now, s.settings)
		})
		wait = max(wait, s.Wait(key, now))
	}
	return wait
}

// RateLimit reports a limit that was met outside of a Call, by a probe of the host.
func (s *Set) RateLimit(ctx context.Context, credential string, r Result) {
	now := time.Now().UTC().Round(0)
	s.update(ctx, credential, func(state State) State {
		return state.RateLimit(now, s.settings, r.Wait, r.Message)
	})
}

// LimitWait is the wait that the settings make of what GitHub named, breaker or not.
func (s *Set) LimitWait(named time.Duration) time.Duration {
	return s.settings.bounded(cmp.Or(max(named, 0), s.settings.RateLimitDefault))
}

// Status is one breaker as the status document shows it.
type Status struct {
	Key            string    `json:"credential,omitempty"` // empty for the host's
	Open           bool      `json:"open"`
	RetryInSeconds int64     `json:"retry_in_seconds"`
	Failures       int       `json:"consecutive_failures"`
	Trips          int64     `json:"trips"`
	RateLimited    bool      `json:"rate_limited"`
	LastError      *string   `json:"last_error"` // nil: none was ever met
	LastErrorAt    time.Time `json:"-"`
}

// Snapshot returns the host's breaker and those of the credentials, ordered by key.
func (s *Set) Snapshot(now time.Time) (host Status, credentials []Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	host = s.entry(s.host).state.At(now, s.settings).status("", now, s.settings)
	for _, key := range slices.Sorted(maps.Keys(s.entries)) {
		state := s.entries[key].state.At(now, s.settings)
		if strings.HasPrefix(key, HostPrefix) || state.Abandoned(now, s.settings) {
			continue
		}
		credentials = append(credentials, state.status(key, now, s.settings))
	}
	return host, credentials
}

func (s State) status(key string, now time.Time, c Settings) Status {
	open := s.Open && c.Enabled
	var lastError *string
	if s.LastError != "" {
		lastError = &s.LastError
	}
	return Status{
		Key:            key,
		Open:           open,
		RetryInSeconds: int64((s.Wait(now, c) + time.Second - 1) / time.Second),
		Failures:       s.Failures,
		Trips:          s.Trips,
		RateLimited:    open && s.RateLimited,
		LastError:      lastError,
		LastErrorAt:    s.LastErrorAt,
	}
}
