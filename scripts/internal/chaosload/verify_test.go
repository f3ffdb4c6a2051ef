package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// good is a world in which every promise was kept: a push, an issue, an issue whose run was killed.
func good() observed {
	return observed{
		sent: sent{
			acknowledged: map[string]string{"push": "push", "issue": "issues"},
			unanswered:   map[string]string{"killed": "issues", "never": "push"},
		},
		deliveries: []harness.Delivery{
			{ID: "push", Event: "push", State: "done"},
			{ID: "issue", Event: "issues", State: "done"},
			{ID: "killed", Event: "issues", State: "done"},
		},
		runs: []harness.Run{
			{ID: "r1", DeliveryID: "issue", State: "succeeded"},
			{ID: "r2", DeliveryID: "killed", State: "uncertain"},
		},
		effects: []effect{begin("narrow", "r1", "issue"), end("narrow", "r1", "issue")},
	}
}

func begin(trigger, run, delivery string) effect { return effect{true, trigger, run, delivery} }
func end(trigger, run, delivery string) effect   { return effect{false, trigger, run, delivery} }

func TestVerify(t *testing.T) {
	tests := map[string]struct {
		change func(*observed)
		want   string // in the only line; empty: all is well
	}{
		"all is well":                      {func(o *observed) {}, ""},
		"a killed run had its effect":      {func(o *observed) { o.effects = append(o.effects, begin("narrow", "r2", "killed")) }, ""},
		"an acknowledged delivery is lost": {func(o *observed) { o.deliveries = o.deliveries[1:] }, "was acknowledged and is lost"},
		"a delivery is there twice":        {func(o *observed) { o.deliveries = append(o.deliveries, o.deliveries[0]) }, "is there 2 times"},
		"a delivery is a dead letter":      {func(o *observed) { o.deliveries[0].State = "failed" }, "delivery push is failed"},
		"a delivery that nobody sent":      {func(o *observed) { o.deliveries = append(o.deliveries, harness.Delivery{ID: "x", State: "done"}) }, "was never sent"},
		"a killed run ran again": {func(o *observed) {
			o.effects = append(o.effects, begin("narrow", "r2", "killed"), begin("narrow", "r2", "killed"))
		}, "delivery killed ran 2 times"},
		"a success without effect":   {func(o *observed) { o.runs[1].State = "succeeded" }, "its command ran 0 times"},
		"a run was dropped":          {func(o *observed) { o.runs[1].State, o.runs[1].Reason = "dropped", "queue_full" }, "is dropped (queue_full)"},
		"a delivery without its run": {func(o *observed) { o.runs = o.runs[:1] }, "has 0 runs, want 1"},
		"a push has a run": {func(o *observed) {
			o.runs = append(o.runs, harness.Run{ID: "r3", DeliveryID: "push", State: "uncertain"})
		}, "has 1 runs, want 0"},
		"an effect of a run that is not there": {func(o *observed) { o.effects = append(o.effects, begin("narrow", "r9", "killed")) }, "is not listed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := good()
			tt.change(&o)
			_, wrong := verify(o)
			if tt.want == "" && len(wrong) > 0 || tt.want != "" && (len(wrong) != 1 || !strings.Contains(wrong[0], tt.want)) {
				t.Errorf("got %q, want one with %q", wrong, tt.want)
			}
		})
	}
	t.Run("two at once of a trigger that may one", func(t *testing.T) {
		o := good()
		o.effects = []effect{begin("narrow", "r1", "issue"), begin("narrow", "r2", "killed"), end("narrow", "r1", "issue"), end("narrow", "r2", "killed")}
		if _, wrong := verify(o); len(wrong) != 1 || !strings.Contains(wrong[0], "narrow ran 2 times at once, and may 1") {
			t.Errorf("got %q", wrong)
		}
	})
	t.Run("nothing happened", func(t *testing.T) {
		if _, wrong := verify(observed{}); len(wrong) == 0 {
			t.Error("an empty test passes")
		}
	})
}

func TestReadEffects(t *testing.T) {
	file := filepath.Join(t.TempDir(), "effects")
	if all, err := readEffects(file); err != nil || len(all) != 0 {
		t.Errorf("no file yet: %v, %v", all, err)
	}
	if err := os.WriteFile(file, []byte("+ a r1 d1\n- b r2 d2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err := readEffects(file); err != nil || len(all) != 2 || all[1] != end("b", "r2", "d2") {
		t.Errorf("got %v, %v", all, err)
	}
	if err := os.WriteFile(file, []byte("+ a r1 d1+ b r2 d2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readEffects(file); err == nil {
		t.Error("a torn line is no error")
	}
}

func TestTogether(t *testing.T) {
	peaks, began, ended := together([]effect{
		begin("a", "1", "d1"), begin("a", "2", "d2"), begin("b", "3", "d3"), // 2 is killed
		end("a", "1", "d1"), begin("a", "4", "d4"), end("b", "3", "d3"), begin("a", "5", "d5"), end("a", "4", "d4"), end("a", "5", "d5"),
	})
	if peaks["a"] != 2 || peaks["b"] != 1 || began != 5 || ended != 4 {
		t.Errorf("peaks %v, %d began, %d ended", peaks, began, ended)
	}
}
