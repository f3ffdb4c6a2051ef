package api

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/breaker"
)

func TestWhichBreakersAreShown(t *testing.T) {
	now := time.Date(2026, 8, 20, 12, 0, 0, 0, time.UTC)
	open := breaker.State{Open: true, OpenUntil: now.Add(20 * time.Second), Failures: 3, Trips: 2, LastError: "502"}
	abandoned := open
	abandoned.OpenUntil = now.Add(-2 * time.Hour)
	probed := breaker.State{Open: true, Interval: time.Minute, Probe: breaker.Probe{Owner: "node-9", Deadline: now.Add(-time.Second)}}
	const host = "host:api.github.com"
	for name, c := range map[string]struct {
		states     map[string]breaker.State
		off        bool
		open       bool     // the host's
		trips      int64    // the host's
		shown      []string // credentials
		conditions int
	}{
		"open":                    {map[string]breaker.State{host: open, "app:1": open}, false, true, 2, []string{"app:1"}, 2},
		"switched off":            {map[string]breaker.State{host: open, "app:1": open}, true, false, 2, []string{"app:1"}, 0},
		"nobody's any more":       {map[string]breaker.State{host: abandoned, "app:1": abandoned}, false, false, 0, nil, 0},
		"another host's":          {map[string]breaker.State{host: {Trips: 7}, "host:ghes.example.com": open}, false, false, 7, nil, 0},
		"another host's, sorting": {map[string]breaker.State{"host:a.example.com": open, host: {Trips: 7}}, false, false, 7, nil, 0},
		"probe not reported":      {map[string]breaker.State{host: probed}, false, true, 0, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			settings := breaker.Defaults()
			settings.Enabled = !c.off
			s := document(facts{now: now, settings: settings, host: "api.github.com", breakers: c.states})
			var shown []string
			for _, b := range s.Breakers {
				shown = append(shown, b.Credential)
			}
			if s.GitHubBreaker.Open != c.open || s.GitHubBreaker.Trips != c.trips || !slices.Equal(shown, c.shown) || len(s.Conditions) != c.conditions {
				t.Errorf("host %+v, credentials %v, conditions %v", s.GitHubBreaker, shown, s.Conditions)
			}
			if c.off && (s.GitHubBreaker.RetryInSeconds != 0 || s.Breakers[0].Open || s.Breakers[0].RetryInSeconds != 0) {
				t.Errorf("off: %+v, %+v", s.GitHubBreaker, s.Breakers)
			}
		})
	}
}
