package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// Client is Operations through a server.
type Client struct {
	URL   string // of the server, without a path
	Token string
	HTTP  *http.Client // nil: one with a timeout of 30 s
}

var _ Operations = (*Client)(nil)

var defaultClient = &http.Client{
	Timeout:       30 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token goes to this server alone
}

// maxAnswer bounds what is read of an answer: a page of 500, or a payload.
const maxAnswer = 64 << 20

func (c *Client) do(ctx context.Context, method, path string, query url.Values, body, out any) error {
	raw, err := c.raw(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("reading the answer of %s: %w: it is not preloop's (%v)", c.place(), ErrUnreachable, err)
	}
	return nil
}

func (c *Client) raw(ctx context.Context, method, path string, query url.Values, body any) ([]byte, error) {
	target := strings.TrimSuffix(c.URL, "/") + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	var reader io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		reader = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, reader)
	if err != nil {
		return nil, fmt.Errorf("asking the server: %w: the URL must look like http://127.0.0.1:9090", queue.ErrInvalid)
	}
	req.Header.Set("Authorization", "Bearer "+c.Token)
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	client := c.HTTP
	if client == nil {
		client = defaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return nil, fmt.Errorf("asking the server at %s: %w: %v; is `preloop serve` running there?", c.place(), ErrUnreachable, err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end or given up
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w: %v", c.place(), ErrUnreachable, err)
	}
	if resp.StatusCode == http.StatusOK {
		return answer, nil
	}
	var p problem
	if json.Unmarshal(answer, &p) == nil && p.Error != "" {
		return nil, &remote{status: resp.StatusCode, message: p.Error}
	}
	err = ErrUnreachable
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		err = ErrUnauthorized
	}
	return nil, fmt.Errorf("%s answered %s, which is not preloop's answer: %w", c.place(), resp.Status, err)
}

// place is the server's address as messages show it.
func (c *Client) place() string {
	u, err := url.Parse(c.URL)
	if err != nil {
		return "the server"
	}
	return u.Scheme + "://" + u.Host + u.Path
}

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (*T, error) {
	v := new(T)
	if err := c.do(ctx, http.MethodGet, path, query, nil, v); err != nil {
		return nil, err
	}
	return v, nil
}

func post[T any](ctx context.Context, c *Client, path string, body any) (*T, error) {
	v := new(T)
	if err := c.do(ctx, http.MethodPost, path, nil, body, v); err != nil {
		return nil, err
	}
	return v, nil
}

// Status implements Operations.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	return get[Status](ctx, c, "/api/v1/status", nil)
}

// Deliveries implements Operations.
func (c *Client) Deliveries(ctx context.Context, f queue.DeliveryFilter) (*DeliveryList, error) {
	return get[DeliveryList](ctx, c, "/api/v1/webhooks/deliveries", deliveryQuery(f))
}

// deliveryPath escapes dots too: "." and ".." are ids, and not to be taken for steps of a path.
func deliveryPath(ref string) string {
	return "/api/v1/webhooks/deliveries/" + strings.ReplaceAll(url.PathEscape(ref), ".", "%2E")
}

// Delivery implements Operations.
func (c *Client) Delivery(ctx context.Context, ref string) (*DeliveryDetail, error) {
	return get[DeliveryDetail](ctx, c, deliveryPath(ref), nil)
}

// Payload implements Operations.
func (c *Client) Payload(ctx context.Context, ref string) ([]byte, error) {
	return c.raw(ctx, http.MethodGet, deliveryPath(ref)+"/payload", nil, nil)
}

// Replay implements Operations.
func (c *Client) Replay(ctx context.Context, ref string, r ReplayRequest) (*Replayed, error) {
	return post[Replayed](ctx, c, deliveryPath(ref)+"/replay", r)
}

// Runs implements Operations.
func (c *Client) Runs(ctx context.Context, f queue.RunFilter) (*RunList, error) {
	return get[RunList](ctx, c, "/api/v1/runs", runQuery(f))
}

// Run implements Operations.
func (c *Client) Run(ctx context.Context, id string) (*RunDetail, error) {
	return get[RunDetail](ctx, c, "/api/v1/runs/"+url.PathEscape(id), nil)
}

// Act implements Operations.
func (c *Client) Act(ctx context.Context, id, action string, r EndRequest) (*Run, error) {
	return post[Run](ctx, c, "/api/v1/runs/"+url.PathEscape(id)+"/"+action, r)
}

// Triggers implements Operations.
func (c *Client) Triggers(ctx context.Context) (*TriggerList, error) {
	return get[TriggerList](ctx, c, "/api/v1/triggers", nil)
}

// SetTrigger implements Operations.
func (c *Client) SetTrigger(ctx context.Context, name, action string) (*Trigger, error) {
	return post[Trigger](ctx, c, "/api/v1/triggers/"+url.PathEscape(name)+"/"+action, struct{}{})
}

// Repairs implements Operations.
func (c *Client) Repairs(ctx context.Context, f queue.RepairFilter) (*RepairList, error) {
	q := url.Values{}
	set(q, "source", f.Source)
	set(q, "state", f.State)
	return get[RepairList](ctx, c, "/api/v1/webhooks/repairs", q)
}

func set(q url.Values, key, value string) {
	if value != "" {
		q.Set(key, value)
	}
}

func join[S ~string](list []S) string {
	parts := make([]string, len(list))
	for i, s := range list {
		parts[i] = string(s)
	}
	return strings.Join(parts, ",")
}

func page(q url.Values, since time.Time, limit int, cursor string) {
	if !since.IsZero() {
		q.Set("since", since.UTC().Format(time.RFC3339Nano))
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	set(q, "cursor", cursor)
}

func deliveryQuery(f queue.DeliveryFilter) url.Values {
	q := url.Values{}
	set(q, "state", join(f.States))
	set(q, "event", f.Event)
	set(q, "repo", f.Repo)
	set(q, "source", f.Source)
	set(q, "trigger", f.Trigger)
	page(q, f.Since, f.Limit, f.Cursor)
	return q
}

func runQuery(f queue.RunFilter) url.Values {
	q := url.Values{}
	set(q, "trigger", f.Trigger)
	set(q, "state", join(f.States))
	set(q, "subject", f.Subject)
	set(q, "delivery_id", f.DeliveryID)
	page(q, f.Since, f.Limit, f.Cursor)
	return q
}
