package watchdog

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/seed-de999ace/preloop/github"
)

const (
	// slack is read again below the watermark in any case: rows of nearly one moment need not be in
	// order.
	slack = time.Minute
	// overlap is read again as far as the page limit allows: in an incident GitHub shows rows late.
	overlap = time.Hour
)

// reading is what a pass has read of a history.
type reading struct {
	newest []github.HookDelivery // the newest page; nil: it was not read
	older  []github.HookDelivery // of an interrupted reading that went on
	scan   *Scan                 // where the next pass goes on
	until  time.Time             // with a finished reading: everything older has been read
	done   bool
}

func (r *reading) rows() []github.HookDelivery {
	return append(r.newest[:len(r.newest):len(r.newest)], r.older...)
}

// scanner reads a history within the page limit.
type scanner struct {
	fetch    func(ctx context.Context, cursor string) (github.DeliveryPage, error)
	maxPages int
	boundary time.Time // the grace's
	low      time.Time // everything older has been judged, or is not to be judged
	bottom   time.Time // nothing older is worth a page
}

// read reads on from an interrupted reading, or from the newest row. With an error the reading
// still holds what was read before it.
//
// While an earlier reading is being finished the newest page is read too, if the limit allows for
// two: new failures are found at once, whatever the backlog.
func (s *scanner) read(ctx context.Context, from *Scan) (r reading, err error) {
	r.scan = from
	pages := 0
	var top github.DeliveryPage
	if from == nil || s.maxPages > 1 {
		if top, err = s.fetch(ctx, ""); err != nil {
			return r, err
		}
		pages++
		r.newest = top.Rows
	}
	if from != nil {
		page, err := s.fetch(ctx, from.Next)
		if err == nil {
			err = s.follow(ctx, &r, &r.older, page, from.Until, pages+1)
			return r, err
		}
		if !forgotten(err) {
			return r, err
		}
		// GitHub has forgotten the page, and with it what came after. The history that is left is
		// read from its beginning.
		if r.scan = nil; pages == 0 {
			return s.read(ctx, nil)
		}
		pages++
	}
	until := s.boundary
	if len(top.Rows) > 0 && top.Rows[0].DeliveredAt.Before(until) {
		until = top.Rows[0].DeliveredAt
	}
	rest := github.DeliveryPage{Rows: top.Rows, Next: top.Next}
	r.newest = nil
	err = s.follow(ctx, &r, &r.newest, rest, until, pages)
	return r, err
}

// follow takes a page and those after it, until nothing is left to read or the limit is reached.
func (s *scanner) follow(ctx context.Context, r *reading, into *[]github.HookDelivery, page github.DeliveryPage, until time.Time, pages int) error {
	for {
		*into = append(*into, page.Rows...)
		last := page.Next == ""
		reached, ended := last, last
		if n := len(page.Rows); n > 0 {
			oldest := page.Rows[n-1].DeliveredAt
			reached, ended = last || !oldest.After(s.low), last || !oldest.After(s.bottom)
		}
		if reached && (ended || pages >= s.maxPages) {
			r.scan, r.done, r.until = nil, true, until
			return nil
		}
		r.scan = &Scan{Next: page.Next, Until: until}
		if pages >= s.maxPages {
			return nil
		}
		var err error
		if page, err = s.fetch(ctx, page.Next); err != nil {
			return err
		}
		pages++
	}
}

// forgotten reports whether GitHub does not know a page any more.
func forgotten(err error) bool {
	var e *github.Error
	return errors.As(err, &e) && (e.Status == http.StatusNotFound || e.Status == http.StatusUnprocessableEntity || e.Status == http.StatusBadRequest)
}
