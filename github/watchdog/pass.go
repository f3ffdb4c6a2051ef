package watchdog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

const (
	leaseFor = 3 * time.Minute // longer than one call with its probe and its retries
	renewing = time.Minute
	chunk    = 1000 // GUIDs in one question to the store
)

// errTaken ends a pass whose lease another node has.
var errTaken = errors.New("another node has taken the source over")

// pass is one pass over one source.
type pass struct {
	*Watchdog
	src     Source
	o       Options
	log     *slog.Logger
	res     *Result
	cur     Cursor
	renewed time.Time
	repairs map[string]Repair // of the source, in every state, as they are saved
	seen    map[string]bool   // GUIDs that the history shows
}

// Pass makes one pass over one source. Only one node at a time does; the others' results are Held.
func (w *Watchdog) Pass(ctx context.Context, src Source, o Options) (res Result) {
	res = Result{Source: src.Key, Name: src.Name}
	p := &pass{Watchdog: w, src: src, o: o, res: &res, log: w.Log.With("source", src.Name), repairs: map[string]Repair{}, seen: map[string]bool{}}
	if !o.DryRun {
		switch err := p.renew(ctx); {
		case errors.Is(err, errTaken):
			res.Held = true
			return res
		case err != nil:
			res.Err = err
			return res
		}
		defer p.release(ctx)
	}
	if res.Err = p.run(ctx); errors.Is(res.Err, errTaken) {
		res.Held, res.Err = true, nil
	}
	res.Cursor = p.cur
	for _, r := range p.repairs {
		if r.State == Open {
			res.OpenRepairs++
		}
	}
	return res
}

// run does a pass's steps. An error of the store ends the pass: nothing is asked for without it.
func (p *pass) run(ctx context.Context) (err error) {
	now := time.Now()
	if p.cur, err = p.Store.LoadCursor(ctx, p.src.Key); err != nil {
		return fmt.Errorf("loading the cursor: %w", err)
	}
	if p.o.Unless > 0 && now.Sub(p.cur.LastPoll) < p.o.Unless && !now.Before(p.cur.LastPoll) {
		p.res.Held = true
		return nil
	}
	if err := p.begin(ctx, now); err != nil {
		return err
	}
	list, err := p.Store.Repairs(ctx, p.src.Key)
	if err != nil {
		return fmt.Errorf("loading the repairs: %w", err)
	}
	for _, r := range list {
		p.repairs[r.GUID] = r
	}
	// Until here GitHub was not needed, and what has arrived is known although GitHub may be away.
	if err := p.close(ctx, now, map[string]bool{}, true); err != nil {
		return err
	}
	polled := p.poll(ctx, now)
	var store *storeError
	if errors.As(polled, &store) || ctx.Err() != nil {
		return polled
	}
	down, err := p.Store.Downtime(ctx)
	if err != nil {
		return fmt.Errorf("loading the downtime: %w", err)
	}
	p.res.Blind = blind(p.cur.Marks, down, now)
	p.cur.LastPoll, p.cur.Examined, p.cur.LastError = now, p.res.Examined, ""
	if polled == nil {
		p.cur.LastSuccess = now
	} else {
		p.res.PollFailed, p.cur.LastError = true, polled.Error()
	}
	if err := p.save(ctx); err != nil {
		return errors.Join(polled, err)
	}
	if polled != nil {
		return polled
	}
	asked := p.redeliver(ctx)
	if p.res.Redelivered > 0 || asked != nil {
		p.cur.Requested += p.res.Redelivered
		if asked != nil {
			p.cur.LastError = asked.Error()
		}
		finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		asked = errors.Join(asked, p.save(finish))
	}
	return asked
}

// begin moves the watermark for a source's first pass and for --since. The history before a first
// pass is adopted, and that is durable before the history is read: a crash in between must not
// make the next start adopt more.
func (p *pass) begin(ctx context.Context, now time.Time) error {
	boundary := now.Add(-p.Rules.Grace)
	first := p.cur.Version == 0
	if first {
		p.cur.Floor, p.cur.Watermark = boundary, boundary
	}
	if since := p.o.Since; !since.IsZero() {
		if since.Before(p.cur.Floor) {
			p.cur.Floor = since
		}
		if since.Before(p.cur.Watermark) {
			p.cur.Watermark, p.cur.Scan = since, nil
		}
	}
	if first || !p.o.Since.IsZero() {
		return p.save(ctx)
	}
	return nil
}

// close settles open repairs. early: the history has not been read yet, so only arrivals count.
func (p *pass) close(ctx context.Context, now time.Time, present map[string]bool, early bool) error {
	var open []Repair
	for _, r := range p.repairs {
		if r.State == Open {
			open = append(open, r)
		}
	}
	if early {
		var err error
		if present, err = p.present(ctx, guids(open)); err != nil {
			return err
		}
		open = slices.DeleteFunc(open, func(r Repair) bool { return !present[r.GUID] })
	}
	return p.saveRepairs(ctx, closing(now, p.Rules, open, present, p.seen))
}

