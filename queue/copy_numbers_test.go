package queue

import (
	"testing"

	"pgregory.net/rapid"
)

// In the target every number is unique, in the source's order, and not less than its row's time;
// numbers that were so already stay.
func TestNumbering(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const epoch = 1_000_000
		var n numbering
		var numbers, times, planned []int64
		number, at, last := int64(0), int64(epoch), int64(0)
		counted := rapid.Bool().Draw(t, "numbered by counting")
		for range rapid.IntRange(0, 40).Draw(t, "rows") {
			at += rapid.Int64Range(-3, 20).Draw(t, "later") // several nodes' clocks
			number++
			if !counted {
				number = max(number, at)
			}
			last = n.add(number, at, last)
			numbers, times, planned = append(numbers, number), append(times, at), append(planned, last)
		}
		before := int64(0)
		for i, number := range numbers {
			got, ok := n.of(number)
			switch {
			case !ok || got != planned[i]:
				t.Fatalf("row %d: number %d becomes %d, %v; planned %d", i, number, got, ok, planned[i])
			case got <= before:
				t.Fatalf("row %d: %d comes after %d", i, got, before)
			case got < times[i]:
				t.Fatalf("row %d: %d is less than its time %d", i, got, times[i])
			case !counted && got != number:
				t.Fatalf("row %d: %d was a time already and became %d", i, number, got)
			}
			before = got
		}
		if len(n.old) > 0 {
			if got, ok := n.of(n.old[len(n.old)-1] + 1); ok {
				t.Fatalf("a number that no row has became %d", got)
			}
		}
	})
}
