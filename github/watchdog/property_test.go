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

// Over any sequence of deliveries, outages on either side, restarts in the middle of a pass, backups
// that come back, other nodes, page limits, and clocks that disagree: what GitHub holds and the
// store lacks comes back, and what the store has is never asked for.
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

// life is one store, GitHub's history of its deliveries, and what has become of them.
type life struct {
	*rapid.T
	ctx   context.Context
	h     *history
	m     *memory
	rules Rules
	src   Source

	n          int            // deliveries so far: d1, d2, …
	receiving  bool           // GitHub reaches the receiver
	asks       map[string]int // redeliveries that GitHub took, by GUID
	unanswered map[string]int // of those, whose answer was lost
	backup     *memory
	restored   int
	killed     int // each may have charged an attempt that was not asked for
}

func newLife(ctx context.Context, t *rapid.T) *life {
	l := &life{T: t, ctx: ctx, h: newHistory(), m: newMemory(), rules: rulesForTests(), receiving: true, asks: map[string]int{}, unanswered: map[string]int{}}
	l.h.perPage = rapid.IntRange(5, 20).Draw(t, "page size")
	l.h.lag = time.Duration(rapid.IntRange(0, 90).Draw(t, "rows are listed late, s")) * time.Second
	l.h.skew = time.Duration(rapid.IntRange(-90, 90).Draw(t, "GitHub's clock, s")) * time.Second
	l.rules.MaxPages = rapid.IntRange(1, 4).Draw(t, "max pages")
	l.rules.Budget = rapid.IntRange(1, 20).Draw(t, "budget")
	l.src = Source{Key: "app-1", GitHub: l.h}
	l.h.deliver = func(guid string) int {
		if l.m.rows[guid] {
			l.Fatalf("%s was asked for although the store has it", guid)
		}
		l.asks[guid]++
		if !l.receiving {
			return 502
		}
		return l.m.receive(guid)
	}
	return l
}

// pass makes a pass and checks what holds of each one, however it ends.
func (l *life) pass(o Options) Result {
	before, pages, asked := l.m.cursor, l.h.pages, len(l.h.asked)
	r := dog(l.m, l.rules).Pass(l.ctx, l.src, o)
	after := l.m.cursor
	if n := l.h.pages - pages; n > l.rules.MaxPages {
		l.Fatalf("%d pages were read of %d", n, l.rules.MaxPages)
	}
	if n := len(l.h.asked) - asked; n > l.rules.Budget {
		l.Fatalf("%d redeliveries were asked for with a budget of %d", n, l.rules.Budget)
	}
	if o.Since.IsZero() && after.Watermark.Before(before.Watermark) {
		l.Fatalf("the watermark went back from %s to %s", before.Watermark, after.Watermark)
	}
	if after.Watermark.After(before.Watermark) && before.Version > 0 && (r.PollFailed || r.Unfinished || after.Watermark.After(time.Now().Add(-l.rules.Grace))) {
		l.Fatalf("the watermark went on to %s: %+v", after.Watermark, r)
	}
	if o.DryRun && (len(l.h.asked) > asked || after.Version != before.Version) {
		l.Fatalf("a dry run changed something: %+v", r)
	}
	return r
}

func (l *life) some(most int, what string) int { return rapid.IntRange(1, most).Draw(l.T, what) }

func (l *life) send() {
	l.n++
	guid := fmt.Sprint("d", l.n)
	switch rapid.IntRange(0, 3).Draw(l.T, "fate") {
	case 0: // stored, though GitHub may think otherwise
		l.m.receive(guid)
		l.h.record(guid, rapid.SampledFrom([]int{202, 202, 500}).Draw(l.T, "code"))
	case 1:
		l.h.record(guid, 200) // acknowledged by somebody else
	default:
		l.h.record(guid, 502)
	}
}

var away = &github.UnavailableError{Reason: "503"}

