package main

import (
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// target is the far end of an HTTP trigger: it notes when each delivery's run began, and does
// nothing else.
type target struct {
	URL    string
	server http.Server

	mu      sync.Mutex
	started map[string]time.Time // by delivery
}

func newTarget() (*target, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &target{URL: "http://" + l.Addr().String() + "/", started: map[string]time.Time{}}
	t.server.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		now := time.Now()
		t.mu.Lock()
		t.started[r.Header.Get("X-GitHub-Delivery")] = now
		t.mu.Unlock()
		_, _ = io.Copy(io.Discard, r.Body)
	})
	go func() { _ = t.server.Serve(l) }() // ends with Close
	return t, nil
}

func (t *target) Close() { _ = t.server.Close() }

// when says when a delivery's run began, waiting for it for up to ten seconds.
func (t *target) when(guid string) (time.Time, bool) {
	for range 10_000 {
		t.mu.Lock()
		at, ok := t.started[guid]
		t.mu.Unlock()
		if ok {
			return at, true
		}
		time.Sleep(time.Millisecond)
	}
	return time.Time{}, false
}

// count is how many deliveries have begun to run.
func (t *target) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.started)
}
