package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/seed-de999ace/preloop/commands/config"
	"github.com/seed-de999ace/preloop/github/watchdog"
	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/api"
)

// The kinds of documents that only the watchdog reads.
const (
	docCursor = "watchdog_cursor" // by source: watchdog.Cursor
	docUptime = "uptime"          // "ingress": uptime
)

// watchdogStore keeps the watchdog's cursors and repairs in a store.
type watchdogStore struct{ queue.Store }

// openForPass opens the store beside a running server, and makes a SQLite file that is not there
// yet: checking an app is what one does before the first start.
func openForPass(ctx context.Context, cfg *config.Config, log *slog.Logger) (queue.Store, error) {
	absent := false
	if cfg.Store.Kind == config.SQLite {
		_, err := os.Stat(cfg.Store.Path)
		absent = errors.Is(err, fs.ErrNotExist)
	}
	return openStore(ctx, cfg, absent, log)
}

// LoadCursor implements watchdog.Store.
func (s watchdogStore) LoadCursor(ctx context.Context, source string) (c watchdog.Cursor, err error) {
	docs, err := s.LoadDocs(ctx, docCursor)
	if err != nil {
		return c, err
	}
	doc, ok := docs[source]
	if !ok {
		return c, nil
	}
	err = json.Unmarshal(doc.Body, &c)
	c.Version = doc.Version
	return c, err
}

// SaveCursor implements watchdog.Store.
func (s watchdogStore) SaveCursor(ctx context.Context, source string, c *watchdog.Cursor) error {
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	swapped, err := s.SwapDoc(ctx, docCursor, source, c.Version, body)
	if err == nil && !swapped {
		err = errors.New("another pass has moved it")
	}
	if err == nil {
		c.Version++
	}
	return err
}

// Repairs implements watchdog.Store.
func (s watchdogStore) Repairs(ctx context.Context, source string) ([]watchdog.Repair, error) {
	list, err := s.ListRepairs(ctx, queue.RepairFilter{Source: source})
	out := make([]watchdog.Repair, 0, len(list))
	for _, r := range list {
		if r.Source != source {
			continue // another source has this one's key for its name
		}
		out = append(out, watchdog.Repair{
			Source: r.Source, SourceName: r.SourceName, GUID: r.GUID, AttemptID: r.HookID, Event: r.Event, Action: r.Action, Reason: r.Reason, State: r.State,
			Attempts: r.Attempts, DeliveredAt: r.DeliveredAt, FoundAt: r.FoundAt, NextAttempt: r.NextAttempt, LastAttempt: r.LastAttempt, ClosedAt: r.ClosedAt, LastError: r.LastError,
		})
	}
	return out, err
}

// SaveRepairs implements watchdog.Store.
func (s watchdogStore) SaveRepairs(ctx context.Context, list []watchdog.Repair) error {
	out := make([]queue.Repair, len(list))
	for i, r := range list {
		out[i] = queue.Repair{
			Source: r.Source, SourceName: r.SourceName, GUID: r.GUID, HookID: r.AttemptID, Event: r.Event, Action: r.Action, Reason: r.Reason, State: r.State,
			Attempts: r.Attempts, DeliveredAt: r.DeliveredAt, FoundAt: r.FoundAt, NextAttempt: r.NextAttempt, LastAttempt: r.LastAttempt, ClosedAt: r.ClosedAt, LastError: r.LastError,
		}
	}
	return s.Store.SaveRepairs(ctx, out)
}

// uptime says when a server of this store last could take deliveries, and when none could.
type uptime struct {
	LastUp time.Time       `json:"last_up"`
	Down   []watchdog.Span `json:"down,omitempty"`
}

const (
	uptimeEvery = 15 * time.Second
	uptimeGap   = 2 * uptimeEvery // a longer silence was a downtime
	maxDowns    = 200
)