// poll reads the history, judges what was read, and moves the cursor in memory. Found repairs are
// saved before the cursor is, so that no crash can pass over them.
func (p *pass) poll(ctx context.Context, now time.Time) error {
	w := window{floor: p.cur.Floor, horizon: now.Add(-p.Rules.Keep), boundary: now.Add(-p.Rules.Grace)}
	s := scanner{
		fetch: p.fetch, maxPages: p.Rules.MaxPages, boundary: w.boundary,
		low: latest(p.cur.Watermark.Add(-slack), w.horizon), bottom: latest(p.cur.Watermark.Add(-overlap), w.horizon, w.floor),
	}
	r, polled := s.read(ctx, p.cur.Scan)
	var store *storeError
	if errors.As(polled, &store) {
		return polled
	}
	rows := r.rows()
	for _, row := range rows {
		p.seen[row.GUID] = true
	}
	judged, young := w.choose(group(rows))
	p.res.Examined, p.res.SkippedGrace = len(judged), young
	names := make([]string, len(judged))
	for i, d := range judged {
		names[i] = d.newest.GUID
	}
	present, err := p.present(ctx, names)
	if err != nil {
		return err
	}
	found, missing := decide(now, p.Rules, p.src, judged, present, p.repairs)
	p.res.Missing = missing
	if err := p.saveRepairs(ctx, found); err != nil {
		return err
	}
	if polled == nil {
		if err := p.close(ctx, now, nil, false); err != nil {
			return err
		}
	}
	if len(r.newest) > 0 {
		p.cur.Failing = failing(r.newest)
	}
	p.cur.Marks = remark(remark(p.cur.Marks, r.older, now), r.newest, now)
	p.cur.Scan = r.scan
	if polled == nil && r.done {
		p.cur.Watermark = latest(p.cur.Watermark, r.until)
	}
	p.res.Unfinished = r.scan != nil
	return polled
}

// storeError is an error that is not GitHub's.
type storeError struct{ error }

func (e *storeError) Unwrap() error { return e.error }

func (p *pass) present(ctx context.Context, guids []string) (map[string]bool, error) {
	all := map[string]bool{}
	for part := range slices.Chunk(guids, chunk) {
		some, err := p.Store.Present(ctx, p.src.Key, part)
		if err != nil {
			return nil, &storeError{fmt.Errorf("asking which deliveries have arrived: %w", err)}
		}
		for guid, yes := range some {
			all[guid] = yes
		}
	}
	return all, nil
}

func (p *pass) saveRepairs(ctx context.Context, list []Repair) error {
	if len(list) > 0 && !p.o.DryRun {
		if err := p.Store.SaveRepairs(ctx, list); err != nil {
			return &storeError{fmt.Errorf("saving repairs: %w", err)}
		}
	}
	for _, r := range list {
		if old := p.repairs[r.GUID]; old.State != r.State {
			level, what := slog.LevelDebug, "a delivery is missing" // there may be thousands; a summary follows
			switch r.State {
			case Arrived:
				what = "a missing delivery has arrived"
			case Lost:
				level, what = slog.LevelWarn, "a missing delivery is lost"
			}
			p.log.Log(ctx, level, what, "delivery", r.GUID, "event", r.Event, "reason", r.Reason, "attempts", r.Attempts, "error", r.LastError)
		}
		p.repairs[r.GUID] = r
	}
	return nil
}

func (p *pass) save(ctx context.Context) error {
	if p.o.DryRun {
		return nil
	}
	if err := p.Store.SaveCursor(ctx, p.src.Key, &p.cur); err != nil {
		return &storeError{fmt.Errorf("saving the cursor: %w", err)}
	}
	return nil
}

// renew keeps the lease. It is called before everything that takes time.
func (p *pass) renew(ctx context.Context) error {
	if p.o.DryRun || time.Since(p.renewed) < renewing && !p.renewed.IsZero() {
		return nil
	}
	held, err := p.Store.Lock(ctx, lease(p.src), p.Owner, leaseFor)
	if err != nil {
		return &storeError{fmt.Errorf("taking the lease: %w", err)}
	}
	if !held {
		return &storeError{errTaken}
	}
	p.renewed = time.Now()
	return nil
}

func (p *pass) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := p.Store.Unlock(ctx, lease(p.src), p.Owner); err != nil {
		p.log.Warn("the watchdog's lease was not given back; it expires by itself", "within", leaseFor.String(), "error", err)
	}
}

func lease(src Source) string { return "watchdog:" + src.Key }

func guids(list []Repair) []string {
	names := make([]string, len(list))
	for i, r := range list {
		names[i] = r.GUID
	}
	return names
}

func latest(times ...time.Time) (t time.Time) { return slices.MaxFunc(times, time.Time.Compare) }
