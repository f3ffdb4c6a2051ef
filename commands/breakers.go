package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed-de999ace/preloop/breaker"
	"github.com/seed-de999ace/preloop/github"
	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/api"
)

// run shares the breakers and probes the open ones until ctx ends.
func (h *hub) run(ctx context.Context) error {
	h.breakers.Run(ctx, h.prober)
	return nil
}

// gate says whether deliveries may be claimed: not while GitHub as a whole is unavailable. Without
// any credential nothing here asks GitHub, and nobody would probe a breaker that an earlier
// configuration left open.
func (h *hub) gate(now time.Time) (wait time.Duration, open bool) {
	if len(h.all()) == 0 {
		return 0, true
	}
	return h.breakers.Gate(now)
}

// prober finds the probe of an open breaker. While GitHub as a whole is unavailable, one call a
// window asks for all of them: the host's.
func (h *hub) prober(key string) func(context.Context) breaker.Result {
	find := github.Prober(h.all)
	if key == h.breakers.Host() {
		return h.hostProbe(find)
	}
	if _, reachable := h.breakers.Gate(time.Now()); !reachable {
		return nil
	}
	return find(key)
}

// hostProbe tests the host with the credential that has to wait the least. Once that is answered,
// every credential whose own turn has come is tested before the host's breaker closes: what is
// claimed then is not parked again.
func (h *hub) hostProbe(find breaker.Prober) func(context.Context) breaker.Result {
	clients := h.all()
	if len(clients) == 0 {
		return nil
	}
	now := time.Now()
	first := slices.MinFunc(clients, func(a, b *github.Client) int {
		return cmp.Compare(h.breakers.Wait(a.BreakerKey(), now), h.breakers.Wait(b.BreakerKey(), now))
	})
	probe := find(first.BreakerKey())
	if probe == nil { // a reload has just removed it
		return nil
	}
	return func(ctx context.Context) breaker.Result {
		result := probe(ctx)
		if result.Kind == breaker.Unavailable || result.Kind == breaker.NoVerdict {
			return result
		}
		// A credential that hangs must not cost the host its own deadline.
		limit := 3 * time.Second
		if deadline, ok := ctx.Deadline(); ok {
			limit = min(limit, time.Until(deadline)/2)
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		var others sync.WaitGroup
		for _, c := range clients {
			own := find(c.BreakerKey())
			if c == first {
				own = func(context.Context) breaker.Result { return result } // it has just been asked
			}
			if own != nil {
				others.Go(func() { h.breakers.TryProbe(ctx, c.BreakerKey(), own) })
			}
		}
		others.Wait()
		return result
	}
}

// breakerDocs keeps the breakers in a store's documents.
type breakerDocs struct{ store queue.Fleet }

// LoadBreakers implements breaker.Store.
func (b breakerDocs) LoadBreakers(ctx context.Context) (map[string]breaker.Versioned, error) {
	docs, err := b.store.LoadDocs(ctx, api.DocBreaker)
	if err != nil {
		return nil, err
	}
	out := map[string]breaker.Versioned{}
	for key, d := range docs {
		var s breaker.State
		if err := json.Unmarshal(d.Body, &s); err != nil {
			return nil, fmt.Errorf("reading the breaker of %s: %w", key, err)
		}
		out[key] = breaker.Versioned{Version: d.Version, State: s}
	}
	return out, nil
}

// SwapBreaker implements breaker.Store.
func (b breakerDocs) SwapBreaker(ctx context.Context, key string, old int64, s breaker.State) (bool, error) {
	body, err := json.Marshal(s)
	if err != nil {
		return false, err
	}
	return b.store.SwapDoc(ctx, api.DocBreaker, key, old, body)
}
