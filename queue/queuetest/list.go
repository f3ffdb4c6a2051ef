package queuetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

var listTests = []test{
	{name: "fifty a page unless said otherwise, newest first", do: func(k *kit) {
		var want []string
		for range 51 {
			d := k.enqueue(k.delivery())
			want = append([]string{d.ID}, want...)
		}
		list, next, err := k.store.ListDeliveries(k.ctx, queue.DeliveryFilter{})
		k.must(err, "listing")
		if len(list) != 50 || next == "" {
			k.Errorf("%d deliveries and the cursor %q, want 50 and one", len(list), next)
		}
		list, next, err = k.store.ListDeliveries(k.ctx, queue.DeliveryFilter{Limit: 51})
		k.must(err, "listing")
		if len(list) != 51 || next != "" {
			k.Errorf("%d deliveries and the cursor %q, want 51 and none", len(list), next)
		}
		for _, limit := range []int{1, 7, 50, 51, 500} {
			k.same(fmt.Sprintf("pages of %d", limit), ids(k.listDeliveries(queue.DeliveryFilter{Limit: limit})), want)
		}
	}},
	{name: "pages of deliveries stay whole while rows arrive and change", do: func(k *kit) {
		var want []string
		for range 10 {
			want = append([]string{k.enqueue(k.delivery()).ID}, want...)
		}
		var got []string
		for cursor := ""; ; {
			list, next, err := k.store.ListDeliveries(k.ctx, queue.DeliveryFilter{Limit: 3, Cursor: cursor})
			k.must(err, "listing")
			got = append(got, ids(list)...)
			k.enqueue(k.delivery())
			k.settle(k.claims(1)[0].Lease, queue.Settlement{Kind: queue.SettleFail, Error: "boom"})
			if cursor = next; cursor == "" {
				break
			}
		}
		k.same("the pages", got, want)
	}},
	{name: "deliveries by what they are", do: func(k *kit) {
		push := k.enqueue(k.delivery(from("app-1", "acme-bot")))
		k.settle(k.claim().Lease, queue.Settlement{Kind: queue.SettleFail, Error: "boom"})
		k.pass(time.Hour)
		issue := k.enqueue(k.delivery(about(7), from("hook-2", "widgets")))
		k.settle(k.claim().Lease, decided(plain("triage")))
		k.pass(time.Hour)
		other := k.enqueue(k.delivery(aboutIn("acme/other", 200, 7)))
		hour := k.detail(issue.ID).ReceivedAt
		for name, c := range map[string]struct {
			f    queue.DeliveryFilter
			want []string
		}{
			"everything":            {queue.DeliveryFilter{}, []string{other.ID, issue.ID, push.ID}},
			"one state":             {queue.DeliveryFilter{States: []queue.DeliveryState{queue.Failed}}, []string{push.ID}},
			"two states":            {queue.DeliveryFilter{States: []queue.DeliveryState{queue.Done, queue.Received}}, []string{other.ID, issue.ID}},
			"an event":              {queue.DeliveryFilter{Event: "issues"}, []string{other.ID, issue.ID}},
			"a repository, any way": {queue.DeliveryFilter{Repo: "ACME/Widgets"}, []string{issue.ID, push.ID}},
			"a source's key":        {queue.DeliveryFilter{Source: "hook-2"}, []string{issue.ID}},
			"a source's name":       {queue.DeliveryFilter{Source: "acme-bot"}, []string{other.ID, push.ID}},
			"a trigger":             {queue.DeliveryFilter{Trigger: "triage"}, []string{issue.ID}},
			"a part of its name":    {queue.DeliveryFilter{Trigger: "tri"}, nil},
			"a wildcard":            {queue.DeliveryFilter{Trigger: "%", Repo: "acme/%"}, nil},
			"a time":                {queue.DeliveryFilter{Since: hour}, []string{other.ID, issue.ID}},
			"all together": {queue.DeliveryFilter{
				States: []queue.DeliveryState{queue.Done}, Event: "issues", Repo: "acme/widgets", Source: "widgets", Trigger: "triage", Since: hour,
			}, []string{issue.ID}},
			"what contradicts":        {queue.DeliveryFilter{Event: "push", Repo: "acme/other"}, nil},
			"an unknown state":        {queue.DeliveryFilter{States: []queue.DeliveryState{"nope"}}, nil},
			"together, page by page":  {queue.DeliveryFilter{Repo: "acme/widgets", Limit: 1}, []string{issue.ID, push.ID}},
			"a trigger, page by page": {queue.DeliveryFilter{Trigger: "triage", Limit: 1}, []string{issue.ID}},
		} {
			k.same(name, ids(k.listDeliveries(c.f)), c.want)
		}
	}},
	{name: "a listed delivery is the one that is read", do: func(k *kit) {
		for _, s := range deliveryStates {
			k := k.at("%s", s.name)
			d, _ := s.make(k)
			k.same("in the list", k.listDeliveries(queue.DeliveryFilter{})[0], k.detail(d.ID).Delivery)
			settleAll(k)
		}
	}},
	{name: "an id that two sources share is ambiguous", do: func(k *kit) {
		k.enqueue(k.delivery(guid("same"), from("app-1", "acme-bot")))
		k.enqueue(k.delivery(guid("same"), from("hook-2", "widgets")))
		if _, err := k.store.Delivery(k.ctx, "same"); !errors.Is(err, queue.ErrAmbiguous) {
			k.Errorf("Delivery: %v, want ambiguous", err)
		}
		if _, err := k.store.Payload(k.ctx, "same"); !errors.Is(err, queue.ErrAmbiguous) {
			k.Errorf("Payload: %v, want ambiguous", err)
		}
		k.refused(queue.ErrAmbiguous, "a replay", func() error {
			_, err := k.store.Replay(k.ctx, "same", queue.ReplayOptions{})
			return err
		})
		for ref, source := range map[string]string{"app-1/same": "app-1", "acme-bot/same": "app-1", "hook-2/same": "hook-2", "widgets/same": "hook-2"} {
			if d := k.detail(ref); d.Source != source {
				k.Errorf("%s is the delivery of %s, want %s", ref, d.Source, source)
			}
			if _, err := k.store.Payload(k.ctx, ref); err != nil {
				k.Errorf("the payload of %s: %v", ref, err)
			}
		}
	}},
	{name: "runs by what they are", do: func(k *kit) {
		push := k.admit(k.delivery(), plain("deploy"))[0]
		k.settleRun(k.startOne(rule("deploy", 1)).Lease, queue.Outcome{State: queue.RunFailed})
		k.pass(time.Hour)
		both := k.admit(k.delivery(about(7), from("hook-2", "widgets")), plain("deploy"), plain("triage"))
		deploy, triage := both[0], both[1]
		for name, c := range map[string]struct {
			f    queue.RunFilter
			want []string
		}{
			"a trigger":          {queue.RunFilter{Trigger: "deploy"}, []string{deploy.ID, push.ID}},
			"a state":            {queue.RunFilter{States: []queue.RunState{queue.RunFailed}}, []string{push.ID}},
			"two states":         {queue.RunFilter{Trigger: "deploy", States: []queue.RunState{queue.RunFailed, queue.Waiting}}, []string{deploy.ID, push.ID}},
			"a subject, any way": {queue.RunFilter{Trigger: "triage", Subject: "ACME/widgets#7"}, []string{triage.ID}},
			"another subject":    {queue.RunFilter{Subject: "acme/widgets#8"}, nil},
			"a delivery":         {queue.RunFilter{DeliveryID: push.DeliveryID}, []string{push.ID}},
			"a delivery's key":   {queue.RunFilter{Trigger: "triage", DeliveryID: "widgets/" + triage.DeliveryID}, []string{triage.ID}},
			"the source's key":   {queue.RunFilter{Trigger: "triage", DeliveryID: "hook-2/" + triage.DeliveryID}, []string{triage.ID}},
			"another source":     {queue.RunFilter{DeliveryID: "app-1/" + triage.DeliveryID}, nil},
			"a time":             {queue.RunFilter{Trigger: "deploy", Since: deploy.CreatedAt}, []string{deploy.ID}},
			"page by page":       {queue.RunFilter{Trigger: "deploy", Limit: 1}, []string{deploy.ID, push.ID}},
		} {
			k.same(name, runIDs(k.listRuns(c.f)), c.want)
		}
		if _, err := k.store.Run(k.ctx, "nope"); !errors.Is(err, queue.ErrNotFound) {
			k.Errorf("an unknown run: %v, want not found", err)
		}
	}},
	{name: "pages of runs stay whole while runs arrive and change", do: func(k *kit) {
		var want []string
		for range 7 {
			want = append([]string{k.admit(k.delivery(), plain("deploy"))[0].ID}, want...)
		}
		var got []string
		for cursor := ""; ; {
			list, next, err := k.store.ListRuns(k.ctx, queue.RunFilter{Limit: 2, Cursor: cursor})
			k.must(err, "listing")
			got = append(got, runIDs(list)...)
			k.admit(k.delivery(), plain("deploy"))
			k.settleRun(k.startOne(rule("deploy", 1)).Lease, queue.Outcome{State: queue.Succeeded})
			if cursor = next; cursor == "" {
				break
			}
		}
		k.same("the pages", got, want)
	}},
	{name: "a listed run is the one that is read", do: func(k *kit) {
		eachRunState(k, func(k *kit, _ runState, c queue.RunClaim) {
			for _, r := range k.listRuns(queue.RunFilter{}) {
				if r.ID == c.ID {
					k.same("in the list", r, k.run(c.ID).Run)
				}
			}
		})
	}},
	{name: "a cursor that is none is invalid", do: func(k *kit) {
		for range 3 {
			k.admit(k.delivery(), plain("deploy"))
		}
		for _, cursor := range []string{"nope", "-", "'", "\x00"} {
			if _, _, err := k.store.ListDeliveries(k.ctx, queue.DeliveryFilter{Cursor: cursor}); !errors.Is(err, queue.ErrInvalid) {
				k.Errorf("deliveries after %q: %v, want invalid", cursor, err)
			}
			if _, _, err := k.store.ListRuns(k.ctx, queue.RunFilter{Cursor: cursor}); !errors.Is(err, queue.ErrInvalid) {
				k.Errorf("runs after %q: %v, want invalid", cursor, err)
			}
		}
	}},
	{name: "counts are what a recount of the listings says", do: func(k *kit) {
		k.recount()
		eachRunState(k, func(*kit, runState, queue.RunClaim) {})
		k.recount()
		for _, s := range deliveryStates {
			k := k.at("%s", s.name)
			s.make(k)
			k.recount()
			settleAll(k)
		}
		k.recount()
	}},
}

func ids(list []queue.Delivery) []string {
	var got []string
	for _, d := range list {
		got = append(got, d.ID)
	}
	return got
}

func runIDs(list []queue.Run) []string {
	var got []string
	for _, r := range list {
		got = append(got, r.ID)
	}
	return got
}
