package github

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// HookDelivery is one attempt at a delivery, as a webhook's history has it. A delivery that was
// sent again has several, which share the GUID.
type HookDelivery struct {
	ID             int64      `json:"id"` // beyond 2^53
	GUID           string     `json:"guid"`
	DeliveredAt    time.Time  `json:"delivered_at"`
	Redelivery     bool       `json:"redelivery"`
	Duration       float64    `json:"duration"` // seconds
	Status         string     `json:"status"`   // free text that may hold the hook's URL: do not log it
	StatusCode     int        `json:"status_code"`
	Event          string     `json:"event"`
	Action         string     `json:"action"` // empty for null
	InstallationID int64      `json:"installation_id"`
	RepositoryID   int64      `json:"repository_id"`
	ThrottledAt    *time.Time `json:"throttled_at"`
}

// OK reports whether GitHub recorded a success. It says nothing about what the receiver kept.
func (d HookDelivery) OK() bool { return d.StatusCode >= 200 && d.StatusCode <= 299 }

// DeliveryPage is a part of a history, newest first.
type DeliveryPage struct {
	Rows []HookDelivery
	Next string // asks for the page after this one; empty: the history ends here
}

// Deliveries reads one page of a webhook's history. An empty cursor is the newest page; any other
// comes from a DeliveryPage, survives restarts, and is worth nothing for another webhook.
func (c *Client) Deliveries(ctx context.Context, h Hook, cursor string) (DeliveryPage, error) {
	var page DeliveryPage
	op := "reading the deliveries of " + h.String()
	path, err := h.path()
	if err != nil {
		return page, fmt.Errorf("%s: %w", op, err)
	}
	path += "/deliveries?per_page=100"
	if cursor != "" {
		if path, err = c.cursorPath(cursor); err != nil {
			return page, fmt.Errorf("%s: %w", op, err)
		}
	}
	header, err := c.get(ctx, op, path, &page.Rows)
	if err != nil {
		return DeliveryPage{}, err
	}
	page.Next, err = c.nextPage(header)
	if err != nil {
		return page, fmt.Errorf("%s: %w", op, err)
	}
	return page, nil
}

// cursorPath checks a path that came from nextPage, perhaps through a store.
func (c *Client) cursorPath(cursor string) (string, error) {
	u, err := url.Parse(c.endpoint.url(cursor))
	if err == nil && strings.HasPrefix(cursor, "/") {
		if path, ok := c.endpoint.relative(u); ok {
			return path, nil
		}
	}
	return "", fmt.Errorf("the cursor is not one of ours")
}

// Redeliver asks GitHub to send an attempt's delivery once more. GitHub sends later, with the same
// GUID and payload, to the URL that is configured now.
func (c *Client) Redeliver(ctx context.Context, h Hook, id int64) error {
	path, err := h.path()
	if err != nil {
		return fmt.Errorf("asking for a redelivery: %w", err)
	}
	_, err = c.do(ctx, request{
		op:     fmt.Sprintf("asking for delivery %d of %s again", id, h),
		method: http.MethodPost,
		path:   fmt.Sprintf("%s/deliveries/%d/attempts", path, id),
	}, nil)
	return err
}

// nextPage is the path of the next page that an answer links to, empty if it is the last. A link
// that leaves the API is ErrForeignLink: following it would hand out the credential.
func (c *Client) nextPage(header http.Header) (string, error) {
	for _, line := range header.Values("Link") {
		for link := range strings.SplitSeq(line, ",") {
			target, parameters, ok := strings.Cut(strings.TrimSpace(link), ";")
			if !ok || !isNext(parameters) {
				continue
			}
			target = strings.TrimSpace(target)
			u, err := url.Parse(strings.TrimSuffix(strings.TrimPrefix(target, "<"), ">"))
			if err != nil {
				return "", ErrForeignLink
			}
			path, ok := c.endpoint.relative(u)
			if !ok {
				return "", ErrForeignLink
			}
			return path, nil
		}
	}
	return "", nil
}

func isNext(parameters string) bool {
	for p := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if strings.EqualFold(name, "rel") && strings.EqualFold(strings.Trim(value, `"`), "next") {
			return true
		}
	}
	return false
}
