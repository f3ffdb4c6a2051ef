package commands

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/api"
)

// StatusCmd shows the status document.
type StatusCmd struct {
	Watch    bool          `short:"w" help:"Redraw until interrupted."`
	Every    time.Duration `default:"2s" help:"How often --watch redraws."`
	ExitCode bool          `help:"Exit 1 when there are conditions."`
	Output
}

// Run prints the status once, or again and again.
func (c *StatusCmd) Run(ctx context.Context, a *app) error {
	ops, done, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer done()
	for {
		s, err := ops.Status(ctx)
		if err != nil && !(c.Watch && ctx.Err() != nil) {
			return err
		}
		if c.Watch && err == nil && isTerminal(a.out) {
			_, _ = fmt.Fprint(a.out, "\x1b[H\x1b[2J")
		}
		if err == nil {
			if err := c.show(a, s); err != nil {
				return err
			}
		}
		if !c.Watch {
			if c.ExitCode && len(s.Conditions) > 0 {
				return errQuiet
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(c.Every, 100*time.Millisecond)):
		}
	}
}

func (c *StatusCmd) show(a *app, s *api.Status) error {
	if c.asJSON() {
		return c.print(a.out, s)
	}
	var b strings.Builder
	now := time.Now()
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	row("status", "%s", s.Status)
	row("version", "%s", s.Version)
	row("store", "%s", s.Store.Kind)
	pending := ""
	if s.Queue.OldestPendingAt != nil {
		pending = ", the oldest pending from " + ago(s.Queue.OldestPendingAt, now)
	}
	row("queue", "%d received, %d processing, %d done, %d dead letters%s", s.Queue.Received, s.Queue.Processing, s.Queue.Done, s.Queue.DeadLetters, pending)
	var runs []string
	for _, st := range queue.RunStates {
		if n := number(s.Runs[string(st)]); n > 0 {
			runs = append(runs, strconv.Itoa(n)+" "+string(st))
		}
	}
	if len(runs) == 0 {
		runs = []string{"none"}
	}
	row("runs", "%s", strings.Join(runs, ", "))
	w := "off"
	if s.Watchdog.Enabled {
		w = fmt.Sprintf("last success %s, %d open repairs, %d redeliveries asked for, blind for %d s in 24 h", ago(s.Watchdog.LastSuccessAt, now), s.Watchdog.OpenRepairs, s.Watchdog.RedeliveriesRequested, s.Watchdog.BlindSeconds)
	}
	row("watchdog", "%s", w)
	gh := "reachable"
	if s.GitHubBreaker.Open {
		gh = fmt.Sprintf("unavailable, next try in %d s: %s", s.GitHubBreaker.RetryInSeconds, orDash(s.GitHubBreaker.LastError))
	}
	for _, br := range s.Breakers {
		if br.Open {
			gh += fmt.Sprintf("; %s waits %d s", br.Credential, br.RetryInSeconds)
		}
	}
	row("github", "%s", gh)
	if len(s.Apps) > 0 {
		b.WriteString("\nSources\n")
		for _, app := range s.Apps {
			state := "unchecked"
			switch {
			case app.Error != nil:
				state = "unreadable: " + *app.Error
			case app.Healthy != nil && *app.Healthy:
				state = "healthy"
			case app.Healthy != nil:
				state = "drift: `preloop app-check` says what"
			}
			fmt.Fprintf(&b, "  %s  %s%s\n", plain(app.Source), plain(state), checkedNote(app.CheckedAt, now))
		}
	}
	if len(s.Triggers) > 0 {
		b.WriteString("\nTriggers\n")
		for _, t := range s.Triggers {
			fmt.Fprintf(&b, "  %s  %s, %s running, %s waiting\n", t.Name, t.State, of(t.Running, t.Concurrency), of(t.Waiting, t.QueueSize))
		}
	}
	if len(s.Nodes) > 0 {
		b.WriteString("\nNodes\n")
		for _, n := range s.Nodes {
			state := "alive"
			if n.Gone {
				state = "gone since " + ago(n.LastHeartbeatAt, now)
			}
			fmt.Fprintf(&b, "  %s  %s, %s, up %s%s\n", n.ID, state, strings.Join(n.Components, " "), span(now.Sub(*n.StartedAt)), note(n.Note))
		}
	}
	b.WriteString("\nConditions\n")
	if len(s.Conditions) == 0 {
		b.WriteString("  none\n")
	}
	for _, x := range s.Conditions {
		fmt.Fprintf(&b, "  %s  %s\n", x.Type, plain(x.Message))
	}
	_, err := fmt.Fprint(a.out, b.String())
	return err
}

func checkedNote(t *time.Time, now time.Time) string {
	if t == nil {
		return ""
	}
	return ", checked " + ago(t, now)
}

func note(s *string) string {
	if s == nil {
		return ""
	}
	return " (" + plain(*s) + ")"
}

// number reads a count that may have come through JSON.
func number(v any) int {
	switch n := v.(type) {
	case int:
		return n
	case float64:
		return int(n)
	}
	return 0
}
