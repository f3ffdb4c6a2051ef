package watchdog

import (
	"net/http"
	"slices"
	"time"

	"github.com/seed-de999ace/preloop/github"
)

// Mark is a delivery after which things were different: the first failure after successes, or the
// first success after failures.
type Mark struct {
	At     time.Time `json:"at"`
	Failed bool      `json:"failed,omitempty"`
}

// Span is a stretch of time.
type Span struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

const (
	blindFor = 24 * time.Hour
	maxMarks = 500 // a server that flaps faster keeps the newest
)

// unreached reports whether an attempt did not get through to the receiver. What the receiver
// itself refuses for what is in the request, it has been reached by.
func unreached(d github.HookDelivery) bool {
	switch d.StatusCode {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		return false
	}
	return !d.OK()
}

// remark replaces what the marks say about the time of these rows, which are a whole stretch of
// the history, and forgets what is too old to matter.
func remark(marks []Mark, rows []github.HookDelivery, now time.Time) []Mark {
	if len(rows) > 0 {
		fresh := make([]Mark, 0, len(rows))
		for _, r := range slices.Backward(rows) { // oldest first, as rows of one moment were made
			fresh = append(fresh, Mark{r.DeliveredAt, unreached(r)})
		}
		sortMarks(fresh)
		from, to := fresh[0].At, fresh[len(fresh)-1].At
		marks = slices.DeleteFunc(slices.Clone(marks), func(m Mark) bool { return !m.At.Before(from) && !m.At.After(to) })
		marks = append(marks, slices.CompactFunc(fresh, func(a, b Mark) bool { return a.Failed == b.Failed })...)
		sortMarks(marks)
	}
	first := 0 // the last mark before the day says how the day began
	for first+1 < len(marks) && !marks[first+1].At.After(now.Add(-blindFor)) {
		first++
	}
	marks = marks[min(first, len(marks)):]
	return marks[max(0, len(marks)-maxMarks):]
}

func sortMarks(marks []Mark) {
	slices.SortStableFunc(marks, func(a, b Mark) int { return a.At.Compare(b.At) })
}

// blind is for how much of the last day GitHub could not reach the server: from a failure to the
// next success, and while the server was down.
func blind(marks []Mark, down []Span, now time.Time) time.Duration {
	spans := slices.Clone(down)
	var since time.Time
	for _, m := range marks {
		switch {
		case m.Failed && since.IsZero():
			since = m.At
		case !m.Failed && !since.IsZero():
			spans = append(spans, Span{since, m.At})
			since = time.Time{}
		}
	}
	if !since.IsZero() {
		spans = append(spans, Span{since, now})
	}
	slices.SortFunc(spans, func(a, b Span) int { return a.From.Compare(b.From) })
	var total time.Duration
	covered := now.Add(-blindFor)
	for _, s := range spans {
		from, to := s.From, s.To
		if from.Before(covered) {
			from = covered
		}
		if to.After(now) {
			to = now
		}
		if to.After(from) {
			total += to.Sub(from)
			covered = to
		}
	}
	return total
}
