package redistest

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
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

	tb     testing.TB
	server string
	work   sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil: the port refuses
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
	cutAfter    int // bytes of replies

	since int64         // number of connections accepted before it
	ended chan struct{} // closed when another fault replaces it
}

type direction int

const (
	toServer direction = iota
	toClient
)

// link is a connection of a client with its connection to the server.
type link struct {
	number  int64 // number of connections accepted before it
	client  net.Conn
	server  net.Conn // nil until it is connected
	torn    bool     // something was dropped
	closed  bool
	gone    chan struct{} // closed with it
	cutBy   *fault        // the fault for which replied is counted
	replied int           // bytes of replies forwarded since that fault
}

// parcel is a piece of data on its way, or the end of it.
type parcel struct {
	data    []byte
	end     bool
	came    time.Time
	delayed bool // already counted as delayed
}

// queueLength is how many parcels of each direction a connection can hold.
const queueLength = 256

// StartProxy starts a proxy in front of a server, on a free port. It closes with the test.
func StartProxy(tb testing.TB, server string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(tb, err)
	p := &Proxy{
		Addr: l.Addr().String(), tb: tb, server: server, listener: l,
		fault: &fault{ended: make(chan struct{})}, links: map[*link]struct{}{},
	}
	tb.Cleanup(p.close)
	p.work.Go(func() { p.accept(l) })
	return p
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

// Refuse closes the port, so new connections are refused. Open connections work: Disconnect ends them.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replace(&fault{})
	if p.listener == nil {
		return
	}
	_ = p.listener.Close()
	p.listener = nil
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
	p.tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.replace(f)
	if p.listener != nil {
		return
	}
	l, err := p.listen()
	if err != nil {
		p.tb.Errorf("%s cannot be listened on again: %v", p.Addr, err)
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

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.replace(&fault{})
	if p.listener != nil {
		_ = p.listener.Close()
	}
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

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			_ = client.Close()
			return
		}
		l := &link{number: p.counts.Accepted, client: client, gone: make(chan struct{})}
		p.counts.Accepted++
		p.links[l] = struct{}{}
		p.work.Go(func() { p.serve(l) })
		p.mu.Unlock()
	}
}

// serve connects to the server and carries data both ways until the link ends.
func (p *Proxy) serve(l *link) {
	server, err := p.dial(l)
	if err != nil {
		p.deliver(l, toClient, parcel{end: true, came: time.Now()})
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.server = server; l.closed {
		_ = server.Close()
		return
	}
	p.work.Go(func() { p.carry(l, toServer, l.client) })
	p.work.Go(func() { p.carry(l, toClient, l.server) })
}

// dial connects to the server while the link is open.
func (p *Proxy) dial(l *link) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p.work.Go(func() {
		select {
		case <-l.gone:
			cancel()
		case <-ctx.Done():
		}
	})
	return (&net.Dialer{}).DialContext(ctx, "tcp", p.server)
}

// carry delivers the data of one side until the link ends.
func (p *Proxy) carry(l *link, to direction, from io.Reader) {
	queue := make(chan parcel, queueLength)
	p.work.Go(func() {
		for next := range queue {
			p.deliver(l, to, next)
		}
	})
	defer close(queue)
	for {
		data := make([]byte, 4<<10)
		n, err := from.Read(data)
		if n > 0 && !l.put(queue, parcel{data: data[:n], came: time.Now()}) {
			return
		}
		if err != nil {
			l.put(queue, parcel{end: true, came: time.Now()})
			return
		}
	}
}

func (l *link) put(queue chan<- parcel, next parcel) bool {
	select {
	case queue <- next:
		return true
	case <-l.gone:
		return false
	}
}

// deliver applies the current fault to a parcel. If the fault ends while it waits, it applies the next one.
func (p *Proxy) deliver(l *link, to direction, next parcel) {
	v := p.judge(l, to, &next)
	for v.wait > 0 {
		timer := time.NewTimer(v.wait)
		select {
		case <-timer.C:
		case <-v.fault.ended:
		case <-l.gone:
		}
		timer.Stop()
		v = p.judge(l, to, &next)
	}
	if !v.write(l, to) || v.last {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.end(l)
	}
}

type verdict struct {
	fault *fault
	wait  time.Duration // judge again after this time, or when the fault ends
	pass  []byte        // data to forward
	last  bool          // end the link afterwards
}

func (v verdict) write(l *link, to direction) bool {
	if len(v.pass) == 0 {
		return true
	}
	side := l.client
	if to == toServer {
		side = l.server
	}
	_, err := side.Write(v.pass)
	return err == nil
}

func (p *Proxy) judge(l *link, to direction, next *parcel) verdict {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.fault
	switch {
	case l.closed:
		return verdict{last: true}
	case f.swallows(l): // the end of a connection too: the other side does not see it
		p.drop(l, next.data)
		return verdict{}
	}
	if wait := time.Until(next.came.Add(f.delay[to])); wait > 0 {
		if !next.delayed {
			next.delayed = true
			p.counts.Delayed++
		}
		return verdict{fault: f, wait: wait}
	}
	return p.pass(l, to, next)
}

func (p *Proxy) drop(l *link, data []byte) {
	p.counts.Swallowed += int64(len(data))
	if !l.torn {
		l.torn = true
		p.counts.Silenced++
	}
}

// pass is the verdict on a parcel that is neither dropped nor delayed, with the proxy locked.
func (p *Proxy) pass(l *link, to direction, next *parcel) verdict {
	v := verdict{pass: next.data, last: next.end}
	if to == toServer || !p.fault.cut || next.end {
		return v
	}
	if l.cutBy != p.fault {
		l.cutBy, l.replied = p.fault, 0
	}
	left := p.fault.cutAfter - l.replied
	v.pass, v.last = v.pass[:min(left, len(v.pass))], left <= len(v.pass)
	l.replied += len(v.pass)
	return v
}
