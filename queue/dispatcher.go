package queue

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// DispatcherStore is what a Dispatcher asks of its store.
type DispatcherStore interface {
	ClaimRuns(ctx context.Context, node string, rules []DispatchRule, max int) (claims []RunClaim, next time.Time, err error)
	RenewRuns(ctx context.Context, leases []Lease) (held, cancel []Lease, err error)
	SettleRun(ctx context.Context, l Lease, o Outcome) (*Run, error)
	ReportSession(ctx context.Context, l Lease, session string, state SessionState) error
	ReleaseRun(ctx context.Context, l Lease) error
	DisownRuns(ctx context.Context, node string, held []Lease) (int, error)
	SweepRuns(ctx context.Context) (int, error)
	ClaimProbes(ctx context.Context, node string, triggers []string, max int) ([]RunClaim, error)
	SettleProbe(ctx context.Context, l Lease, a ProbeAnswer) (*Run, error)
	Wakes() (wakes <-chan struct{}, cancel func())
}

// Dispatcher starts runs and hands follow-ups over: what may start is the store's word (capacity,
// order, sessions), what is executed is Execute's. Every run has a goroutine of its own, so that
// one that hangs holds up nothing but its own slot. Fields are not changed while Run runs.
type Dispatcher struct {
	Store    DispatcherStore
	Node     string                // this process, unique among the nodes of the store
	Settings Settings              // the store's; zero: DefaultSettings
	Rules    func() []DispatchRule // the triggers that this node knows now; asked before every claim

	// Execute does one attempt at a run, a start or a hand-over, and says what became of it. ctx
	// ends with cause ErrCanceled, ErrLeaseLost or ErrShutdown; Execute then stops its target and
	// returns, and its word on how the target ended still counts. report records what a running
	// target says of its session; it does not block. A panic makes the run RunFailed. The claim's
	// payload is Execute's until it returns.
	Execute func(ctx context.Context, c RunClaim, report func(session string, state SessionState)) Outcome

	// Probed lists the triggers that have a probe; nil: none.
	Probed func() []string
	// Probe asks whether an uncertain run has happened. It has as long as its lease is renewed;
	// a panic or an end of ctx is ProbeUnknown.
	Probe func(ctx context.Context, c RunClaim) ProbeAnswer

	// Observe, if set, is told of every attempt once it is settled, by many goroutines.
	Observe func(RunAttempt)

	Logger *slog.Logger // nil: none

	Poll          time.Duration // the queue is re-read and swept at least so often; 0: 5 s
	Renew         time.Duration // between two renewals of the leases; 0: a third of Settings.Lease
	ShutdownGrace time.Duration // at shutdown, for running targets to end by themselves; 0: none

	lastClaim atomic.Int64 // Unix microseconds
}

// RunAttempt is how one attempt at a run ended.
type RunAttempt struct {
	Run     *Run // as settled; as claimed when it could not be settled; not to be changed
	Outcome Outcome
	Took    time.Duration
	Waited  time.Duration // from admission to the start of this attempt
	Err     error         // ErrLeaseLost, or why the store did not take the outcome
}

// LastClaim is when the store was last asked for runs and answered, from the start of Run on.
// Zero before it.
func (d *Dispatcher) LastClaim() time.Time {
	if us := d.lastClaim.Load(); us != 0 {
		return time.UnixMicro(us)
	}
	return time.Time{}
}

// Run dispatches until ctx is done. Then nothing starts any more; what runs has ShutdownGrace to
// end by itself, is stopped with cause ErrShutdown, and its outcome recorded. Waiting runs stay
// as they are. It returns nil.
func (d *Dispatcher) Run(ctx context.Context) error {
	if d.Store == nil || d.Execute == nil || d.Rules == nil || d.Node == "" {
		return errors.New("starting the dispatcher: Store, Node, Rules and Execute are needed")
	}
	newDispatcherRun(ctx, d).run()
	return nil
}

// dispatcherRun is one Run of a Dispatcher: its parts with their defaults, and what is under way.
type dispatcherRun struct {
	*Dispatcher
	stop     context.Context // the caller's: no more claims once it is done
	settings Settings
	log      *slog.Logger
	poll     time.Duration

	link   *link
	leases *leaseSet
	ended  signal // a run has ended, and may have freed a slot or become uncertain
	probes *probes
	first  string    // the trigger after which the next claim begins; the claim loop's own
	unsure time.Time // until then a claim without an answer may have leased runs; the claim loop's own
	work   sync.WaitGroup
}

// claimBatch bounds one claim: what it returns is started before the next trigger's turn.
const claimBatch = 64

// stopTime is how long, at shutdown, a target that was told to stop may take: it is killed
// after ten seconds, and its outcome has to be written.
const stopTime = 15 * time.Second

func newDispatcherRun(ctx context.Context, d *Dispatcher) *dispatcherRun {
	settings := d.Settings
	if settings.Lease == 0 {
		settings = DefaultSettings()
	}
	return &dispatcherRun{
		Dispatcher: d, stop: ctx, settings: settings, log: orNoLogger(d.Logger), poll: or(d.Poll, 5*time.Second),
		// A target that cannot be renewed must be dead before another node may think it is: its
		// child has ten seconds between TERM and KILL.
		leases: newLeaseSet(settings.Lease / 4), ended: newSignal(), probes: newProbes(),
	}
}

