package queuetest

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

var fleetTests = []test{
	{name: "a node is there as it says, gone, and forgotten", do: func(k *kit) {
		n := queue.Node{
			ID: "host-1a2b", Host: "host", PID: 4711, Version: "1.2.3", Components: []string{"ingress", "worker"}, TriggersHash: "abc",
			TriggersLoadedAt: time.Now().Add(-time.Minute).Truncate(time.Microsecond), StartedAt: time.Now().Add(-time.Hour).Truncate(time.Microsecond), Note: "polling",
		}
		k.must(k.store.Heartbeat(k.ctx, n), "a heartbeat")
		got := k.nodes()
		if len(got) != 1 {
			k.Fatalf("nodes: %+v, want one", got)
		}
		k.near("the time since its heartbeat", time.Since(got[0].HeartbeatAt), 0)
		n.HeartbeatAt = got[0].HeartbeatAt
		k.same("the node", got[0], n)
		n.Note, n.TriggersHash = "", "def"
		k.must(k.store.Heartbeat(k.ctx, n), "a second heartbeat")
		if got = k.nodes(); len(got) != 1 || got[0].Note != "" || got[0].TriggersHash != "def" {
			k.Errorf("after a second heartbeat: %+v", got)
		}
		k.pass(k.settings.DeadNode / 2)
		if k.nodes()[0].Gone {
			k.Errorf("it is gone before its time")
		}
		k.pass(k.settings.DeadNode)
		if !k.nodes()[0].Gone {
			k.Errorf("it is not gone")
		}
		k.pass(day + time.Minute)
		if got = k.nodes(); len(got) != 0 {
			k.Errorf("a day later it is still listed: %+v", got)
		}
		k.must(k.store.Heartbeat(k.ctx, n), "a late heartbeat")
		if got = k.nodes(); len(got) != 1 || got[0].Gone {
			k.Errorf("after a late heartbeat: %+v", got)
		}
		k.must(k.store.Leave(k.ctx, n.ID), "leaving")
		k.must(k.store.Leave(k.ctx, n.ID), "leaving again")
		if got = k.nodes(); len(got) != 0 {
			k.Errorf("after it left: %+v", got)
		}
	}},
	{name: "counts of what waits, since when", do: func(k *kit) {
		c := k.counts()
		if !c.OldestPending.IsZero() || !c.OldestClaimable.IsZero() || !c.OldestDead.IsZero() || !c.OldestUncertain.IsZero() {
			k.Errorf("of an empty store: %+v", c)
		}
		old := k.enqueue(k.delivery())
		l := k.claim().Lease
		k.pass(30 * time.Second)
		young := k.enqueue(k.delivery())
		received := func(d queue.Delivery) time.Time { return k.detail(d.ID).ReceivedAt }
		c = k.counts()
		k.near("the oldest pending, which is being processed", c.OldestPending.Sub(received(old)), 0)
		k.near("the oldest claimable", c.OldestClaimable.Sub(received(young)), 0)
		k.settle(l, queue.Settlement{Kind: queue.SettlePark, Wait: time.Hour})
		c = k.counts()
		k.near("the oldest pending, beside a parked one", c.OldestPending.Sub(received(young)), 0)
		k.settle(k.claim().Lease, queue.Settlement{Kind: queue.SettleDone})
		if c = k.counts(); !c.OldestClaimable.IsZero() {
			k.Errorf("with a parked one alone, the oldest claimable is since %v", c.OldestClaimable)
		}
		k.pass(2 * time.Hour)
		k.near("the oldest claimable, since its wait was over", time.Since(k.counts().OldestClaimable), time.Hour)
		k.settle(k.claim().Lease, queue.Settlement{Kind: queue.SettleFail, Error: "boom"})
		k.pass(time.Hour)
		c = k.counts()
		k.near("the oldest dead letter", time.Since(c.OldestDead), time.Hour)
		if !c.OldestPending.IsZero() || !c.OldestClaimable.IsZero() {
			k.Errorf("with nothing that waits: %+v", c)
		}
		k.uncertain(queue.Start, "deploy")
		k.pass(time.Hour)
		k.uncertain(queue.Start, "lint")
		k.near("the oldest uncertain", time.Since(k.counts().OldestUncertain), time.Hour)
	}},
	{name: "an abandoned delivery is claimable since its lease ended", do: func(k *kit) {
		k.enqueueAndClaim()
		k.pass(k.settings.Lease + time.Hour)
		k.near("the oldest claimable", time.Since(k.counts().OldestClaimable), time.Hour)
	}},
	{name: "drops of the last hour and day, by reason", do: func(k *kit) {
		drop := func(with ...func(*queue.Admission)) { k.admit(k.delivery(about(7)), plain("deploy", with...)) }
		drop(size(1))
		drop(size(1)) // full
		drop(size(1)) // full
		drop(coalesces)
		k.pass(2 * time.Hour)
		drop(size(1)) // full
		c := k.counts()
		k.same("in an hour", c.Dropped1h, map[string]int{queue.ReasonQueueFull: 1})
		k.same("in a day", c.Dropped24h, map[string]int{queue.ReasonQueueFull: 3, queue.ReasonSuperseded: 1})
		k.pass(23 * time.Hour)
		c = k.counts()
		k.same("an hour later", c.Dropped1h, map[string]int{})
		k.same("a day later", c.Dropped24h, map[string]int{queue.ReasonQueueFull: 1})
	}},
	{name: "a document is written by who knows its version", do: func(k *kit) {
		swap := func(key string, old int64, body string, want bool) {
			k.Helper()
			ok, err := k.store.SwapDoc(k.ctx, "breaker", key, old, json.RawMessage(body))
			k.must(err, "swapping a document")
			if ok != want {
				k.Errorf("swapping %s at version %d: %v, want %v", key, old, ok, want)
			}
		}
		doc := func(key string) queue.Doc {
			k.Helper()
			docs, err := k.store.LoadDocs(k.ctx, "breaker")
			k.must(err, "loading documents")
			return docs[key]
		}
		if d := doc("app-1"); d.Version != 0 {
			k.Errorf("before any: %+v", d)
		}
		swap("app-1", 7, `{"a":0}`, false)
		swap("app-1", 0, `{"a":1,"b":"\u00e9"}`, true)
		first := doc("app-1")
		k.jsonIs(first.Body, `{"a":1,"b":"é"}`)
		k.near("the time since its update", time.Since(first.UpdatedAt), 0)
		swap("app-1", 0, `{"a":2}`, false)
		swap("app-1", first.Version, `{"a":3}`, true)
		second := doc("app-1")
		if second.Version == first.Version || second.Version == 0 {
			k.Errorf("version %d after %d", second.Version, first.Version)
		}
		k.jsonIs(second.Body, `{"a":3}`)
		swap("app-1", first.Version, `{"a":4}`, false)
		swap("app-2", 0, `[1,2]`, true)
		k.jsonIs(doc("app-1").Body, `{"a":3}`)
		docs, err := k.store.LoadDocs(k.ctx, "breaker")
		if k.must(err, "loading"); len(docs) != 2 {
			k.Errorf("%d documents, want 2", len(docs))
		}
		if docs, err = k.store.LoadDocs(k.ctx, "watchdog"); err != nil || len(docs) != 0 {
			k.Errorf("documents of another kind: %+v, %v", docs, err)
		}
	}},
	{name: "a lock has one owner until it is let go or over", do: func(k *kit) {
		lock := func(name, owner string, want bool) {
			k.Helper()
			ok, err := k.store.Lock(k.ctx, name, owner, time.Minute)
			k.must(err, "locking")
			if ok != want {
				k.Errorf("%s locks %s: %v, want %v", owner, name, ok, want)
			}
		}
		lock("watchdog/app-1", "a", true)
		lock("watchdog/app-1", "b", false)
		lock("watchdog/app-2", "b", true)
		k.pass(45 * time.Second)
		lock("watchdog/app-1", "a", true) // kept
		k.pass(45 * time.Second)
		lock("watchdog/app-1", "b", false)
		k.must(k.store.Unlock(k.ctx, "watchdog/app-1", "b"), "another's unlock")
		lock("watchdog/app-1", "b", false)
		k.must(k.store.Unlock(k.ctx, "watchdog/app-1", "a"), "unlocking")
		lock("watchdog/app-1", "b", true)
		k.pass(61 * time.Second)
		lock("watchdog/app-1", "a", true)
		lock("watchdog/app-1", "b", false)
	}},
	{name: "everything is there for another handle", do: func(k *kit) {
		d := k.delivery(about(7))
		k.admit(d, plain("deploy"))
		other := k.on(k.another(k.t))
		k.same("what another handle reads", other.world(), k.world())
		c := other.startOne(rule("deploy", 1))
		k.settleRun(c.Lease, queue.Outcome{State: queue.Succeeded}) // a lease is a token's, not a handle's
		other.recount()
	}},
	{name: "a kind of store", do: func(k *kit) {
		if kind := k.store.Kind(); kind != "sqlite" && kind != "postgres" {
			k.Errorf("it is %q", kind)
		}
	}},
	{name: "a subscription to wakes can end", do: func(k *kit) {
		_, cancel := k.store.Wakes()
		wakes, other := k.store.Wakes()
		defer other()
		cancel()
		for range 10 { // nobody reads: the channel has room for one
			k.enqueue(k.delivery())
		}
		select {
		case <-wakes:
		case <-time.After(10 * time.Second):
			k.Errorf("the other subscription woke nobody")
		}
	}},
}

func (k *kit) nodes() []queue.Node {
	k.Helper()
	n, err := k.store.Nodes(k.ctx)
	k.must(err, "listing nodes")
	return n
}

func (k *kit) jsonIs(got json.RawMessage, want string) {
	k.Helper()
	var g, w any
	k.must(json.Unmarshal(got, &g), "parsing a document")
	k.must(json.Unmarshal([]byte(want), &w), "parsing what was wanted")
	if !reflect.DeepEqual(g, w) {
		k.Errorf("the document is %s, want %s", got, want)
	}
}
