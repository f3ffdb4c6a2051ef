package watchdog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/seed-de999ace/preloop/github"
)

// Over any sequence of deliveries, outages on either side, restarts in the middle of a pass, and
// page limits: what GitHub holds and the store lacks comes back, and what the store has is never
// asked for.
func TestEveryLostDeliveryComesBackAndNoOtherIsAskedFor(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var failed any // rapid's panic has to leave the bubble
		synctest.Test(t, func(t *testing.T) {
			defer func() { failed = recover() }()
			liveThrough(t.Context(), r)
		})
		if fmt.Sprintf("%T", failed) == "rapid.invalidData" {
			panic(failed) // not where a failure panics: rapid tells the two apart by the place
		}
		if failed != nil {
			panic(failed)
		}
	})
}

func liveThrough(ctx context.Context, t *rapid.T) {
	h, m := newHistory(), newMemory()
	h.perPage = rapid.IntRange(5, 20).Draw(t, "page size")
	rules := rulesForTests()
	rules.MaxPages = rapid.IntRange(1, 4).Draw(t, "max pages")
	rules.Budget = rapid.IntRange(1, 20).Draw(t, "budget")
	src := Source{Key: "app-1", GitHub: h}
	receiving := true
	h.deliver = func(guid string) int {
		if m.rows[guid] {
			t.Fatalf("%s was asked for although the store has it", guid)
		}
		if !receiving {
			return 502
		}
		return m.receive(guid)
	}
	pass := func() Result { return dog(m, rules).Pass(ctx, src, Options{}) }
	time.Sleep(time.Hour)
	if r := pass(); r.Err != nil {
		t.Fatal(r.Err)
	}
	time.Sleep(3 * time.Minute)
	n := 0
	t.Repeat(map[string]func(*rapid.T){
		"deliver": func(t *rapid.T) {
			for range rapid.IntRange(1, 15).Draw(t, "how many") {
				n++
				guid := fmt.Sprint("d", n)
				switch rapid.IntRange(0, 3).Draw(t, "fate") {
				case 0: // stored, though GitHub may think otherwise
					m.receive(guid)
					h.record(guid, rapid.SampledFrom([]int{202, 202, 500}).Draw(t, "code"))
				case 1:
					h.record(guid, 200) // acknowledged by somebody else
				default:
					h.record(guid, 502)
				}
				time.Sleep(time.Duration(rapid.IntRange(0, 20).Draw(t, "apart")) * time.Second)
			}
		},
		"resend": func(t *rapid.T) { // a person presses Redeliver
			if n > 0 {
				guid := fmt.Sprint("d", rapid.IntRange(1, n).Draw(t, "which"))
				h.record(guid, m.receive(guid))
			}
		},
		"pass": func(t *rapid.T) { pass() },
		"outage of the history": func(t *rapid.T) {
			good := h.reads + rapid.IntRange(0, 3).Draw(t, "pages first")
			h.failRead = func(n int) error {
				if n > good {
					return &github.UnavailableError{Reason: "503"}
				}
				return nil
			}
			pass()
			h.failRead = nil
		},
		"restart": func(t *rapid.T) { // killed after some writes: nothing more happens
			ops := rapid.IntRange(1, 12).Draw(t, "after")
			killed := errors.New("killed")
			m.broken = func(string) error {
				if ops--; ops < 0 {
					return killed
				}
				return nil
			}
			pass()
			m.broken, m.holder = nil, ""
		},
		"the receiver goes away or comes back": func(t *rapid.T) { receiving = !receiving },
		"time passes":                          func(t *rapid.T) { time.Sleep(time.Duration(rapid.IntRange(1, 20).Draw(t, "minutes")) * time.Minute) },
	})
	receiving = true
	for passes, quiet := 0, 0; passes < 800 && quiet < 3; passes++ {
		time.Sleep(5 * time.Minute)
		r := pass()
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		quiet++
		if r.Unfinished || len(due(time.Now().Add(24*time.Hour), rules, slices.Collect(maps.Values(m.repairs)))) > 0 {
			quiet = 0
		}
	}
	for i := range n {
		guid := fmt.Sprint("d", i+1)
		if r, known := m.repairs[guid]; !m.rows[guid] && r.Attempts < rules.MaxAttempts {
			t.Fatalf("%s is lost (%v %+v); %d rows, cursor %+v", guid, known, r, len(h.rows), m.cursor)
		} else if m.rows[guid] && known && r.State != Arrived {
			t.Fatalf("%s has arrived, its repair is %s", guid, r.State)
		}
	}
}
