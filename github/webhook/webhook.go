// Package webhook is the door for GitHub's deliveries: it bounds and reads a request, verifies its
// signature, and answers 202 once the delivery is durable. What it refuses is not stored, and no
// answer or log holds anything of a body, a signature or a secret.
//
// A request goes through these steps, each in its own file: head (method and headers, before a byte
// of the body is read), body (reading within the memory budget), sources (which secret signed it),
// payload (form to JSON, facts, the Delivery), enqueue (two attempts at the store), answer.
package webhook

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/seed-de999ace/preloop/github"
	"github.com/seed-de999ace/preloop/queue"
)

// Enqueuer makes deliveries durable.
type Enqueuer interface {
	// Enqueue returns once the delivery and its payload are committed and flushed, or with an error
	// when that is not certain. It returns soon after ctx ends, keeps no reference to the payload
	// after it has returned, and is safe for concurrent use.
	Enqueue(ctx context.Context, d queue.Delivery, payload []byte) (queue.EnqueueResult, error)
}

// Config bounds a Receiver. A zero field takes its default.
type Config struct {
	Sources        []Source
	MaxBody        int64         // bytes of a request body; 25 MiB
	Memory         int64         // bytes of all bodies in flight; 256 MiB, at least one body of MaxBody fits
	Budget         time.Duration // for waiting for memory and enqueueing together; 8 s, of GitHub's 10
	Attempts       int           // at enqueueing; 2
	AttemptTimeout time.Duration // of one attempt; 4 s
	RetryDelay     time.Duration // after a failed attempt; 50 ms
	ReadTimeout    time.Duration // for the client to send its body; 30 s

	// Observe, if set, is called once for each request with one of the Result… constants (or the
	// store's queue.EnqueueResult) and the time that it took. It is called concurrently.
	Observe func(result string, took time.Duration)
}

// The results of a request that Observe is told, beside accepted, duplicate and requeued.
const (
	ResultBadRequest   = "bad_request"
	ResultUnauthorized = "unauthorized"
	ResultTooLarge     = "too_large"
	ResultUnsupported  = "unsupported" // method, content type or encoding
	ResultStoreFailed  = "store_failed"
	ResultUnavailable  = "unavailable" // draining, or no memory in time
)

func (c Config) withDefaults() Config {
	setDefault(&c.MaxBody, 25<<20)
	setDefault(&c.Memory, 256<<20)
	setDefault(&c.Budget, 8*time.Second)
	setDefault(&c.Attempts, 2)
	setDefault(&c.AttemptTimeout, 4*time.Second)
	setDefault(&c.RetryDelay, 50*time.Millisecond)
	setDefault(&c.ReadTimeout, 30*time.Second)
	return c
}

func setDefault[T comparable](field *T, value T) {
	if *field == *new(T) {
		*field = value
	}
}

// Receiver is the handler of the webhook endpoint. It is safe for concurrent use.
type Receiver struct {
	cfg       Config
	queue     Enqueuer
	log       *slog.Logger
	sources   atomic.Pointer[sourceSet]
	draining  atomic.Bool
	memory    *memory
	buffers   *buffers
	floodgate floodgate
	readFacts func(event string, body []byte) (github.Facts, error)
}

// New returns a receiver that hands what it accepts to q. It logs refusals and failures, and each
// accepted delivery at the debug level.
func New(cfg Config, q Enqueuer, log *slog.Logger) *Receiver {
	cfg = cfg.withDefaults()
	rc := &Receiver{
		cfg: cfg, queue: q, log: log,
		memory:    newMemory(cfg.Memory, cfg.MaxBody+1),
		buffers:   newBuffers(cfg.MaxBody + 1),
		readFacts: github.ReadFacts,
	}
	rc.SetSources(cfg.Sources)
	return rc
}

// SetSources replaces the sources for the requests that come from now on: secrets that are gone stop
// verifying, new ones begin to. Without any secret every request is refused.
func (rc *Receiver) SetSources(sources []Source) { rc.sources.Store(newSourceSet(sources)) }

// Drain makes every new request 503, so that GitHub records a failure that can be repaired; those
// that are being read go on. It cannot be undone.
func (rc *Receiver) Drain() { rc.draining.Store(true) }

// ServeHTTP implements http.Handler.
func (rc *Receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	// Bounds the reading of a refused body too, which net/http does to keep the connection usable.
	// Not every ResponseWriter can; the server's own limits are then all there is.
	_ = http.NewResponseController(w).SetReadDeadline(start.Add(rc.cfg.ReadTimeout))

	in := rc.buffers.take()
	defer func() {
		rc.memory.release(&in.hold)
		rc.buffers.give(in)
	}()
	result, refused := rc.receive(r, in, start)
	if refused != nil {
		rc.logRefusal(r, in, refused)
		refused.write(w)
		result = refused.result
	} else {
		in.writeAccepted(w, result)
	}
	if rc.cfg.Observe != nil {
		rc.cfg.Observe(result, time.Since(start))
	}
}

// receive takes one request from its headers to the store.
func (rc *Receiver) receive(r *http.Request, in *inflight, start time.Time) (result string, _ *refusal) {
	sources := rc.sources.Load()
	if refused := rc.checkHead(r, in, sources); refused != nil {
		return "", refused
	}
	if refused := rc.readBody(r, in); refused != nil {
		return "", refused
	}
	from, ok := sources.verify(&in.head, in.body)
	if !ok {
		return "", errSignatureMismatch
	}
	payload, refused := in.jsonPayload()
	if refused != nil {
		return "", refused.of(from)
	}
	d, refused := rc.delivery(r, in, from, payload)
	if refused != nil {
		return "", refused.of(from)
	}
	d.ReceivedAt = start
	stored, err := rc.enqueue(d, payload, rc.cfg.Budget-in.waited)
	if err != nil {
		return "", errStore.because(err).of(from)
	}
	if rc.log.Enabled(r.Context(), slog.LevelDebug) {
		rc.log.Debug("delivery received", "delivery_id", d.ID, "source", d.SourceName, "event", d.Event, "result", string(stored))
	}
	return string(stored), nil
}
