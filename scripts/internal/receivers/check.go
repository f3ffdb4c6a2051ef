package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/seed-de999ace/preloop/github"
	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// check compares what was sent with what a receiver has got and with what preloop says of its runs.
func check(sent []delivery, runs []harness.Run, r *receiver) error {
	byKey := map[string][]harness.Run{}
	for _, run := range runs {
		byKey[run.Trigger+" "+run.DeliveryID] = append(byKey[run.Trigger+" "+run.DeliveryID], run)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, d := range sent {
		trigger := r.name
		if d.event == stranger {
			trigger += "-stranger"
		}
		for _, err := range []error{
			r.checkRequest(d),
			r.checkVerdict(d),
			checkRun(d, byKey[trigger+" "+d.guid]),
		} {
			if err != nil {
				errs = append(errs, fmt.Errorf("%s, %s: %w", r.name, d.name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// checkRequest: one request, with GitHub's headers. Its signature is that of the body as it was
// sent to preloop: a receiver that verifies it has got these bytes and no others.
func (r *receiver) checkRequest(d delivery) error {
	if n := len(r.got[d.guid]); n != 1 {
		return fmt.Errorf("%d requests came, want one", n)
	}
	got, want := r.got[d.guid][0], d.headers()
	want["Content-Type"] = "application/json"
	if d.event != stranger {
		want["X-Hub-Signature-256"] = github.Sign([]byte(r.secret), d.body)
	}
	for name, value := range want {
		if got.Get(name) != value {
			return fmt.Errorf("%s is %q, want %q", name, got.Get(name), value)
		}
	}
	return nil
}

// checkVerdict: verified once, or never.
func (r *receiver) checkVerdict(d delivery) error {
	took := r.verified[d.guid]
	switch {
	case d.event == stranger && len(took) == 0:
		return nil
	case d.event == stranger || len(took) != 1:
		return fmt.Errorf("verified %d times", len(took))
	case took[0].Event != d.event:
		return fmt.Errorf("taken for %s", took[0].Event)
	case d.title != "" && took[0].Title != d.title:
		return fmt.Errorf("the title is %s, want %s", took[0].Title, d.title)
	}
	return nil
}

// checkRun: what preloop says is what the receiver did.
func checkRun(d delivery, runs []harness.Run) error {
	if len(runs) != 1 {
		return fmt.Errorf("%d runs, want one", len(runs))
	}
	run := runs[0]
	refused := run.State == "failed" && run.HTTPStatus >= 400 && run.HTTPStatus < 500
	if taken := run.State == "succeeded" && run.HTTPStatus == http.StatusOK; d.event == stranger && !refused || d.event != stranger && !taken {
		return fmt.Errorf("the run is %s after status %d: %s", run.State, run.HTTPStatus, run.Error)
	}
	if run.Attempts != 1 {
		return fmt.Errorf("the run made %d attempts", run.Attempts)
	}
	return nil
}
