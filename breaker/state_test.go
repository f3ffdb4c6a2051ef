package breaker

import (
	"encoding/json"
	"testing"
	"time"
)

var t0 = time.Date(2026, 8, 20, 10, 0, 0, 0, time.UTC)

// script is a breaker on which a table row acts.
type script struct {
	State
	now time.Time
	c   Settings
	won int64 // generation of the last probe that was given away
}

func (s *script) after(d time.Duration) *script { s.now = s.now.Add(d); return s }
func (s *script) fail() *script                 { return s.lateFail(s.At(s.now, s.c).Generation) }
func (s *script) lateFail(gen int64) *script {
	s.State = s.Failure(s.now, s.c, gen, "boom")
	return s
}

func (s *script) limit(d time.Duration) *script {
	s.State = s.State.RateLimit(s.now, s.c, d, "429")
	return s
}
func (s *script) succeed() *script { s.State = s.Success(s.now, s.c); return s }
func (s *script) probe(owner string) *script {
	var ok bool
	if s.State, ok = s.TryProbe(s.now, s.c, owner); ok {
		s.won = s.Generation
	}
	return s
}

func (s *script) report(owner string, r Result) *script {
	s.State = s.ProbeResult(s.now, s.c, owner, s.won, r)
	return s
}
func (s *script) open() *script { return s.fail().fail().fail() }

