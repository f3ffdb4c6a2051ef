package target

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
)

// requestKind is what a request is for.
type requestKind int

const (
	startRequest requestKind = iota
	handOverRequest
	probeRequest
)

// request builds what is sent. A header wins over those set before it: GitHub's, then the
// operator's, then preloop's own.
func (t HTTP) request(ctx context.Context, j Job, kind requestKind) (*http.Request, error) {
	method, body := http.MethodPost, j.Payload
	switch {
	case kind == probeRequest:
		method, body = http.MethodGet, nil
	case kind == handOverRequest || t.Envelope:
		body = envelope(j)
	}
	req, err := http.NewRequestWithContext(ctx, method, t.URL, bytes.NewReader(body))
	if err != nil || req.URL.Host == "" || req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		// The parser's own error repeats the URL, which may hold a credential.
		return nil, errors.New("the target's url is not a valid http or https URL")
	}
	// Without a way to read the body again, nothing below can send it twice.
	req.GetBody = nil
	if kind == probeRequest {
		req.Body = http.NoBody
	}
	if u := req.URL.User; u != nil {
		password, _ := u.Password()
		req.SetBasicAuth(u.Username(), password)
	}

	h := req.Header
	h.Set("Accept", "*/*")
	h.Set("User-Agent", "preloop")
	if kind != probeRequest {
		for name, value := range j.Headers {
			h.Set(name, value)
		}
		h.Set("X-GitHub-Event", j.Run.Event)
		h.Set("X-GitHub-Delivery", j.Run.DeliveryID)
		h.Set("Content-Type", "application/json") // of a delivery that came as a form too: the JSON is what is kept
	}
	for name, value := range t.Headers {
		h.Set(name, value)
		if strings.EqualFold(name, "Host") {
			req.Host = value
		}
	}
	// A signature that came from elsewhere is not this body's.
	h.Del("X-Hub-Signature")
	h.Del("X-Hub-Signature-256")
	if len(j.Secret) > 0 && kind != probeRequest {
		h.Set("X-Hub-Signature-256", sign(j.Secret, body))
	}
	h.Set("Idempotency-Key", j.Run.ID)
	h.Set("Preloop-Run-Id", j.Run.ID)
	set := func(name, value string) {
		if value != "" {
			h.Set(name, value)
		}
	}
	set("Preloop-Session", j.Session)
	set("Traceparent", j.Traceparent)
	if kind == startRequest {
		set("Preloop-Finish-URL", j.FinishURL)
		set("Preloop-Finish-Token", j.FinishToken)
	}
	return req, nil
}

// sign returns the value of X-Hub-Signature-256, as GitHub's documentation defines it.
func sign(secret, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// envelope wraps the payload, whose bytes stay as they are: decoding and encoding it again would
// change numbers and escapes.
func envelope(j Job) []byte {
	// Strings alone: they cannot fail.
	head, _ := json.Marshal(struct {
		Session    string `json:"session"`
		Prompt     string `json:"prompt"`
		Trigger    string `json:"trigger"`
		RunID      string `json:"run_id"`
		Event      string `json:"event"`
		Action     string `json:"action"`
		DeliveryID string `json:"delivery_id"`
	}{j.Session, j.Prompt, j.Run.Trigger, j.Run.ID, j.Run.Event, j.Run.Action, j.Run.DeliveryID})
	b := bytes.NewBuffer(make([]byte, 0, len(head)+len(j.Payload)+16))
	b.Write(head[:len(head)-1])
	b.WriteString(`,"payload":`)
	if len(j.Payload) == 0 {
		b.WriteString("null")
	} else {
		b.Write(j.Payload)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// credentialHeader is what the headers that operators put credentials into are called.
var credentialHeader = regexp.MustCompile(`(?i)auth|token|key|secret|cookie|password`)

// credentials are the secrets in the target's own configuration, which an answer might repeat.
func (t HTTP) credentials(req *http.Request) [][]byte {
	var found [][]byte
	for name, value := range t.Headers {
		if credentialHeader.MatchString(name) {
			found = append(found, []byte(value))
			if _, token, ok := strings.Cut(value, " "); ok { // "Bearer …"
				found = append(found, []byte(token))
			}
		}
	}
	if u := req.URL.User; u != nil {
		if password, ok := u.Password(); ok {
			found = append(found, []byte(password))
		}
		_, encoded, _ := strings.Cut(req.Header.Get("Authorization"), " ")
		found = append(found, []byte(encoded))
	}
	return found
}
