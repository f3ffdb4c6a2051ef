package breaker

import (
	"context"
	"time"
)

// Versioned is a published state with the version of its row.
type Versioned struct {
	Version int64 // 0 means that there is no row yet
	State   State
}

// Store shares breakers between nodes. Its methods are safe for concurrent use.
type Store interface {
	// LoadBreakers returns every published breaker by its key.
	LoadBreakers(ctx context.Context) (map[string]Versioned, error)

	// SwapBreaker stores s under key if the row's version is still old (0: there is no row), and
	// gives the row the version old+1. Otherwise it changes nothing and reports false.
	SwapBreaker(ctx context.Context, key string, old int64, s State) (swapped bool, err error)
}

const (
	storeTimeout  = 2 * time.Second // one exchange with the store
	swapAttempts  = 8               // lost races with other nodes before this node goes on locally
	reloadDefault = 3 * time.Second
	// quietReload is how many times longer Run rests while every breaker is closed and unharmed: a call
	// reads what is older before it begins.
	quietReload = 5
)

// Refresh reads what other nodes have published, and publishes what this node could not while the
// store was away. On an error the set goes on with what it knows. Refreshing more often than
// needed costs one small query.
func (s *Set) Refresh(ctx context.Context) error {
	if s.store == nil {
		return nil
	}
	s.publishing.Lock()
	defer s.publishing.Unlock()
	rows, err := s.load(ctx)
	if err != nil {
		return err
	}
	for _, key := range s.reconcile(rows) {
		s.publish(ctx, key, nil)
	}
	return nil
}

// load asks the store for every row. The caller holds publishing.
func (s *Set) load(ctx context.Context) (map[string]Versioned, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	rows, err := s.store.LoadBreakers(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = err != nil
	s.loaded = time.Now()
	return rows, err
}

// reconcile takes over newer rows and returns the keys whose local state has to be published. Of
// two states the one of the higher generation has seen more; the store wins a tie.
func (s *Set) reconcile(rows map[string]Versioned) (unpublished []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, row := range rows {
		e := s.entry(key)
		ahead := e.dirty && e.state.Generation > row.State.Generation
		if !ahead && row.Version >= e.version {
			if row.State.Open && !e.state.Open {
				s.poke() // Run may be resting
			}
			e.state, e.dirty = row.State, false
		}
		e.version = row.Version
	}
	for key, e := range s.entries {
		if e.dirty {
			if _, ok := rows[key]; !ok {
				e.version = 0
			}
			unpublished = append(unpublished, key)
		}
	}
	return unpublished
}

// update applies change to one breaker, here at once and then in the store. When another node was
// faster, change is applied again to what that node left. The answer is the state that resulted.
func (s *Set) update(ctx context.Context, key string, change func(State) State) State {
	s.mu.Lock()
	if before := s.entry(key).state; change(before) == before {
		s.mu.Unlock()
		return before // the usual case: a success on a closed breaker
	}
	s.mu.Unlock()

	// One writer at a time keeps change exact: it is applied to what the last one left.
	s.publishing.Lock()
	defer s.publishing.Unlock()
	s.mu.Lock()
	e := s.entry(key)
	before := e.state
	e.state = change(before)
	after, changed, away := e.state, e.state != before, s.away
	e.dirty = e.dirty || changed
	s.mu.Unlock()
	if changed {
		s.poke()
	}
	if !changed || s.store == nil || away {
		return after
	}
	// The caller may be shutting down; what it learned is still worth telling.
	return s.publish(context.WithoutCancel(ctx), key, change)
}

// publish writes the local state of one breaker. The caller holds publishing. A nil change gives
// way to whatever another node has written meanwhile.
func (s *Set) publish(ctx context.Context, key string, change func(State) State) State {
	for range swapAttempts {
		s.mu.Lock()
		e := s.entry(key)
		state, version := e.state, e.version
		s.mu.Unlock()

		swapped, err := s.swap(ctx, key, version, state)
		if err == nil && swapped {
			s.mu.Lock()
			e.version, e.dirty = version+1, false
			s.mu.Unlock()
			return state
		}
		if err == nil {
			var rows map[string]Versioned
			if rows, err = s.load(ctx); err == nil && !s.rebase(key, rows[key], change) {
				break
			}
		}
		if err != nil {
			s.log.Warn("breaker is not shared with other nodes for now", "breaker", key, "error", err)
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entry(key).state
}

func (s *Set) swap(ctx context.Context, key string, version int64, state State) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	swapped, err := s.store.SwapBreaker(ctx, key, version, state)
	if err != nil {
		s.mu.Lock()
		s.away = true
		s.mu.Unlock()
	}
	return swapped, err
}

// rebase replaces the local state by change applied to another node's, and reports whether there
// is still something to publish.
func (s *Set) rebase(key string, row Versioned, change func(State) State) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(key)
	e.state, e.version = row.State, row.Version
	if change != nil {
		e.state = change(row.State)
	}
	e.dirty = e.state != row.State
	return e.dirty
}
