package queue

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// WorkerStore is what a Worker asks of its store.
type WorkerStore interface {
	ClaimDeliveries(ctx context.Context, node string, n int) ([]DeliveryClaim, error)
	RenewDeliveries(ctx context.Context, leases []Lease) ([]Lease, error)
	SettleDelivery(ctx context.Context, l Lease, s Settlement) (Settled, error)
	Wakes() (wakes <-chan struct{}, cancel func())
}

// Worker turns deliveries into decisions: it claims them, asks Decide, and settles them together
// with the runs that were decided on. The store being away is no reason to stop: it waits and
// comes back by itself. Fields are not changed while Run runs.
type Worker struct {
	Store    WorkerStore
	Node     string   // this process, unique among the nodes of the store
	Settings Settings // the store's; zero: DefaultSettings

	// Decide says what becomes of a delivery. Up to Workers calls run at the same time. ctx ends
	// with cause ErrLeaseLost or ErrShutdown; after that nothing counts but how soon it returns.
	// The claim and its payload are Decide's until it returns. Without an error the settlement is
	// recorded as it stands. A *ParkError parks the delivery, a *PermanentError fails it at once,
	// any other error is transient and waits for its next attempt. An error's text is kept with
	// the delivery: it holds no secret and no payload. A panic fails the delivery.
	Decide func(ctx context.Context, c *DeliveryClaim) (Settlement, error)

	// Gate is asked before every claim. open false: the host's breaker is open, nothing is claimed
	// for the next wait or Poll, whichever is shorter. Nil: always open.
	Gate func() (wait time.Duration, open bool)

	// Observe, if set, is told of every attempt once it is settled, by many goroutines.
	Observe func(DeliveryAttempt)

	Logger *slog.Logger // nil: none

	Workers  int           // calls of Decide at the same time; 0: 8
	InFlight int           // deliveries claimed and not yet decided; 0: 64
	Poll     time.Duration // the queue is re-read at least so often; 0: 5 s
	Renew    time.Duration // between two renewals of the leases; 0: a third of Settings.Lease
	Grace    time.Duration // at shutdown, for the decisions under way; 0: 5 s

	lastClaim atomic.Int64 // Unix microseconds
}

// DeliveryAttempt is how one attempt at a delivery ended.
type DeliveryAttempt struct {
	Delivery *Delivery // as claimed; not to be changed
	Outcome  string    // done, retry, failed, parked, released; lease_lost: settled by nobody here; unrecorded: the store was away
	Error    string
	Decide   time.Duration // how long deciding took
	Latency  time.Duration // from receipt to the settlement
	Settled  Settled
}

// LastClaim is when the store was last asked for deliveries and answered, or the gate was found
// closed; from the start of Run on. Zero before it. Three leases without one mean that the worker
// is stalled.
func (w *Worker) LastClaim() time.Time {
	if us := w.lastClaim.Load(); us != 0 {
		return time.UnixMicro(us)
	}
	return time.Time{}
}

// Run works until ctx is done, then gives back what is not decided within Grace, and returns nil.
// A call of Decide that does not heed its context is left behind, its delivery given back.
func (w *Worker) Run(ctx context.Context) error {
	if w.Store == nil || w.Decide == nil || w.Node == "" {
		return errors.New("starting the worker: Store, Node and Decide are needed")
	}
	newWorkerRun(ctx, w).run()
	return nil
}

// workerRun is one Run of a Worker: its parts with their defaults, and what is under way.
type workerRun struct {
	*Worker
	stop     context.Context // the caller's: no more claims once it is done
	settings Settings
	log      *slog.Logger
	poll     time.Duration
	grace    time.Duration

	link   *link
	leases *leaseSet
	window *window
	due    signal // something that this worker gave back has become claimable

	todo     chan *task
	settling chan struct{} // one for each settlement under way
	deciders sync.WaitGroup
	settlers sync.WaitGroup
}

// task is a claimed delivery on its way through the worker.
type task struct {
	claim   DeliveryClaim
	holding *holding
	took    time.Duration // deciding it
}

// lastWrites is how long, at shutdown, writes are waited for after the work itself has ended or
// has been given up.
const lastWrites = 5 * time.Second

