package api

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-de999ace/preloop/breaker"
	"github.com/seed-de999ace/preloop/queue"
)

// Operations is what an operator can read and do, beside the store (Local) or through a server
// (Client), with the same results.
type Operations interface {
	Status(ctx context.Context) (*Status, error)
	Deliveries(ctx context.Context, f queue.DeliveryFilter) (*DeliveryList, error)
	Delivery(ctx context.Context, ref string) (*DeliveryDetail, error)
	Payload(ctx context.Context, ref string) ([]byte, error)
	Replay(ctx context.Context, ref string, r ReplayRequest) (*Replayed, error)
	Runs(ctx context.Context, f queue.RunFilter) (*RunList, error)
	Run(ctx context.Context, id string) (*RunDetail, error)
	// Act is cancel, retry, resolve or finish.
	Act(ctx context.Context, id, action string, r EndRequest) (*Run, error)
	Triggers(ctx context.Context) (*TriggerList, error)
	// SetTrigger is pause or resume.
	SetTrigger(ctx context.Context, name, action string) (*Trigger, error)
	Repairs(ctx context.Context, f queue.RepairFilter) (*RepairList, error)
}

// Local is Operations on a store.
type Local struct {
	Store   queue.Store
	Version string
	Node    string // empty outside a node
	Sources func() []SourceInfo
	Breaker breaker.Settings
	Host    string // of GitHub's API, as its breaker is named; empty: whichever the store has
}

var _ Operations = (*Local)(nil)

// Status implements Operations.
func (l *Local) Status(ctx context.Context) (*Status, error) {
	f, err := l.facts(ctx)
	if err != nil {
		return nil, err
	}
	return document(f), nil
}

func (l *Local) facts(ctx context.Context) (f facts, err error) {
	f = facts{now: time.Now(), version: l.Version, node: l.Node, kind: l.Store.Kind(), settings: l.Breaker, host: l.Host, breakers: map[string]breaker.State{}, apps: map[string]AppVerdict{}, watchdog: map[string]WatchdogSource{}}
	if l.Sources != nil {
		f.sources = l.Sources()
	}
	if f.counts, err = l.Store.Counts(ctx); err != nil {
		return f, err
	}
	if f.stats, err = l.Store.TriggerStats(ctx); err != nil {
		return f, err
	}
	if f.nodes, err = l.Store.Nodes(ctx); err != nil {
		return f, err
	}
	if f.uses, err = l.Store.SecretUses(ctx); err != nil {
		return f, err
	}
	if f.doubles, err = l.Store.DoubleSubscriptions(ctx); err != nil {
		return f, err
	}
	if f.repairs, err = l.Store.ListRepairs(ctx, queue.RepairFilter{State: "open"}); err != nil {
		return f, err
	}
	if f.triggers, err = l.published(ctx); err != nil {
		return f, err
	}
	docs, err := l.Store.LoadDocs(ctx, DocBreaker)
	if err != nil {
		return f, err
	}
	for key, d := range docs {
		if st, ok := decodeDoc[breaker.State](d); ok {
			f.breakers[key] = st
		}
	}
	if docs, err = l.Store.LoadDocs(ctx, DocWatchdog); err != nil {
		return f, err
	}
	for key, d := range docs {
		if w, ok := decodeDoc[WatchdogSource](d); ok {
			f.watchdog[key] = w
		}
	}
	if docs, err = l.Store.LoadDocs(ctx, DocApp); err != nil {
		return f, err
	}
	for key, d := range docs {
		if v, ok := decodeDoc[AppVerdict](d); ok {
			f.apps[key] = v
		}
	}
	if docs, err = l.Store.LoadDocs(ctx, DocMonitor); err != nil {
		return f, err
	}
	if pass, ok := decodeDoc[MonitorPass](docs["pass"]); ok {
		f.monitored = pass.CheckedAt
	}
	for _, n := range f.nodes {
		if !n.Gone && slices.Contains(n.Components, "watchdog") {
			f.watching = true
		}
	}
	return f, nil
}

func (l *Local) published(ctx context.Context) ([]TriggerInfo, error) {
	docs, err := l.Store.LoadDocs(ctx, DocTriggers)
	if err != nil {
		return nil, err
	}
	p, _ := decodeDoc[PublishedTriggers](docs["current"])
	return p.Triggers, nil
}

// Deliveries implements Operations.
func (l *Local) Deliveries(ctx context.Context, f queue.DeliveryFilter) (*DeliveryList, error) {
	list, next, err := l.Store.ListDeliveries(ctx, f)
	if err != nil {
		return nil, err
	}
	out := &DeliveryList{Deliveries: make([]Delivery, 0, len(list)), NextCursor: text(next)}
	now := time.Now()
	for _, d := range list {
		out.Deliveries = append(out.Deliveries, delivery(d, now))
	}
	return out, nil
}

