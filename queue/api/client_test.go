package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// Through a server and beside the store the same question has the same answer, and the same
// mistake the same error.
func TestClientIsLocal(t *testing.T) {
	bubble(t, func(w *world) {
		w.local.Sources = func() []SourceInfo {
			return []SourceInfo{{Key: "app-1", Name: "acme", AppID: 1, Secrets: []string{"current"}}}
		}
		w.publishTriggers("greet")
		code := 3
		failed := w.ran("one", "greet", queue.Outcome{State: queue.RunFailed, ExitCode: &code, Output: []byte("out")}, about(7))
		uncertain := w.inState(queue.Uncertain)
		w.own("gone", bare)
		w.settle(queue.Settlement{Kind: queue.SettleFail, Error: "no"})
		w.own("both")
		w.settle(queue.Settlement{Kind: queue.SettleDone})
		w.own("both", from("hook-2", "widgets"))
		w.must(w.store.SaveRepairs(w.Context(), []queue.Repair{{Source: "app-1", SourceName: "acme", GUID: "lost", State: "open", DeliveredAt: time.Now(), FoundAt: time.Now()}}))
		w.beat("node-1", "h", time.Now(), "worker")
		time.Sleep(time.Minute)

		type call = func(ctx context.Context, o Operations) (any, error)
		for name, c := range map[string]struct {
			call call
			err  error
		}{
			"status":     {func(ctx context.Context, o Operations) (any, error) { return o.Status(ctx) }, nil},
			"deliveries": {func(ctx context.Context, o Operations) (any, error) { return o.Deliveries(ctx, queue.DeliveryFilter{}) }, nil},
			"none": {func(ctx context.Context, o Operations) (any, error) {
				return o.Deliveries(ctx, queue.DeliveryFilter{Event: "x"})
			}, nil},
			"a page": {func(ctx context.Context, o Operations) (any, error) {
				return o.Deliveries(ctx, queue.DeliveryFilter{Limit: 2})
			}, nil},
			"a bad cursor": {func(ctx context.Context, o Operations) (any, error) {
				return o.Deliveries(ctx, queue.DeliveryFilter{Cursor: "x"})
			}, queue.ErrInvalid},
			"one delivery":   {func(ctx context.Context, o Operations) (any, error) { return o.Delivery(ctx, "one") }, nil},
			"by source":      {func(ctx context.Context, o Operations) (any, error) { return o.Delivery(ctx, "widgets/both") }, nil},
			"no delivery":    {func(ctx context.Context, o Operations) (any, error) { return o.Delivery(ctx, "nope") }, queue.ErrNotFound},
			"odd ids":        {func(ctx context.Context, o Operations) (any, error) { return o.Delivery(ctx, "a b/c?d#e%2F/..") }, queue.ErrNotFound},
			"dots":           {func(ctx context.Context, o Operations) (any, error) { return o.Delivery(ctx, "..") }, queue.ErrNotFound},
			"two deliveries": {func(ctx context.Context, o Operations) (any, error) { return o.Delivery(ctx, "both") }, queue.ErrAmbiguous},
			"payload": {func(ctx context.Context, o Operations) (any, error) {
				b, err := o.Payload(ctx, "acme/both")
				return string(b), err
			}, nil},
			"no payload": {func(ctx context.Context, o Operations) (any, error) {
				b, err := o.Payload(ctx, "nope")
				return string(b), err
			}, queue.ErrNotFound},
			"replay": {func(ctx context.Context, o Operations) (any, error) {
				return o.Replay(ctx, "widgets/both", ReplayRequest{})
			}, queue.ErrConflict},
			"replay for nobody": {func(ctx context.Context, o Operations) (any, error) {
				return o.Replay(ctx, "one", ReplayRequest{Triggers: []string{"nope"}})
			}, queue.ErrInvalid},
			"runs": {func(ctx context.Context, o Operations) (any, error) { return o.Runs(ctx, queue.RunFilter{}) }, nil},
			"some runs": {func(ctx context.Context, o Operations) (any, error) {
				return o.Runs(ctx, queue.RunFilter{States: []queue.RunState{queue.RunFailed, queue.Dropped}, Trigger: "greet", Subject: "acme/Widgets#7", DeliveryID: "acme/one", Since: time.Now().Add(-time.Hour), Limit: 1})
			}, nil},
			"run":         {func(ctx context.Context, o Operations) (any, error) { return o.Run(ctx, failed) }, nil},
			"an open run": {func(ctx context.Context, o Operations) (any, error) { return o.Run(ctx, uncertain) }, nil},
			"no run":      {func(ctx context.Context, o Operations) (any, error) { return o.Run(ctx, "nope") }, queue.ErrNotFound},
			"cancel": {func(ctx context.Context, o Operations) (any, error) {
				return o.Act(ctx, failed, "cancel", EndRequest{})
			}, queue.ErrConflict},
			"resolve": {func(ctx context.Context, o Operations) (any, error) {
				return o.Act(ctx, uncertain, "resolve", EndRequest{As: "maybe"})
			}, queue.ErrInvalid},
			"finish nothing": {func(ctx context.Context, o Operations) (any, error) {
				return o.Act(ctx, "nope", "finish", EndRequest{As: "failed"})
			}, queue.ErrNotFound},
			"triggers":      {func(ctx context.Context, o Operations) (any, error) { return o.Triggers(ctx) }, nil},
			"pause":         {func(ctx context.Context, o Operations) (any, error) { return o.SetTrigger(ctx, "greet", "pause") }, nil},
			"resume":        {func(ctx context.Context, o Operations) (any, error) { return o.SetTrigger(ctx, "greet", "resume") }, nil},
			"pause nothing": {func(ctx context.Context, o Operations) (any, error) { return o.SetTrigger(ctx, "no pe", "pause") }, queue.ErrNotFound},
			"repairs":       {func(ctx context.Context, o Operations) (any, error) { return o.Repairs(ctx, queue.RepairFilter{}) }, nil},
			"no repairs": {func(ctx context.Context, o Operations) (any, error) {
				return o.Repairs(ctx, queue.RepairFilter{State: "lost"})
			}, nil},
			"another source's": {func(ctx context.Context, o Operations) (any, error) {
				return o.Repairs(ctx, queue.RepairFilter{Source: "x"})
			}, nil},
		} {
			here, err := c.call(w.Context(), w.local)
			there, err2 := c.call(w.Context(), w.client)
			if !errors.Is(err, c.err) || !errors.Is(err2, c.err) || fmt.Sprint(err) != fmt.Sprint(err2) {
				t.Errorf("%s: the errors are\n%v\n%v, want %v", name, err, err2, c.err)
			}
			if a, b := toJSON(t, here), toJSON(t, there); err == nil && a != b {
				t.Errorf("%s: beside the store\n%s\nthrough the server\n%s", name, a, b)
			}
		}

		// What changes something, once each way from the same state.
		for _, o := range []Operations{w.local, w.client} {
			got, err := o.Replay(w.Context(), "one", ReplayRequest{Force: true, Triggers: []string{"greet"}})
			if err != nil || *got != (Replayed{DeliveryID: "one", Source: "acme", Status: "requeued"}) {
				t.Errorf("%T: %v, %v", o, got, err)
			}
			c, err := w.store.ClaimDeliveries(w.Context(), "node-1", 10)
			w.must(err)
			for _, c := range c {
				if c.ID == "one" && (!c.Force || len(c.Triggers) != 1) {
					t.Errorf("%T: the worker is given %+v", o, c.Delivery)
				}
				_, err := w.store.SettleDelivery(w.Context(), c.Lease, queue.Settlement{Kind: queue.SettleDone})
				w.must(err)
			}
			run, err := o.Act(w.Context(), uncertain, "resolve", EndRequest{As: "failed"})
			if err != nil || run.State != "failed" || run.ID != uncertain {
				t.Errorf("%T: %v, %v", o, run, err)
			}
			_, err = o.Act(w.Context(), uncertain, "retry", EndRequest{})
			w.must(err)
			_, err = w.store.SettleRun(w.Context(), w.start("only-uncertain").Lease, queue.Outcome{State: queue.Uncertain})
			w.must(err)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Whatever answers at the server's address, the error says what it is and never the token, nor a
// password in the address.
func TestClientErrors(t *testing.T) {
	reply := func(status int, body string) roundTrip {
		return func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Status: fmt.Sprint(status, " ", http.StatusText(status)), Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}, Request: r}, nil
		}
	}
	for name, c := range map[string]struct {
		answer roundTrip
		err    error
		says   string
	}{
		"nobody":          {func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }, ErrUnreachable, "is `preloop serve` running there"},
		"another page":    {reply(200, "<html>"), ErrUnreachable, "it is not preloop's"},
		"another 404":     {reply(404, "<html>"), ErrUnreachable, "404 Not Found"},
		"a redirect":      {reply(302, ""), ErrUnreachable, "302 Found"},
		"a proxy's 401":   {reply(401, ""), ErrUnauthorized, "401"},
		"a proxy's 403":   {reply(403, "{}"), ErrUnauthorized, "403"},
		"a proxy's 502":   {reply(502, "bad gateway"), ErrUnreachable, "502"},
		"a wrong token":   {reply(401, `{"error":"the system token is missing or wrong"}`), ErrUnauthorized, "system token"},
		"a store away":    {reply(500, `{"error":"the store did not answer"}`), ErrUnreachable, "did not answer"},
		"shutting down":   {reply(503, `{"error":"shutting down"}`), ErrUnreachable, "shutting down"},
		"a wrong request": {reply(400, `{"error":"limit"}`), queue.ErrInvalid, "limit"},
		"an answer cut": {func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(io.MultiReader(strings.NewReader("{"), cutReader{})), Request: r}, nil
		}, ErrUnreachable, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			client := &Client{URL: "http://user:password@preloop.test/under/", Token: systemToken, HTTP: &http.Client{
				Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					if r.Header.Get("Authorization") != "Bearer "+systemToken || r.URL.Path != "/under/api/v1/status" {
						t.Errorf("asked %s with %q", r.URL.Path, r.Header.Get("Authorization"))
					}
					return c.answer(r)
				}),
				CheckRedirect: defaultClient.CheckRedirect,
			}}
			_, err := client.Status(t.Context())
			if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "password") || strings.Contains(err.Error(), systemToken) {
				t.Errorf("%v, want %v and %q", err, c.err, c.says)
			}
		})
	}
	if _, err := (&Client{URL: "::", Token: systemToken}).Status(t.Context()); !errors.Is(err, queue.ErrInvalid) || !strings.Contains(err.Error(), "http://127.0.0.1:9090") {
		t.Errorf("a malformed address: %v", err)
	}
}

type cutReader struct{}

func (cutReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
