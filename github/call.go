package github

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/breaker"
)

const (
	maxProblem   = 64 << 10 // of an error body, which may be an HTML page with images inside
	maxAnswer    = 64 << 20 // of a success; a page of changed files with their patches has megabytes
	maxRedirects = 3
	maxRepairs   = 3 // tries after a 401 that the credential could learn from
)

// request is one call. Path is escaped, below the endpoint, and may have a query.
type request struct {
	op      string // what we are doing, for errors
	method  string
	path    string
	body    any        // nil: none
	auth    authorizer // nil: the client's own credential
	minting bool
	lookup  bool
}

// get reads path into out.
func (c *Client) get(ctx context.Context, op, path string, out any) (http.Header, error) {
	return c.do(ctx, request{op: op, method: http.MethodGet, path: path}, out)
}

// do makes a call and decodes its answer into out, unless that is nil. The error is an *Error, an
// *UnavailableError, or the context's.
func (c *Client) do(ctx context.Context, r request, out any) (http.Header, error) {
	if r.auth == nil {
		r.auth = c.own
	}
	for try := 0; ; try++ {
		token, err := r.auth.authorize(ctx)
		if err != nil {
			return nil, err
		}
		header, err := c.once(ctx, r, token, out)
		refusal, ok := errors.AsType[*Error](err)
		if ok && refusal.Status == http.StatusUnauthorized && try < maxRepairs && r.auth.refused(ctx, token, refusal) {
			c.log.Info("trying again with a renewed credential", "doing", r.op, "github", refusal.Message)
			continue
		}
		return header, err
	}
}

// once takes one call through the breakers.
func (c *Client) once(ctx context.Context, r request, token string, out any) (http.Header, error) {
	call, err := c.begin(ctx)
	if err != nil {
		open, _ := errors.AsType[*breaker.OpenError](err)
		return nil, &UnavailableError{
			Op: r.op, RetryIn: open.RetryIn, RateLimited: open.RateLimited, BreakerOpen: true, Reason: open.Reason(),
		}
	}
	a := c.exchange(ctx, r, token, out)
	wait := call.Done(ctx, a.result)
	switch a.result.Kind {
	case breaker.Unavailable:
		return nil, &UnavailableError{
			Op: r.op, RetryIn: wait, BreakerOpen: wait > 0,
			Status: a.status, RequestID: requestID(a.header), Reason: a.result.Message,
		}
	case breaker.RateLimited:
		open := wait > 0
		if !open { // switched off: the wish of GitHub stands
			wait = c.breakers.LimitWait(a.result.Wait)
		}
		return nil, &UnavailableError{
			Op: r.op, RetryIn: wait, RateLimited: true, BreakerOpen: open,
			Status: a.status, RequestID: requestID(a.header), Reason: a.result.Message,
		}
	}
	return a.header, a.err
}

// begin asks the breakers. Where one only waits for its probe and nobody makes it, this call does
// first: a single pass from cron has nobody else to do it.
func (c *Client) begin(ctx context.Context) (*breaker.Call, error) {
	call, err := c.breakers.Begin(ctx, c.key)
	for range 2 { // the host and the credential
		open, refused := errors.AsType[*breaker.OpenError](err)
		if !refused || !open.Due || !c.breakers.TryProbe(ctx, open.Key, c.probe) {
			break
		}
		call, err = c.breakers.Begin(ctx, c.key)
	}
	return call, err
}

// answer is what came back, judged.
type answer struct {
	status int
	header http.Header
	result breaker.Result
	err    error // an *Error, a decoding error or the context's; nil with a success or an unavailability
}

