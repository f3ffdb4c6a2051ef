package api

import (
	"slices"
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/breaker"
	"github.com/seed-de999ace/preloop/queue"
)

// Status is the whole status document.
type Status struct {
	Status             string           `json:"status"` // ok or warning
	Version            string           `json:"version"`
	Node               *string          `json:"node"`
	Store              StoreStatus      `json:"store"`
	Queue              QueueStatus      `json:"queue"`
	Runs               map[string]any   `json:"runs"`
	Watchdog           WatchdogStatus   `json:"watchdog"`
	GitHubBreaker      BreakerStatus    `json:"github_breaker"`
	Breakers           []CredentialWait `json:"breakers"`
	Apps               []AppVerdict     `json:"apps"`
	AppConfigCheckedAt *time.Time       `json:"app_config_checked_at"`
	Triggers           []Trigger        `json:"triggers"`
	Nodes              []NodeStatus     `json:"nodes"`
	Conditions         []Condition      `json:"conditions"`
}

// Health is the part of the status that is about webhooks.
type Health struct {
	Status        string           `json:"status"`
	Queue         QueueStatus      `json:"queue"`
	Watchdog      WatchdogStatus   `json:"watchdog"`
	GitHubBreaker BreakerStatus    `json:"github_breaker"`
	Breakers      []CredentialWait `json:"breakers"`
	Apps          []AppVerdict     `json:"apps"`
	Conditions    []Condition      `json:"conditions"`
}

// StoreStatus says what the queue is kept in.
type StoreStatus struct {
	Kind string `json:"kind"`
	OK   bool   `json:"ok"`
}

// QueueStatus is the delivery queue in numbers.
type QueueStatus struct {
	Received               int        `json:"received"`
	Processing             int        `json:"processing"`
	Done                   int        `json:"done"`
	DeadLetters            int        `json:"dead_letters"`
	OldestPendingAt        *time.Time `json:"oldest_pending_at"`
	OldestPendingAgeSecond *int64     `json:"oldest_pending_age_seconds"`
}

// BreakerStatus is one breaker.
type BreakerStatus struct {
	Open                bool    `json:"open"`
	RetryInSeconds      int64   `json:"retry_in_seconds"`
	ConsecutiveFailures int     `json:"consecutive_failures"`
	Trips               int64   `json:"trips"`
	RateLimited         bool    `json:"rate_limited"`
	LastError           *string `json:"last_error"`
}

// CredentialWait is the breaker of one credential.
type CredentialWait struct {
	Credential string `json:"credential"`
	BreakerStatus
}

// WatchdogStatus sums up the delivery watchdog over all sources.
type WatchdogStatus struct {
	Enabled                 bool             `json:"enabled"`
	LastPollAt              *time.Time       `json:"last_poll_at"`
	LastSuccessAt           *time.Time       `json:"last_success_at"`
	LastSuccessAgeSeconds   *int64           `json:"last_success_age_seconds"`
	LastExamined            int              `json:"last_examined"`
	RedeliveriesRequested   int              `json:"redeliveries_requested"`
	OpenRepairs             int              `json:"open_repairs"`
	BlindSeconds            int64            `json:"blind_seconds"`
	LastError               *string          `json:"last_error"`
	Sources                 []WatchdogSource `json:"sources"`
	AwaitedSince            *time.Time       `json:"-"` // the oldest redelivery that was asked for and has not arrived
	FailingSources          []string         `json:"-"`
	EnabledSince            time.Time        `json:"-"`
	OldestSourceSuccess     time.Time        `json:"-"`
	SourcesWithoutSuccess   bool             `json:"-"`
	RedeliveriesOutstanding int              `json:"-"`
}

// WatchdogSource is what the watchdog publishes of one source after a pass.
type WatchdogSource struct {
	Source                string     `json:"source"`
	LastPollAt            *time.Time `json:"last_poll_at"`
	LastSuccessAt         *time.Time `json:"last_success_at"`
	LastExamined          int        `json:"last_examined"`
	RedeliveriesRequested int        `json:"redeliveries_requested"` // since the store was made
	BlindSeconds          int64      `json:"blind_seconds"`          // over the last 24 hours
	Failing               bool       `json:"failing"`                // its newest 10 rows at GitHub are failures
	LastError             *string    `json:"last_error"`
}

