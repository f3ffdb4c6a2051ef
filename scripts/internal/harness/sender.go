package harness

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// WebhookPath is where a preloop takes deliveries.
const WebhookPath = "/api/v1/github/webhooks"

const noGUID = "00000000-0000-4000-8000-000000000000"

// Request is a signed delivery, ready for the wire but for its GUID: the signature covers the body
// alone, so one request serves any number of deliveries.
type Request struct {
	Event string
	head  []byte // up to the GUID's place
	rest  []byte // from behind it
}

// NewRequest signs a body.
func NewRequest(event string, body []byte, secret string) *Request {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: preloop\r\nUser-Agent: GitHub-Hookshot/044aadd\r\n", WebhookPath)
	fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	fmt.Fprintf(&b, "X-GitHub-Event: %s\r\nX-GitHub-Hook-ID: 1\r\n", event)
	fmt.Fprintf(&b, "X-Hub-Signature-256: sha256=%s\r\nX-GitHub-Delivery: ", hex.EncodeToString(mac.Sum(nil)))
	head := bytes.Clone(b.Bytes())
	return &Request{Event: event, head: head, rest: append([]byte("\r\n\r\n"), body...)}
}

// Sender keeps one connection to a server, as one of GitHub's does, and costs little: in a benchmark
// the load shares the machine with what it measures. Not for concurrent use.
type Sender struct {
	addr    string
	timeout time.Duration
	conn    net.Conn
	in      *bufio.Reader
	out     []byte
	answer  []byte
}

// NewSender connects on first use. A request that takes longer than timeout fails.
func NewSender(addr string, timeout time.Duration) *Sender {
	return &Sender{addr: addr, timeout: timeout}
}

// Post sends a delivery. After an error, whether the server has it is unknown. The answer's body is
// valid until the next call.
func (s *Sender) Post(req *Request, guid string) (status int, body []byte, err error) {
	if len(guid) != len(noGUID) {
		return 0, nil, fmt.Errorf("sending a delivery: %q is no GUID", guid)
	}
	if s.conn == nil {
		if s.conn, err = net.DialTimeout("tcp", s.addr, s.timeout); err != nil {
			return 0, nil, err
		}
		s.in = bufio.NewReader(s.conn)
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if err := s.conn.SetDeadline(time.Now().Add(s.timeout)); err != nil {
		return 0, nil, err
	}
	s.out = append(append(append(s.out[:0], req.head...), guid...), req.rest...)
	if _, err := s.conn.Write(s.out); err != nil {
		return 0, nil, err
	}
	return s.read()
}

// Close ends the connection; the next Post opens another.
func (s *Sender) Close() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

// read takes one answer off the wire. A preloop gives every answer a length.
func (s *Sender) read() (status int, body []byte, err error) {
	line, err := s.line()
	if err != nil {
		return 0, nil, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return 0, nil, fmt.Errorf("reading the answer: it begins with %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, nil, fmt.Errorf("reading the answer: it begins with %q", line)
	}
	length, last := -1, false
	for {
		if line, err = s.line(); err != nil {
			return 0, nil, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, nil, fmt.Errorf("reading the answer: a length of %q", value)
			}
		case bytes.EqualFold(name, []byte("Connection")) && bytes.EqualFold(value, []byte("close")):
			last = true
		}
	}
	if length < 0 {
		return 0, nil, fmt.Errorf("reading the answer: %d without a length", status)
	}
	s.answer = append(s.answer[:0], make([]byte, length)...)
	if _, err = io.ReadFull(s.in, s.answer); err != nil {
		return 0, nil, err
	}
	if last {
		s.Close()
	}
	return status, s.answer, nil
}

func (s *Sender) line() ([]byte, error) {
	line, err := s.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}
