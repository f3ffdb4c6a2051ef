package queue

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestWindowOpens(t *testing.T) {
	w := newWindow(8, 64)
	decided := func(n int, took time.Duration) {
		for range n {
			w.claimed(1)
			w.decided(took)
		}
	}
	steps := []struct {
		name string
		n    int
		took time.Duration
		size int
	}{
		{"a start", 0, 0, 1},
		{"the first, however slow", 1, time.Minute, 2},
		{"as many as work at once", 10, time.Minute, 8},
		{"neither quick nor slow", 100, 500 * time.Millisecond, 8},
		{"quick ones", 20, time.Millisecond, 28},
		{"many quick ones", 1000, time.Millisecond, 64},
		{"slow ones", 16, 2 * time.Second, 48},
		{"many slow ones", 1000, 2 * time.Second, 8},
	}
	for _, s := range steps {
		decided(s.n, s.took)
		if w.room() != s.size {
			t.Errorf("after %s there is room for %d, want %d", s.name, w.room(), s.size)
		}
	}
}

func TestWindowClaimsWhatIsWorthIt(t *testing.T) {
	w := newWindow(8, 64)
	for range 200 {
		w.claimed(1)
		w.decided(0)
	}
	for undecided, room := range map[int]int{0: 64, 7: 57, 8: 56, 32: 32, 33: 0, 63: 0, 64: 0} {
		w.undecided = undecided
		if got := w.room(); got != room {
			t.Errorf("with %d undecided there is room for %d, want %d", undecided, got, room)
		}
	}
}

func TestWindowWidensWhileNothingIsKilled(t *testing.T) {
	w := newWindow(3, 64)
	w.claimed(1)
	for i, room := range []int{0, 1, 2, 2, 2} {
		if got := w.room(); got != room {
			t.Errorf("after %d s there is room for %d, want %d", i, got, room)
		}
		w.harmless()
	}
}

func TestPacer(t *testing.T) {
	now := time.Now()
	var p pacer
	pause := func(found bool, later time.Duration) time.Duration {
		now = now.Add(later)
		return p.pause(found, now)
	}
	var got []time.Duration
	for range 10 {
		got = append(got, pause(false, time.Millisecond))
	}
	// The first is quiet; then three are free.
	want := "[0s 0s 0s 0s 1ms 2ms 4ms 8ms 16ms 16ms]"
	if fmt.Sprint(got) != want {
		t.Errorf("pauses are %v, want %s", got, want)
	}
	if d := pause(true, time.Millisecond); d != 0 {
		t.Errorf("a pause of %v after something was found", d)
	}
	for range 6 {
		pause(false, time.Millisecond)
	}
	if d := pause(false, time.Second); d != 0 {
		t.Errorf("a pause of %v after a quiet second", d)
	}
}

func TestBackoff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b backoff
		full := 100 * time.Millisecond
		for range rapid.IntRange(1, 20).Draw(t, "tries") {
			if d := b.next(); d < full/2 || d > full {
				t.Fatalf("waits %v, want between the half and the whole of %v", d, full)
			}
			full = min(2*full, 5*time.Second)
		}
	})
}

func TestErrorTextIsStorable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOfN(rapid.Byte(), 0, 3*maxErrorText).Draw(t, "text"))
		out := errorText(in)
		if !utf8.ValidString(out) || strings.ContainsRune(out, 0) || len(out) > maxErrorText+len("…") {
			t.Fatalf("%q became %q", in, out)
		}
		if utf8.ValidString(in) && !strings.ContainsRune(in, 0) && len(in) <= maxErrorText && in != out {
			t.Fatalf("%q became %q", in, out)
		}
	})
}

func TestPanicText(t *testing.T) {
	cases := map[string]struct {
		value any
		want  string
	}{
		"an error":    {errors.New("no such thing"), "panic: *errors.errorString: no such thing"},
		"a number":    {7, "panic: int: 7"},
		"two lines":   {"one\ntwo", "panic: string: one"},
		"a long line": {strings.Repeat("x", 1000), "panic: string: " + strings.Repeat("x", 192) + "…"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := panicText(c.value); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestRulesBeginAfterTheLastOneServed(t *testing.T) {
	r := &dispatcherRun{Dispatcher: &Dispatcher{Rules: func() []DispatchRule { return []DispatchRule{{Trigger: "a"}, {Trigger: "b"}, {Trigger: "c"}} }}}
	for first, want := range map[string]string{"": "abc", "a": "bca", "b": "cab", "c": "abc", "gone": "abc"} {
		r.first = first
		got := ""
		for _, rule := range r.rules() {
			got += rule.Trigger
		}
		if got != want {
			t.Errorf("after %q the order is %s, want %s", first, got, want)
		}
	}
}