// AppVerdict is what the App health monitor publishes of one app or hook.
type AppVerdict struct {
	Source             string       `json:"source"`
	AppID              *int64       `json:"app_id"`
	Checked            bool         `json:"checked"`
	CheckedAt          *time.Time   `json:"checked_at"`
	Healthy            *bool        `json:"healthy"`
	HookURL            *string      `json:"hook_url"`
	ExpectedURL        *string      `json:"expected_url"`
	URLDrifted         bool         `json:"url_drifted"`
	SettingsURL        *string      `json:"settings_url"` // GitHub's page where all of it is changed
	MissingEvents      []string     `json:"missing_events"`
	MissingPermissions []string     `json:"missing_permissions"`
	Problems           []string     `json:"problems"`
	Error              *string      `json:"error"`
	Secrets            []SecretSeen `json:"secrets"`
}

// SecretSeen says how much a named secret is in use.
type SecretSeen struct {
	Name       string     `json:"name"`
	Deliveries int        `json:"deliveries"`
	LastUsedAt *time.Time `json:"last_used_at"`
}

// MonitorPass says when a pass last checked every app.
type MonitorPass struct {
	CheckedAt time.Time `json:"checked_at"`
}

// NodeStatus is one process of the store.
type NodeStatus struct {
	ID               string     `json:"id"`
	Host             string     `json:"host"`
	PID              int        `json:"pid"`
	Version          string     `json:"version"`
	Components       []string   `json:"components"`
	StartedAt        *time.Time `json:"started_at"`
	LastHeartbeatAt  *time.Time `json:"last_heartbeat_at"`
	Gone             bool       `json:"gone"`
	TriggersHash     string     `json:"triggers_hash"`
	TriggersLoadedAt *time.Time `json:"triggers_loaded_at"`
	TriggersCurrent  bool       `json:"triggers_current"`
	Note             *string    `json:"note"`
}

// Condition is something that an operator should look at.
type Condition struct {
	Type     string     `json:"type"`
	Severity string     `json:"severity"` // warning or error
	Message  string     `json:"message"`
	Since    *time.Time `json:"since"`
}

// SourceInfo names a configured source for the status document.
type SourceInfo struct {
	Key     string
	Name    string
	AppID   int64
	Secrets []string
}

// facts are everything that a status document is made of, read at one time.
type facts struct {
	now       time.Time
	version   string
	node      string
	kind      string
	breakers  map[string]breaker.State
	settings  breaker.Settings
	host      string // of GitHub's API; empty: any
	counts    queue.Counts
	stats     map[string]queue.TriggerStats
	nodes     []queue.Node
	uses      []queue.SecretUse
	doubles   []queue.DoubleSubscription
	triggers  []TriggerInfo
	sources   []SourceInfo
	watchdog  map[string]WatchdogSource // by source
	watching  bool
	apps      map[string]AppVerdict
	monitored time.Time
	repairs   []queue.Repair // open ones
}

// forgotten says that what was published of a source is the past: it is not configured any more,
// and no node has looked at it lately.
func (f *facts) forgotten(key string, at *time.Time) bool {
	if len(f.sources) == 0 || slices.ContainsFunc(f.sources, func(s SourceInfo) bool { return s.Key == key }) {
		return false
	}
	return at == nil || f.now.Sub(*at) >= staleAfter
}

func ageSeconds(now, t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	n := int64(max(0, now.Sub(t)).Seconds())
	return &n
}

