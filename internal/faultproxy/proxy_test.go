package faultproxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/internal/localredis"
)

// silence is how long a test listens for what must not come. It is not taken for proof: the proxy's counts are.
const silence = 50 * time.Millisecond

// forever is longer than any test.
const forever = time.Hour

// start starts a proxy, which closes with the test.
func start(t *testing.T, server string) *Proxy {
	t.Helper()
	p, err := Start(server, func(err error) { t.Error(err) })
	must(t, err)
	t.Cleanup(p.Close)
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// echo is a server that sends back each line it is sent, and the proxy in front of it.
func echo(t *testing.T) *Proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
		}
	}()
	return start(t, l.Addr().String())
}

// caller is a client of the echo server.
type caller struct {
	net.Conn
	t      *testing.T
	reader *bufio.Reader
}

func call(t *testing.T, p *Proxy) *caller {
	t.Helper()
	conn, err := net.DialTimeout("tcp", p.Addr, patience)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &caller{Conn: conn, t: t, reader: bufio.NewReader(conn)}
}

func (c *caller) say(line string) {
	c.t.Helper()
	_, err := io.WriteString(c.Conn, line+"\n")
	must(c.t, err)
}

// hears reads a line.
func (c *caller) hears(want string) {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if line, err := c.reader.ReadString('\n'); line != want+"\n" {
		c.t.Errorf("came %q, %v; want %q", line, err, want)
	}
}

// works sends a line and wants it back.
func (c *caller) works(line string) {
	c.t.Helper()
	c.say(line)
	c.hears(line)
}

// hearsNothing wants neither data nor the end of the connection.
func (c *caller) hearsNothing() {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(silence))
	if b, err := c.reader.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Errorf("came %q, %v; want nothing", b, err)
	}
}

// ends wants so much and then the end of the connection.
func (c *caller) ends(want string) {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	got, err := io.ReadAll(c.reader)
	if string(got) != want || errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Errorf("came %q, %v; want %q and the end", got, err, want)
	}
}

// await waits until the counts of a proxy are so.
func await(t *testing.T, p *Proxy, what string, isSo func(Counts) bool) {
	t.Helper()
	must(t, localredis.Await(what, func() bool { return isSo(p.Counts()) }))
}

func TestProxyPasses(t *testing.T) {
	p := echo(t)
	one, two := call(t, p), call(t, p)
	one.works("a")
	two.works("bb")
	_ = two.Close()
	await(t, p, "one is open", func(c Counts) bool { return c.Open == 1 })
	if c := p.Counts(); c != (Counts{Accepted: 2, Open: 1}) {
		t.Errorf("%+v", c)
	}
}

func TestProxySwallows(t *testing.T) {
	for name, test := range map[string]struct {
		swallow   func(*Proxy)
		live, new bool
	}{
		"live":       {(*Proxy).SwallowLive, true, false},
		"new":        {(*Proxy).SwallowNew, false, true},
		"everything": {(*Proxy).Swallow, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := echo(t)
			live, idle := call(t, p), call(t, p)
			live.works("a")
			idle.works("a")
			test.swallow(p)
			fresh := call(t, p)
			var silenced int64
			for c, swallowed := range map[*caller]bool{live: test.live, fresh: test.new} {
				if !swallowed {
					c.works("b")
					continue
				}
				silenced++
				c.say("bcd")
				await(t, p, "it is swallowed", func(c Counts) bool { return c.Swallowed == 4*silenced })
				c.hearsNothing()
			}
			p.Pass()
			for c, swallowed := range map[*caller]bool{live: test.live, fresh: test.new} {
				if swallowed {
					c.ends("") // it has a hole
				} else {
					c.works("e")
				}
			}
			idle.works("f")
			call(t, p).works("g")
			if c := p.Counts(); c.Silenced != silenced {
				t.Errorf("%+v, want %d silenced", c, silenced)
			}
		})
	}
}

// TestProxySwallowsReplies starts the fault while a reply is on its way.
func TestProxySwallowsReplies(t *testing.T) {
	p := echo(t)
	c := call(t, p)
	p.Delay(0, forever)
	c.say("abc")
	await(t, p, "the reply is held back", func(c Counts) bool { return c.Delayed == 1 })
	p.Swallow()
	await(t, p, "the reply is swallowed", func(c Counts) bool { return c.Swallowed == 4 })
	c.hearsNothing()
}

