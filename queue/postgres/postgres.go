// Package postgres keeps the queue in a Postgres database, version 13 or newer, for any number of
// nodes.
//
// The database's clock decides leases and all other times. What several nodes decide at once about
// one trigger is decided under the lock of its row in the table triggers (writer.go). Deliveries
// are taken in, settled and admitted by the batch, one transaction for all that wait (group.go). Nodes wake
// each other by notifications (listen.go).
//
// Nothing depends on the state of a session, so that a pooler in transaction mode may stand
// between; only the connection that listens has to be a direct one.
//
// No statement needs more than version 13: the youngest feature is the generated column, of 12. Where
// extract() became exact, in 14, it changed nothing: a double keeps today's microseconds.
package postgres

import (
	"context"
	"crypto/rand"
	"embed"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-de999ace/preloop/queue"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Options say how a store is opened.
type Options struct {
	Settings queue.Settings
	// ListenURL is a direct address of the same database, for notifications, where the store's own
	// goes through a pooler. Empty: the store's own.
	ListenURL string
	// Serve makes this process a node of the store: it listens from the start. Other handles
	// listen once somebody asks for Wakes.
	Serve bool
	Node  string
	Log   *slog.Logger // nil: none
}

const (
	connectTimeout = 3 * time.Second
	// callTimeout bounds a call whose caller set no earlier end.
	callTimeout = 15 * time.Second
	maxConns    = 10
	// pingAfter is how long a connection may rest before it is asked whether it is still there.
	pingAfter = 5 * time.Minute
)

// Store is a queue.Store in a Postgres database.
type Store struct {
	queue.Settings
	place  string // host and database, for messages: never a user or password
	listen *pgx.ConnConfig
	pool   *pgxpool.Pool
	id     string // of this handle, to tell its own notifications from others'
	log    *slog.Logger
	// flush is set where the server's default would not flush a commit: each transaction asks for it.
	flush bool

	enqueues *group[arrival, queue.EnqueueResult]
	settles  *group[settling, queue.Settled]
	admits   *group[settling, queue.Settled]

	stop       context.Context // ends with Close
	cancel     context.CancelFunc
	closing    sync.Once
	background sync.WaitGroup
	listening  sync.Once
	dirty      chan struct{} // something is to be notified of
	flowing    atomic.Bool   // the last claim found deliveries
	resting    atomic.Int64  // until when the last sweep's word stands that no run is alive; Unix nanoseconds

	mu    sync.Mutex // guards what follows
	wakes map[chan struct{}]struct{}
	note  string
}

var _ queue.Store = (*Store)(nil)

// Open opens the store in the database at url and brings its schema up to date.
func Open(ctx context.Context, url string, o Options) (*Store, error) { return open(ctx, url, o, nil) }

func open(ctx context.Context, url string, o Options, tracer pgx.QueryTracer) (*Store, error) {
	s := &Store{
		Settings: o.Settings, id: rand.Text(), log: o.Log,
		dirty: make(chan struct{}, 1), wakes: map[chan struct{}]struct{}{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if o.Node != "" {
		s.log = s.log.With(slog.String("node", o.Node))
	}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, badURL("store", url, err)
	}
	s.place = place(cfg.ConnConfig)
	prepare(cfg.ConnConfig)
	cfg.ConnConfig.Tracer = tracer
	// What the heartbeat keeps in use is not asked whether it is still there: a statement finds out as
	// well, and is repeated (see lost).
	cfg.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool { return p.IdleDuration > pingAfter }
	cfg.PingTimeout = 2 * time.Second
	if !strings.Contains(url, "pool_max_conns") {
		cfg.MaxConns = maxConns
	}
	s.listen = cfg.ConnConfig.Copy()
	if o.ListenURL != "" {
		if s.listen, err = pgx.ParseConfig(o.ListenURL); err != nil {
			return nil, badURL("store_listen", o.ListenURL, err)
		}
		prepare(s.listen)
	}
	if s.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, s.explain("opening", err)
	}
	if err := s.begin(ctx); err != nil {
		s.pool.Close()
		return nil, err
	}
	s.stop, s.cancel = context.WithCancel(context.Background())
	s.enqueues = newGroup(s, maxBatch, s.enqueue, func(a arrival) int { return len(a.body) })
	s.settles = newGroup(s, maxBatch, s.settleMany, func(settling) int { return 0 })
	s.admits = newGroup(s, maxAdmissions, s.admitMany, func(settling) int { return 0 })
	s.background.Go(s.enqueues.run)
	s.background.Go(s.settles.run)
	s.background.Go(s.admits.run)
	s.background.Go(s.notifyAll)
	if o.Serve {
		s.listening.Do(func() { s.background.Go(s.listenAll) })
	}
	return s, nil
}

// begin prepares the schema and learns how the server flushes.
func (s *Store) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout) // another node may be migrating
	defer cancel()
	if err := s.migrate(ctx); err != nil {
		return s.explain("preparing", err)
	}
	var sync string
	if err := s.pool.QueryRow(ctx, `SELECT current_setting('synchronous_commit')`).Scan(&sync); err != nil {
		return s.explain("opening", err)
	}
	if sync == "off" {
		s.flush = true
		s.log.Warn("the server's synchronous_commit is off; this store's transactions turn it on for themselves")
	}
	return nil
}

// prepare makes a connection fit for poolers: no named statements (which also spares the cached
// generic plans that become wrong as a table grows), and no startup parameters that they refuse.
func prepare(c *pgx.ConnConfig) {
	if c.ConnectTimeout == 0 || c.ConnectTimeout > connectTimeout {
		c.ConnectTimeout = connectTimeout
	}
	if mode := c.DefaultQueryExecMode; mode == pgx.QueryExecModeCacheStatement || mode == pgx.QueryExecModeDescribeExec {
		c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
}

// place names a database without its user.
func place(c *pgx.ConnConfig) string {
	return (&url.URL{Scheme: "postgres", Host: c.Host, Path: "/" + c.Database}).String()
}

// Kind is "postgres".
func (s *Store) Kind() string { return "postgres" }

// Close ends the handle once what waits is committed and notified of, and closes its connections.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.cancel()
		s.background.Wait()
		s.pool.Close()
	})
	return nil
}

// Wakes implements queue.Store.
func (s *Store) Wakes() (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakes[c] = struct{}{}
	s.listening.Do(func() { s.background.Go(s.listenAll) })
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
