package watchdog

import (
	"context"
	"errors"
	"fmt"
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
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ testing.TB }{t}, func(t *rapid.T) { // without a deadline, which a bubble has not
			h, m := newHistory(), newMemory()
			h.perPage = rapid.IntRange(1, 10).Draw(t, "page size")
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
			pass := func(ctx context.Context) Result { return dog(m, rules).Pass(ctx, src, Options{}) }
			time.Sleep(time.Hour)
			if r := pass(t.Context()); r.Err != nil {
				t.Fatal(r.Err)
			}
			time.Sleep(3 * time.Minute)
			n := 0
			t.Repeat(map[string]func(*rapid.T){
				"deliver": func(t *rapid.T) {
					for range rapid.IntRange(1, 30).Draw(t, "how many") {
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
				"pass": func(t *rapid.T) { pass(t.Context()) },
				"outage of the history": func(t *rapid.T) {
					good := h.reads + rapid.IntRange(0, 3).Draw(t, "pages first")
					h.failRead = func(n int) error {
						if n > good {
							return &github.UnavailableError{Reason: "503"}
						}
						return nil
					}
					pass(t.Context())
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
					pass(t.Context())
					m.broken, m.holder = nil, ""
				},
				"the receiver goes away or comes back": func(t *rapid.T) { receiving = !receiving },
				"time passes":                          func(t *rapid.T) { time.Sleep(time.Duration(rapid.IntRange(1, 20).Draw(t, "minutes")) * time.Minute) },
			})
			receiving = true
			for range 400 {
				time.Sleep(5 * time.Minute)
				if r := pass(t.Context()); r.Err != nil {
					t.Fatal(r.Err)
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
		})
	})
}
