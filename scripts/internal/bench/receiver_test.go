package main

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// TestLoadOnTheReceiver runs the load against the receiver in this process.
func TestLoadOnTheReceiver(t *testing.T) {
	addr, err := harness.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- serveStoreless(ctx, addr) }()
	for {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			break
		}
	}
	got, err := load(addr, pushes(), 4, 100*time.Millisecond)
	if err != nil || got.perSecond < 10 || got.p50 <= 0 || got.p99 < got.p50 {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := burst(addr, issues(3), 100); err != nil {
		t.Errorf("a burst: %v", err)
	}
	unsigned := harness.NewRequest("push", []byte("{}"), "another secret")
	if _, err := load(addr, []*harness.Request{unsigned}, 1, 10*time.Millisecond); err == nil {
		t.Error("refusals count as answers")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