func TestRules(t *testing.T) {
	type want struct {
		open, limited bool
		wait          time.Duration
		failures      int
		trips         int64
	}
	sec := time.Second
	for name, tc := range map[string]struct {
		settings func(*Settings)
		do       func(*script)
		want     want
	}{
		"new":                        {do: func(s *script) {}, want: want{}},
		"two failures":               {do: func(s *script) { s.fail().fail() }, want: want{failures: 2}},
		"three failures open":        {do: func(s *script) { s.open() }, want: want{open: true, wait: 30 * sec, failures: 3, trips: 1}},
		"success between failures":   {do: func(s *script) { s.fail().fail().succeed().fail().fail() }, want: want{failures: 2}},
		"threshold of one":           {settings: func(c *Settings) { c.Threshold = 1 }, do: func(s *script) { s.fail() }, want: want{open: true, wait: 30 * sec, failures: 1, trips: 1}},
		"failure while open":         {do: func(s *script) { s.open().after(10 * sec).fail() }, want: want{open: true, wait: 20 * sec, failures: 3, trips: 1}},
		"success does not close":     {do: func(s *script) { s.open().succeed() }, want: want{open: true, wait: 30 * sec, failures: 3, trips: 1}},
		"success after the interval": {do: func(s *script) { s.open().after(31 * sec).succeed() }, want: want{open: true, wait: 5 * sec, failures: 3, trips: 1}},
		"time alone does not close":  {do: func(s *script) { s.open().after(24 * time.Hour) }, want: want{open: true, wait: 5 * sec, failures: 3, trips: 1}},
		"others wait for the probe":  {do: func(s *script) { s.open().after(30 * sec).probe("a") }, want: want{open: true, wait: 5 * sec, failures: 3, trips: 1}},
		"probe closes":               {do: func(s *script) { s.open().after(30*sec).probe("a").report("a", Result{Kind: Reachable}) }, want: want{trips: 1}},
		"probe fails": {
			do:   func(s *script) { s.open().after(30*sec).probe("a").report("a", Result{Kind: Unavailable}) },
			want: want{open: true, wait: 60 * sec, failures: 4, trips: 1},
		},
		"interval doubles to its ceiling": {
			do: func(s *script) {
				s.open()
				for range 6 {
					s.after(s.OpenUntil.Sub(s.now)).probe("a").report("a", Result{Kind: Unavailable})
				}
			},
			want: want{open: true, wait: 300 * sec, failures: 9, trips: 1},
		},
		"interval starts again after closing": {
			do: func(s *script) {
				s.open().after(30*sec).probe("a").report("a", Result{Kind: Unavailable})
				s.after(60*sec).probe("a").report("a", Result{Kind: Reachable}).open()
			},
			want: want{open: true, wait: 30 * sec, failures: 3, trips: 2},
		},
		"unreported probe fails at its deadline": {
			do:   func(s *script) { s.open().after(30 * sec).probe("a").after(70 * sec) },
			want: want{open: true, wait: 50 * sec, failures: 4, trips: 1},
		},
		"report after the deadline is late": {
			do: func(s *script) {
				s.open().after(30*sec).probe("a").after(60*sec).report("a", Result{Kind: Reachable})
			},
			want: want{open: true, wait: 60 * sec, failures: 4, trips: 1},
		},
		"report of the owner's earlier probe is late": {
			do: func(s *script) {
				s.open().after(30 * sec).probe("a")
				first := s.won
				s.after(120 * sec).probe("a")
				s.won = first
				s.report("a", Result{Kind: Reachable})
			},
			want: want{open: true, wait: 5 * sec, failures: 4, trips: 1},
		},
		"another owner's report is late": {
			do:   func(s *script) { s.open().after(30*sec).probe("a").report("b", Result{Kind: Reachable}) },
			want: want{open: true, wait: 5 * sec, failures: 3, trips: 1},
		},
		"abandoned probe is due at once": {
			do: func(s *script) {
				s.open().after(30*sec).probe("a").report("a", Result{}).probe("b").report("b", Result{Kind: Reachable})
			},
			want: want{trips: 1},
		},
		"probe before its time is refused": {
			do:   func(s *script) { s.open().after(29*sec).probe("a").report("a", Result{Kind: Reachable}) },
			want: want{open: true, wait: 1 * sec, failures: 3, trips: 1},
		},
		"second probe is refused": {
			do:   func(s *script) { s.open().after(30*sec).probe("a").probe("b").report("b", Result{Kind: Reachable}) },
			want: want{open: true, wait: 5 * sec, failures: 3, trips: 1},
		},
		"late failure after closing": {
			do: func(s *script) {
				s.open().after(30*sec).probe("a").report("a", Result{Kind: Reachable}).lateFail(0).lateFail(0).lateFail(0)
			},
			want: want{trips: 1},
		},
		"rate limit opens at once":  {do: func(s *script) { s.limit(90 * sec) }, want: want{open: true, limited: true, wait: 90 * sec, trips: 1}},
		"rate limit without a wait": {do: func(s *script) { s.limit(0) }, want: want{open: true, limited: true, wait: 60 * sec, trips: 1}},
		"rate limit is bounded above": {
			do: func(s *script) { s.limit(1000 * time.Hour) }, want: want{open: true, limited: true, wait: time.Hour, trips: 1},
		},
		"rate limit is bounded below": {do: func(s *script) { s.limit(1) }, want: want{open: true, limited: true, wait: sec, trips: 1}},
		"rate limit resets failures":  {do: func(s *script) { s.fail().fail().limit(0) }, want: want{open: true, limited: true, wait: 60 * sec, trips: 1}},
		"shorter limit while open":    {do: func(s *script) { s.limit(90 * sec).limit(5 * sec) }, want: want{open: true, limited: true, wait: 90 * sec, trips: 1}},
		"longer limit while open":     {do: func(s *script) { s.limit(5 * sec).limit(90 * sec) }, want: want{open: true, limited: true, wait: 90 * sec, trips: 1}},
		"limit while unavailable":     {do: func(s *script) { s.open().limit(90 * sec) }, want: want{open: true, limited: true, wait: 90 * sec, trips: 1}},
		"limit during a probe": {
			do: func(s *script) {
				s.open().after(30*sec).probe("a").limit(time.Hour).report("a", Result{Kind: Reachable})
			},
			want: want{trips: 1},
		},
		"probe is limited": {
			do: func(s *script) {
				s.limit(90*sec).after(90*sec).probe("a").report("a", Result{Kind: RateLimited, Wait: 7 * sec})
			},
			want: want{open: true, limited: true, wait: 7 * sec, trips: 1},
		},
		"limited, then unavailable": {
			do: func(s *script) {
				s.limit(90*sec).after(90*sec).probe("a").report("a", Result{Kind: Unavailable})
			},
			want: want{open: true, wait: 30 * sec, failures: 1, trips: 1},
		},
		"off counts and never opens":   {settings: off, do: func(s *script) { s.open().fail() }, want: want{failures: 4}},
		"off sees limits, never opens": {settings: off, do: func(s *script) { s.fail().limit(time.Hour) }, want: want{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{now: t0, c: Defaults()}
			if tc.settings != nil {
				tc.settings(&s.c)
			}
			tc.do(s)
			at := s.At(s.now, s.c)
			got := want{at.Open, at.RateLimited, s.Wait(s.now, s.c), at.Failures, at.Trips}
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func off(c *Settings) { c.Enabled = false }

func TestOffIgnoresWhatOthersOpened(t *testing.T) {
	s := (&script{now: t0, c: Defaults()}).open()
	off(&s.c)
	if wait := s.Wait(s.now, s.c); wait != 0 {
		t.Errorf("wait is %s, want none", wait)
	}
	if status := s.status("", s.now, s.c); status.Open {
		t.Error("shown as open")
	}
}

func TestStateSurvivesJSON(t *testing.T) {
	s := (&script{now: t0.Add(123456789), c: Defaults()}).open().after(time.Minute).probe("node/1")
	text, err := json.Marshal(s.State)
	if err != nil {
		t.Fatal(err)
	}
	var back State
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if back != s.State {
		t.Errorf("came back as %+v\nwant %+v", back, s.State)
	}
}

func TestSettingsAreCompleted(t *testing.T) {
	if got := (Settings{Enabled: true}).withDefaults(); got != Defaults() {
		t.Errorf("got %+v", got)
	}
	if got := (Settings{Open: 10 * time.Minute}).withDefaults(); got.MaxOpen != 10*time.Minute || got.Enabled {
		t.Errorf("got %+v", got)
	}
}
