package faultproxy

import (
	"bytes"
	"context"
	"io"
	"net"
	"time"
)

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
	lost    *fault        // the fault that loses the next reply
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
	fault  *fault
	wait   time.Duration // judge again after this time, or when the fault ends
	pass   []byte        // data to forward
	answer []byte        // what goes back to the client
	last   bool          // end the link afterwards
}

func (v verdict) write(l *link, to direction) bool {
	if len(v.answer) > 0 {
		_, err := l.client.Write(v.answer)
		return err == nil
	}
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
	if to == toServer {
		return p.passCall(l, v)
	}
	if l.lost == p.fault {
		return verdict{last: true}
	}
	if !p.fault.cut || next.end {
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

// passCall is the verdict on a piece of requests, in which scripts may be called.
func (p *Proxy) passCall(l *link, v verdict) verdict {
	if p.fault.calls == callPasses {
		return v
	}
	calls := 0
	for _, name := range []string{"evalsha", "fcall", "eval"} {
		calls += bytes.Count(bytes.ToLower(v.pass), []byte("\n"+name+"\r\n"))
	}
	switch {
	case calls == 0:
	case p.fault.calls == callIsCut:
		return verdict{last: true}
	case p.fault.calls == replyIsLost:
		l.lost = p.fault
	case p.fault.calls == callIsRefused:
		return verdict{answer: bytes.Repeat(p.fault.answer, calls)}
	}
	return v
}
