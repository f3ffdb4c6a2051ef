package breaker

import "time"

// Settings are the limits of a breaker.
type Settings struct {
	Enabled          bool          // false: observe, never open
	Threshold        int           // consecutive failures that open it
	Open             time.Duration // the first open interval; each failed probe doubles it
	MaxOpen          time.Duration // the longest open interval
	Probe            time.Duration // a probe that takes longer has failed
	RateLimitDefault time.Duration // the wait for a rate limit that names none
	MinLimit         time.Duration // the shortest wait, whatever GitHub says
	MaxLimit         time.Duration // the longest wait, whatever GitHub says
}

// Defaults are the settings of a breaker that nobody has configured.
func Defaults() Settings {
	return Settings{
		Enabled:          true,
		Threshold:        3,
		Open:             30 * time.Second,
		MaxOpen:          5 * time.Minute,
		Probe:            time.Minute,
		RateLimitDefault: time.Minute,
		MinLimit:         time.Second,
		MaxLimit:         time.Hour,
	}
}

// withDefaults fills what is not set; Enabled is taken as it is.
func (c Settings) withDefaults() Settings {
	d := Defaults()
	if c.Threshold <= 0 {
		c.Threshold = d.Threshold
	}
	for _, f := range []struct{ value, fallback *time.Duration }{
		{&c.Open, &d.Open},
		{&c.MaxOpen, &d.MaxOpen},
		{&c.Probe, &d.Probe},
		{&c.RateLimitDefault, &d.RateLimitDefault},
		{&c.MinLimit, &d.MinLimit},
		{&c.MaxLimit, &d.MaxLimit},
	} {
		if *f.value <= 0 {
			*f.value = *f.fallback
		}
	}
	c.MaxOpen = max(c.MaxOpen, c.Open)
	c.MaxLimit = max(c.MaxLimit, c.MinLimit)
	return c
}

// bounded is a wait between the shortest and the longest.
func (c Settings) bounded(wait time.Duration) time.Duration {
	return min(max(wait, c.MinLimit), c.MaxLimit)
}

// probeRetry is how long everybody else waits before looking again while a probe is due or under
// way: short, because most probes are answered within a second.
const probeRetry = 5 * time.Second

// Probe is the one call that may test an open breaker. The zero Probe means that none is under way.
type Probe struct {
	Owner    string    `json:"owner"`
	Deadline time.Time `json:"deadline,omitzero"`
}

// State is one breaker at one moment. The zero State is a closed breaker that has seen nothing.
// It is a value: every method returns the next state and leaves the receiver alone.
type State struct {
	Open        bool          `json:"open"`
	OpenUntil   time.Time     `json:"open_until,omitzero"` // when a probe becomes due; zero while closed
	Interval    time.Duration `json:"interval,omitempty"`  // the current open interval; zero while closed or rate-limited only
	RateLimited bool          `json:"rate_limited"`        // opened by a limit, not by failures
	Failures    int           `json:"consecutive_failures"`
	Trips       int64         `json:"trips"` // how often it went from closed to open
	LastError   string        `json:"last_error,omitempty"`
	LastErrorAt time.Time     `json:"last_error_at,omitzero"`
	Probe       Probe         `json:"probe,omitzero"`
	Generation  int64         `json:"generation"` // rises with each opening, probe, reopening and closing
}

// At is the state as it stands at now: a probe whose deadline has passed counts as failed since
// that deadline. Every other method begins with it.
func (s State) At(now time.Time, c Settings) State {
	if s.Probe.Owner == "" || now.Before(s.Probe.Deadline) {
		return s
	}
	return s.reopen(s.Probe.Deadline, c, "the probe was not answered in time")
}

// Wait is how long calls have to wait, between 1 s and 1 h with the default settings, or 0 while
// the breaker is closed or switched off.
func (s State) Wait(now time.Time, c Settings) time.Duration {
	s = s.At(now, c)
	switch {
	case !s.Open || !c.Enabled:
		return 0
	case s.Probe.Owner != "":
		return c.bounded(min(probeRetry, s.Probe.Deadline.Sub(now)))
	case !now.Before(s.OpenUntil):
		return c.bounded(probeRetry)
	}
	return c.bounded(s.OpenUntil.Sub(now))
}

