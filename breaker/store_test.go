package breaker

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// memory is a Store that can be away, or store a swap and lose the answer.
type memory struct {
	mu         sync.Mutex
	rows       map[string]Versioned
	away       bool
	loseAnswer bool
	swaps      int
}

var errAway = errors.New("store away")

func (m *memory) LoadBreakers(context.Context) (map[string]Versioned, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return nil, errAway
	}
	return maps.Clone(m.rows), nil
}

func (m *memory) SwapBreaker(_ context.Context, key string, old int64, s State) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return false, errAway
	}
	m.swaps++
	if m.rows[key].Version != old {
		return false, nil
	}
	if m.rows == nil {
		m.rows = map[string]Versioned{}
	}
	m.rows[key] = Versioned{Version: old + 1, State: s}
	if m.loseAnswer {
		return false, errAway
	}
	return true, nil
}

func (m *memory) set(change func(*memory)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m)
}

// TestNodesAgree lets three nodes work on one store in any order and checks that no probe
// overlaps another, and that all agree in the end.
func TestNodesAgree(t *testing.T) {
	type step struct{ node, what, number int }
	steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		number := rapid.IntRange(0, 1000)
		return step{number.Draw(t, "node") % 3, number.Draw(t, "what") % 6, number.Draw(t, "number")}
	}), 1, 60)
	rapid.Check(t, func(r *rapid.T) {
		plan := steps.Draw(r, "plan")
		synctest.Test(t, func(t *testing.T) {
			store := &memory{}
			nodes := []*Set{node("a", store), node("b", store), node("c", store)}
			var calls []*Call
			var probing, overlaps atomic.Int32
			for _, step := range plan {
				n := nodes[step.node]
				switch step.what {
				case 0:
					time.Sleep(time.Duration(step.number%40) * time.Second)
				case 1:
					if call, err := n.Begin(t.Context(), cred); err == nil {
						calls = append(calls, call)
					}
				case 2, 3:
					if len(calls) > 0 {
						calls[0].Done(t.Context(), []Result{up, down, down, down, limited}[step.number%5])
						calls = calls[1:]
					}
				case 4:
					go n.TryProbe(t.Context(), cred, func(ctx context.Context) Result {
						if probing.Add(1) > 1 {
							overlaps.Add(1)
						}
						defer probing.Add(-1)
						select {
						case <-time.After(time.Duration(step.number%70) * time.Second):
							return []Result{up, down, limited}[step.number%3]
						case <-ctx.Done():
							return down
						}
					})
					synctest.Wait()
				case 5:
					_ = n.Refresh(t.Context())
				}
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if overlaps.Load() > 0 {
				r.Errorf("two probes at once")
			}
			for _, n := range nodes {
				_ = n.Refresh(t.Context())
			}
			for _, key := range []string{cred, nodes[0].Host()} {
				if a, b, c := nodes[0].state(key), nodes[1].state(key), nodes[2].state(key); a != b || b != c {
					r.Errorf("%s differs:\n%+v\n%+v\n%+v", key, a, b, c)
				}
			}
		})
	})
}
