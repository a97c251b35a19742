// Package faultproxy is a TCP proxy in front of a Redis server that loses replies, cuts connections, falls silent and
// answers with errors.
package faultproxy

import (
	"errors"
	"net"
	"sync"
	"time"
)

// Proxy is a TCP proxy in front of one server. It forwards all data until a fault is set. A new fault replaces the old
// one at once, and Pass ends it. The methods are safe for concurrent use. A fault applies to all data that the proxy
// reads after the method has returned.
//
// No fault leaves a gap in a stream. When a fault ends, connections that have lost bytes, or whose other side is gone,
// are closed. All other connections continue.
type Proxy struct {
	Addr string // host:port on the loopback interface; it does not change

	failed func(error) // called if the port cannot be opened again
	server string
	work   sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil: the port refuses, or does not answer
	full     net.Listener // whose queue is full
	fault    *fault
	links    map[*link]struct{}
	counts   Counts
	closed   bool
}

// Counts holds a Proxy's counters since it was started.
type Counts struct {
	Accepted  int64 // connections accepted
	Open      int64 // of these, still open
	Swallowed int64 // bytes read and dropped, both directions
	Silenced  int64 // connections that have lost bytes, or whose end was hidden
	Delayed   int64 // pieces of data that were delayed
}

// fault is what the proxy does to connections. The zero value forwards everything.
type fault struct {
	swallowLive bool // drop data of connections accepted before the fault
	swallowNew  bool // drop data of all other connections
	delay       [2]time.Duration
	cut         bool
	cutAfter    int    // bytes of replies
	calls       onCall // what happens to calls of scripts
	answer      []byte // error reply

	since int64         // number of connections accepted before it
	ended chan struct{} // closed when another fault replaces it
}

// onCall is what a fault does to a piece of data in which a script is called.
type onCall int

const (
	callPasses    onCall = iota
	callIsCut            // the connection is closed, and the server gets nothing
	replyIsLost          // the server gets it, and the connection is closed when its reply comes
	callIsRefused        // the proxy answers, and the server gets nothing
)

// patience bounds a connect to the server, and how long a port may be in use by another process.
const patience = 30 * time.Second

// Start starts a proxy in front of a server, on a free port. It calls failed if it cannot open the port again after
// Refuse. The caller must Close it.
func Start(server string, failed func(error)) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		Addr: l.Addr().String(), failed: failed, server: server, listener: l,
		fault: &fault{ended: make(chan struct{})}, links: map[*link]struct{}{},
	}
	p.work.Go(func() { p.accept(l) })
	return p, nil
}

// Pass ends every fault: new connections are accepted and all data is forwarded. Delayed data is forwarded at once.
func (p *Proxy) Pass() { p.inject(&fault{}) }

// SwallowLive drops all data of the connections that are open now, in both directions, and keeps them open, like a
// firewall that has lost its state. New connections work.
func (p *Proxy) SwallowLive() { p.inject(&fault{swallowLive: true}) }

// SwallowNew accepts new connections and never answers them. Connections that are open now work.
func (p *Proxy) SwallowNew() { p.inject(&fault{swallowNew: true}) }

// Swallow drops the data of all connections, in both directions, and keeps them open. New connections are accepted and
// never answered.
func (p *Proxy) Swallow() { p.inject(&fault{swallowLive: true, swallowNew: true}) }

// Delay delays requests and replies by the given times. 0 means no delay.
func (p *Proxy) Delay(requests, replies time.Duration) {
	p.inject(&fault{delay: [2]time.Duration{toServer: requests, toClient: replies}})
}

// CutReplies closes every connection after n bytes of replies since this call. With n = 0 it is closed when the next
// reply would be sent.
func (p *Proxy) CutReplies(n int) { p.inject(&fault{cut: true, cutAfter: n}) }

// CutCalls closes a connection on which a script is called: the server does not get the call.
func (p *Proxy) CutCalls() { p.inject(&fault{calls: callIsCut}) }

// LoseReplies closes a connection on which a script is called as soon as the server replies. All other commands pass.
func (p *Proxy) LoseReplies() { p.inject(&fault{calls: replyIsLost}) }

// RefuseCalls answers calls of scripts with an error reply, such as "OOM command not allowed".
func (p *Proxy) RefuseCalls(text string) {
	p.inject(&fault{calls: callIsRefused, answer: []byte("-" + text + "\r\n")})
}

// Refuse closes the port, so new connections are refused. Open connections work: Disconnect ends them.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replace(&fault{})
	p.closePort()
}

// Stall leaves new connects without an answer: they neither succeed nor are refused, as on a server whose accept queue
// is full. Open connections work: Disconnect ends them.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replace(&fault{})
	p.closePort()
	l, err := p.listen()
	if err == nil {
		err = fill(l)
		p.full = l
	}
	if err != nil {
		p.failed(err)
	}
}

func (p *Proxy) closePort() {
	for _, l := range []net.Listener{p.listener, p.full} {
		if l != nil {
			_ = l.Close()
		}
	}
	p.listener, p.full = nil, nil
}

// fill fills the queue of a listener that accepts nothing.
func fill(l net.Listener) error {
	if err := shortenQueue(l.(*net.TCPListener)); err != nil {
		return err
	}
	for range 16 { // what the system adds to the shortest queue
		conn, err := net.DialTimeout("tcp", l.Addr().String(), 100*time.Millisecond)
		if err != nil {
			return nil
		}
		defer conn.Close()
	}
	return errors.New("a queue of connects does not get full")
}

// Disconnect closes all connections that are open now.
func (p *Proxy) Disconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.disconnect()
}

// Counts returns the counters so far.
func (p *Proxy) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := p.counts
	counts.Open = int64(len(p.links))
	return counts
}

// inject replaces the fault and opens the port if it refused.
func (p *Proxy) inject(f *fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.replace(f)
	if p.listener != nil {
		return
	}
	p.closePort()
	l, err := p.listen()
	if err != nil {
		p.failed(err)
		return
	}
	p.listener = l
	p.work.Go(func() { p.accept(l) })
}

// listen opens the port again. It tries repeatedly, because another process may use the free port for a short time.
func (p *Proxy) listen() (l net.Listener, err error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if l, err = net.Listen("tcp", p.Addr); err == nil {
			return l, nil
		}
	}
	return nil, err
}

// replace sets the fault. It closes connections that have lost data and would forward data now.
func (p *Proxy) replace(f *fault) {
	f.since, f.ended = p.counts.Accepted, make(chan struct{})
	close(p.fault.ended)
	p.fault = f
	for l := range p.links {
		if l.torn && !f.swallows(l) {
			p.end(l)
		}
	}
}

func (f *fault) swallows(l *link) bool {
	if l.number < f.since {
		return f.swallowLive
	}
	return f.swallowNew
}

// Close ends all connections and returns when nothing of the proxy runs any more.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.replace(&fault{})
	p.closePort()
	p.disconnect()
	p.mu.Unlock()
	p.work.Wait()
}

func (p *Proxy) disconnect() {
	for l := range p.links {
		p.end(l)
	}
}

// end closes a connection, with the proxy locked.
func (p *Proxy) end(l *link) {
	if l.closed {
		return
	}
	l.closed = true
	close(l.gone)
	delete(p.links, l)
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}
