package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// receiver is a program that somebody else wrote, under a process of its own.
type receiver struct {
	name    string // also its trigger's
	folder  string
	args    []string // of node
	env     []string
	secret  string // that it verifies with
	shared  bool   // its trigger names no secret: the source's is used
	addr    string
	process *exec.Cmd
	ended   chan struct{}

	mu       sync.Mutex
	got      map[string][]http.Header // requests, by delivery
	verified map[string][]event       // by delivery
}

// event is what a receiver's library hands to an app, after it has verified the signature.
type event struct {
	ID, Event string
	Title     string // of an issue, in hexadecimal UTF-16
}

// newProbot has a secret of its own, which its target names.
func newProbot(folder string) *receiver {
	return &receiver{
		name: "probot", folder: folder, secret: "the secret of the Probot app", args: []string{"node_modules/probot/bin/probot.js", "run", "./probot.mjs"},
		env: []string{"APP_ID=1", "PRIVATE_KEY=" + privateKey(), "NODE_ENV=production", "LOG_LEVEL=fatal", "HOST=127.0.0.1"},
	}
}

// newOctokit has the source's webhook secret, as a receiver that used to stand where preloop does.
func newOctokit(folder string) *receiver {
	return &receiver{name: "octokit", folder: folder, secret: harness.Secret, shared: true, args: []string{"./octokit.mjs"}}
}

// privateKey is any: nothing here calls GitHub.
func privateKey() string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err) // the system has no randomness
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

// url is where webhooks go, the same in both.
func (r *receiver) url() string { return "http://" + r.addr + "/api/github/webhooks" }

// start returns when the receiver listens.
func (r *receiver) start(ctx context.Context, log string) error {
	addr, err := harness.FreeAddr()
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(addr)
	errors, err := os.Create(log)
	if err != nil {
		return err
	}
	defer errors.Close()
	r.addr, r.got, r.verified = addr, map[string][]http.Header{}, map[string][]event{}
	r.process = exec.Command("node", r.args...)
	r.process.Dir, r.process.Stderr = r.folder, errors
	r.process.Env = append(append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, r.env...), "PORT="+port, "WEBHOOK_SECRET="+r.secret)
	out, err := r.process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := r.process.Start(); err != nil {
		return err
	}
	r.ended = make(chan struct{})
	go func() {
		defer close(r.ended)
		r.listen(out)
		_ = r.process.Wait()
	}()
	for {
		if conn, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			return conn.Close()
		}
		select {
		case <-r.ended:
			text, _ := os.ReadFile(log)
			return fmt.Errorf("it ended: %s", strings.TrimSpace(string(text)))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// listen takes in what report.mjs says.
func (r *receiver) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Got      map[string]string
			Verified *event
		}
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue // the receiver's own log
		}
		r.mu.Lock()
		switch {
		case line.Got != nil:
			h := http.Header{}
			for name, value := range line.Got {
				h.Set(name, value)
			}
			id := h.Get("X-GitHub-Delivery")
			r.got[id] = append(r.got[id], h)
		case line.Verified != nil:
			r.verified[line.Verified.ID] = append(r.verified[line.Verified.ID], *line.Verified)
		}
		r.mu.Unlock()
	}
}

// stop ends the receiver by the id that it was started with.
func (r *receiver) stop() {
	if r.ended != nil {
		_ = r.process.Process.Kill()
		<-r.ended
	}
}