func newWorkerRun(ctx context.Context, w *Worker) *workerRun {
	settings := w.Settings
	if settings.Lease == 0 {
		settings = DefaultSettings()
	}
	inFlight := or(w.InFlight, 64)
	workers := or(w.Workers, 8)
	r := &workerRun{
		Worker: w, stop: ctx, settings: settings,
		log:  orNoLogger(w.Logger),
		poll: or(w.Poll, 5*time.Second), grace: or(w.Grace, 5*time.Second),
		// Deciding obeys its context at once, so that a small margin is enough.
		leases: newLeaseSet(settings.Lease / 12),
		window: newWindow(workers, inFlight), due: newSignal(),
		todo: make(chan *task, max(inFlight, workers)),
		// Enough for the next decisions to go on while a few commits flush.
		settling: make(chan struct{}, 4*max(inFlight, workers)),
	}
	return r
}

func (r *workerRun) run() {
	base, abandon := context.WithCancel(context.WithoutCancel(r.stop))
	defer abandon()
	r.link = newLink(base, r.settings.Lease, r.log)
	r.lastClaim.Store(time.Now().UnixMicro())

	keeping, stopKeeping := context.WithCancel(base)
	var keeper sync.WaitGroup
	keeper.Go(func() {
		r.leases.keep(keeping, or(r.Renew, r.settings.Lease/3), nil, r.link, r.renew)
	})
	for range r.window.workers {
		r.deciders.Go(func() {
			for t := range r.todo {
				r.decide(t)
			}
		})
	}

	r.claimAll()

	// Two steps: what is under way may finish, then it is ended. What has not begun is given back
	// at once.
	close(r.todo)
	for t := range r.todo {
		r.decide(t)
	}
	done := make(chan struct{})
	go func() {
		r.deciders.Wait()
		r.settlers.Wait()
		close(done)
	}()
	if !within(done, r.grace) {
		r.leases.cancelAll(ErrShutdown)
		if !within(done, lastWrites) {
			r.giveBack()
		}
	}
	abandon()
	stopKeeping()
	keeper.Wait()
}

// giveBack releases what a stuck decision or a lost store still holds, as far as one try goes.
func (r *workerRun) giveBack() {
	for _, l := range r.leases.leases() {
		err := r.link.call(func(ctx context.Context) error {
			_, err := r.Store.SettleDelivery(ctx, l, Settlement{Kind: SettleRelease, Error: ErrShutdown.Error()})
			return err
		})
		r.log.Warn("a decision did not stop; its delivery is given back", slog.Int64("row", l.Row), slog.Any("error", err))
	}
}

func (r *workerRun) renew(ctx context.Context, asked []Lease) (renewed, canceled []Lease, err error) {
	renewed, err = r.Store.RenewDeliveries(ctx, asked)
	return renewed, nil, err
}

// claimAll claims until the stop. Nothing ends it but that: a store that fails is waited for.
func (r *workerRun) claimAll() {
	wakes, cancel := r.Store.Wakes()
	defer cancel()
	away := outage{
		log: r.log, gone: "the store does not answer; deliveries wait", back: "the store answers again; deliveries are processed",
	}
	var pace pacer
	for r.stop.Err() == nil {
		if wait, open := r.gate(); !open {
			r.lastClaim.Store(time.Now().UnixMicro())
			sleep(r.stop, min(max(wait, 10*time.Millisecond), r.poll))
			continue
		}
		room := r.window.room()
		if room == 0 {
			r.awaitRoom()
			continue
		}
		claims, err := r.claim(room)
		if err != nil {
			sleep(r.stop, away.failed(err))
			continue
		}
		r.lastClaim.Store(time.Now().UnixMicro())
		away.over()
		if pause := pace.pause(len(claims) > 0, time.Now()); pause > 0 {
			sleep(r.stop, pause)
		}
		if len(claims) == room {
			continue // there may be more
		}
		// A wake that came during the claim is still in the channel.
		select {
		case <-r.stop.Done():
		case <-wakes:
		case <-r.due:
		case <-time.After(r.poll):
		}
	}
}

func (r *workerRun) gate() (time.Duration, bool) {
	if r.Gate == nil {
		return 0, true
	}
	return r.Gate()
}

func (r *workerRun) awaitRoom() {
	select {
	case <-r.stop.Done():
	case <-r.window.freed:
	case <-time.After(slowDecision):
		r.window.harmless()
	}
}

