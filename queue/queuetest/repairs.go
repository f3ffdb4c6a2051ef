package queuetest

import (
	"slices"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

var repairTests = []test{
	{name: "which GUIDs a source has", do: func(k *kit) {
		k.admit(k.delivery(guid("c"), from("app-1", "acme-bot")), plain("deploy"))
		k.enqueue(k.delivery(guid("a"), from("app-1", "acme-bot")))
		k.enqueue(k.delivery(guid("b"), from("hook-2", "widgets")))
		has := func(source string, guids ...string) map[string]bool {
			k.Helper()
			got, err := k.store.Present(k.ctx, source, guids)
			k.must(err, "asking which deliveries are present")
			present := map[string]bool{}
			for g, ok := range got {
				if ok {
					present[g] = true
				}
			}
			return present
		}
		k.same("of the app", has("app-1", "a", "b", "c", "d"), map[string]bool{"a": true, "c": true})
		k.same("of the hook", has("hook-2", "a", "b"), map[string]bool{"b": true})
		k.same("of an unknown source", has("app-9", "a"), map[string]bool{})
		k.same("of none", has("app-1"), map[string]bool{})
		many := []string{"c"}
		for range 1000 {
			many = append(many, k.delivery().ID)
		}
		k.same("of a thousand", has("app-1", many...), map[string]bool{"c": true})
	}},
	{name: "repairs are kept by source and GUID, newest found first", do: func(k *kit) {
		now := time.Now().Truncate(time.Microsecond)
		repair := func(source, guid, state string, found time.Duration) queue.Repair {
			return queue.Repair{
				Source: source, SourceName: source + "-name", GUID: guid, HookID: 1 << 60, Event: "issues", Action: "opened", Reason: "remote_failure",
				State: state, Attempts: 2, DeliveredAt: now.Add(-2 * time.Hour), FoundAt: now.Add(-found), NextAttempt: now.Add(time.Hour),
				LastAttempt: now.Add(-time.Minute), LastError: "502 é",
			}
		}
		a, b, c := repair("app-1", "a", "open", time.Minute), repair("app-1", "b", "open", 3*time.Minute), repair("hook-2", "a", "open", 2*time.Minute)
		b.LastError, b.NextAttempt, b.LastAttempt = "", time.Time{}, time.Time{}
		k.must(k.store.SaveRepairs(k.ctx, []queue.Repair{a, b, c}), "saving repairs")
		k.must(k.store.SaveRepairs(k.ctx, nil), "saving none")
		k.same("all", k.repairs(queue.RepairFilter{}), []queue.Repair{a, c, b})
		b.State, b.ClosedAt, b.Attempts, b.Reason = "lost", now, 5, "phantom_ack"
		k.must(k.store.SaveRepairs(k.ctx, []queue.Repair{b}), "saving a repair again")
		k.same("once one is lost", k.repairs(queue.RepairFilter{}), []queue.Repair{a, c, b})
		k.same("of a source", k.repairs(queue.RepairFilter{Source: "app-1"}), []queue.Repair{a, b})
		k.same("of a state", k.repairs(queue.RepairFilter{State: "open"}), []queue.Repair{a, c})
		k.same("of both", k.repairs(queue.RepairFilter{Source: "app-1", State: "lost"}), []queue.Repair{b})
		k.same("two at most", k.repairs(queue.RepairFilter{Limit: 2}), []queue.Repair{a, c})
		k.same("of neither", k.repairs(queue.RepairFilter{State: "arrived"}), []queue.Repair{})
	}},
	{name: "closed repairs go once their time is over, open ones stay", do: func(k *kit) {
		found := time.Now().Truncate(time.Microsecond)
		repair := func(guid, state string, closed time.Duration) queue.Repair {
			r := queue.Repair{Source: "app-1", SourceName: "acme-bot", GUID: guid, State: state, Reason: "remote_failure", DeliveredAt: found, FoundAt: found}
			if state != "open" {
				r.ClosedAt = found.Add(closed)
			}
			return r
		}
		k.must(k.store.SaveRepairs(k.ctx, []queue.Repair{
			repair("open", "open", 0), repair("a", "arrived", time.Minute), repair("b", "lost", 2*time.Minute), repair("c", "arrived", 2*time.Minute), repair("late", "arrived", day),
		}), "saving repairs")
		prunes := func(limit, want int) {
			k.Helper()
			if n, err := k.store.PruneRepairs(k.ctx, limit); err != nil || n != want {
				k.Errorf("pruned %d repairs, %v; want %d", n, err, want)
			}
		}
		prunes(10, 0)
		k.pass(k.settings.Keep - time.Hour)
		prunes(10, 0)
		k.pass(2 * time.Hour)
		prunes(2, 2)
		prunes(2, 1)
		prunes(2, 0)
		var left []string
		for _, r := range k.repairs(queue.RepairFilter{}) {
			left = append(left, r.GUID)
		}
		k.same("what is left", left, []string{"late", "open"})
		k.pass(day)
		prunes(10, 1)
		k.pass(10 * k.settings.Keep)
		prunes(10, 0)
	}},
	{name: "everything is everything", do: func(k *kit) {
		var all []queue.Repair
		for range 120 {
			all = append(all, queue.Repair{
				Source: "app-1", SourceName: "acme-bot", GUID: k.delivery().ID, State: "open", Reason: "remote_failure",
				DeliveredAt: time.Now(), FoundAt: time.Now().Add(time.Duration(len(all)) * time.Second),
			})
		}
		k.must(k.store.SaveRepairs(k.ctx, all), "saving repairs")
		got := k.repairs(queue.RepairFilter{})
		if len(got) != len(all) {
			k.Errorf("%d repairs are listed of %d", len(got), len(all))
		}
		if !slices.IsSortedFunc(got, func(a, b queue.Repair) int { return b.FoundAt.Compare(a.FoundAt) }) {
			k.Errorf("they are not listed newest first")
		}
	}},
}

func (k *kit) repairs(f queue.RepairFilter) []queue.Repair {
	k.Helper()
	r, err := k.store.ListRepairs(k.ctx, f)
	k.must(err, "listing repairs")
	return r
}