// document is pure: the same facts make the same document.
func document(f facts) *Status {
	f.breakers = f.liveBreakers()
	s := &Status{
		Status: "ok", Version: f.version, Node: text(f.node), Store: StoreStatus{Kind: f.kind, OK: true},
		Queue: QueueStatus{
			Received: f.counts.Deliveries[queue.Received], Processing: f.counts.Deliveries[queue.Processing],
			Done: f.counts.Deliveries[queue.Done], DeadLetters: f.counts.Deliveries[queue.Failed],
			OldestPendingAt: when(f.counts.OldestPending), OldestPendingAgeSecond: ageSeconds(f.now, f.counts.OldestPending),
		},
		Runs: map[string]any{}, Breakers: []CredentialWait{}, Apps: []AppVerdict{}, Triggers: []Trigger{}, Nodes: []NodeStatus{}, Conditions: []Condition{},
		AppConfigCheckedAt: when(f.monitored),
	}
	dropped := 0
	for _, n := range f.counts.Dropped24h {
		dropped += n
	}
	for _, state := range queue.RunStates {
		s.Runs[string(state)] = f.counts.Runs[state]
	}
	s.Runs["dropped_24h"] = dropped
	s.Runs["dropped_24h_by_reason"] = f.counts.Dropped24h
	s.breakers(f)
	s.watchdog(f)
	s.apps(f)
	s.Triggers = triggers(f.triggers, f.stats)
	s.nodes(f)
	s.Conditions = conditions(f, s)
	if len(s.Conditions) > 0 {
		s.Status = "warning"
	}
	return s
}

// triggers joins the definitions that nodes publish with the store's counts: a trigger that no
// node has any more still shows its runs.
func triggers(infos []TriggerInfo, stats map[string]queue.TriggerStats) []Trigger {
	out := []Trigger{}
	known := map[string]bool{}
	add := func(name string, info *TriggerInfo) {
		st := stats[name]
		t := Trigger{
			Name: name, State: "active", Running: st.Running, Waiting: st.Waiting, Routing: st.Routing,
			Dropped24h: st.Dropped24h, Uncertain: st.Uncertain, LastRunAt: when(st.LastRunAt),
		}
		if !st.PausedSince.IsZero() {
			t.State = "paused"
		}
		if info == nil || !info.Enabled {
			t.State = "off"
		}
		if info != nil {
			t.Concurrency, t.QueueSize, t.QueueWaitSeconds = &info.Concurrency, &info.QueueSize, &info.QueueWaitSeconds
		}
		known[name] = true
		out = append(out, t)
	}
	for i := range infos {
		add(infos[i].Name, &infos[i])
	}
	for _, name := range sortedKeys(stats) {
		if !known[name] {
			add(name, nil)
		}
	}
	return out
}

// liveBreakers are those that still say something: not another host's, from before github_api_url
// was changed, nor one that nobody probes any more. Switched off, none is open.
func (f facts) liveBreakers() map[string]breaker.State {
	live := map[string]breaker.State{}
	for key, st := range f.breakers {
		st = st.At(f.now, f.settings)
		another := strings.HasPrefix(key, breaker.HostPrefix) && f.host != "" && key != breaker.HostKey(f.host)
		if another || st.Abandoned(f.now, f.settings) {
			continue
		}
		if !f.settings.Enabled {
			st.Open, st.RateLimited = false, false
		}
		live[key] = st
	}
	return live
}

func (s *Status) breakers(f facts) {
	for _, key := range sortedKeys(f.breakers) {
		st := f.breakers[key]
		b := BreakerStatus{
			Open: st.Open, RetryInSeconds: int64((st.Wait(f.now, f.settings) + time.Second - 1) / time.Second), ConsecutiveFailures: st.Failures,
			Trips: st.Trips, RateLimited: st.RateLimited, LastError: text(st.LastError),
		}
		if strings.HasPrefix(key, breaker.HostPrefix) {
			s.GitHubBreaker = b
			continue
		}
		s.Breakers = append(s.Breakers, CredentialWait{Credential: key, BreakerStatus: b})
	}
}

