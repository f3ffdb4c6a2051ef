package watchdog

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-de999ace/preloop/github"
)

// delivery is one GUID's attempts, as far as they were read.
type delivery struct {
	newest github.HookDelivery
	oldest time.Time
}

// group puts the rows of each GUID together, in the order in which they were read.
func group(rows []github.HookDelivery) []delivery {
	var all []delivery
	place := map[string]int{}
	for _, r := range rows {
		if r.GUID == "" {
			continue
		}
		i, known := place[r.GUID]
		if !known {
			place[r.GUID] = len(all)
			all = append(all, delivery{newest: r, oldest: r.DeliveredAt})
			continue
		}
		d := &all[i]
		if later(r, d.newest) {
			d.newest = r
		}
		if r.DeliveredAt.Before(d.oldest) {
			d.oldest = r.DeliveredAt
		}
	}
	return all
}

// later orders attempts by GitHub's time, those of one moment by their ids.
func later(a, b github.HookDelivery) bool {
	return cmp.Or(a.DeliveredAt.Compare(b.DeliveredAt), cmp.Compare(a.ID, b.ID)) > 0
}

// window is the time in which deliveries are judged.
type window struct {
	floor    time.Time // adopted before
	horizon  time.Time // the store may have pruned what is older
	boundary time.Time // the grace has not passed for what is newer
}

// choose picks the deliveries to judge and counts those that are too young. A delivery that was
// first sent before the horizon may be one that the store had and pruned.
func (w window) choose(all []delivery) (judged []delivery, young int) {
	for _, d := range all {
		switch at := d.newest.DeliveredAt; {
		case at.After(w.boundary):
			young++
		case at.After(w.floor) && d.oldest.After(w.horizon):
			judged = append(judged, d)
		}
	}
	return judged, young
}

// decide compares the judged deliveries with the store, and returns the repairs to save. known are
// the source's repairs in every state.
func decide(now time.Time, r Rules, src Source, judged []delivery, present map[string]bool, known map[string]Repair) (save []Repair, missing int) {
	for _, d := range judged {
		n := d.newest
		if present[n.GUID] {
			continue
		}
		repair, was := known[n.GUID]
		if was && repair.State == Arrived {
			continue // the store had it: it was pruned
		}
		missing++
		if was && repair.State == Open && !n.DeliveredAt.After(repair.DeliveredAt) {
			continue
		}
		if !was {
			repair = Repair{Source: src.Key, GUID: n.GUID, FoundAt: now, NextAttempt: now.Add(r.wait(0))}
		}
		if repair.State == Lost { // GitHub has it after all
			repair.ClosedAt, repair.LastError = time.Time{}, ""
			if repair.Attempts < r.MaxAttempts {
				repair.NextAttempt = now.Add(r.wait(repair.Attempts))
			}
		}
		repair.State, repair.SourceName = Open, src.Name
		repair.AttemptID, repair.DeliveredAt, repair.Event, repair.Action = n.ID, n.DeliveredAt, n.Event, n.Action
		repair.Reason = RemoteFailure
		if n.OK() {
			repair.Reason = PhantomAck
		}
		save = append(save, repair)
	}
	return save, missing
}

// closing returns the open repairs that are over: their delivery has arrived, or nothing more can
// be learned of it. seen are the GUIDs that the history still shows.
func closing(now time.Time, r Rules, open []Repair, present, seen map[string]bool) (save []Repair) {
	for _, repair := range open {
		age := now.Sub(repair.DeliveredAt)
		switch {
		case present[repair.GUID]:
			repair = repair.closed(now, Arrived, "")
		case seen[repair.GUID]:
			continue
		case age >= r.Keep:
			repair = repair.closed(now, Lost, "it is older than what this store keeps, so whether it has arrived cannot be told")
		case repair.Attempts >= r.MaxAttempts && age >= r.History:
			repair = repair.closed(now, Lost, cmp.Or(repair.LastError, "it has left GitHub's history"))
		default:
			continue
		}
		save = append(save, repair)
	}
	return save
}

func (r Repair) closed(now time.Time, state, why string) Repair {
	r.State, r.ClosedAt, r.NextAttempt, r.LastError = state, now, time.Time{}, why
	return r
}

// due returns the repairs to ask for now: those that were asked for least often first, so that a
// backlog's retries do not hold up its first tries, then the oldest, which GitHub forgets first.
func due(now time.Time, r Rules, open []Repair) []Repair {
	var all []Repair
	for _, repair := range open {
		if repair.State == Open && repair.Attempts < r.MaxAttempts && !repair.NextAttempt.After(now) {
			all = append(all, repair)
		}
	}
	slices.SortFunc(all, func(a, b Repair) int {
		return cmp.Or(cmp.Compare(a.Attempts, b.Attempts), a.DeliveredAt.Compare(b.DeliveredAt), cmp.Compare(a.AttemptID, b.AttemptID))
	})
	return all[:min(len(all), r.Budget)]
}

// charged is the repair once another redelivery is asked for.
func (r Repair) charged(now time.Time, rules Rules) Repair {
	r.Attempts++
	r.LastAttempt, r.LastError, r.NextAttempt = now, "", time.Time{}
	if r.Attempts < rules.MaxAttempts {
		r.NextAttempt = now.Add(rules.wait(r.Attempts))
	}
	return r
}

// failing reports whether the newest ten rows are all failures.
func failing(newest []github.HookDelivery) bool {
	const enough = 10
	if len(newest) < enough {
		return false
	}
	return !slices.ContainsFunc(newest[:enough], github.HookDelivery.OK)
}