// claim claims up to n deliveries and queues them for the deciders.
func (r *workerRun) claim(n int) (claims []DeliveryClaim, err error) {
	err = r.link.call(func(ctx context.Context) error {
		claims, err = r.Store.ClaimDeliveries(ctx, r.Node, n)
		return err
	})
	r.window.claimed(len(claims))
	for _, c := range claims {
		r.todo <- &task{claim: c, holding: r.leases.hold(r.link.base, c.Lease)}
	}
	return claims, err
}

// decide gets a settlement for a task and hands it to a goroutine of its own: while many of them
// are flushed together, deciding goes on.
func (r *workerRun) decide(t *task) {
	var s Settlement
	began := time.Now()
	if ctx := t.holding.ctx; r.stop.Err() != nil {
		s = Settlement{Kind: SettleRelease, Error: ErrShutdown.Error()}
	} else if ctx.Err() != nil { // lost while it waited for its turn
		s = settlementOf(ctx, s, ctx.Err())
	} else {
		decided, err := r.guard(ctx, &t.claim)
		s = settlementOf(ctx, decided, err)
	}
	t.took = time.Since(began)
	t.claim.Payload = nil
	r.window.decided(t.took)
	r.settling <- struct{}{}
	r.settlers.Go(func() {
		defer func() { <-r.settling }()
		r.settle(t, s)
	})
}

// guard turns a panic into the delivery's own permanent failure.
func (r *workerRun) guard(ctx context.Context, c *DeliveryClaim) (s Settlement, err error) {
	defer func() {
		if v := recover(); v != nil {
			text := panicText(v)
			r.log.Error("deciding panicked", append(deliveryAttrs(&c.Delivery), slog.String("error", text), slog.String("stack", string(debug.Stack())))...)
			s, err = Settlement{Kind: SettleFail, Error: text}, nil
		}
	}()
	return r.Decide(ctx, c)
}

// settle records a settlement, for as long as the lease lasts.
func (r *workerRun) settle(t *task, s Settlement) {
	defer t.holding.drop()
	d := &t.claim.Delivery
	lease, ours := t.holding.settle()
	if !ours {
		r.settled(t, s, Settled{}, ErrLeaseLost)
		return
	}
	settled, err := r.record(lease, s)
	if errors.Is(err, ErrInvalid) || errors.Is(err, ErrConflict) {
		// The store will not take this decision however often it is made.
		r.log.Error("the store refuses a decision", append(deliveryAttrs(d), slog.String("error", err.Error()))...)
		s = Settlement{Kind: SettleFail, Error: errorText("recording the decision: " + err.Error())}
		settled, err = r.record(lease, s)
	}
	r.settled(t, s, settled, err)
}

func (r *workerRun) record(l Lease, s Settlement) (settled Settled, err error) {
	err = r.link.persist(l.Until, func(ctx context.Context) error {
		settled, err = r.Store.SettleDelivery(ctx, l, s)
		return err
	})
	return settled, err
}

// settled tells of an attempt that is over, and sees to it that this worker is awake when its
// delivery is due again.
func (r *workerRun) settled(t *task, s Settlement, settled Settled, err error) {
	d := &t.claim.Delivery
	next := r.settings.NextState(s.Kind, d.Attempts, d.Outages, s.Wait, s.Outage)
	word, level := next.Word, slog.LevelDebug
	attrs := append(deliveryAttrs(d), slog.Duration("took", t.took))
	switch {
	case errors.Is(err, ErrLeaseLost):
		word, level = "lease_lost", slog.LevelWarn
	case err != nil:
		word, level = "unrecorded", slog.LevelWarn
		attrs = append(attrs, slog.String("store_error", err.Error()))
	case next.State == Failed:
		level = slog.LevelError
	case next.State == Received:
		level = slog.LevelInfo
		attrs = append(attrs, slog.Duration("wait", next.Wait))
		if next.Wait <= time.Hour && s.Kind != SettleRelease {
			time.AfterFunc(next.Wait+5*time.Millisecond, r.due.set)
		}
	}
	if s.Error != "" {
		attrs = append(attrs, slog.String("error", s.Error))
	}
	r.log.Log(context.Background(), level, "delivery "+word, attrs...)
	if r.Observe != nil {
		r.Observe(DeliveryAttempt{
			Delivery: d, Outcome: word, Error: s.Error, Decide: t.took, Latency: time.Since(d.ReceivedAt), Settled: settled,
		})
	}
}
