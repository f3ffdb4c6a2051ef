package target

import (
	"context"
	"net/http"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// HTTP posts a job to a URL: the stored JSON byte for byte, with GitHub's own headers and a
// signature as GitHub makes it, so that whatever receives GitHub's webhooks receives this.
type HTTP struct {
	URL     string
	Headers map[string]string // literal; they win over GitHub's, never over preloop's own

	// Envelope posts {session, prompt, trigger, run_id, event, action, delivery_id, payload}
	// instead. A hand-over always does.
	Envelope bool

	// Timeout bounds one request (0: DefaultHTTPTimeout), and how long a run that was accepted
	// with 202 and a session has to finish (0: DefaultFinishTimeout).
	Timeout time.Duration

	// Transport sends the requests; nil is one that is right for this. Another one must not try
	// a request again by itself, and must tell httptrace of its connection: an error before that
	// is taken for one that the target has not seen.
	Transport http.RoundTripper
}

// Run posts a start. 2xx is Succeeded; 202 with a Preloop-Session is Running until the run is
// finished through the API; 425, 429, 503 and no connection are Waiting; 408, 502, 504 and no
// answer are Uncertain; the rest has failed.
func (t HTTP) Run(ctx context.Context, j Job, _ Report) queue.Outcome {
	a := t.exchange(ctx, j, startRequest)
	o := a.ofRun()
	if o.State == queue.Running {
		o.Deadline = time.Now().Add(or(t.Timeout, DefaultFinishTimeout))
	}
	return o
}

// HandOver posts a follow-up to a live session: 2xx is Delivered, 404, 409 and 410 say that the
// session has ended; what has certainly not been taken (425, 429, 503, no connection) is Waiting,
// anything else Uncertain.
func (t HTTP) HandOver(ctx context.Context, j Job, _ Report) queue.Outcome {
	return t.exchange(ctx, j, handOverRequest).ofHandOver()
}

// Probe asks with GET and the run's key whether the run has happened: 200 yes, 204 no, anything
// else Unknown.
func (t HTTP) Probe(ctx context.Context, j Job) Probe {
	return t.exchange(ctx, j, probeRequest).ofProbe()
}
