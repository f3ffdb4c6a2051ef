package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Operator asks a node's operator API. Safe for concurrent use.
type Operator struct {
	Addr   string
	client http.Client
}

// NewOperator asks the node at addr.
func NewOperator(addr string) *Operator {
	return &Operator{Addr: addr, client: http.Client{Timeout: 30 * time.Second}}
}

// Status is the part of the status document that tests read.
type Status struct {
	Queue struct {
		Received, Processing, Done int
		DeadLetters                int `json:"dead_letters"`
	}
	Runs struct{ Waiting, Running, Routing int }
}

// Idle reports whether nothing waits and nothing is under way.
func (s Status) Idle() bool {
	return s.Queue.Received+s.Queue.Processing+s.Runs.Waiting+s.Runs.Running+s.Runs.Routing == 0
}

// Delivery is the part of a delivery that tests read.
type Delivery struct {
	ID        string `json:"delivery_id"`
	Event     string
	State     string
	Attempts  int
	LastError string `json:"last_error"`
}

// Run is the part of a run that tests read.
type Run struct {
	ID         string
	Trigger    string
	DeliveryID string `json:"delivery_id"`
	State      string
	Reason     string
	Attempts   int
	HTTPStatus int `json:"http_status"`
	Error      string
}

// Status reads the status document.
func (o *Operator) Status(ctx context.Context) (s Status, err error) {
	err = o.get(ctx, "/api/v1/status", nil, &s)
	return s, err
}

// Deliveries reads the whole list.
func (o *Operator) Deliveries(ctx context.Context) (all []Delivery, err error) {
	err = o.pages(ctx, "/api/v1/webhooks/deliveries", func(page page) { all = append(all, page.Deliveries...) })
	return all, err
}

// Runs reads the whole list.
func (o *Operator) Runs(ctx context.Context) (all []Run, err error) {
	err = o.pages(ctx, "/api/v1/runs", func(page page) { all = append(all, page.Runs...) })
	return all, err
}

// WaitIdle waits until the node reports that nothing is left to do. It asks seldom enough not to
// take part in what is measured: counting a long queue costs the store something.
func (o *Operator) WaitIdle(ctx context.Context) error {
	var last Status
	for {
		began := time.Now()
		status, err := o.Status(ctx)
		if err == nil {
			if last = status; status.Idle() {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for an empty queue: out of time with %+v (last error: %v)", last, err)
		case <-time.After(max(100*time.Millisecond, 20*time.Since(began))):
		}
	}
}

type page struct {
	Deliveries []Delivery
	Runs       []Run
	NextCursor string `json:"next_cursor"`
}

func (o *Operator) pages(ctx context.Context, path string, add func(page)) error {
	query := url.Values{"limit": {"500"}}
	for {
		var p page
		if err := o.get(ctx, path, query, &p); err != nil {
			return err
		}
		add(p)
		if p.NextCursor == "" {
			return nil
		}
		query.Set("cursor", p.NextCursor)
	}
}

func (o *Operator) get(ctx context.Context, path string, query url.Values, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.Addr+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+Token)
	answer, err := o.client.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("reading %s: %s", path, answer.Status)
	}
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}
