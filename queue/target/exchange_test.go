package target

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// silence accepts connections and says nothing, for as long as the test runs.
func silence(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

// What goes wrong before a connection stands has certainly had no effect.
func TestHTTPNeverConnected(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	tls := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request came through") }))
	tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	tls.StartTLS()
	t.Cleanup(tls.Close)

	tests := map[string]HTTP{
		"refused":            {URL: "http://" + closed.Addr().String()},
		"unknown authority":  {URL: tls.URL},
		"no TLS there":       {URL: "https://" + receive(t, func(http.ResponseWriter, *http.Request) {}).Listener.Addr().String()},
		"handshake hangs":    {URL: "https://" + silence(t), Timeout: 50 * time.Millisecond},
		"credentials in URL": {URL: "http://user:hunter22@" + closed.Addr().String() + "/?token=hunter22"},
	}
	for name, target := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, do := range []func(context.Context, Job, Report) queue.Outcome{target.Run, target.HandOver} {
				o := do(t.Context(), job(), nil)
				if o.State != queue.Waiting || o.Reason != "" || o.Refund || o.HTTPStatus != nil || !strings.Contains(o.Error, "connecting") {
					t.Errorf("state %q, reason %q, error %q", o.State, o.Reason, o.Error)
				}
				if strings.Contains(o.Error, "hunter22") {
					t.Errorf("error %q", o.Error)
				}
			}
			if p := target.Probe(t.Context(), job()); p != Unknown {
				t.Errorf("Probe: %v", p)
			}
		})
	}
}

// What goes wrong after that may have had its effect, and is sent once, whatever becomes of it.
func TestHTTPNoAnswer(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, w http.ResponseWriter, req *http.Request){
		"closed": func(t *testing.T, w http.ResponseWriter, req *http.Request) { hijack(t, w, req).Close() },
		"reset": func(t *testing.T, w http.ResponseWriter, req *http.Request) {
			conn := hijack(t, w, req)
			_ = conn.SetLinger(0)
			conn.Close()
		},
		"half an answer": func(t *testing.T, w http.ResponseWriter, req *http.Request) {
			conn := hijack(t, w, req)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-")
			conn.Close()
		},
		"no HTTP": func(t *testing.T, w http.ResponseWriter, req *http.Request) {
			conn := hijack(t, w, req)
			_, _ = io.WriteString(conn, "220 mail.example.com ESMTP\r\n")
			conn.Close()
		},
		"hang": func(_ *testing.T, _ http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			<-req.Context().Done()
		},
	}
	for name, handle := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := receive(t, func(w http.ResponseWriter, req *http.Request) { handle(t, w, req) })
			target := HTTP{URL: r.URL}
			if name == "hang" {
				target.Timeout = 100 * time.Millisecond
			}
			for _, do := range []func(context.Context, Job, Report) queue.Outcome{target.Run, target.HandOver} {
				o := do(t.Context(), job(), nil)
				if o.State != queue.Uncertain || o.Reason != queue.ReasonUnconfirmed || o.HTTPStatus != nil || o.Error == "" || strings.Contains(o.Error, r.URL) {
					t.Errorf("state %q, reason %q, error %q", o.State, o.Reason, o.Error)
				}
			}
			if n := r.requests.Load(); n != 2 {
				t.Errorf("%d requests for 2 attempts", n)
			}
			if p := target.Probe(t.Context(), job()); p != Unknown {
				t.Errorf("Probe: %v", p)
			}
		})
	}
}

// An idempotency key makes net/http believe that it may send a request again by itself. It must
// not, even over a transport that keeps connections and finds one of them dead.
func TestHTTPIsSentOnce(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	r := receive(t, func(w http.ResponseWriter, req *http.Request) {
		if n.Add(1) > 1 {
			hijack(t, w, req).Close()
		}
	})
	keepAlive := &http.Transport{}
	defer keepAlive.CloseIdleConnections()
	target := HTTP{URL: r.URL, Transport: keepAlive}
	if o := target.Run(t.Context(), job(), nil); o.State != queue.Succeeded {
		t.Errorf("state %q: %s", o.State, o.Error)
	}
	if o := target.Run(t.Context(), job(), nil); o.State != queue.Uncertain || r.conns.Load() != 1 {
		t.Errorf("state %q over %d connections", o.State, r.conns.Load())
	}
	if got := r.requests.Load(); got != 2 {
		t.Errorf("%d requests for 2 attempts", got)
	}
}

