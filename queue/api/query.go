package api

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// The limits of a page.
const (
	DefaultLimit = 50
	MaxLimit     = 500
)

// ParseSince reads a moment: RFC 3339, a date, or a duration before now such as 90m, 24h or 3d.
func ParseSince(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if strings.Contains(s, "T") {
		s = strings.Replace(s, " ", "+", 1) // the zone of a time that was not escaped in a URL
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", time.DateTime, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n >= 0 && n < 36500 {
			return now.Add(-time.Duration(n * 24 * float64(time.Hour))), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("%w: since must be a time such as 2026-08-20T10:00:00Z or an age such as 2h or 3d", queue.ErrInvalid)
}

// ParseStates reads a comma-separated list of states.
func ParseStates[S ~string](s string, known []S) ([]S, error) {
	if s == "" {
		return nil, nil
	}
	var out []S
	for part := range strings.SplitSeq(s, ",") {
		state := S(strings.TrimSpace(part))
		if !slices.Contains(known, state) {
			return nil, fmt.Errorf("%w: state must be one of %s", queue.ErrInvalid, strings.ReplaceAll(join(known), ",", ", "))
		}
		out = append(out, state)
	}
	return out, nil
}

func parseLimit(s string) (int, error) {
	if s == "" {
		return DefaultLimit, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%w: limit must be a number from 1 to %d", queue.ErrInvalid, MaxLimit)
	}
	return min(n, MaxLimit), nil
}

func parseDeliveryQuery(q url.Values) (f queue.DeliveryFilter, err error) {
	f = queue.DeliveryFilter{Event: q.Get("event"), Repo: q.Get("repo"), Source: q.Get("source"), Trigger: q.Get("trigger"), Cursor: q.Get("cursor")}
	if f.States, err = ParseStates(q.Get("state"), queue.DeliveryStates); err != nil {
		return f, err
	}
	if f.Since, err = ParseSince(q.Get("since"), time.Now()); err != nil {
		return f, err
	}
	f.Limit, err = parseLimit(q.Get("limit"))
	return f, err
}

func parseRunQuery(q url.Values) (f queue.RunFilter, err error) {
	f = queue.RunFilter{Trigger: q.Get("trigger"), Subject: q.Get("subject"), DeliveryID: q.Get("delivery_id"), Cursor: q.Get("cursor")}
	if f.States, err = ParseStates(q.Get("state"), queue.RunStates); err != nil {
		return f, err
	}
	if f.Since, err = ParseSince(q.Get("since"), time.Now()); err != nil {
		return f, err
	}
	f.Limit, err = parseLimit(q.Get("limit"))
	return f, err
}
