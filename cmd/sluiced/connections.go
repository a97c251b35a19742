package main

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"

	"golang.org/x/net/netutil"
)

// idleLimiter is a listener of a limited number of connections. When there are as many, it closes the one that has been
// without a request for the longest time, so that clients who send none keep out nobody. Connections wait only while
// all are in use.
type idleLimiter struct {
	net.Listener
	most int

	mu   sync.Mutex
	open int
	idle list.List // of *limitedConn, that which has waited for the longest time first
}

func newIdleLimiter(l net.Listener, most int) *idleLimiter {
	return &idleLimiter{Listener: netutil.LimitListener(l, most), most: most}
}

func (l *idleLimiter) Accept() (net.Conn, error) {
	l.makeRoom()
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &limitedConn{Conn: conn, limiter: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open++
	c.place = l.idle.PushBack(c)
	return c, nil
}

// makeRoom closes a connection if there is no place for another one.
func (l *idleLimiter) makeRoom() {
	l.mu.Lock()
	oldest := l.idle.Front()
	full := l.open >= l.most
	l.mu.Unlock()
	if full && oldest != nil {
		_ = oldest.Value.(*limitedConn).Close()
	}
}

// limitedConn is a connection of an idleLimiter.
type limitedConn struct {
	net.Conn
	limiter  *idleLimiter
	place    *list.Element // in idle, or removed from it while there are requests
	requests int
	closed   bool
}

// Close closes the connection, and frees its place.
func (c *limitedConn) Close() error {
	c.limiter.mu.Lock()
	if !c.closed {
		c.closed = true
		c.limiter.open--
		c.limiter.idle.Remove(c.place)
	}
	c.limiter.mu.Unlock()
	return c.Conn.Close()
}

// add adds to the number of requests.
func (c *limitedConn) add(requests int) {
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	c.limiter.idle.Remove(c.place)
	if c.requests += requests; c.requests == 0 && !c.closed {
		c.place = c.limiter.idle.PushBack(c)
	}
}

// connKey is the key of a request's *limitedConn.
type connKey struct{}

// limitIdle has a server tell an idleLimiter which connections have requests.
func limitIdle(h *http.Server) {
	next := h.Handler
	h.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if over, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
			conn = over.NetConn()
		}
		return context.WithValue(ctx, connKey{}, conn)
	}
	h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := r.Context().Value(connKey{}).(*limitedConn)
		conn.add(1)
		defer conn.add(-1)
		next.ServeHTTP(w, r)
	})
}
