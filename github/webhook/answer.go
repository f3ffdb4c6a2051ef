package webhook

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
)

// refusal is an answer other than 202. Its reason is our own words, never the request's.
type refusal struct {
	status int
	result string
	reason string
	from   string // name of the source that signed the request, empty while nobody has
	err    error  // for the log alone
}

var (
	errMethod = &refusal{
		status: http.StatusMethodNotAllowed, result: ResultUnsupported,
		reason: "only POST is answered here",
	}
	errDraining = &refusal{
		status: http.StatusServiceUnavailable, result: ResultUnavailable,
		reason: "shutting down",
	}
	errContentType = &refusal{
		status: http.StatusUnsupportedMediaType, result: ResultUnsupported,
		reason: "Content-Type must be application/json or application/x-www-form-urlencoded",
	}
	errContentEncoding = &refusal{
		status: http.StatusUnsupportedMediaType, result: ResultUnsupported,
		reason: "Content-Encoding must be absent: the signature is over the plain body",
	}
	errEvent = &refusal{
		status: http.StatusBadRequest, result: ResultBadRequest,
		reason: "X-GitHub-Event must be given once, as 1 to 64 of a-z, 0-9 and _",
	}
	errDelivery = &refusal{
		status: http.StatusBadRequest, result: ResultBadRequest,
		reason: "X-GitHub-Delivery must be given once, as 1 to 128 letters, digits, -, _ and .",
	}
	errSignatureMissing = &refusal{
		status: http.StatusUnauthorized, result: ResultUnauthorized,
		reason: "X-Hub-Signature-256 is missing: set a secret on the webhook",
	}
	errSignatureSHA1 = &refusal{
		status: http.StatusUnauthorized, result: ResultUnauthorized,
		reason: "X-Hub-Signature-256 is missing, and the SHA-1 in X-Hub-Signature is not enough",
	}
	errSignatureForm = &refusal{
		status: http.StatusUnauthorized, result: ResultUnauthorized,
		reason: "X-Hub-Signature-256 must be given once, as sha256= and 64 hexadecimal digits",
	}
	errNoSecret = &refusal{
		status: http.StatusUnauthorized, result: ResultUnauthorized,
		reason: "no webhook secret is configured, so nothing can be verified",
	}
	errSignatureMismatch = &refusal{
		status: http.StatusUnauthorized, result: ResultUnauthorized,
		reason: "X-Hub-Signature-256 matches no configured secret",
	}
	errForeign = &refusal{
		status: http.StatusUnauthorized, result: ResultUnauthorized,
		reason: "the payload does not name the repository or organization whose webhook signed it",
	}
	errReadTimeout = &refusal{
		status: http.StatusRequestTimeout, result: ResultBadRequest,
		reason: "the body did not arrive in time",
	}
	errReadBody = &refusal{
		status: http.StatusBadRequest, result: ResultBadRequest,
		reason: "the body ended early",
	}
	errFormField = &refusal{
		status: http.StatusBadRequest, result: ResultBadRequest,
		reason: "the form has no field named payload",
	}
	errFormEscape = &refusal{
		status: http.StatusBadRequest, result: ResultBadRequest,
		reason: "the form's payload is not URL-encoded",
	}
	errNotObject = &refusal{
		status: http.StatusBadRequest, result: ResultBadRequest,
		reason: "the payload is JSON but not an object",
	}
	errNotJSON = &refusal{
		status: http.StatusBadRequest, result: ResultBadRequest,
		reason: "the payload is not valid JSON",
	}
	errStore = &refusal{
		status: http.StatusInternalServerError, result: ResultStoreFailed,
		reason: "the delivery could not be stored",
	}
	errNoMemory = &refusal{
		status: http.StatusServiceUnavailable, result: ResultUnavailable,
		reason: "too many bodies are being received",
	}
)

func errTooLarge(limit int64) *refusal {
	return &refusal{
		status: http.StatusRequestEntityTooLarge, result: ResultTooLarge,
		reason: fmt.Sprintf("the body is larger than %d bytes", limit),
	}
}

// because returns the refusal with what caused it.
func (f *refusal) because(err error) *refusal {
	caused := *f
	caused.err = err
	return &caused
}

// of returns the refusal of a request that the source signed.
func (f *refusal) of(from signer) *refusal {
	named := *f
	named.from = from.source.Name
	return &named
}

var jsonContentType = []string{"application/json"}

func (f *refusal) write(w http.ResponseWriter) {
	w.Header()["Content-Type"] = jsonContentType
	switch f.status {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case http.StatusRequestTimeout:
		w.Header().Set("Connection", "close") // the rest of the body may still come
	}
	w.WriteHeader(f.status)
	// Nobody is left to tell when the client is gone; for 202 too GitHub then records a failure.
	_ = json.NewEncoder(w).Encode(map[string]string{"error": f.reason})
}

// writeAccepted writes the 202. Neither value needs an escape.
func (in *inflight) writeAccepted(w http.ResponseWriter, result string) {
	out := append(in.answer[:0], `{"delivery_id":"`...)
	out = append(out, in.head.delivery...)
	out = append(out, `","status":"`...)
	out = append(out, result...)
	out = append(out, `"}`...)
	in.answer = out
	w.Header()["Content-Type"] = jsonContentType
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write(out)
}

// logRefusal writes one record for each refusal, except that those of requests that nobody signed
// are rationed: anybody can send them.
func (rc *Receiver) logRefusal(r *http.Request, in *inflight, f *refusal) {
	level := slog.LevelWarn
	if f.result == ResultStoreFailed {
		level = slog.LevelError
	}
	if !rc.log.Enabled(r.Context(), level) {
		return
	}
	var unlogged int
	if f.from == "" {
		var ok bool
		if unlogged, ok = rc.floodgate.pass(time.Now()); !ok {
			return
		}
	}
	attrs := []slog.Attr{slog.Int("status", f.status), slog.String("reason", f.reason)}
	for _, a := range []slog.Attr{
		slog.String("delivery_id", in.head.delivery), slog.String("event", in.head.event), slog.String("source", f.from),
	} {
		if a.Value.String() != "" {
			attrs = append(attrs, a)
		}
	}
	if f == errSignatureMismatch { // what tells a proxy that changes bodies from a wrong secret
		attrs = append(attrs, slog.Int("body_bytes", len(in.body)), slog.Int64("content_length", r.ContentLength),
			slog.String("content_encoding", r.Header.Get("Content-Encoding")),
			slog.String("transfer_encoding", strings.Join(r.TransferEncoding, ",")), slog.Bool("form", in.head.form))
	}
	if f.err != nil {
		attrs = append(attrs, slog.Any("error", f.err))
	}
	if unlogged > 0 {
		attrs = append(attrs, slog.Int("unlogged", unlogged))
	}
	rc.log.LogAttrs(r.Context(), level, "webhook refused", attrs...)
}

// floodgate lets a few records a minute pass.
type floodgate struct {
	mu       sync.Mutex
	minute   time.Time // the beginning of the minute that is counted
	passed   int
	unlogged int
}

const recordsPerMinute = 60

// pass reports whether one more record may be written now, and how many before it were not.
func (g *floodgate) pass(now time.Time) (unlogged int, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Sub(g.minute) >= time.Minute {
		g.minute, g.passed = now, 0
	}
	if g.passed == recordsPerMinute {
		g.unlogged++
		return 0, false
	}
	g.passed++
	unlogged, g.unlogged = g.unlogged, 0
	return unlogged, true
}