func (l *life) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"deliver": func(*rapid.T) {
			for range l.some(15, "how many") {
				l.send()
				time.Sleep(time.Duration(rapid.IntRange(0, 20).Draw(l.T, "apart, s")) * time.Second)
			}
		},
		"resend": func(*rapid.T) { // a person presses Redeliver
			if l.n > 0 {
				guid := fmt.Sprint("d", l.some(l.n, "which"))
				l.h.record(guid, l.m.receive(guid))
			}
		},
		"pass":                                 func(*rapid.T) { l.pass(Options{}) },
		"dry run":                              func(*rapid.T) { l.pass(Options{DryRun: true}) },
		"the receiver goes away or comes back": func(*rapid.T) { l.receiving = !l.receiving },
		"time passes":                          func(*rapid.T) { time.Sleep(time.Duration(l.some(20, "minutes")) * time.Minute) },
		"since": func(*rapid.T) {
			since := time.Now().Add(-time.Duration(l.some(90, "minutes ago")) * time.Minute)
			l.pass(Options{Since: since, DryRun: rapid.Bool().Draw(l.T, "dry")})
		},
		"outage of the history": func(*rapid.T) {
			l.duringReads(l.some(4, "from page"), func(past bool) error {
				if past {
					return away
				}
				return nil
			})
		},
		"outage of redeliveries": func(*rapid.T) {
			good, taken := l.some(4, "from which"), rapid.Bool().Draw(l.T, "taken all the same")
			l.h.failPost = func(id int64) error {
				if good--; good > 0 {
					return nil
				}
				if taken {
					l.takeUnanswered(id)
				}
				return away
			}
			l.pass(Options{})
			l.h.failPost = nil
		},
		"GitHub forgets the page to go on with": func(*rapid.T) {
			if l.m.cursor.Scan != nil {
				l.m.cursor.Scan = &Scan{Next: "12345", Until: l.m.cursor.Scan.Until}
			}
			l.pass(Options{})
		},
		"deliveries during a pass": func(*rapid.T) {
			l.duringReads(1, func(bool) error {
				for range rapid.IntRange(0, 8).Draw(l.T, "how many") {
					l.send()
				}
				return nil
			})
		},
		"another node meanwhile": func(*rapid.T) {
			l.duringReads(1, func(bool) error {
				other := dog(l.m, l.rules)
				other.Owner = "other"
				if r := other.Pass(l.ctx, l.src, Options{}); !r.Held {
					l.Fatalf("two nodes passed at once: %+v", r)
				}
				return nil
			})
		},
		"restart": func(*rapid.T) { // killed after some steps: nothing more happens
			steps := l.some(12, "after")
			killed := errors.New("killed")
			kill := func(string) error {
				if steps--; steps < 0 {
					return killed
				}
				return nil
			}
			if rapid.Bool().Draw(l.T, "once it was written") {
				l.m.cut, l.m.broken = kill, func(string) error {
					if steps < 0 {
						return killed
					}
					return nil
				}
			} else {
				l.m.broken = kill
			}
			l.pass(Options{})
			l.m.broken, l.m.cut, l.m.holder = nil, nil, ""
			l.killed++
		},
		"backup": func(*rapid.T) { l.backup = l.m.copied() },
		"restore": func(*rapid.T) {
			if l.backup != nil {
				l.m.restore(l.backup)
				l.restored++
			}
		},
	}
}

// duringReads makes a pass in which hook is called before each page; past says whether the page is
// the given one or a later one.
func (l *life) duringReads(page int, hook func(past bool) error) {
	first := l.h.reads
	inside := false
	l.h.failRead = func(n int) error {
		if inside {
			return nil
		}
		inside = true
		l.h.mu.Unlock() // what the hook does asks the history, too
		defer func() { l.h.mu.Lock(); inside = false }()
		return hook(n-first >= page)
	}
	l.pass(Options{})
	l.h.failRead = nil
}

// takeUnanswered redelivers as GitHub does, for a client that never learns it.
func (l *life) takeUnanswered(id int64) {
	for _, r := range l.h.rows {
		if r.ID == id {
			l.unanswered[r.GUID]++
			l.h.asked = append(l.h.asked, r.GUID)
			l.h.record(r.GUID, l.h.deliver(r.GUID))
			return
		}
	}
}

func (m *memory) copied() *memory {
	return &memory{cursor: m.cursor, rows: maps.Clone(m.rows), repairs: maps.Clone(m.repairs)}
}

func (m *memory) restore(from *memory) {
	c := from.copied()
	m.cursor, m.rows, m.repairs, m.holder = c.cursor, c.rows, c.repairs, ""
}

func liveThrough(ctx context.Context, t *rapid.T) {
	l := newLife(ctx, t)
	l.h.record("before", 502)
	time.Sleep(5 * time.Hour)
	if rapid.Bool().Draw(t, "GitHub is away at first") { // adopted all the same
		l.h.failRead = func(int) error { return away }
	}
	l.pass(Options{})
	l.h.failRead = nil
	time.Sleep(5 * time.Minute)
	t.Repeat(l.actions())
	l.receiving = true
	for passes, quiet := 0, 0; passes < 800 && quiet < 3; passes++ {
		time.Sleep(5 * time.Minute)
		r := l.pass(Options{})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		quiet++
		if r.Unfinished || len(due(time.Now().Add(24*time.Hour), l.rules, slices.Collect(maps.Values(l.m.repairs)))) > 0 {
			quiet = 0
		}
	}
	if l.asks["before"] > 0 {
		t.Fatal("what was there before the first pass was asked for")
	}
	for i := range l.n {
		guid := fmt.Sprint("d", i+1)
		r, known := l.m.repairs[guid]
		switch cap := l.rules.MaxAttempts; {
		case l.m.rows[guid] && known && r.State != Arrived:
			t.Fatalf("%s has arrived, its repair is %s", guid, r.State)
		case !l.m.rows[guid] && (r.State != Open || r.Attempts < cap || l.asks[guid] < cap-l.killed):
			t.Fatalf("%s is lost (%v %+v), asked for %d times; %d rows, cursor %+v", guid, known, r, l.asks[guid], len(l.h.rows), l.m.cursor)
		case l.asks[guid] > cap*(1+l.restored)+l.unanswered[guid]:
			t.Fatalf("%s was asked for %d times with a cap of %d", guid, l.asks[guid], cap)
		}
	}
}
