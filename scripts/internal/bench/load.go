package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// variety is how many different bodies there are. All are signed before the clock starts.
const variety = 64

// pushes makes signed deliveries of 8 KiB that no trigger of the benchmark wants.
func pushes() []*harness.Request {
	r := rand.New(rand.NewPCG(1, 1))
	all := make([]*harness.Request, variety)
	for i := range all {
		all[i] = harness.NewRequest("push", harness.Push(r, 8192), harness.Secret)
	}
	return all
}

// load sends over a number of connections for a time, as fast as each gets its answers, and
// measures every answer. Any answer but 202 is an error. The first tenth of the time warms up and
// does not count.
func load(addr string, requests []*harness.Request, connections int, during time.Duration) (result, error) {
	var (
		all   []time.Duration
		errs  []error
		mu    sync.Mutex // over both
		group sync.WaitGroup
	)
	from := time.Now().Add(during / 10)
	until := from.Add(during)
	for range connections {
		group.Go(func() {
			mine, err := oneConnection(addr, requests, from, until)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
			if err != nil {
				errs = append(errs, err)
			}
		})
	}
	group.Wait()
	return summarize(all, during), errors.Join(errs...)
}

func oneConnection(addr string, requests []*harness.Request, from, until time.Time) (latencies []time.Duration, err error) {
	sender := harness.NewSender(addr, 15*time.Second)
	defer sender.Close()
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	for {
		began := time.Now()
		if began.After(until) {
			return latencies, nil
		}
		status, answer, err := sender.Post(requests[r.IntN(len(requests))], harness.GUID(r))
		if err != nil {
			return nil, fmt.Errorf("sending to %s: %w", addr, err)
		}
		if status != http.StatusAccepted {
			return nil, fmt.Errorf("sending to %s: answered %d: %s", addr, status, answer)
		}
		if ended := time.Now(); began.After(from) && ended.Before(until) {
			latencies = append(latencies, ended.Sub(began))
		}
	}
}

// burst sends n deliveries over 64 connections and waits for all answers.
func burst(addr string, requests []*harness.Request, n int) error {
	const connections = 64
	var (
		errs  []error
		mu    sync.Mutex
		group sync.WaitGroup
	)
	for c := range connections {
		share := n / connections
		if c < n%connections {
			share++
		}
		group.Go(func() {
			sender := harness.NewSender(addr, 15*time.Second)
			defer sender.Close()
			r := rand.New(rand.NewPCG(rand.Uint64(), 0))
			for range share {
				status, answer, err := sender.Post(requests[r.IntN(len(requests))], harness.GUID(r))
				if err == nil && status != http.StatusAccepted {
					err = fmt.Errorf("sending to %s: answered %d: %s", addr, status, answer)
				}
				if err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
					return
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