func (r *dispatcherRun) run() {
	base, abandon := context.WithCancel(context.WithoutCancel(r.stop))
	defer abandon()
	r.link = newLink(base, r.settings.Lease, r.log)
	r.lastClaim.Store(time.Now().UnixMicro())

	keeping, stopKeeping := context.WithCancel(base)
	var keeper sync.WaitGroup
	// A wake may be an operator's cancel, which a renewal brings along.
	wakes, cancelWakes := r.Store.Wakes()
	defer cancelWakes()
	keeper.Go(func() {
		r.leases.keep(keeping, or(r.Renew, r.settings.Lease/3), wakes, r.link, r.Store.RenewRuns)
	})

	r.dispatch()
	if err := r.disown(); err != nil {
		r.log.Warn("runs whose claim had no answer could not be given back", slog.String("error", err.Error()))
	}

	done := make(chan struct{})
	go func() {
		r.work.Wait()
		close(done)
	}()
	if !within(done, r.ShutdownGrace) {
		r.leases.cancelAll(ErrShutdown)
		if !within(done, stopTime) {
			r.log.Error("targets did not stop; their runs become uncertain when their leases end", slog.Int("runs", len(r.leases.leases())))
		}
	}
	abandon()
	stopKeeping()
	keeper.Wait()
}

// dispatch claims until the stop. Nothing ends it but that: a store that fails is waited for.
func (r *dispatcherRun) dispatch() {
	wakes, cancel := r.Store.Wakes()
	defer cancel()
	away := outage{
		log: r.log, gone: "the store does not answer; runs wait", back: "the store answers again; runs are started",
	}
	var pace pacer
	var swept time.Time
	for r.stop.Err() == nil {
		// Each of the three is tried whatever became of the others.
		var errs [3]error
		now := time.Now()
		poll := swept.IsZero() || now.Sub(swept) >= r.poll
		if poll {
			errs[0] = errors.Join(r.sweep(), r.disown())
			swept = now
		}
		claimed, next, err := r.claim()
		if errs[1] = err; err != nil {
			r.unsure, swept = time.Now().Add(r.settings.Lease), time.Time{}
		}
		if r.probes.due(now) || poll {
			errs[2] = r.claimProbes()
		}
		if err := errors.Join(errs[:]...); err != nil {
			sleep(r.stop, away.failed(err))
			continue
		}
		r.lastClaim.Store(time.Now().UnixMicro())
		away.over()
		if pause := pace.pause(claimed > 0, time.Now()); pause > 0 {
			sleep(r.stop, pause)
		}
		if claimed == claimBatch {
			continue // there may be more
		}
		// A wake that came during the claim is still in the channel.
		select {
		case <-r.stop.Done():
		case <-wakes:
		case <-r.ended:
		case <-time.After(r.rest(swept, next, r.probes.next())):
		}
	}
}

// rest is the time until the next sweep or whatever else is due before it. What the store calls
// due by its own clock may be a little early by this one: it is not asked over and over.
func (r *dispatcherRun) rest(swept time.Time, due ...time.Time) time.Duration {
	rest := time.Until(swept.Add(r.poll))
	for _, t := range due {
		if !t.IsZero() {
			rest = min(rest, max(time.Until(t), 10*time.Millisecond))
		}
	}
	return max(rest, 0)
}

func (r *dispatcherRun) sweep() error {
	return r.link.call(func(ctx context.Context) error {
		moved, err := r.Store.SweepRuns(ctx)
		if moved > 0 {
			r.log.Info("swept runs that nobody holds", slog.Int("rows", moved))
		}
		return err
	})
}

// disown gives back what a claim without an answer may have leased: nothing of it has begun, and
// only this node knows. The commit may still be under way, so that one look is not enough.
func (r *dispatcherRun) disown() error {
	if time.Now().After(r.unsure) {
		return nil
	}
	return r.link.call(func(ctx context.Context) error {
		given, err := r.Store.DisownRuns(ctx, r.Node, r.leases.known())
		if given > 0 {
			r.log.Warn("runs were given back whose claim had no answer", slog.Int("runs", given))
		}
		return err
	})
}

// claim starts what may start, up to claimBatch runs.
func (r *dispatcherRun) claim() (n int, next time.Time, err error) {
	rules := r.rules()
	if len(rules) == 0 {
		return 0, next, nil
	}
	var claims []RunClaim
	err = r.link.call(func(ctx context.Context) error {
		claims, next, err = r.Store.ClaimRuns(ctx, r.Node, rules, claimBatch)
		return err
	})
	for _, c := range claims {
		r.first = c.Trigger
		r.start(c)
	}
	return len(claims), next, err
}

// rules are the node's, beginning after the trigger that was served last: one that could fill
// every claim by itself is then the last to be asked.
func (r *dispatcherRun) rules() []DispatchRule {
	rules := r.Rules()
	for i, rule := range rules {
		if rule.Trigger == r.first {
			return append(append(make([]DispatchRule, 0, len(rules)), rules[i+1:]...), rules[:i+1]...)
		}
	}
	return rules
}

// start executes a claim in a goroutine of its own, or gives it back when the stop came first.
func (r *dispatcherRun) start(c RunClaim) {
	h := r.leases.hold(r.link.base, c.Lease)
	r.work.Go(func() {
		defer h.drop()
		if r.stop.Err() != nil {
			r.release(h, &c)
			return
		}
		r.execute(h, c)
		r.ended.set()
	})
}

// release gives back what was claimed and not begun.
func (r *dispatcherRun) release(h *holding, c *RunClaim) {
	lease, ours := h.settle()
	if !ours {
		return
	}
	err := r.link.persist(lease.Until, func(ctx context.Context) error { return r.Store.ReleaseRun(ctx, lease) })
	if err != nil {
		r.log.Warn("a run that was not begun could not be given back", append(runAttrs(&c.Run), slog.String("error", err.Error()))...)
	}
}
