package webhook

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	smallestBuffer = 16 << 10 // most deliveries fit
	firstBuffer    = 64 << 10 // at most, however long the body is said to be
	growth         = 8        // a buffer has at most this many times the bytes that have arrived
)

// inflight is one request on its way through, with its memory. It is pooled: what it refers to is
// valid until the answer is written.
type inflight struct {
	head   head
	hold   hold
	buffer *buffer
	body   []byte        // what has been read, in buffer
	waited time.Duration // for memory
	answer []byte        // scratch
}

// buffer is pooled memory of one of the sizes of buffers.
type buffer struct {
	bytes []byte
	class int
}

// buffers hands out memory in a few sizes, each pooled, so that ordinary deliveries make no garbage.
type buffers struct {
	requests sync.Pool // of *inflight
	sizes    []int64
	pools    []sync.Pool // of *buffer, by class
}

// newBuffers doubles the sizes up to largest.
func newBuffers(largest int64) *buffers {
	b := &buffers{requests: sync.Pool{New: func() any { return new(inflight) }}}
	for size := int64(smallestBuffer); size < largest; size *= 2 {
		b.sizes = append(b.sizes, size)
	}
	b.sizes = append(b.sizes, largest)
	b.pools = make([]sync.Pool, len(b.sizes))
	return b
}

func (b *buffers) take() *inflight { return b.requests.Get().(*inflight) }

func (b *buffers) give(in *inflight) {
	b.giveBuffer(in.buffer)
	*in = inflight{answer: in.answer}
	b.requests.Put(in)
}

// class returns the smallest size that has room for n bytes.
func (b *buffers) class(n int64) int {
	for i, size := range b.sizes {
		if n <= size {
			return i
		}
	}
	return len(b.sizes) - 1
}

func (b *buffers) takeBuffer(class int) *buffer {
	if pooled, ok := b.pools[class].Get().(*buffer); ok {
		return pooled
	}
	return &buffer{bytes: make([]byte, b.sizes[class]), class: class}
}

func (b *buffers) giveBuffer(buf *buffer) {
	if buf != nil {
		b.pools[buf.class].Put(buf)
	}
}

// readBody reads the body into in.body. Memory is taken as bytes arrive and not by what
// Content-Length promises: who promises 25 MiB and sends nothing holds one small buffer.
func (rc *Receiver) readBody(r *http.Request, in *inflight) *refusal {
	limit := rc.cfg.MaxBody
	promised := limit + 1 // one more than allowed, to see that there is more
	if r.ContentLength >= 0 {
		promised = r.ContentLength + 1
	}
	next := min(promised, firstBuffer)
	for {
		if refused := rc.growBody(in, min(next, limit+1)); refused != nil {
			return refused
		}
		for len(in.body) < cap(in.body) {
			n, err := r.Body.Read(in.body[len(in.body):cap(in.body)])
			in.body = in.body[:len(in.body)+n]
			switch {
			case int64(len(in.body)) > limit:
				return errTooLarge(limit)
			case err == io.EOF:
				return nil
			case errors.Is(err, os.ErrDeadlineExceeded):
				return errReadTimeout
			case err != nil:
				return errReadBody
			}
		}
		have := int64(cap(in.body))
		next = growth * have
		if have < promised && promised < next {
			next = promised
		}
	}
}

// growBody gives in.body a capacity of at least size.
func (rc *Receiver) growBody(in *inflight, size int64) *refusal {
	class := rc.buffers.class(size)
	waited, ok := rc.memory.grow(&in.hold, rc.buffers.sizes[class], rc.cfg.Budget-in.waited)
	in.waited += waited
	if !ok {
		return errNoMemory
	}
	bigger := rc.buffers.takeBuffer(class)
	body := append(bigger.bytes[:0], in.body...)
	rc.buffers.giveBuffer(in.buffer)
	in.buffer, in.body = bigger, body
	return nil
}
