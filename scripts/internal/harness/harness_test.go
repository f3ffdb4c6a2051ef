package harness

import (
	"bufio"
	"bytes"
	"compress/flate"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestSender checks with net/http's server that what goes over the wire is what GitHub sends.
func TestSender(t *testing.T) {
	body := IssueOpened(rand.New(rand.NewPCG(1, 2)), 7, 8192)
	var got []string
	status := http.StatusAccepted
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mac := hmac.New(sha256.New, []byte("secret"))
		mac.Write(sent)
		if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); r.Header.Get("X-Hub-Signature-256") != want {
			t.Errorf("signature %q, want %q", r.Header.Get("X-Hub-Signature-256"), want)
		}
		if !bytes.Equal(sent, body) || r.URL.Path != WebhookPath || r.Header.Get("X-GitHub-Event") != "issues" ||
			r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %v with %d bytes", r.URL, r.Header, len(sent))
		}
		got = append(got, r.Header.Get("X-GitHub-Delivery"))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"n":`+strings.Repeat("1", len(got))+`}`)
	}))
	defer server.Close()

	s := NewSender(server.Listener.Addr().String(), 5*time.Second)
	defer s.Close()
	req := NewRequest("issues", body, "secret")
	r := rand.New(rand.NewPCG(3, 4))
	guids := []string{GUID(r), GUID(r), GUID(r)}
	for i, guid := range guids {
		if i == 2 {
			status = http.StatusInternalServerError
			server.CloseClientConnections()
			if _, _, err := s.Post(req, guid); err == nil {
				t.Fatal("a lost connection is no error")
			}
		}
		code, answer, err := s.Post(req, guid)
		if err != nil || code != status || string(answer) != `{"n":`+strings.Repeat("1", i+1)+`}` {
			t.Fatalf("%d: got %d %q, %v", i, code, answer, err)
		}
	}
	if strings.Join(got, " ") != strings.Join(guids, " ") {
		t.Errorf("got %q, want %q", got, guids)
	}
	if _, _, err := s.Post(req, "short"); err == nil {
		t.Error("a GUID of another length would break the request")
	}
}

func TestSenderRefusesWhatItCannotRead(t *testing.T) {
	for name, answer := range map[string]string{
		"another protocol":   "SSH-2.0-x\r\n",
		"no number":          "HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n",
		"no length":          "HTTP/1.1 200 OK\r\n\r\n",
		"a senseless length": "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
		"cut short":          "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}",
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.WriteString(conn, answer)
				_ = conn.Close()
			}))
			defer server.Close()
			s := NewSender(server.Listener.Addr().String(), 5*time.Second)
			if status, _, err := s.Post(NewRequest("ping", []byte("{}"), "x"), noGUID); err == nil {
				t.Errorf("got %d without an error", status)
			}
		})
	}
}

func TestPayloads(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, body := range map[string][]byte{"issue": IssueOpened(r, 7, 8192), "push": Push(r, 8192)} {
		if !json.Valid(body) {
			t.Errorf("%s: no JSON", name)
		}
		if len(body) < 7000 || len(body) > 9500 {
			t.Errorf("%s: %d bytes, want about 8192", name, len(body))
		}
		var packed bytes.Buffer
		w, _ := flate.NewWriter(&packed, 1)
		_, _ = w.Write(body)
		_ = w.Close()
		if ratio := float64(len(body)) / float64(packed.Len()); ratio < 2.5 || ratio > 8 {
			t.Errorf("%s compresses to 1/%.1f; GitHub's compress to about 1/6", name, ratio)
		}
	}
}

func TestGUID(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[string]bool{}
	for range 1000 {
		guid := GUID(r)
		if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-1[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(guid) || seen[guid] {
			t.Fatal(guid)
		}
		seen[guid] = true
	}
}

// tap passes on what it is told.
type tap chan string

func (t tap) Write(p []byte) (int, error) {
	t <- string(p)
	return len(p), nil
}

// TestProxy leads a connection to one server, then to another, and holds back what it is told to.
func TestProxy(t *testing.T) {
	server := func(name string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					line, _ := bufio.NewReader(c).ReadString('\n')
					_, _ = io.WriteString(c, name+" heard "+line)
				}()
			}
		}()
		return l.Addr().String()
	}
	heard := make(tap, 10)
	p, err := NewProxy(server("first"), func() io.Writer { return heard })
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	ask := func(c net.Conn) string {
		_, _ = io.WriteString(c, "hello\n")
		answer, _ := io.ReadAll(c)
		return string(answer)
	}
	if got := ask(dial()); got != "first heard hello\n" {
		t.Errorf("got %q", got)
	}
	if got := <-heard; got != "hello\n" {
		t.Errorf("tapped %q", got)
	}
	old := dial()
	_, _ = io.WriteString(old, "hel")
	<-heard // it leads to the first server
	p.Lead(server("second"))
	if got, _ := io.ReadAll(old); len(got) > 0 {
		t.Errorf("a connection to the first: %q after it was cut", got)
	}
	release := p.Stick()
	stuck := dial()
	_, _ = io.WriteString(stuck, "hello\n")
	_ = stuck.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := stuck.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("while it sticks: %d bytes, %v", n, err)
	}
	release()
	_ = stuck.SetReadDeadline(time.Now().Add(20 * time.Second))
	if got, err := io.ReadAll(stuck); err != nil || string(got) != "second heard hello\n" {
		t.Errorf("then: %q, %v", got, err)
	}
	p.Lead("")
	if got := ask(dial()); got != "" {
		t.Errorf("leading nowhere: %q", got)
	}
}