// at is the record once a server has been up at now.
func (u uptime) at(now time.Time) uptime {
	if !u.LastUp.IsZero() && now.Sub(u.LastUp) > uptimeGap {
		u.Down = append(u.Down, watchdog.Span{From: u.LastUp, To: now})
	}
	for len(u.Down) > 0 && (len(u.Down) > maxDowns || now.Sub(u.Down[0].To) > 24*time.Hour) {
		u.Down = u.Down[1:]
	}
	if now.After(u.LastUp) {
		u.LastUp = now
	}
	return u
}

// Downtime implements watchdog.Store.
func (s watchdogStore) Downtime(ctx context.Context) ([]watchdog.Span, error) {
	var u uptime
	_, err := loadDoc(ctx, s.Store, docUptime, "ingress", &u)
	return u.Down, err
}

// recordUptime notes that this node takes deliveries, until ctx ends. Nodes of one store share the
// record, so that it says when none of them did.
func (n *node) recordUptime(ctx context.Context) error {
	var r uptimeRecord
	for {
		if err := n.wasUp(ctx, &r, time.Now()); err != nil && ctx.Err() == nil {
			n.log.Debug("this node's uptime was not recorded", "error", err)
		}
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = n.wasUp(last, &r, time.Now()) // else the downtime begins a few seconds early
			return nil
		case <-time.After(uptimeEvery):
		}
	}
}

// uptimeRecord is the shared record as this node last saw it.
type uptimeRecord struct {
	uptime
	version int64
	known   bool
}

// wasUp adds to what this node knows of the record. It reads it first where it knows nothing, or
// another node has written since.
func (n *node) wasUp(ctx context.Context, r *uptimeRecord, now time.Time) error {
	for range 2 {
		if !r.known {
			var u uptime
			version, err := loadDoc(ctx, n.store, docUptime, "ingress", &u)
			if err != nil {
				return err
			}
			*r = uptimeRecord{u, version, true}
		}
		next := r.at(now)
		body, err := json.Marshal(next)
		if err != nil {
			return err
		}
		r.known = false // until the store says that it was so
		swapped, err := n.store.SwapDoc(ctx, docUptime, "ingress", r.version, body)
		if err != nil {
			return err
		}
		if swapped {
			*r = uptimeRecord{next, r.version + 1, true}
			return nil
		}
	}
	return nil // another node has just done it
}

// loadDoc reads one document into v and returns its version, 0 where there is none.
func loadDoc(ctx context.Context, store queue.Fleet, kind, key string, v any) (int64, error) {
	docs, err := store.LoadDocs(ctx, kind)
	if err != nil {
		return 0, err
	}
	doc, ok := docs[key]
	if !ok {
		return 0, nil
	}
	if err := json.Unmarshal(doc.Body, v); err != nil {
		return 0, fmt.Errorf("reading the document %s %s: %w", kind, key, err)
	}
	return doc.Version, nil
}

// publish writes a document for every process to show. The last writer wins.
func publish(ctx context.Context, store queue.Fleet, kind, key string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	for range 5 { // lost races with other nodes
		docs, err := store.LoadDocs(ctx, kind)
		if err != nil {
			return err
		}
		if swapped, err := store.SwapDoc(ctx, kind, key, docs[key].Version, body); err != nil || swapped {
			return err
		}
	}
	return nil
}

// publishPass shows what a pass over a source learned.
func publishPass(ctx context.Context, store queue.Fleet, r watchdog.Result) error {
	c := r.Cursor
	if r.Held || c.LastPoll.IsZero() {
		return nil
	}
	return publish(ctx, store, api.DocWatchdog, r.Source, api.WatchdogSource{
		Source: r.Name, LastPollAt: timeOrNil(c.LastPoll), LastSuccessAt: timeOrNil(c.LastSuccess), LastExamined: c.Examined,
		RedeliveriesRequested: c.Requested, BlindSeconds: int64(r.Blind / time.Second), Failing: c.Failing, LastError: textOrNil(c.LastError),
	})
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func textOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
