package target

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"time"
)

// transport sends each request over a connection of its own and over HTTP/1 only. A connection
// that was idle may be found dead when it is used, and nobody can tell then whether the request
// arrived; and net/http itself sends a request with an Idempotency-Key again over another one.
var transport http.RoundTripper = func() *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   15 * time.Second,
		ExpectContinueTimeout: time.Second,
		DisableKeepAlives:     true,
		DisableCompression:    true, // the kept bytes are the sent bytes, and no small answer unfolds to a huge one
		Protocols:             &protocols,

		MaxResponseHeaderBytes: 256 << 10,
	}
}()

// answer is how one request went.
type answer struct {
	refused error // the request could not even be written down
	sent    bool  // a connection was made: from here on the target may have seen the request
	stop    stop  // who ended the wait for an answer
	err     error // no answer came; nil if one did

	status int // 0: no answer
	header http.Header
	body   []byte // its first OutputLimit bytes, masked
	now    time.Time
}

// exchange sends one request, once, and reads its answer. It follows no redirect: a RoundTripper
// does not, nor does it keep cookies.
func (t HTTP) exchange(ctx context.Context, j Job, kind requestKind) (a answer) {
	if a.stop = stopOf(ctx); a.stop != notStopped {
		a.err = context.Cause(ctx)
		return a
	}
	ctx, cancel := context.WithTimeoutCause(ctx, or(t.Timeout, DefaultHTTPTimeout), errTimedOut)
	defer cancel()
	// GotConn is called when the connection is ready for the request, after DNS, dial, proxy and
	// TLS handshake, on this goroutine and before the first byte of the request.
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { a.sent = true }})
	req, err := t.request(ctx, j, kind)
	if err != nil {
		a.refused = err
		return a
	}
	mask := newMasker(j.secrets(t.credentials(req)...)...)

	rt := t.Transport
	if rt == nil {
		rt = transport
	}
	res, err := rt.RoundTrip(req)
	if err != nil {
		a.err, a.stop = errors.New(mask.text(err.Error())), stopOf(ctx)
		return a
	}
	defer res.Body.Close()
	a.status, a.header, a.now = res.StatusCode, res.Header, time.Now()
	// The status is the target's word; a body that breaks off or never ends changes nothing.
	text, _ := io.ReadAll(io.LimitReader(res.Body, int64(OutputLimit+mask.margin)))
	a.body = mask.head(text)
	return a
}
