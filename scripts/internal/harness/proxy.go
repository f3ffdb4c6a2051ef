package harness

import (
	"io"
	"net"
	"sync"
)

// Proxy stands between a node and its store's server, as a load balancer or a virtual address does:
// where it leads can be changed, and it can lose what goes through it. Safe for concurrent use.
type Proxy struct {
	Addr string

	listener net.Listener
	tap      func() io.Writer
	mu       sync.Mutex // guards what follows
	target   string     // empty: nobody is there
	stuck    chan struct{}
	conns    map[net.Conn]struct{}
}

// NewProxy listens for what is meant for target. tap, which may be nil, makes for each connection
// what is told the bytes on their way to the server.
func NewProxy(target string, tap func() io.Writer) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{Addr: l.Addr().String(), listener: l, tap: tap, target: target, conns: map[net.Conn]struct{}{}}
	go p.accept()
	return p, nil
}

// Lead cuts every connection and leads new ones to target; empty: nowhere.
func (p *Proxy) Lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	for c := range p.conns {
		_ = c.Close()
	}
}

// Stick holds back every byte, as a network does that drops packets, until the function it returns
// is called.
func (p *Proxy) Stick() (release func()) {
	stuck := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stuck = stuck
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stuck = nil
		close(stuck)
	}
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.Lead("")
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.serve(c)
	}
}

func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	if p.target != target {
		_ = client.Close()
	}
	p.mu.Unlock()
	var tap io.Writer = io.Discard
	if p.tap != nil {
		tap = p.tap()
	}
	var both sync.WaitGroup
	pass := func(to, from net.Conn, tap io.Writer) {
		defer to.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := from.Read(buf)
			if n == 0 {
				return
			}
			p.mu.Lock()
			stuck := p.stuck
			p.mu.Unlock()
			if stuck != nil {
				<-stuck
			}
			_, _ = tap.Write(buf[:n]) // of this process
			if _, e := to.Write(buf[:n]); e != nil || err != nil {
				return
			}
		}
	}
	both.Go(func() { pass(server, client, tap) })
	both.Go(func() { pass(client, server, io.Discard) })
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
	delete(p.conns, server)
}