func TestHTTPStopped(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cause  error
		state  queue.RunState
		reason string
		before queue.RunState // stopped before it was sent
		refund bool
	}{
		"shutdown":      {queue.ErrShutdown, queue.Uncertain, queue.ReasonInterrupted, queue.Waiting, true},
		"unknown cause": {context.Canceled, queue.Uncertain, queue.ReasonInterrupted, queue.Waiting, true},
		"canceled":      {queue.ErrCanceled, queue.Canceled, "", queue.Canceled, false},
		"lease lost":    {queue.ErrLeaseLost, queue.Uncertain, queue.ReasonWorkerLost, queue.Uncertain, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stop atomic.Value
			r := receive(t, func(_ http.ResponseWriter, req *http.Request) {
				_, _ = io.Copy(io.Discard, req.Body)
				stop.Load().(context.CancelCauseFunc)(tt.cause)
				<-req.Context().Done()
			})
			target := HTTP{URL: r.URL}
			for _, do := range []func(context.Context, Job, Report) queue.Outcome{target.Run, target.HandOver} {
				ctx, cancel := context.WithCancelCause(t.Context())
				stop.Store(cancel)
				if o := do(ctx, job(), nil); o.State != tt.state || o.Reason != tt.reason || o.Refund {
					t.Errorf("in the middle: state %q, reason %q", o.State, o.Reason)
				}
				sent := r.requests.Load()
				if o := do(ctx, job(), nil); o.State != tt.before || o.Refund != tt.refund {
					t.Errorf("before: state %q, refund %v", o.State, o.Refund)
				}
				if r.requests.Load() != sent {
					t.Error("it was sent after the stop")
				}
			}
			// While it connects, nothing has been sent either.
			ctx, cancel := context.WithCancelCause(t.Context())
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				if conn, err := l.Accept(); err == nil {
					cancel(tt.cause)
					_, _ = io.Copy(io.Discard, conn)
					conn.Close()
				}
			}()
			if o := (HTTP{URL: "https://" + l.Addr().String()}).Run(ctx, job(), nil); o.State != tt.before || o.Refund != tt.refund {
				t.Errorf("connecting: state %q, refund %v", o.State, o.Refund)
			}
		})
	}
}

func TestHTTPOutput(t *testing.T) {
	t.Parallel()
	j := job()
	j.Secret, j.FinishToken, j.Mask = []byte("hook-secret"), "finish-token", []string{"mask-me"}
	headers := map[string]string{"Authorization": "Bearer bearer-token", "X-Kind": "visible"}
	tests := map[string]struct {
		write func(w http.ResponseWriter)
		want  string
	}{
		"masked": {
			func(w http.ResponseWriter) {
				_, _ = io.WriteString(w, "hook-secret finish-token mask-me bearer-token visible ghs_16C7e42F292c6912E7710c838347Ae178B4a")
			}, "*** *** *** *** visible ***",
		},
		"cut within a secret": {
			func(w http.ResponseWriter) {
				_, _ = io.WriteString(w, strings.Repeat("-", OutputLimit-4)+"finish-token"+strings.Repeat("-", 1<<20))
			}, strings.Repeat("-", OutputLimit-4) + "***",
		},
		"breaks off": {
			func(w http.ResponseWriter) {
				w.Header().Set("Content-Length", "100")
				_, _ = io.WriteString(w, "hello")
			}, "hello",
		},
		"never ends": {
			func(w http.ResponseWriter) {
				_, _ = io.WriteString(w, "hello")
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}, "hello",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := receive(t, func(w http.ResponseWriter, _ *http.Request) { tt.write(w) })
			o := HTTP{URL: r.URL, Headers: headers}.Run(t.Context(), j, nil)
			if o.State != queue.Succeeded || status(o) != "200" {
				t.Errorf("state %q, status %s", o.State, status(o))
			}
			if string(o.Output) != tt.want {
				t.Errorf("output of %d bytes, ends %q", len(o.Output), last(o.Output, 60))
			}
		})
	}
}

func TestHTTPInvalidURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "hooks.example.com", "ftp://hunter22@host/", "http://", "http://host:port/hunter22", "http://[::1/hunter22"} {
		target := HTTP{URL: url}
		for _, o := range []queue.Outcome{target.Run(t.Context(), job(), nil), target.HandOver(t.Context(), job(), nil)} {
			if o.State != queue.RunFailed || o.Reason != queue.ReasonStartFailed || strings.Contains(o.Error, "hunter22") {
				t.Errorf("%q: state %q, reason %q, error %q", url, o.State, o.Reason, o.Error)
			}
		}
	}
}

func TestHTTPCredentialsInURL(t *testing.T) {
	t.Parallel()
	r := receive(t, func(w http.ResponseWriter, req *http.Request) {
		user, password, _ := req.BasicAuth()
		_, _ = fmt.Fprintf(w, "%s:%s %s", user, password, req.Header.Get("Authorization"))
	})
	o := HTTP{URL: strings.Replace(r.URL, "//", "//user:hunter22@", 1)}.Run(t.Context(), job(), nil)
	if want := "user:*** Basic ***"; string(o.Output) != want {
		t.Errorf("output %q, want %q", o.Output, want)
	}
}
