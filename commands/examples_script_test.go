package commands

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/seed-de999ace/preloop/commands/config"
	"github.com/seed-de999ace/preloop/queue"
)

// deadLetters fills $STORE: dead EVENT N makes N deliveries EVENT-1, EVENT-2, … that have failed.
func deadLetters(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: dead EVENT N")
	}
	count, err := strconv.Atoi(args[1])
	ts.Check(err)
	cfg, err := config.Load(config.Options{LookupEnv: func(name string) (string, bool) { v := ts.Getenv(name); return v, v != "" }})
	ts.Check(err)
	ctx := context.Background()
	store, err := openStore(ctx, cfg, true, nil)
	ts.Check(err)
	ts.Check(eachAtOnce(count, func(n int) error {
		d := queue.Delivery{ID: fmt.Sprintf("%s-%d", args[0], n+1), Source: "default", SourceName: "default", Event: args[0], Secret: "current"}
		_, err := store.Enqueue(ctx, d, []byte(`{}`))
		return err
	}))
	claims, err := store.ClaimDeliveries(ctx, "script", count)
	ts.Check(err)
	ts.Check(eachAtOnce(len(claims), func(n int) error {
		_, err := store.SettleDelivery(ctx, claims[n].Lease, queue.Settlement{Kind: queue.SettleFail, Error: "the ticket system did not answer"})
		return err
	}))
	ts.Check(store.Close())
}

// eachAtOnce calls do with every number below n, all at once.
func eachAtOnce(n int, do func(n int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}
