package queuetest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

var enqueueTests = []test{
	{name: "what is accepted can be read back", do: func(k *kit) {
		d := k.delivery(about(7), func(d *queue.Delivery) {
			d.Facts.Sender, d.SenderBot, d.Org, d.Installation = "dependabot[bot]", true, "acme", 4711
			d.Headers = map[string]string{
				"X-Github-Event": "issues", "User-Agent": "GitHub-Hookshot/0\"'\\é", "Content-Type": "",
			}
			// These are the store's; what a caller says of them does not count.
			d.Seq, d.State, d.ReceivedAt, d.QueuedAt, d.FinishedAt = 99, queue.Done, time.Unix(1, 0), time.Unix(1, 0), time.Unix(1, 0)
		})
		d = k.enqueue(d)
		got := k.detail(d.ID)
		want := d
		want.Size, want.State, want.Secret = len(payloadOf(d)), queue.Received, ""
		want.Seq, want.ReceivedAt, want.QueuedAt, want.NextAttempt, want.FinishedAt = got.Seq, got.ReceivedAt, got.QueuedAt, got.NextAttempt, time.Time{}
		k.same("the delivery", got.Delivery, want)
		if got.Seq < 1 || !got.QueuedAt.Equal(got.ReceivedAt) || got.NextAttempt.After(got.ReceivedAt) {
			k.Errorf("seq %d, received %v, queued %v, due %v; want a seq, and queued and due on receipt", got.Seq, got.ReceivedAt, got.QueuedAt, got.NextAttempt)
		}
		if len(got.History)+len(got.Decisions)+len(got.Runs) != 0 {
			k.Errorf("a new delivery has a past: %+v", got)
		}
		k.near("the time since receipt", time.Since(got.ReceivedAt), 0)
	}},
	{name: "the order of receipt ascends", do: func(k *kit) {
		var last int64
		for range 20 {
			seq := k.detail(k.enqueue(k.delivery()).ID).Seq
			if seq <= last {
				k.Errorf("seq %d after %d", seq, last)
			}
			last = seq
		}
	}},
	{name: "one GUID from two sources is two deliveries", do: func(k *kit) {
		k.enqueue(k.delivery(guid("same"), from("app-1", "acme-bot")))
		k.enqueue(k.delivery(guid("same"), from("hook-2", "widgets")))
		if n := len(k.claims(10)); n != 2 {
			k.Errorf("%d deliveries were claimed, want 2", n)
		}
	}},
	{name: "a second one changes nothing in any state but failed", do: func(k *kit) {
		for _, s := range deliveryStates {
			k := k.at("%s", s.name)
			d, _ := s.make(k)
			if s.state != queue.Failed {
				k.unchanged("a redelivery", func() {
					other := append(payloadOf(d), "{}"...)
					if r, err := k.store.Enqueue(k.ctx, d, other); err != nil || r != queue.Duplicate {
						k.Errorf("a redelivery is %s, %v; want duplicate", r, err)
					}
				})
			}
			settleAll(k)
		}
	}},
	{name: "a second one of a dead letter requeues it", do: func(k *kit) {
		d := k.enqueue(k.delivery())
		for range k.settings.MaxAttempts {
			k.settle(k.claim().Lease, queue.Settlement{Kind: queue.SettleRetry, Error: "boom"})
			k.pass(time.Minute)
		}
		before := k.detail(d.ID)
		if before.State != queue.Failed {
			k.Fatalf("the delivery is %s, want failed", before.State)
		}
		if r := k.offer(d); r != queue.Requeued {
			k.Errorf("a redelivery is %s, want requeued", r)
		}
		got := k.detail(d.ID)
		if got.State != queue.Received || got.Attempts != 0 || got.Generation != 0 || got.Seq != before.Seq || !got.FinishedAt.IsZero() {
			k.Errorf("requeued: %+v; want received, 0 attempts, the generation and seq as before, not finished", got.Delivery)
		}
		if !got.ReceivedAt.Equal(before.ReceivedAt) || !got.QueuedAt.After(before.QueuedAt) {
			k.Errorf("received %v and queued %v, before that %v; want queued anew", got.ReceivedAt, got.QueuedAt, before.QueuedAt)
		}
		k.same("the attempts of a requeued delivery", got.History, before.History)
		if r := k.offer(d); r != queue.Duplicate {
			k.Errorf("the next redelivery is %s, want duplicate", r)
		}
		if c := k.claim(); c.Attempts != 1 {
			k.Errorf("the first attempt after a requeue is number %d", c.Attempts)
		}
		k.recount()
	}},
	{name: "the use of a secret is counted in every case", do: func(k *kit) {
		d := k.enqueue(k.delivery())
		k.offer(d)
		d.Secret = "old"
		k.offer(d)
		k.enqueue(k.delivery(from("hook-2", "widgets")))
		uses, err := k.store.SecretUses(k.ctx)
		k.must(err, "reading the uses of secrets")
		got := map[string]int{}
		for _, u := range uses {
			got[u.Source+"/"+u.Name] = u.Deliveries
			k.near("the time since a secret's last use", time.Since(u.LastUsedAt), 0)
		}
		k.same("uses by source and name", got, map[string]int{"app-1/current": 2, "app-1/old": 1, "hook-2/current": 1})
	}},
	{name: "a payload comes back byte for byte", do: func(k *kit) {
		for name, payload := range payloads() {
			k := k.at("%s", name)
			d := k.delivery()
			d.Size = len(payload)
			sent := bytes.Clone(payload)
			r, err := k.store.Enqueue(k.ctx, d, sent)
			if k.must(err, "enqueueing"); r != queue.Accepted {
				k.Errorf("enqueueing: %s, want accepted", r)
			}
			clear(sent) // the caller's buffer is its own again
			got, err := k.store.Payload(k.ctx, d.ID)
			if k.must(err, "reading the payload"); !bytes.Equal(got, payload) {
				k.Errorf("read %d bytes that differ from the %d that were sent", len(got), len(payload))
			}
			c := k.claim()
			if !bytes.Equal(c.Payload, payload) {
				k.Errorf("claimed %d bytes that differ from the %d that were sent", len(c.Payload), len(payload))
			}
			k.done(c.Lease, plain("deploy"))
			if run := k.startOne(rule("deploy", 1000)); !bytes.Equal(run.Payload, payload) {
				k.Errorf("a run got %d bytes that differ from the %d that were sent", len(run.Payload), len(payload))
			}
		}
	}},
	{name: "odd bytes in what was read out of a payload are no reason to refuse it", do: func(k *kit) {
		d := k.delivery(about(7), func(d *queue.Delivery) {
			d.Sender, d.Action = "a\x00b", "opened\xff"
			d.Subject = "acme/widg\x00ets#7"
			d.Headers = map[string]string{"User-Agent": "a\x00\xffb"}
		})
		k.enqueue(d)
		run := k.done(k.claim().Lease, plain("deploy"))[0]
		c := k.startOne(rule("deploy", 1))
		if c.ID != run.ID || !bytes.Equal(c.Payload, payloadOf(d)) {
			k.Errorf("the run got another payload: %q", c.Payload)
		}
	}},
	{name: "headers reach claims and runs", do: func(k *kit) {
		headers := map[string]string{"X-Github-Delivery": "1", "User-Agent": "GitHub-Hookshot/é \"\\"}
		k.enqueue(k.delivery(func(d *queue.Delivery) { d.Headers = headers }))
		c := k.claim()
		k.same("the claim's headers", c.Headers, headers)
		k.done(c.Lease, plain("deploy"))
		k.same("the run's headers", k.startOne(rule("deploy", 1)).Headers, headers)
	}},
	{name: "an enqueue wakes its own node", do: func(k *kit) {
		k.wakes("an enqueue", func() { k.enqueue(k.delivery()) })
	}},
	{name: "a stopped context is refused and stores nothing, or is ignored and stores", do: func(k *kit) {
		ctx, cancel := context.WithCancel(k.ctx)
		cancel()
		d := k.delivery()
		_, err := k.store.Enqueue(ctx, d, payloadOf(d))
		_, found := k.store.Delivery(k.ctx, d.ID)
		if (err == nil) != (found == nil) {
			k.Errorf("Enqueue said %v, the delivery's read says %v", err, found)
		}
	}},
	{name: "no delivery and no payload has an unknown id", do: func(k *kit) {
		k.enqueue(k.delivery())
		for _, ref := range []string{"nope", "app-1/nope", "nope/guid-0001", "", "/", "%"} {
			if _, err := k.store.Delivery(k.ctx, ref); !errors.Is(err, queue.ErrNotFound) {
				k.Errorf("Delivery(%q): %v, want not found", ref, err)
			}
			if _, err := k.store.Payload(k.ctx, ref); !errors.Is(err, queue.ErrNotFound) {
				k.Errorf("Payload(%q): %v, want not found", ref, err)
			}
		}
	}},
}

