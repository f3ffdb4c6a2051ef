package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// idle counts what a node that has nothing to do asks of Postgres, all its parts together, BEGIN and
// COMMIT included: a proxy reads along.
func idle(ctx context.Context, b *bench) error {
	if b.postgres == "" {
		fmt.Println("only a Postgres is asked over a wire")
		return nil
	}
	store, err := b.newStore(ctx)
	if err != nil {
		return err
	}
	u, err := url.Parse(store)
	if err != nil {
		return errors.New("-postgres: this is not a URL")
	}
	var asked statements
	proxy, err := harness.NewProxy(u.Host, func() io.Writer { return &frontend{count: asked.add} })
	if err != nil {
		return err
	}
	defer proxy.Close()
	u.Host = proxy.Addr
	n, _, err := b.start(ctx, u.String(), "", tenTriggers())
	if err != nil {
		return err
	}
	wait := func(d time.Duration) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
	if err := wait(10 * time.Second); err != nil { // what a start asks
		return err
	}
	asked.reset()
	if err := wait(b.idle); err != nil {
		return err
	}
	total, list := asked.list()
	fmt.Printf("an idle node asks %.2f statements a second; of the %d in %v:\n", float64(total)/b.idle.Seconds(), total, b.idle)
	for _, s := range list {
		fmt.Printf("%7d  %s\n", s.n, s.text)
	}
	return b.stop(ctx, n)
}

// statements counts texts. Safe for concurrent use.
type statements struct {
	mu     sync.Mutex
	counts map[string]int
}

func (s *statements) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = map[string]int{}
	}
	s.counts[text]++
}

func (s *statements) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.counts)
}

type statement struct {
	text string
	n    int
}

// list has the most frequent ones first.
func (s *statements) list() (total int, all []statement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for text, n := range maps.All(s.counts) {
		total += n
		all = append(all, statement{text, n})
	}
	slices.SortFunc(all, func(a, b statement) int { return cmp.Or(cmp.Compare(b.n, a.n), strings.Compare(a.text, b.text)) })
	return total, all
}

// frontend reads what a client says to Postgres (its protocol, version 3, without TLS) and counts
// each statement that it executes by the beginning of its text.
type frontend struct {
	count   func(text string)
	in      []byte
	started bool              // past the startup message, which alone has no type
	texts   map[string]string // by the name of the prepared statement
	bound   map[string]string // by the name of the portal
}

func (f *frontend) Write(p []byte) (int, error) {
	f.in = append(f.in, p...)
	for {
		head := 1
		if !f.started {
			head = 0
		}
		if len(f.in) < head+4 {
			return len(p), nil
		}
		length := head + int(binary.BigEndian.Uint32(f.in[head:]))
		if len(f.in) < length {
			return len(p), nil
		}
		if f.started {
			f.message(f.in[0], f.in[head+4:length])
		}
		f.started = true
		f.in = f.in[length:]
	}
}

func (f *frontend) message(kind byte, body []byte) {
	first, rest, _ := strings.Cut(string(body), "\x00")
	second, _, _ := strings.Cut(rest, "\x00")
	switch kind {
	case 'Q':
		f.count(beginning(first))
	case 'P':
		if f.texts == nil {
			f.texts, f.bound = map[string]string{}, map[string]string{}
		}
		f.texts[first] = second
	case 'B':
		f.bound[first] = f.texts[second]
	case 'E':
		f.count(beginning(f.bound[first]))
	}
}

func beginning(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return text[:min(len(text), 120)]
}