// Delivery implements Operations.
func (l *Local) Delivery(ctx context.Context, ref string) (*DeliveryDetail, error) {
	d, err := l.Store.Delivery(ctx, ref)
	if err != nil {
		return nil, err
	}
	return deliveryDetail(d, time.Now()), nil
}

// Payload implements Operations.
func (l *Local) Payload(ctx context.Context, ref string) ([]byte, error) {
	return l.Store.Payload(ctx, ref)
}

// Replay implements Operations.
func (l *Local) Replay(ctx context.Context, ref string, r ReplayRequest) (*Replayed, error) {
	if len(r.Triggers) > 0 {
		known, err := l.Triggers(ctx)
		if err != nil {
			return nil, err
		}
		for _, name := range r.Triggers {
			if !slices.ContainsFunc(known.Triggers, func(t Trigger) bool { return t.Name == name }) {
				return nil, fmt.Errorf("replaying %s: %w: there is no trigger %q", ref, queue.ErrInvalid, name)
			}
		}
	}
	d, err := l.Store.Replay(ctx, ref, queue.ReplayOptions{Force: r.Force, Triggers: r.Triggers})
	if err != nil {
		return nil, err
	}
	return &Replayed{DeliveryID: d.ID, Source: d.SourceName, Status: string(queue.Requeued)}, nil
}

// Runs implements Operations.
func (l *Local) Runs(ctx context.Context, f queue.RunFilter) (*RunList, error) {
	list, next, err := l.Store.ListRuns(ctx, f)
	if err != nil {
		return nil, err
	}
	out := &RunList{Runs: make([]Run, 0, len(list)), NextCursor: text(next)}
	for _, r := range list {
		out.Runs = append(out.Runs, run(r))
	}
	return out, nil
}

// Run implements Operations.
func (l *Local) Run(ctx context.Context, id string) (*RunDetail, error) {
	d, err := l.Store.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	return runDetail(d), nil
}

// Act implements Operations.
func (l *Local) Act(ctx context.Context, id, action string, r EndRequest) (*Run, error) {
	var done *queue.Run
	var err error
	switch action {
	case "cancel":
		done, err = l.Store.CancelRun(ctx, id)
	case "retry":
		done, err = l.Store.RetryRun(ctx, id)
	case "resolve":
		done, err = l.Store.ResolveRun(ctx, id, queue.RunState(r.As))
	case "finish":
		state := queue.SessionState(r.State)
		if state != "" && state != queue.SessionSleeping && state != queue.SessionEnded {
			return nil, fmt.Errorf("finishing run %s: %w: state must be sleeping or ended", id, queue.ErrInvalid)
		}
		done, err = l.Store.FinishRun(ctx, id, queue.Finish{As: queue.RunState(r.As), Session: r.Session, SessionState: state, Error: r.Error})
	default:
		return nil, fmt.Errorf("run %s: %w: there is no action %q", id, queue.ErrInvalid, action)
	}
	if err != nil {
		return nil, err
	}
	out := run(*done)
	return &out, nil
}

// Triggers implements Operations.
func (l *Local) Triggers(ctx context.Context) (*TriggerList, error) {
	infos, err := l.published(ctx)
	if err != nil {
		return nil, err
	}
	stats, err := l.Store.TriggerStats(ctx)
	if err != nil {
		return nil, err
	}
	return &TriggerList{Triggers: triggers(infos, stats)}, nil
}

// SetTrigger implements Operations.
func (l *Local) SetTrigger(ctx context.Context, name, action string) (*Trigger, error) {
	find := func() (*Trigger, error) {
		list, err := l.Triggers(ctx)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(list.Triggers, func(t Trigger) bool { return t.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("trigger %s: %w; `preloop triggers list` shows them", name, queue.ErrNotFound)
		}
		return &list.Triggers[i], nil
	}
	if _, err := find(); err != nil {
		return nil, err
	}
	set := l.Store.PauseTrigger
	if action == "resume" {
		set = l.Store.ResumeTrigger
	}
	if err := set(ctx, name); err != nil {
		return nil, err
	}
	return find()
}

// Repairs implements Operations.
func (l *Local) Repairs(ctx context.Context, f queue.RepairFilter) (*RepairList, error) {
	list, err := l.Store.ListRepairs(ctx, f)
	if err != nil {
		return nil, err
	}
	out := &RepairList{Repairs: make([]Repair, 0, len(list))}
	for _, r := range list {
		out.Repairs = append(out.Repairs, repair(r))
	}
	return out, nil
}