func (s *Status) watchdog(f facts) {
	w := WatchdogStatus{Enabled: f.watching, Sources: []WatchdogSource{}}
	for _, key := range sortedKeys(f.watchdog) {
		src := f.watchdog[key]
		if f.forgotten(key, src.LastPollAt) {
			continue
		}
		w.Sources = append(w.Sources, src)
		w.LastExamined += src.LastExamined
		w.RedeliveriesRequested += src.RedeliveriesRequested
		w.BlindSeconds = max(w.BlindSeconds, src.BlindSeconds)
		if later(src.LastPollAt, w.LastPollAt) {
			w.LastPollAt = src.LastPollAt
		}
		if src.LastError != nil {
			w.LastError = src.LastError
		}
		if src.Failing {
			w.FailingSources = append(w.FailingSources, src.Source)
		}
		// The oldest success of all sources: one source that cannot be read must not hide behind another.
		if src.LastSuccessAt == nil {
			w.SourcesWithoutSuccess = true
		} else if w.LastSuccessAt == nil || src.LastSuccessAt.Before(*w.LastSuccessAt) {
			w.LastSuccessAt = src.LastSuccessAt
		}
	}
	if w.SourcesWithoutSuccess {
		w.LastSuccessAt = nil
	}
	if w.LastSuccessAt != nil {
		w.LastSuccessAgeSeconds = ageSeconds(f.now, *w.LastSuccessAt)
	}
	w.OpenRepairs = len(f.repairs)
	for _, r := range f.repairs {
		if r.Attempts > 0 {
			w.RedeliveriesOutstanding++
			if at := when(r.LastAttempt); at != nil && (w.AwaitedSince == nil || at.Before(*w.AwaitedSince)) {
				w.AwaitedSince = at
			}
		}
	}
	s.Watchdog = w
}

func later(a, b *time.Time) bool { return a != nil && (b == nil || a.After(*b)) }

func (s *Status) apps(f facts) {
	seen := map[string]bool{}
	add := func(key string, v AppVerdict, configured []string) {
		v.Secrets = secrets(key, configured, f.uses)
		for _, list := range []*[]string{&v.MissingEvents, &v.MissingPermissions, &v.Problems} {
			if *list == nil {
				*list = []string{}
			}
		}
		s.Apps = append(s.Apps, v)
	}
	for _, src := range f.sources {
		seen[src.Key] = true
		v, ok := f.apps[src.Key]
		if !ok {
			v = AppVerdict{}
		}
		v.Source = src.Name
		if src.AppID != 0 {
			v.AppID = &src.AppID
		}
		add(src.Key, v, src.Secrets)
	}
	for _, key := range sortedKeys(f.apps) {
		if !seen[key] && !f.forgotten(key, f.apps[key].CheckedAt) {
			add(key, f.apps[key], nil)
		}
	}
}

func secrets(key string, configured []string, uses []queue.SecretUse) []SecretSeen {
	out := []SecretSeen{}
	for _, name := range configured {
		seen := SecretSeen{Name: name}
		for _, u := range uses {
			if u.Source == key && u.Name == name {
				seen.Deliveries, seen.LastUsedAt = u.Deliveries, when(u.LastUsedAt)
			}
		}
		out = append(out, seen)
	}
	for _, u := range uses {
		if u.Source == key && configured == nil {
			out = append(out, SecretSeen{Name: u.Name, Deliveries: u.Deliveries, LastUsedAt: when(u.LastUsedAt)})
		}
	}
	return out
}

func (s *Status) nodes(f facts) {
	newest := newestTriggers(f.nodes)
	for _, n := range f.nodes {
		s.Nodes = append(s.Nodes, NodeStatus{
			ID: n.ID, Host: n.Host, PID: n.PID, Version: n.Version, Components: n.Components, StartedAt: when(n.StartedAt), LastHeartbeatAt: when(n.HeartbeatAt),
			Gone: n.Gone, TriggersHash: n.TriggersHash, TriggersLoadedAt: when(n.TriggersLoadedAt), TriggersCurrent: n.TriggersHash == newest, Note: text(n.Note),
		})
	}
}

// newestTriggers is the hash of the set that a live node loaded last.
func newestTriggers(nodes []queue.Node) string {
	var newest queue.Node
	for _, n := range nodes {
		if !n.Gone && n.TriggersLoadedAt.After(newest.TriggersLoadedAt) {
			newest = n
		}
	}
	return newest.TriggersHash
}
