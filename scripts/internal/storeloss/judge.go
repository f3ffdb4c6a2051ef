package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// times are the moments and spans of one loss.
type times struct {
	struck, healing, returned time.Time
	noticed, back             time.Duration
}

// judge compares what was answered with what is there, and returns the figures and each broken
// promise:
//
//   - every answer is 202 or 500 and comes within the budget; none is 202 while the store is wholly
//     away, and all are once it is back;
//   - what was answered 202 is there once and is done; what was answered 500 is there once at most;
//   - a delivery that matches ran once, or its run is uncertain.
func judge(answers []answer, deliveries []harness.Delivery, runs []harness.Run, effects []string, at times, l loss) (report string, wrong []string) {
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	stored, ran := map[string]int{}, map[string]int{}
	for _, d := range deliveries {
		stored[d.ID]++
		if stored[d.ID] > 1 {
			fail("delivery %s is there %d times", d.ID, stored[d.ID])
		}
		if d.State != "done" {
			fail("delivery %s is %s: %s", d.ID, d.State, d.LastError)
		}
	}
	for _, guid := range effects {
		if ran[guid]++; ran[guid] > 1 {
			fail("delivery %s ran %d times", guid, ran[guid])
		}
	}
	states, of := map[string]int{}, map[string]string{}
	for _, r := range runs {
		states[r.State]++
		of[r.DeliveryID] = r.State
		if r.State == "succeeded" && ran[r.DeliveryID] != 1 || r.State != "succeeded" && r.State != "uncertain" {
			fail("run %s is %s (%s), its command ran %d times", r.ID, r.State, r.Reason, ran[r.DeliveryID])
		}
	}
	accepted, during, refused := 0, 0, 0
	var slowest time.Duration
	for _, a := range answers {
		slowest = max(slowest, a.took)
		if a.took > budget {
			fail("an answer came after %v: %d %s", a.took, a.status, a.text)
		}
		switch a.status {
		case http.StatusAccepted:
			accepted++
			if stored[a.guid] != 1 {
				fail("delivery %s was answered 202 and is there %d times", a.guid, stored[a.guid])
			}
			if a.event == "issues" && of[a.guid] == "" {
				fail("delivery %s has no run", a.guid)
			}
			// From when every node has noticed until the store begins to return.
			if a.sent.After(at.struck.Add(at.noticed)) && a.sent.Add(a.took).Before(at.healing) {
				if during++; !l.partial && !l.brief {
					fail("delivery %s was answered 202 while the store was away", a.guid)
				}
			}
		case http.StatusInternalServerError:
			refused++
			if a.sent.After(at.returned) {
				fail("a delivery was answered 500 when the store was back: %s", a.text)
			}
		default:
			fail("a delivery was answered %d: %s", a.status, a.text)
		}
	}
	if refused == 0 && !l.brief {
		fail("no answer was 500: nothing was tested")
	}
	if states["succeeded"] == 0 {
		fail("no run succeeded: nothing was tested")
	}
	noticed := ""
	if !l.brief {
		noticed = fmt.Sprintf("noticed after %.1f s, %d answers 202 from then on, ", at.noticed.Seconds(), during)
	}
	return noticed + fmt.Sprintf("%d answers 500, the slowest of all after %.2f s; ready again %.1f s after the store's return; %d answers 202, %d rows; runs: %d succeeded, %d uncertain",
		refused, slowest.Seconds(), at.back.Seconds(), accepted, len(deliveries), states["succeeded"], states["uncertain"]), wrong
}
