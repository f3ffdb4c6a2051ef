// Package sqlite keeps the queue in one SQLite file for one node. Operator commands may share the
// file with a running node; a second node is refused.
//
// All writes go through one goroutine that commits whatever waits as one transaction (writer.go);
// reads have connections of their own and never wait for a writer.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"modernc.org/sqlite"

	"github.com/seed-de999ace/preloop/queue"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Options say how a store is opened.
type Options struct {
	Settings queue.Settings
	// Serve makes this process the file's node: the file is created if need be, a second node is
	// refused, and what a dead predecessor held is taken over at once.
	Serve bool
}

// Store is a queue.Store in a SQLite file.
type Store struct {
	queue.Settings
	path    string
	lock    *os.File // held while this process is the file's node
	db      *sql.DB  // one connection, the writer's
	readers *sql.DB

	enqueues chan *op // what GitHub waits for
	ops      chan *op // every other write
	stop     chan struct{}
	stopped  chan struct{}
	closing  sync.Once

	mu    sync.Mutex // guards wakes
	wakes map[chan struct{}]struct{}
}

var _ queue.Store = (*Store)(nil)

// Open opens the store in the file at path and brings its schema up to date.
func Open(ctx context.Context, path string, o Options) (_ *Store, err error) {
	sqlite.StrictPragmas(true)
	_, _ = sqlite.Fdatasync(true) // as durable as fsync and faster; systems without it go on with fsync
	s := &Store{
		Settings: o.Settings, path: path,
		enqueues: make(chan *op, maxBatch), ops: make(chan *op, maxBatch), stop: make(chan struct{}), stopped: make(chan struct{}),
		wakes: map[chan struct{}]struct{}{},
	}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	if o.Serve {
		if err := s.own(); err != nil {
			return nil, err
		}
	} else if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("opening the store %s: %w; is the path right? `preloop serve` creates it", path, errors.Unwrap(err))
	}
	if s.db, err = sql.Open("sqlite", dsn(path, "_txlock=immediate&_journal_mode=WAL&_synchronous=FULL&_busy_timeout=5000&_foreign_keys=1&_dqs=0")); err != nil {
		return nil, fmt.Errorf("opening the store %s: %w", path, err)
	}
	s.db.SetMaxOpenConns(1)
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, s.explain("opening", err)
	}
	w := &writer{conn: conn, stmts: map[string]*sql.Stmt{}}
	if err := w.migrate(); err != nil {
		return nil, s.explain("preparing", err)
	}
	if s.readers, err = sql.Open("sqlite", dsn(path, "mode=ro&_query_only=1&_busy_timeout=5000&_dqs=0")); err != nil {
		return nil, fmt.Errorf("opening the store %s: %w", path, err)
	}
	s.readers.SetMaxOpenConns(4)
	s.readers.SetMaxIdleConns(4)
	go s.run(w)
	if o.Serve {
		if err := s.takeOver(ctx); err != nil {
			_ = s.Close()
			return nil, s.explain("taking over", err)
		}
	}
	return s, nil
}

func dsn(path, query string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query
}

// lockPatience is how long a starting node waits for another one to be gone.
const lockPatience = 3 * time.Second

// own takes the side file's lock. The database itself is never opened by hand: closing such a
// descriptor would drop SQLite's own locks.
func (s *Store) own() error {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return fmt.Errorf("creating the store's directory: %w", err)
	}
	lock, err := os.OpenFile(s.path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("locking the store %s: %w; the directory must be writable", s.path, errors.Unwrap(err))
	}
	// A predecessor that was killed holds the lock until the kernel is done with it and with a
	// child that it was just forking: a moment, longer on a busy machine.
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(lockPatience / 100) {
		if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		holder := make([]byte, 200)
		n, _ := lock.ReadAt(holder, 0)
		_ = lock.Close()
		return fmt.Errorf("%w: another preloop (%s) serves %s; SQLite is for one node, use Postgres for more",
			queue.ErrInUse, strings.TrimSpace(string(holder[:n])), s.path)
	}
	_ = lock.Truncate(0)
	_, _ = lock.WriteAt(fmt.Appendf(nil, "pid %d, since %s\n", os.Getpid(), time.Now().UTC().Format(time.RFC3339)), 0)
	s.lock = lock
	return create(s.path)
}

// create makes the file if it is not there. Payloads are private: it has its mode before SQLite
// opens it, and -wal and -shm follow it.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("creating the store %s: %w", path, errors.Unwrap(err))
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > 0 {
		return err
	}
	return format(path)
}

// format tells an empty file what cannot be changed later: that Compact may give space back, and,
// last, that it is written through a log.
func format(path string) error {
	db, err := sql.Open("sqlite", dsn(path, "_busy_timeout=5000"))
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // what it was opened for is flushed
	db.SetMaxOpenConns(1)
	for _, q := range []string{`PRAGMA auto_vacuum = INCREMENTAL`, `PRAGMA journal_mode = WAL`} {
		if _, err := db.Exec(q); err != nil {
			return fmt.Errorf("formatting the store %s: %w", path, err)
		}
	}
	return nil
}

// takeOver expires what a dead predecessor held, so that nobody waits for its leases.
func (s *Store) takeOver(ctx context.Context) error {
	return s.write(ctx, func(t *tx) error {
		for _, q := range []string{
			`UPDATE deliveries SET due_at = :now WHERE due_at IS NOT NULL AND state = 'processing' AND due_at > :now`,
			`UPDATE runs SET lease_until = :now WHERE lease_until > :now`,
			`DELETE FROM nodes`,
			`DELETE FROM locks`,
		} {
			if strings.Contains(q, ":now") {
				if _, err := t.exec(q, sql.Named("now", t.now)); err != nil {
					return err
				}
			} else if _, err := t.exec(q); err != nil {
				return err
			}
		}
		return nil
	})
}

// Kind is "sqlite".
func (s *Store) Kind() string { return "sqlite" }

// Close ends the writer once what waits is committed, and closes the file.
func (s *Store) Close() error {
	s.closing.Do(func() { close(s.stop) })
	<-s.stopped
	return s.release()
}

func (s *Store) release() error {
	var errs []error
	if s.readers != nil {
		errs = append(errs, s.readers.Close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
		s.lock = nil
	}
	return errors.Join(errs...)
}

// Wakes implements queue.Store.
func (s *Store) Wakes() (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakes[c] = struct{}{}
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.wakes, c)
	}
}

func (s *Store) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.wakes {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// explain says what to do about the errors that an operator can act on.
func (s *Store) explain(doing string, err error) error {
	var e *sqlite.Error
	if errors.As(err, &e) {
		switch e.Code() & 0xff {
		case 11, 26: // CORRUPT, NOTADB
			return fmt.Errorf("%s the store %s: it is not a sound SQLite file (%w); move it aside and restore a backup, or start with a new one", doing, s.path, err)
		case 8, 14: // READONLY, CANTOPEN
			return fmt.Errorf("%s the store %s: %w; the file and its directory must be writable", doing, s.path, err)
		case 13: // FULL
			return fmt.Errorf("%s the store %s: %w; free some disk space", doing, s.path, err)
		}
	}
	return fmt.Errorf("%s the store %s: %w", doing, s.path, err)
}
