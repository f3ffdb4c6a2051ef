package queue

import "time"

// RunFacts are what NextRun needs to know of a run whose attempt has ended.
type RunFacts struct {
	Kind        RunKind
	Attempts    int // the one that has ended included
	Outages     int
	Idempotent  bool
	CancelAsked bool
}

// RunNext is what an outcome makes of a run.
type RunNext struct {
	State        RunState
	Reason       string
	Attempts     int
	Outages      int
	Wait         time.Duration // while Waiting or Routing
	BecomesStart bool          // a hand-over whose session has ended: it starts a run of its own
	Word         string        // the attempt's outcome in the history
}

// Happened is the state of a run of this kind that did what it was for.
func Happened(k RunKind) RunState {
	if k == FollowUp {
		return Delivered
	}
	return Succeeded
}

// NextRun decides what an outcome makes of a run.
//
// An operator's wish to cancel ends whatever did not end by itself. What is ambiguous is tried
// again only for an idempotent trigger. A hand-over that is tried again stays Routing.
func (s Settings) NextRun(f RunFacts, o Outcome) RunNext {
	n := RunNext{State: o.State, Reason: o.Reason, Attempts: f.Attempts, Outages: f.Outages, Word: string(o.State)}
	if f.CancelAsked && (o.State == Waiting || o.State == Uncertain || o.State == Running) {
		n.State, n.Word = Canceled, string(Canceled)
		return n
	}
	if o.SessionEnded {
		n.State, n.BecomesStart, n.Reason, n.Attempts, n.Word = Waiting, true, "", 0, "session_ended"
		return n
	}
	again := o.State == Waiting
	if o.State == Uncertain && f.Idempotent {
		again, n.Word = true, "retry"
	}
	if !again {
		return n
	}
	n.State = Waiting
	if f.Kind == FollowUp {
		n.State = Routing
	}
	if o.Refund && !(o.Outage && f.Outages >= s.MaxOutages) {
		n.Attempts--
		n.Wait, n.Word = o.RetryAfter, "parked"
		if o.Outage {
			n.Outages++
			n.Wait = max(n.Wait, s.Wait(n.Outages))
		} else if o.Error == "" {
			n.Word = "released"
		}
		return n
	}
	n.Word = "retry"
	if f.Attempts >= s.MaxAttempts {
		n.State, n.Word = RunFailed, string(RunFailed)
		return n
	}
	if n.Wait = o.RetryAfter; n.Wait == 0 {
		n.Wait = s.Wait(f.Attempts)
	}
	return n
}
