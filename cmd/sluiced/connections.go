package main

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

// idleLimiter is a listener of a limited number of connections. When another one comes, it closes the one that has been
// without a request for the longest time, so that clients who send none keep out nobody. The new one waits only while
// all others are in use.
type idleLimiter struct {
	net.Listener
	most int

	mu     sync.Mutex
	room   sync.Cond // there is a connection less, or an idle one more
	closed bool
	open   int
	idle   list.List // of *limitedConn, that which has waited for the longest time first
}

func newIdleLimiter(l net.Listener, most int) *idleLimiter {
	limiter := &idleLimiter{Listener: l, most: most}
	limiter.room.L = &limiter.mu
	return limiter
}

func (l *idleLimiter) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.open >= l.most && !l.closed {
		if oldest := l.idle.Front(); oldest != nil {
			_ = oldest.Value.(*limitedConn).close()
		} else {
			l.room.Wait()
		}
	}
	if l.closed {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	c := &limitedConn{Conn: conn, limiter: l}
	l.open++
	c.place = l.idle.PushBack(c)
	return c, nil
}

// Close closes the listener. A connection that waits is closed too.
func (l *idleLimiter) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.room.Signal()
	return l.Listener.Close()
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
	defer c.limiter.mu.Unlock()
	return c.close()
}

// close is Close for who has the lock.
func (c *limitedConn) close() error {
	if !c.closed {
		c.closed = true
		c.limiter.open--
		c.limiter.idle.Remove(c.place)
		c.limiter.room.Signal()
	}
	return c.Conn.Close()
}

// add adds to the number of requests.
func (c *limitedConn) add(requests int) {
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	c.limiter.idle.Remove(c.place)
	if c.requests += requests; c.requests == 0 && !c.closed {
		c.place = c.limiter.idle.PushBack(c)
		c.limiter.room.Signal()
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
