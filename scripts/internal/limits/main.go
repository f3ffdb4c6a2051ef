// Command limits checks, on the real server, what the delivery boundary promises of races and
// sizes: one row and one run for a GUID that a thousand senders post at once; a payload of 24.9 MB
// taken and one above 25 MiB refused; floods of unsigned bodies that cost no memory; every sample
// payload processed. scripts/limits builds and starts it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-de999ace/preloop/fixtures"
	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

const config = `triggers:
  - name: effect
    on: [issues.opened]
    run: { command: [sh, -c, 'echo "$PRELOOP_DELIVERY_ID" >>"$0"', %s] }
`

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "limits:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binary string) error {
	dir, err := os.MkdirTemp("", "preloop-limits-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	addr, err := harness.FreeAddr()
	if err != nil {
		return err
	}
	if binary, err = filepath.Abs(binary); err != nil {
		return err
	}
	node := &harness.Node{Binary: binary, Dir: dir, Addr: addr, Store: "sqlite://" + filepath.Join(dir, "preloop.db"), Config: fmt.Sprintf(config, filepath.Join(dir, "effects.txt"))}
	defer node.Discard()
	if err := node.Start(); err != nil {
		return err
	}
	if _, err := node.Ready(ctx); err != nil {
		return err
	}
	t := &trial{node: node, addr: addr, dir: dir, operator: harness.NewOperator(addr), random: rand.New(rand.NewPCG(1, 1))}
	for _, check := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"one GUID posted by 1,000 senders at once", t.race},
		{"50 unsigned floods", t.floods},
		{"payloads around 25 MiB", t.sizes},
		{"every sample payload", t.samples},
	} {
		if err := check.do(ctx); err != nil {
			return fmt.Errorf("%s: %w\n%s", check.name, err, node.LogTail())
		}
	}
	return node.Stop(ctx)
}

type trial struct {
	node      *harness.Node
	addr, dir string
	operator  *harness.Operator
	random    *rand.Rand
}

func (t *trial) post(event string, body []byte, guid string) (int, string, error) {
	s := harness.NewSender(t.addr, 60*time.Second)
	defer s.Close()
	status, answer, err := s.Post(harness.NewRequest(event, body, harness.Secret), guid)
	return status, string(answer), err
}

func (t *trial) race(ctx context.Context) error {
	req := harness.NewRequest("issues", harness.IssueOpened(t.random, 7, 8192), harness.Secret)
	guid := harness.GUID(t.random)
	const senders = 1000
	var mu sync.Mutex
	words := map[string]int{}
	var start, done sync.WaitGroup
	start.Add(1)
	for range senders {
		done.Go(func() {
			s := harness.NewSender(t.addr, 60*time.Second)
			defer s.Close()
			start.Wait()
			status, answer, err := s.Post(req, guid)
			word := fmt.Sprint(status, " ", err)
			if err == nil && status == 202 {
				_, rest, _ := strings.Cut(string(answer), `"status":"`)
				word, _, _ = strings.Cut(rest, `"`)
			}
			mu.Lock()
			defer mu.Unlock()
			words[word]++
		})
	}
	start.Done()
	done.Wait()
	if words["accepted"] != 1 || words["duplicate"] != senders-1 {
		return fmt.Errorf("the answers were %v", words)
	}
	if err := t.operator.WaitIdle(ctx); err != nil {
		return err
	}
	rows, err := t.operator.Deliveries(ctx)
	if err != nil {
		return err
	}
	runs, err := t.operator.Runs(ctx)
	if err != nil {
		return err
	}
	effects, err := os.ReadFile(filepath.Join(t.dir, "effects.txt"))
	if err != nil {
		return err
	}
	if len(rows) != 1 || len(runs) != 1 || string(effects) != guid+"\n" {
		return fmt.Errorf("%d rows, %d runs, effects %q", len(rows), len(runs), effects)
	}
	fmt.Printf("1,000 senders posted one GUID: 1 accepted, 999 duplicate, 1 row, 1 run\n")
	return nil
}

