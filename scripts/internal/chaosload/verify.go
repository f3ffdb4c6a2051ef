package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// observed is everything that can be seen from outside after the queue has drained.
type observed struct {
	sent       sent
	deliveries []harness.Delivery
	runs       []harness.Run
	effects    []effect
}

// effect is a line that a run's command has left behind: when it began, and when it ended. The file
// has them in the order in which they happened.
type effect struct {
	begins                 bool
	trigger, run, delivery string
}

func observe(ctx context.Context, operator *harness.Operator, file string) (o observed, err error) {
	if o.deliveries, err = operator.Deliveries(ctx); err != nil {
		return o, err
	}
	if o.runs, err = operator.Runs(ctx); err != nil {
		return o, err
	}
	o.effects, err = readEffects(file)
	return o, err
}

func readEffects(file string) ([]effect, error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []effect
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 4 || fields[0] != "+" && fields[0] != "-" {
			return nil, fmt.Errorf("reading the effects: a line %q", line)
		}
		all = append(all, effect{fields[0] == "+", fields[1], fields[2], fields[3]})
	}
	return all, nil
}

// verify compares what was promised with what is there, and returns the figures and each broken
// promise:
//
//   - an acknowledged delivery is there once and is done; nothing is there that was never sent;
//   - a delivery that matches has one run, another none;
//   - a run's command ran at most once; if the run says that it succeeded, exactly once. A run whose
//     node was killed under it is uncertain and is not run again;
//   - by the commands' own lines, no trigger ever ran more at once than it may.
func verify(o observed) (report string, wrong []string) {
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }

	stored := map[string]int{}
	for _, d := range o.deliveries {
		stored[d.ID]++
		if _, ok := o.sent.acknowledged[d.ID]; !ok {
			if _, ok := o.sent.unanswered[d.ID]; !ok {
				fail("delivery %s was never sent", d.ID)
			}
		}
		if d.State != "done" {
			fail("delivery %s is %s after %d attempts: %s", d.ID, d.State, d.Attempts, d.LastError)
		}
	}
	for guid := range o.sent.acknowledged {
		if stored[guid] == 0 {
			fail("delivery %s was acknowledged and is lost", guid)
		}
	}
	for guid, n := range stored {
		if n > 1 {
			fail("delivery %s is there %d times", guid, n)
		}
	}

	ran, of := map[string]int{}, map[string]int{}
	peaks, began, ended := together(o.effects)
	for trigger, peak := range peaks {
		if peak > caps[trigger] {
			fail("trigger %s ran %d times at once, and may %d", trigger, peak, caps[trigger])
		}
	}
	for _, e := range o.effects {
		if e.begins {
			ran[e.run]++
			of[e.delivery]++
		}
	}
	for guid, n := range of {
		if n > 1 {
			fail("delivery %s ran %d times", guid, n)
		}
	}
	states, runsOf := map[string]int{}, map[string]int{}
	for _, r := range o.runs {
		states[r.State]++
		runsOf[r.DeliveryID]++
		switch {
		case r.State == "succeeded" && ran[r.ID] != 1:
			fail("run %s succeeded and its command ran %d times", r.ID, ran[r.ID])
		case r.State != "succeeded" && r.State != "uncertain":
			fail("run %s of delivery %s is %s (%s)", r.ID, r.DeliveryID, r.State, r.Reason)
		}
		delete(ran, r.ID)
	}
	for run := range ran {
		fail("run %s left an effect and is not listed", run)
	}
	for _, d := range o.deliveries {
		want := 0
		if d.Event == "issues" {
			want = 1
		}
		if runsOf[d.ID] != want {
			fail("delivery %s (%s) has %d runs, want %d", d.ID, d.Event, runsOf[d.ID], want)
		}
	}
	if states["succeeded"] == 0 {
		fail("not one run succeeded: nothing was tested")
	}

	report = fmt.Sprintf("acknowledged %d deliveries, %d requests failed, %d answers had been lost and came again as duplicates, %d never answered\n",
		len(o.sent.acknowledged), o.sent.failures, o.sent.duplicates, len(o.sent.unanswered))
	report += fmt.Sprintf("stored %d; runs: %d succeeded, %d uncertain (killed under way); %d commands began, %d of them ended\n",
		len(o.deliveries), states["succeeded"], states["uncertain"], began, ended)
	for _, trigger := range slices.Sorted(maps.Keys(peaks)) {
		report += fmt.Sprintf("trigger %s: %d at once at most, may %d\n", trigger, peaks[trigger], caps[trigger])
	}
	return report, wrong
}

// together counts how many commands of each trigger were between their two lines at once. The file's
// order is the order in which they were written, whatever the clocks of the nodes say. A command that
// was killed has no second line, and nobody knows its end: it counts at its beginning alone.
func together(effects []effect) (peaks map[string]int, began, ended int) {
	ends := map[string]int{} // by run, of which no beginning has been seen
	for _, e := range effects {
		if !e.begins {
			ends[e.run]++
		}
	}
	peaks = map[string]int{}
	now := map[string]int{}
	for _, e := range effects {
		if !e.begins {
			ended++
			now[e.trigger]--
			continue
		}
		began++
		now[e.trigger]++
		peaks[e.trigger] = max(peaks[e.trigger], now[e.trigger])
		if ends[e.run] == 0 {
			now[e.trigger]--
			continue
		}
		ends[e.run]--
	}
	return peaks, began, ended
}