// TestProxyHidesEnds has the server close a connection while everything is swallowed.
func TestProxyHidesEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	p := start(t, l.Addr().String())
	c := call(t, p)
	server, err := l.Accept()
	must(t, err)
	p.Swallow()
	must(t, server.Close())
	c.hearsNothing()
	p.Pass()
	c.ends("")
	await(t, p, "none is open", func(c Counts) bool { return c.Open == 0 })
}

func TestProxyDelays(t *testing.T) {
	const delay = 60 * time.Millisecond
	for name, by := range map[string][2]time.Duration{
		"requests": {delay, 0}, "replies": {0, delay}, "both": {delay / 2, delay / 2},
	} {
		t.Run(name, func(t *testing.T) {
			p := echo(t)
			c := call(t, p)
			c.works("a")
			p.Delay(by[toServer], by[toClient])
			began := time.Now()
			c.works("b")
			if took := time.Since(began); took < delay {
				t.Errorf("came after %v, want %v or more", took, delay)
			}
		})
	}
}

// TestProxyEndsDelay wants what is held back, in its order, as soon as the fault ends.
func TestProxyEndsDelay(t *testing.T) {
	p := echo(t)
	c := call(t, p)
	p.Delay(forever, forever)
	c.say("a")
	await(t, p, "it is held back", func(c Counts) bool { return c.Delayed == 1 })
	c.say("b")
	c.hearsNothing()
	p.Pass()
	c.hears("a")
	c.hears("b")
}

func TestProxyCutsReplies(t *testing.T) {
	p := echo(t)
	c := call(t, p)
	c.works("before")
	p.CutReplies(9)
	c.works("abcd")
	c.say("efgh")
	c.ends("efgh")
	p.CutReplies(0)
	c = call(t, p)
	c.say("a")
	c.ends("")
	p.Pass()
	call(t, p).works("after")
}

func TestProxyRefuses(t *testing.T) {
	p := echo(t)
	c := call(t, p)
	c.works("a")
	for range 3 {
		p.Stall()
		if conn, err := net.DialTimeout("tcp", p.Addr, silence); err == nil || !err.(net.Error).Timeout() {
			t.Fatalf("%v, %v; want no answer", conn, err)
		}
		c.works("b")
		p.Refuse()
		if conn, err := net.Dial("tcp", p.Addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("%v, %v; want a refusal", conn, err)
		}
		c.works("b")
		p.Pass()
		call(t, p).works("c")
	}
	p.Refuse()
	p.Disconnect()
	c.ends("")
}

// TestProxyServerIsDown wants connections closed whose server is not there, and kept open where
// everything is swallowed.
func TestProxyServerIsDown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	p := start(t, l.Addr().String())
	call(t, p).ends("")
	p.Swallow()
	call(t, p).hearsNothing()
}

// TestProxyCalls wants faults that meet calls of scripts and nothing else.
func TestProxyCalls(t *testing.T) {
	for _, test := range []struct {
		set   func(*Proxy)
		ends  bool
		hears string
	}{
		{(*Proxy).CutCalls, true, ""},
		{(*Proxy).LoseReplies, true, ""},
		{func(p *Proxy) { p.RefuseCalls("OOM full") }, false, "-OOM full\r"},
	} {
		p := echo(t)
		test.set(p)
		c := call(t, p)
		c.works("PING")
		c.say("*3\r\n$7\r\nEvalSha\r")
		if test.ends {
			c.ends(test.hears)
		} else {
			c.hears(test.hears)
		}
		p.Pass()
		call(t, p).works("$7\r\nEVALSHA\r"[4:])
	}
}

// TestProxyConcurrently injects every fault from many goroutines, for the race detector, and wants the proxy to work
// afterwards.
func TestProxyConcurrently(t *testing.T) {
	p := echo(t)
	var work sync.WaitGroup
	for _, tell := range []func(){
		p.Pass, p.SwallowLive, p.SwallowNew, p.Swallow, p.Refuse, p.Disconnect,
		func() { p.Delay(time.Millisecond, time.Millisecond) }, func() { p.CutReplies(3) }, func() { p.Counts() },
	} {
		work.Go(func() {
			for range 50 {
				tell()
				conn, err := net.Dial("tcp", p.Addr)
				if err != nil {
					continue
				}
				_, _ = io.WriteString(conn, "hello\n")
				_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
				_, _ = io.ReadFull(conn, make([]byte, 6))
				_ = conn.Close()
			}
		})
	}
	work.Wait()
	p.Pass()
	call(t, p).works("still")
	await(t, p, "only one is open", func(c Counts) bool { return c.Open == 1 })
}
