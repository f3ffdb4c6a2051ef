package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"unicode/utf8"

	"github.com/seed-de999ace/preloop/github"
	"github.com/seed-de999ace/preloop/queue"
)

// jsonPayload returns the JSON of a verified body: the body itself, or the form's payload field,
// decoded in place. A byte order mark is left out, because readers of the JSON refuse it.
func (in *inflight) jsonPayload() ([]byte, *refusal) {
	payload := in.body
	if in.head.form {
		field, ok := formField(in.body, "payload")
		if !ok {
			return nil, errFormField
		}
		if payload, ok = unescapeForm(field); !ok {
			return nil, errFormEscape
		}
	}
	return github.TrimBOM(payload), nil
}

// formField finds the first field of that name. GitHub sends one field, and its name needs no escape.
func formField(form []byte, name string) ([]byte, bool) {
	for len(form) > 0 {
		var field []byte
		field, form, _ = bytes.Cut(form, []byte("&"))
		if key, value, _ := bytes.Cut(field, []byte("=")); string(key) == name {
			return value, true
		}
	}
	return nil, false
}

// unescapeForm decodes a form value in place: it only gets shorter.
func unescapeForm(value []byte) ([]byte, bool) {
	out := value[:0]
	for i := 0; i < len(value); i++ {
		c := value[i]
		switch c {
		case '+':
			c = ' '
		case '%':
			if i+2 >= len(value) {
				return nil, false
			}
			high, low := hexDigit(value[i+1]), hexDigit(value[i+2])
			if high < 0 || low < 0 {
				return nil, false
			}
			c = byte(high<<4 | low)
			i += 2
		}
		out = append(out, c)
	}
	return out, true
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// delivery makes the Delivery of a verified request.
func (rc *Receiver) delivery(r *http.Request, in *inflight, from signer, payload []byte) (queue.Delivery, *refusal) {
	facts, err := rc.facts(in.head.event, payload)
	if err != nil {
		var notJSON *github.PayloadError
		if errors.As(err, &notJSON) && notJSON.NotObject {
			return queue.Delivery{}, errNotObject.because(err)
		}
		return queue.Delivery{}, errNotJSON.because(err)
	}
	if !from.source.owns(facts) {
		return queue.Delivery{}, errForeign
	}
	return queue.Delivery{
		ID:         in.head.delivery,
		Source:     from.source.Key,
		SourceName: from.source.Name,
		Event:      in.head.event,
		Facts:      queue.Facts(facts),
		Headers:    keptHeaders(r.Header, in.head.form),
		Size:       len(payload),
		Secret:     from.secret,
	}, nil
}

// facts reads the facts, and survives a payload that breaks the reader: such a delivery is owned
// with no facts and will fail, visibly, where it is processed.
func (rc *Receiver) facts(event string, payload []byte) (facts github.Facts, err error) {
	defer func() {
		if p := recover(); p != nil {
			rc.log.Error("reading the facts of a delivery panicked", "event", event, "bytes", len(payload))
			facts, err = github.Facts{}, nil
			if object := bytes.TrimLeft(payload, " \t\r\n"); len(object) == 0 || object[0] != '{' || !json.Valid(payload) {
				err = new(github.PayloadError)
			}
		}
	}()
	return rc.readFacts(event, payload)
}

// keptHeader pairs a header's key in http.Header with its name as GitHub writes it.
type keptHeader struct{ key, name string }

// keptHeaderList is everything that is stored and passed on. GitHub once sent secrets in a header
// that nobody expected, so what is not named here is dropped.
var keptHeaderList = []keptHeader{
	{headerEvent, "X-GitHub-Event"},
	{headerDelivery, "X-GitHub-Delivery"},
	{"X-Github-Hook-Id", "X-GitHub-Hook-ID"},
	{headerTargetType, "X-GitHub-Hook-Installation-Target-Type"},
	{headerTargetID, "X-GitHub-Hook-Installation-Target-ID"},
	{"X-Github-Enterprise-Version", "X-GitHub-Enterprise-Version"},
	{"X-Github-Enterprise-Host", "X-GitHub-Enterprise-Host"},
	{"User-Agent", "User-Agent"},
	{"Content-Type", "Content-Type"},
}

// maxKeptHeader is the longest header value that is stored. GitHub's are below 100 bytes.
const maxKeptHeader = 1 << 10

// keptHeaders copies the headers that are stored. The Content-Type is that of the stored JSON.
func keptHeaders(from http.Header, form bool) map[string]string {
	kept := make(map[string]string, 8) // GitHub sends seven, a GHES nine
	for _, h := range keptHeaderList {
		if values := from[h.key]; len(values) > 0 && len(values[0]) <= maxKeptHeader && utf8.ValidString(values[0]) {
			kept[h.name] = values[0]
		}
	}
	if form {
		kept["Content-Type"] = "application/json"
	}
	return kept
}