func (t *trial) sizes(ctx context.Context) error {
	const most = 25 << 20
	for _, size := range []int{24_900_000, most} {
		body := []byte(`{"zen":"` + strings.Repeat("a", size-10) + `"}`)
		status, answer, err := t.post("ping", body, harness.GUID(t.random))
		if err != nil || status != 202 {
			return fmt.Errorf("%d bytes: %d %s %v", size, status, answer, err)
		}
		fmt.Printf("%d bytes: %d\n", size, status)
	}
	answer := t.pour("X-Hub-Signature-256: sha256="+strings.Repeat("0", 64)+"\r\n", most+1)
	fmt.Printf("%d bytes: %s\n", most+1, answer)
	if answer != "413" {
		return errors.New("that is too much to take")
	}
	return t.operator.WaitIdle(ctx)
}

// pour sends a body of the size and reads the answer's status meanwhile: a server that refuses
// does not wait for the rest.
func (t *trial) pour(signature string, size int) (status string) {
	conn, err := net.Dial("tcp", t.addr)
	if err != nil {
		return err.Error()
	}
	defer conn.Close() //nolint:errcheck // what matters was read
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	go func() {
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-GitHub-Event: push\r\nX-GitHub-Delivery: flood\r\n%sContent-Length: %d\r\n\r\n", harness.WebhookPath, signature, size)
		chunk := make([]byte, 64<<10)
		for sent := 0; sent < size; sent += len(chunk) {
			if _, err := conn.Write(chunk); err != nil {
				return // refused and closed, as it should be
			}
		}
	}()
	head := make([]byte, len("HTTP/1.1 413"))
	if _, err := io.ReadFull(conn, head); err != nil {
		return "closed"
	}
	return string(head[9:])
}

// floods sends unsigned and wrongly signed bodies, as large as they come, all at once.
func (t *trial) floods(ctx context.Context) error {
	before, err := t.rss("VmRSS")
	if err != nil {
		return err
	}
	signatures := []string{"", "X-Hub-Signature: sha1=0000000000000000000000000000000000000000\r\n", "X-Hub-Signature-256: sha256=0\r\n"}
	var floods sync.WaitGroup
	answers := make(chan string, 50)
	for i := range cap(answers) {
		floods.Go(func() { answers <- t.pour(signatures[i%len(signatures)], 25<<20) })
	}
	floods.Wait()
	close(answers)
	words := map[string]int{}
	for a := range answers {
		words[a]++
	}
	after, err := t.rss("VmHWM")
	if err != nil {
		return err
	}
	fmt.Printf("50 unsigned floods of 25 MiB: answers %v; resident memory %d MiB before, %d MiB at the most since the start\n", words, before>>20, after>>20)
	if words["401"] != cap(answers) {
		return errors.New("not every one was refused with 401")
	}
	if after > before+64<<20 {
		return fmt.Errorf("memory grew by %d MiB, more than 64", (after-before)>>20)
	}
	rows, err := t.operator.Deliveries(ctx)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.ID == "flood" {
			return errors.New("one was stored")
		}
	}
	return nil
}

// rss reads a figure in bytes from the kernel; the peak can be compared with nothing before it.
func (t *trial) rss(field string) (int64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(t.node.PID()) + "/status")
	if err != nil {
		return 0, fmt.Errorf("reading the server's memory (this needs Linux): %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("the kernel does not tell %s", field)
}

func (t *trial) samples(ctx context.Context) error {
	names := map[string]string{} // by GUID
	for _, p := range fixtures.All() {
		guid := harness.GUID(t.random)
		names[guid] = p.Name
		status, answer, err := t.post(p.Event, p.Body, guid)
		if err != nil || status != 202 {
			return fmt.Errorf("%s: %d %s %v", p.Name, status, answer, err)
		}
	}
	if err := t.operator.WaitIdle(ctx); err != nil {
		return err
	}
	rows, err := t.operator.Deliveries(ctx)
	if err != nil {
		return err
	}
	done := 0
	for _, r := range rows {
		name, ok := names[r.ID]
		if !ok {
			continue
		}
		if r.State != "done" {
			return fmt.Errorf("%s is %s: %s", name, r.State, r.LastError)
		}
		done++
	}
	fmt.Printf("%d sample payloads sent, %d done\n", len(names), done)
	if done != len(names) {
		return errors.New("some are missing")
	}
	return nil
}
