package main

import (
	"fmt"
	"net"
	"net/http"
	"testing"
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

// While all connections are in use another one waits, until one of them has no request any more. None is closed before.
func TestConnectionsWait(t *testing.T) {
	addr := freePort(t)
	s := &server{settings: settings{maxConnections: 1}, log: discard, failed: make(chan error, 1)}
	entered, leave := make(chan bool), make(chan bool)
	must(t, s.listenHTTP("http", addr, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		entered <- true
		<-leave
	}), nil))
	statuses := make(chan int)
	call := func() { statuses <- get("http://" + addr) }
	go call()
	<-entered
	go call()
	select {
	case <-entered:
		t.Error("a second call beside the one connection that may be open")
	case status := <-statuses:
		t.Errorf("it was answered by %d before a connection was free", status)
	case <-time.After(100 * time.Millisecond):
	}
	leave <- true
	<-entered
	leave <- true
	for range 2 {
		if status := <-statuses; status != 200 {
			t.Errorf("got %d, want 200", status)
		}
	}
	s.close()
}
