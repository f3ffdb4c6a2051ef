package webhook

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/fixtures"
	"github.com/seed-de999ace/preloop/queue"
)

// discard is an Enqueuer that forgets.
type discard struct{}

func (discard) Enqueue(context.Context, queue.Delivery, []byte) (queue.EnqueueResult, error) {
	return queue.Accepted, nil
}

// reusable stands for net/http's side of a request, without its allocations.
type reusable struct {
	request *http.Request
	header  http.Header
	status  int
	body    []byte
	offset  int
}

func newReusable(body []byte) *reusable {
	re := &reusable{header: http.Header{}, body: body}
	re.request = request(string(body), with("X-GitHub-Event", "issues"))
	re.request.Body = re
	return re
}

func (re *reusable) Read(p []byte) (int, error) {
	n := copy(p, re.body[re.offset:])
	if re.offset += n; re.offset == len(re.body) {
		return n, io.EOF
	}
	return n, nil
}
func (re *reusable) Close() error                    { return nil }
func (re *reusable) Header() http.Header             { return re.header }
func (re *reusable) Write(p []byte) (int, error)     { return len(p), nil }
func (re *reusable) WriteHeader(status int)          { re.status = status }
func (re *reusable) SetReadDeadline(time.Time) error { return nil }

func (re *reusable) serve(t testing.TB, h http.Handler) {
	re.offset = 0
	h.ServeHTTP(re, re.request)
	if re.status != http.StatusAccepted {
		t.Fatalf("answer %d", re.status)
	}
}

// An ordinary delivery costs a handful of allocations beyond net/http's: eight, and some more under
// the race detector, which makes pools forget on purpose.
func TestAllocationsOfADelivery(t *testing.T) {
	rc := New(Config{Sources: sources, Observe: func(string, time.Duration) {}}, discard{}, slog.New(slog.DiscardHandler))
	re := newReusable(fixtures.Get("issues.opened").Body)
	if got := testing.AllocsPerRun(200, func() { re.serve(t, rc) }); got > 16 {
		t.Errorf("%v allocations for each delivery", got)
	}
}

func BenchmarkReceiver(b *testing.B) {
	rc := New(Config{Sources: sources}, discard{}, slog.New(slog.DiscardHandler))
	re := newReusable(fixtures.Get("issues.opened").Body)
	b.ReportAllocs()
	b.SetBytes(int64(len(re.body)))
	for b.Loop() {
		re.serve(b, rc)
	}
}