// exchange sends the request, follows redirects within the API, and judges the answer.
func (c *Client) exchange(ctx context.Context, r request, token string, out any) answer {
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	resp, err := c.send(limited, r, token)
	if err != nil {
		return c.lost(ctx, r.op, err)
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem)) // half an error page is as good
		p := readProblem(resp.StatusCode, body)
		a.result = verdict(time.Now(), resp.StatusCode, resp.Header, p)
		refusal := &Error{
			Op: r.op, Status: resp.StatusCode, Message: p.sentence(), RequestID: requestID(resp.Header),
			minting: r.minting, lookup: r.lookup, date: answered(resp.Header),
		}
		refusal.Hint = refusal.hint(resp.Header, r.auth.String())
		a.err = refusal
		return a
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	isJSON := media == "application/json" || strings.HasSuffix(media, "+json")
	if media == "text/html" || out != nil && !isJSON {
		// A captive portal or proxy says 200; GitHub did not see the request.
		return c.lost(ctx, r.op, fmt.Errorf("answered with %q instead of JSON; is a proxy in between?", clean(media)))
	}
	if out != nil {
		if err := decode(resp.Body, out); err != nil {
			return c.undecoded(ctx, r.op, err, a)
		}
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxProblem) // lets the connection be used again
	a.result.Kind = breaker.Reachable
	return a
}

// decode reads one JSON document and no more than maxAnswer bytes.
func decode(body io.Reader, out any) error {
	bounded := &io.LimitedReader{R: body, N: maxAnswer}
	err := json.NewDecoder(bounded).Decode(out)
	if err != nil && bounded.N <= 0 {
		return errTooLarge
	}
	return err
}

var errTooLarge = fmt.Errorf("GitHub's answer is larger than %d MiB", maxAnswer>>20)

// undecoded judges a success whose body could not be read. JSON of another shape, or too much of
// it, is GitHub's word all the same; anything else was lost on the way.
func (c *Client) undecoded(ctx context.Context, op string, err error, a answer) answer {
	if _, shape := errors.AsType[*json.UnmarshalTypeError](err); shape || errors.Is(err, errTooLarge) {
		a.result.Kind = breaker.Reachable
		a.err = fmt.Errorf("%s: reading GitHub's answer: %w (request %s)", op, err, requestID(a.header))
		return a
	}
	if _, syntax := errors.AsType[*json.SyntaxError](err); syntax || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = errors.New("answered with incomplete JSON")
	}
	lost := c.lost(ctx, op, err)
	lost.status, lost.header = a.status, a.header
	return lost
}

// lost judges an exchange without a usable answer. When the caller has gone it says nothing about
// GitHub.
func (c *Client) lost(ctx context.Context, op string, err error) answer {
	if ctx.Err() != nil {
		return answer{err: fmt.Errorf("%s: %w", op, context.Cause(ctx))}
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	message := clean(err.Error())
	if errors.Is(err, context.DeadlineExceeded) {
		message = "no answer within " + c.timeout.String()
	}
	return answer{result: breaker.Result{Kind: breaker.Unavailable, Message: "GitHub at " + c.endpoint.Host() + ": " + message}}
}

// send makes the request, and again where a redirect within the API points: GitHub answers so for
// renamed repositories. Method and body stay, which http.Client would not do for a 301.
func (c *Client) send(ctx context.Context, r request, token string) (*http.Response, error) {
	var body []byte
	if r.body != nil {
		var err error
		if body, err = json.Marshal(r.body); err != nil {
			return nil, err
		}
	}
	path := r.path
	for range maxRedirects + 1 {
		req, err := http.NewRequestWithContext(ctx, r.method, c.endpoint.url(path), bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", "application/vnd.github+json")
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("User-Agent", c.agent)
		req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
		if r.body != nil {
			req.Header.Set("Content-Type", "application/json")
		}
		resp, err := c.http.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		switch resp.StatusCode {
		case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		default:
			return resp, nil
		}
		resp.Body.Close()
		target, err := req.URL.Parse(resp.Header.Get("Location"))
		if err != nil {
			return nil, errors.New("redirected to nowhere")
		}
		var ok bool
		if path, ok = c.endpoint.relative(target); !ok {
			return nil, fmt.Errorf("redirected outside of %s; is a proxy in between?", c.endpoint)
		}
	}
	return nil, fmt.Errorf("redirected more than %d times", maxRedirects)
}

// requestID names the request to GitHub's support.
func requestID(header http.Header) string { return clean(header.Get("X-Github-Request-Id")) }
