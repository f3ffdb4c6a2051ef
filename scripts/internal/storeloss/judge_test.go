package main

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// TestJudge starts from a world in which every promise was kept, and breaks one at a time.
func TestJudge(t *testing.T) {
	start := time.Date(2026, 8, 20, 12, 0, 0, 0, time.UTC)
	at := times{struck: start.Add(2 * time.Second), noticed: time.Second, healing: start.Add(8 * time.Second), returned: start.Add(10 * time.Second)}
	after := func(d time.Duration) time.Time { return start.Add(d) }
	other := harness.Run{ID: "r2", DeliveryID: "other", State: "succeeded"}
	type evidence struct {
		answers    []answer
		deliveries []harness.Delivery
		runs       []harness.Run
		effects    []string
		loss       loss
	}
	tests := map[string]struct {
		change func(*evidence)
		want   string // in the only line; empty: all is well
	}{
		"all is well":                    {func(*evidence) {}, ""},
		"what was answered 500 is there": {func(e *evidence) { e.deliveries = append(e.deliveries, harness.Delivery{ID: "during", State: "done"}) }, ""},
		"what was answered 202 is lost":  {func(e *evidence) { e.deliveries = e.deliveries[1:] }, "answered 202 and is there 0 times"},
		"a delivery is there twice":      {func(e *evidence) { e.deliveries = append(e.deliveries, e.deliveries[1]); e.answers = e.answers[:2] }, "is there 2 times"},
		"a delivery waits":               {func(e *evidence) { e.deliveries[1].State = "received" }, "after is received"},
		"a run began twice": {func(e *evidence) {
			e.effects = []string{"before", "before", "other"}
			e.runs[0].State = "uncertain"
			e.runs = append(e.runs, other)
		}, "before ran 2 times"},
		"a run failed": {func(e *evidence) { e.runs = append(e.runs, harness.Run{ID: "r3", DeliveryID: "x", State: "failed"}) }, "run r3 is failed"},
		"a matching delivery without a run": {func(e *evidence) {
			e.answers = append(e.answers, answer{guid: "b", event: "issues", status: 202})
			e.deliveries = append(e.deliveries, harness.Delivery{ID: "b", State: "done"})
		}, "delivery b has no run"},
		"an answer took too long":        {func(e *evidence) { e.answers[1].took = 9 * time.Second }, "came after 9s"},
		"another answer":                 {func(e *evidence) { e.answers = append(e.answers, answer{guid: "x", status: 404}) }, "answered 404"},
		"no answer":                      {func(e *evidence) { e.answers = append(e.answers, answer{guid: "x", text: "cut"}) }, "answered 0: cut"},
		"202 without a store":            {func(e *evidence) { e.answers[2].sent = after(5 * time.Second) }, "while the store was away"},
		"202 by a store that takes some": {func(e *evidence) { e.answers[2].sent = after(5 * time.Second); e.loss.partial = true }, ""},
		"500 when all is well again":     {func(e *evidence) { e.answers[1].sent = after(11 * time.Second) }, "when the store was back"},
		"nothing failed":                 {func(e *evidence) { e.answers = []answer{e.answers[0], e.answers[2]} }, "no answer was 500"},
		"nothing ran":                    {func(e *evidence) { e.runs[0].State = "uncertain" }, "no run succeeded"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e := evidence{
				answers: []answer{
					{guid: "before", event: "issues", sent: after(time.Second), status: 202},
					{guid: "during", event: "issues", sent: after(5 * time.Second), status: 500},
					{guid: "after", event: "push", sent: after(11 * time.Second), status: 202},
				},
				deliveries: []harness.Delivery{{ID: "before", State: "done"}, {ID: "after", State: "done"}},
				runs:       []harness.Run{{ID: "r1", DeliveryID: "before", State: "succeeded"}},
				effects:    []string{"before"},
			}
			tt.change(&e)
			_, wrong := judge(e.answers, e.deliveries, e.runs, e.effects, at, e.loss)
			if tt.want == "" && len(wrong) > 0 || tt.want != "" && (len(wrong) != 1 || !strings.Contains(wrong[0], tt.want)) {
				t.Errorf("got %q, want one with %q", wrong, tt.want)
			}
		})
	}
}