// payloads are bodies that a careless store would change, and the largest one.
func payloads() map[string][]byte {
	large := bytes.Repeat([]byte("a"), 24_900_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(large[:len(large)/2]) // half of it cannot be compressed
	return map[string][]byte{
		"empty object":     []byte(`{}`),
		"spaces and order": []byte("{ \"b\" : 1,\r\n\t\"a\":1.0e+2, \"a\":2 }\n"),
		"escaped zero":     []byte(`{"title":"\u0000"}`),
		"lone surrogate":   []byte(`{"title":"\ud800"}`),
		"a zero byte":      []byte("{\"title\":\"\x00\"}"),
		"not UTF-8":        []byte("{\"title\":\"\xff\xfe\xc3\x28\"}"),
		"emoji":            []byte(`{"title":"🚀 é"}`),
		"24.9 MB":          large,
	}
}

// wakes checks that do wakes this node.
func (k *kit) wakes(what string, do func()) {
	k.Helper()
	wakes, cancel := k.store.Wakes()
	defer cancel()
	for drained := false; !drained; {
		select {
		case <-wakes:
		case <-time.After(50 * time.Millisecond):
			drained = true
		}
	}
	do()
	select {
	case <-wakes:
	case <-time.After(10 * time.Second):
		k.Errorf("%s woke nobody", what)
	}
}

// settleAll brings every delivery to its end, held ones included, so that later ones are alone.
func settleAll(k *kit) {
	k.Helper()
	k.pass(time.Hour + time.Second)
	for _, c := range k.claims(100) {
		k.settle(c.Lease, queue.Settlement{Kind: queue.SettleFail, Error: "the end"})
	}
}
