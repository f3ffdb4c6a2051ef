package api

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/seed-de999ace/preloop/queue"
)

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 8, 20, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"": {}, "2h": now.Add(-2 * time.Hour), "90m": now.Add(-90 * time.Minute), "3d": now.AddDate(0, 0, -3), "1.5d": now.Add(-36 * time.Hour), "0": now, "0d": now,
		"2026-08-19": now.Add(-36 * time.Hour), "2026-08-20T10:00:00Z": now.Add(-2 * time.Hour), "2026-08-20T10:00:00.5Z": now.Add(-2*time.Hour + 500*time.Millisecond),
		"2026-08-20T12:00:00+02:00": now.Add(-2 * time.Hour), "2026-08-20T12:00:00 02:00": now.Add(-2 * time.Hour), "2026-08-20T10:00:00": now.Add(-2 * time.Hour), "2026-08-20 10:00:00": now.Add(-2 * time.Hour),
	} {
		if got, err := ParseSince(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"yesterday", "-2h", "-1d", "d", "NaNd", "Infd", "1e9d", "2026-13-01", "2", "T", "2h ago"} {
		if got, err := ParseSince(text, now); !errors.Is(err, queue.ErrInvalid) {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
}

// What a client writes into a query a server reads out of it.
func TestQueriesRoundTrip(t *testing.T) {
	text := rapid.StringOf(rapid.RuneFrom([]rune("aA/&=+%#? é,;")))
	since := rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "no since") {
			return time.Time{}
		}
		return time.UnixMicro(rapid.Int64Range(0, 4e15).Draw(t, "since")).UTC()
	})
	limit := rapid.IntRange(1, MaxLimit)
	rapid.Check(t, func(t *rapid.T) {
		d := queue.DeliveryFilter{
			States: rapid.SliceOfNDistinct(rapid.SampledFrom(queue.DeliveryStates), 0, 3, rapid.ID).Draw(t, "states"), Event: text.Draw(t, "event"), Repo: text.Draw(t, "repo"),
			Source: text.Draw(t, "source"), Trigger: text.Draw(t, "trigger"), Since: since.Draw(t, "since"), Limit: limit.Draw(t, "limit"), Cursor: text.Draw(t, "cursor"),
		}
		r := queue.RunFilter{
			Trigger: text.Draw(t, "trigger"), States: rapid.SliceOfNDistinct(rapid.SampledFrom(queue.RunStates), 0, 3, rapid.ID).Draw(t, "states"), Subject: text.Draw(t, "subject"),
			DeliveryID: text.Draw(t, "delivery"), Since: since.Draw(t, "since"), Limit: limit.Draw(t, "limit"), Cursor: text.Draw(t, "cursor"),
		}
		if len(d.States) == 0 {
			d.States = nil
		}
		if len(r.States) == 0 {
			r.States = nil
		}
		decode := func(v url.Values) url.Values {
			q, err := url.ParseQuery(v.Encode())
			if err != nil {
				t.Fatal(err)
			}
			return q
		}
		gotD, err := parseDeliveryQuery(decode(deliveryQuery(d)))
		if diff := cmp.Diff(d, gotD); err != nil || diff != "" {
			t.Fatalf("%v %s", err, diff)
		}
		gotR, err := parseRunQuery(decode(runQuery(r)))
		if diff := cmp.Diff(r, gotR); err != nil || diff != "" {
			t.Fatalf("%v %s", err, diff)
		}
	})
}