// Failure counts a transport or 5xx failure of a call that began in the given generation. A late
// one, of a call that began before the breaker last opened or closed, changes nothing.
func (s State) Failure(now time.Time, c Settings, generation int64, message string) State {
	s = s.At(now, c)
	if s.Open || generation != s.Generation {
		return s
	}
	s.Failures++
	s.LastError, s.LastErrorAt = message, now
	if !c.Enabled || s.Failures < c.Threshold {
		return s
	}
	s.Open, s.Interval, s.OpenUntil = true, c.Open, now.Add(c.Open)
	s.Trips++
	s.Generation++
	return s
}

// RateLimit opens the breaker for the wait that GitHub named, or for the default when that is 0.
// It counts whenever its call began, because a limit is news; while open it can only lengthen the
// wait, and a probe under way decides by itself.
func (s State) RateLimit(now time.Time, c Settings, wait time.Duration, message string) State {
	s = s.At(now, c)
	if s.Probe.Owner != "" {
		return s
	}
	s.LastError, s.LastErrorAt = message, now
	if !c.Enabled {
		s.Failures = 0
		return s
	}
	return s.limit(now, c, wait)
}

func (s State) limit(now time.Time, c Settings, wait time.Duration) State {
	if wait <= 0 {
		wait = c.RateLimitDefault
	}
	until := now.Add(c.bounded(wait))
	if s.Open && !until.After(s.OpenUntil) {
		return s
	}
	if !s.Open {
		s.Trips++
	}
	s.Open, s.RateLimited, s.OpenUntil = true, true, until
	s.Failures, s.Interval = 0, 0
	s.Generation++
	return s
}

// Success notes an answer that proves GitHub reachable. It resets a closed breaker, whenever its
// call began, and leaves an open one to its probe.
func (s State) Success(now time.Time, c Settings) State {
	s = s.At(now, c)
	if !s.Open {
		s.Failures = 0
	}
	return s
}

// Due says when a probe may begin; ok is false while the breaker is closed or being probed.
func (s State) Due(now time.Time, c Settings) (at time.Time, ok bool) {
	s = s.At(now, c)
	if !s.Open || !c.Enabled || s.Probe.Owner != "" {
		return time.Time{}, false
	}
	return s.OpenUntil, true
}

// abandonedAfter is how long a probe may be due before we conclude that nobody will make it.
const abandonedAfter = time.Hour

// Abandoned reports whether the breaker is open and no node probes it any more, because its
// credential is in nobody's configuration. It is not worth showing.
func (s State) Abandoned(now time.Time, c Settings) bool {
	at, due := s.Due(now, c)
	return due && now.Sub(at) > abandonedAfter
}

// TryProbe gives the one probe to owner. It is refused while the breaker is closed, the open
// interval lasts, or another probe is under way. The new state's generation names the probe.
func (s State) TryProbe(now time.Time, c Settings, owner string) (State, bool) {
	s = s.At(now, c)
	due, ok := s.Due(now, c)
	if !ok || now.Before(due) {
		return s, false
	}
	s.Probe = Probe{Owner: owner, Deadline: now.Add(c.Probe)}
	s.Generation++
	return s, true
}

// ProbeResult settles the probe of the given owner and generation; the result of any other probe
// is late and changes nothing.
func (s State) ProbeResult(now time.Time, c Settings, owner string, generation int64, r Result) State {
	s = s.At(now, c)
	if s.Probe.Owner == "" || s.Probe.Owner != owner || s.Generation != generation {
		return s
	}
	switch r.Kind {
	case Reachable:
		return State{Trips: s.Trips, LastError: s.LastError, LastErrorAt: s.LastErrorAt, Generation: s.Generation + 1}
	case RateLimited:
		s.Probe, s.OpenUntil = Probe{}, time.Time{}
		s.LastError, s.LastErrorAt = r.Message, now
		return s.limit(now, c, r.Wait)
	case Unavailable:
		return s.reopen(now, c, r.Message)
	}
	// No verdict (the prober is shutting down): the probe is due again at once, for anybody.
	s.Probe = Probe{}
	s.Generation++
	return s
}

// reopen is what a failed probe does: the interval doubles up to its ceiling.
func (s State) reopen(at time.Time, c Settings, message string) State {
	s.Probe = Probe{}
	s.RateLimited = false
	s.Interval = min(max(2*s.Interval, c.Open), c.MaxOpen)
	s.OpenUntil = at.Add(s.Interval)
	s.Failures++
	s.LastError, s.LastErrorAt = message, at
	s.Generation++
	return s
}
