package postgres

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// channel carries the wakes between nodes. A notification's payload is the id of the handle that
// sent it, or a test's.
const channel = "preloop_webhooks"

const (
	pingEvery   = time.Minute
	testTimeout = 2 * time.Second
	testPrefix  = "test:"
	// deafFor is the time after which a listener that hears nothing asks whether that has changed.
	deafFor = 5 * time.Minute
)

// woken is called after a commit that made something claimable: this node's subscribers know at
// once, the others' soon.
func (s *Store) woken() {
	s.resting.Store(0)
	s.wake()
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

// notifyAll tells the other nodes, the first time at once, then joining what comes within
// NotifyCoalesce. What is lost costs them latency only: they re-read the queue anyway.
func (s *Store) notifyAll() {
	for {
		select {
		case <-s.dirty:
			s.tell()
		case <-s.stop.Done():
			select {
			case <-s.dirty:
				s.tell()
			default:
			}
			return
		}
		select {
		case <-time.After(s.NotifyCoalesce):
		case <-s.stop.Done():
		}
	}
}

func (s *Store) tell() {
	if err := s.notify(s.id); err != nil {
		s.log.Debug("a notification was not sent", slog.String("error", s.explain("notifying through", err).Error()))
	}
}

func (s *Store) notify(payload string) error {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	_, err := retried(ctx, s, func() (pgconn.CommandTag, error) {
		return s.pool.Exec(ctx, `SELECT pg_notify($1, $2)`, channel, payload)
	})
	return err
}

// Note says what an operator should know of this handle, such as that it polls. Empty when all is
// well.
func (s *Store) Note() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.note
}

func (s *Store) setNote(note string) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = s.note != note
	s.note = note
	return changed
}

// listenAll keeps one connection listening until Close. While it is away, or deaf, the workers
// poll.
func (s *Store) listenAll() {
	wait := time.Duration(0)
	for s.stop.Err() == nil {
		heard, err := s.listenOnce()
		switch {
		case s.stop.Err() != nil:
			return
		case err == nil: // deaf
			if s.setNote("notifications do not come through: polling instead; a pooler in transaction mode swallows them, store_listen can name the database directly") {
				s.log.Warn("notifications do not come through; this node polls. Where the store goes through a pooler, set store_listen to the database's own address")
			}
			wait = deafFor
		default:
			if heard {
				wait = 0
			}
			wait = min(max(2*wait, 100*time.Millisecond), 5*time.Second)
			s.log.Info("the connection that listens for other nodes is lost; polling until it is back", slog.String("error", s.explain("listening to", err).Error()))
		}
		select {
		case <-time.After(wait):
		case <-s.stop.Done():
		}
	}
}

// listenOnce listens until the connection fails. Without an error it found that it hears nothing.
func (s *Store) listenOnce() (heard bool, err error) {
	conn, err := pgx.ConnectConfig(s.stop, s.listen)
	if err != nil {
		return false, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	ctx, cancel := context.WithTimeout(s.stop, connectTimeout)
	defer cancel()
	if _, err := conn.Exec(ctx, `LISTEN `+channel); err != nil {
		return false, err
	}
	if hears, err := s.hears(conn); err != nil {
		return false, err
	} else if !hears {
		_, err := conn.Exec(ctx, `UNLISTEN *`) // or a pooler's connection would gather them for nobody
		return false, err
	}
	s.setNote("")
	s.wake() // for what came while nobody listened
	for {
		ctx, cancel := context.WithTimeout(s.stop, pingEvery)
		n, err := conn.WaitForNotification(ctx)
		quiet := ctx.Err() != nil
		cancel()
		switch {
		case err == nil:
			if n.Payload != s.id && !strings.HasPrefix(n.Payload, testPrefix) {
				s.resting.Store(0)
				s.wake()
			}
		case quiet && s.stop.Err() == nil && !conn.IsClosed():
			ctx, cancel := context.WithTimeout(s.stop, connectTimeout)
			err := conn.Ping(ctx)
			cancel()
			if err != nil {
				return true, err
			}
		default:
			return true, err
		}
	}
}

// hears sends a notification through the pool, as other nodes do, and waits for it.
func (s *Store) hears(conn *pgx.Conn) (bool, error) {
	want := testPrefix + rand.Text()
	if err := s.notify(want); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(s.stop, testTimeout)
	defer cancel()
	for {
		n, err := conn.WaitForNotification(ctx)
		switch {
		case err == nil && n.Payload == want:
			return true, nil
		case err == nil:
			s.wake()
		case ctx.Err() != nil && s.stop.Err() == nil && !conn.IsClosed():
			return false, nil
		default:
			return false, err
		}
	}
}
