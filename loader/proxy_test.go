package loader_test

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// neverAsked is a client whose server must not be asked.
func neverAsked(t *testing.T) *redis.Client {
	opt := options("nowhere:0")
	opt.Dialer = nil
	rdb := clientOf(t, opt)
	rdb.AddHook(hook{
		before: func(cmd redis.Cmder) { t.Errorf("%s was asked", cmd.Name()) },
		piped:  func(cmds []redis.Cmder) { t.Errorf("%v were asked", cmds) },
	})
	return rdb
}

// fault is what a proxy does with one EVALSHA or EVAL, or one pipeline of them.
type fault struct {
	answer      string        // this instead of asking the server
	dropRequest bool          // hang up instead of asking the server
	dropReply   bool          // hang up instead of passing on what it answered
	silence     bool          // keep the reply and the connection
	late        time.Duration // pass the reply on so much later
	first       int           // hang up behind as many of the replies, of five integers each
}

// proxy stands between a client and a server and does what it is told with the next decisions.
type proxy struct {
	addr   string
	server string

	mu     sync.Mutex
	faults []fault
	held   []net.Conn
	seen   atomic.Int64 // EVALSHA and EVAL that the client sent
}

// listen serves connections of an address, one after the other.
func listen(t *testing.T, serve func(conn net.Conn)) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			serve(conn)
		}
	}()
	return l.Addr().String()
}

func newProxy(t *testing.T, server string) *proxy {
	p := &proxy{server: server}
	p.addr = listen(t, func(conn net.Conn) { go p.serve(conn) })
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, conn := range p.held {
			_ = conn.Close()
		}
	})
	return p
}

// next says what to do with the next decisions.
func (p *proxy) next(faults ...fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = faults
}

// replies are the first n replies in what a server answered.
func replies(answer []byte, n int) []byte {
	lines := bytes.SplitAfter(answer, []byte("\n"))
	return bytes.Join(lines[:min(6*n, len(lines))], nil)
}

func (p *proxy) fault(request []byte) fault {
	if !bytes.Contains(request, []byte("\r\neval")) {
		return fault{}
	}
	p.seen.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.faults) == 0 {
		return fault{}
	}
	f := p.faults[0]
	p.faults = p.faults[1:]
	return f
}

// serve passes requests and replies on, one after the other: a client that waits for each reply needs no
// more. A decision fits into one segment.
func (p *proxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	p.mu.Lock()
	p.held = append(p.held, client, server)
	p.mu.Unlock()

	var last atomic.Pointer[fault]
	last.Store(&fault{})
	go func() {
		defer func() { _ = client.Close() }()
		buffer := make([]byte, 64<<10)
		for {
			n, err := server.Read(buffer)
			switch f := last.Load(); {
			case err != nil, f.dropReply:
				return
			case f.silence:
				continue
			case f.late > 0:
				time.Sleep(f.late)
			case f.first > 0:
				_, _ = client.Write(replies(buffer[:n], f.first))
				return
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		f := p.fault(buffer[:n])
		last.Store(&f)
		to, bytes := server, buffer[:n]
		switch {
		case f.dropRequest:
			return
		case f.answer != "":
			to, bytes = client, []byte(f.answer)
		}
		if _, err := to.Write(bytes); err != nil {
			return
		}
	}
}
