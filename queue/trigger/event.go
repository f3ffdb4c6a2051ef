package trigger

import (
	"strings"
	"sync"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// Event is a delivery with its payload, as rules see it. The payload is decoded when a rule first
// needs it, and once.
type Event struct {
	Delivery *queue.Delivery
	Now      time.Time // the one moment that every clause judges by

	body    func() (map[string]any, error)
	headers func() map[string]string
}

// NewEvent keeps d and payload, which must not change while the Event is in use.
func NewEvent(d *queue.Delivery, payload []byte, now time.Time) *Event {
	return &Event{
		Delivery: d,
		Now:      now,
		body:     sync.OnceValues(func() (map[string]any, error) { return decodeBody(payload) }),
		headers: sync.OnceValue(func() map[string]string {
			lower := make(map[string]string, len(d.Headers))
			for name, value := range d.Headers {
				lower[strings.ToLower(name)] = value
			}
			return lower
		}),
	}
}

// Body is the decoded payload, shared: do not change it. Its numbers are int64 or float64.
func (e *Event) Body() (map[string]any, error) { return e.body() }

// Headers are the stored headers under lower-case names, shared.
func (e *Event) Headers() map[string]string { return e.headers() }

// on is how a trigger would name the event.
func (e *Event) on() string {
	if e.Delivery.Action == "" {
		return e.Delivery.Event
	}
	return e.Delivery.Event + "." + e.Delivery.Action
}
