package queuetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// modelNode is what a node says of itself; the zero value has said nothing.
type modelNode struct {
	hash   int // of its triggers; 0: it has never been heard of
	loaded time.Time
	beat   time.Duration
}

// maxConcurrency is the most that a reload allows.
const maxConcurrency = 3

func nodeName(i int) string { return fmt.Sprintf("node-%d", i+1) }

// crash forgets what a node held. What had begun may have had its effect.
func (m *model) crash() { m.held, m.runs = nil, nil }

// takeOver has a node die with what it has just begun, and another one go on once the leases are over.
func (m *model) takeOver() {
	m.dispatch()
	m.crash()
	for _, d := range []time.Duration{m.settings.Lease + time.Second, m.settings.Wait(1) + time.Second} {
		m.pass(d)
		m.now += d
		m.sweep()
	}
	m.dispatch()
}

// loseClaim claims runs, has the answer lost, and gives back what it may have leased. Nothing that
// has begun goes back with it.
func (m *model) loseClaim() {
	held := []queue.Lease{}
	for _, r := range m.runs {
		held = append(held, r.Lease)
	}
	if len(held) < len(m.begunNow()) {
		return // after a crash the node has another name and none of these leases
	}
	lost := m.claimRuns()
	n, err := m.store.DisownRuns(m.ctx, "node-1", held)
	m.must(err, "giving back what a lost claim has leased")
	if n != len(lost) {
		m.Fatalf("%d runs were given back, %d were lost", n, len(lost))
	}
	for _, c := range lost {
		if r := m.run(c.ID); r.State != queue.Waiting && r.State != queue.Routing || r.Attempts != c.Attempts-1 {
			m.Fatalf("%s was given back and is %s after %d attempts, before it had %d", name(c.Run), r.State, r.Attempts, c.Attempts-1)
		}
	}
}

// begunNow lists the runs that the store believes to be under way by somebody's lease.
func (m *model) begunNow() []queue.Run {
	return slices.DeleteFunc(m.listRuns(queue.RunFilter{Limit: 500, States: []queue.RunState{queue.Running, queue.Routing}}), func(r queue.Run) bool { return r.LeaseUntil.IsZero() })
}

// reload gives a node new triggers, or those of the other one: another concurrency, or one trigger
// less. Only the newest set decides on deliveries.
func (m *model) reload() {
	i := pick(m, "node", 0, 1)
	m.pass(time.Second)
	m.now += time.Second
	if other := m.nodes[1-i]; other.hash > m.nodes[i].hash {
		m.nodes[i].hash = other.hash // the rolling change has come to this one
	} else {
		m.nodes[i].hash++
		m.rules = allRules()
		n := pick(m, "changed", indices(m.rules)...)
		m.rules[n].Concurrency = pick(m, "concurrency", 0, 1, 2, maxConcurrency)
		m.rules = slices.DeleteFunc(m.rules, func(r queue.DispatchRule) bool { return r.Concurrency == 0 })
	}
	m.nodes[i].loaded = time.Now()
	m.beatNode(i)
}

// heartbeats keep both nodes alive.
func (m *model) heartbeats() {
	for i, n := range m.nodes {
		if n.hash > 0 {
			m.beatNode(i)
		}
	}
}

func (m *model) beatNode(i int) {
	n := &m.nodes[i]
	m.must(m.store.Heartbeat(m.ctx, queue.Node{ID: nodeName(i), TriggersHash: fmt.Sprint(n.hash), TriggersLoadedAt: n.loaded, StartedAt: n.loaded}), "a heartbeat")
	n.beat = m.now
}

// stale reports whether this node must leave deliveries to the other one, for certain.
func (m *model) stale(i int) bool {
	mine, other := m.nodes[i], m.nodes[1-i]
	return mine.hash > 0 && other.hash > 0 && other.hash != mine.hash && other.loaded.After(mine.loaded) && m.now-other.beat < m.settings.DeadNode-blur
}
