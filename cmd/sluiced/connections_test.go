package main

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// Connections that send nothing, or half a request, or none after the first, keep out nobody; those that have a request
// are not closed.
func TestHalfOpenConnections(t *testing.T) {
	const most = 8
	addr := freePort(t)
	s := &server{settings: settings{maxConnections: most}, log: discard, failed: make(chan error, 1)}
	entered, leave := make(chan bool), make(chan bool)
	must(t, s.listenHTTP("http", addr, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			entered <- true
			<-leave
		}
	}), nil))
	defer s.close()
	slow := make(chan int)
	go func() { slow <- get("http://" + addr + "/slow") }()
	<-entered
	for i := range 3 * most {
		conn, err := net.Dial("tcp", addr)
		must(t, err)
		defer conn.Close()
		_, _ = fmt.Fprint(conn, []string{"", "GET /x HTTP/1.1\r\nHost: x\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"}[i%3])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range most {
		began := time.Now()
		response, err := client.Get("http://" + addr + "/")
		must(t, err)
		_ = response.Body.Close()
		if took := time.Since(began); took > exchangeTime/2 {
			t.Fatalf("a call took %v", took)
		}
	}
	close(leave)
	if status := <-slow; status != 200 {
		t.Errorf("a call that was on its way: %d", status)
	}
}

// A connection is closed only for another one that has come. While all are in use that one waits.
func TestConnectionsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		come := make(arriving)
		l := newIdleLimiter(come, 1)
		accepted := make(chan *limitedConn)
		accept := func() {
			conn, _ := l.Accept()
			accepted <- conn.(*limitedConn)
		}
		go accept()
		first := come.dial(accepted)
		go accept()
		synctest.Wait()
		if first.closed {
			t.Error("closed before another one came")
		}
		first.add(1)
		second := make(chan *limitedConn, 1)
		go func() { second <- come.dial(accepted) }()
		synctest.Wait()
		if first.closed || len(second) > 0 {
			t.Error("closed while in use")
		}
		first.add(-1)
		if (<-second).closed || !first.closed {
			t.Error("the idle one did not make room")
		}
	})
}

// arriving is a listener of connections that a test makes.
type arriving chan net.Conn

func (a arriving) Accept() (net.Conn, error) { return <-a, nil }
func (a arriving) Close() error              { return nil }
func (a arriving) Addr() net.Addr            { return nil }

func (a arriving) dial(accepted chan *limitedConn) *limitedConn {
	conn, _ := net.Pipe()
	a <- conn
	return <-accepted
}
