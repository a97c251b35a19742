package httplimit

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"
	"weak"
)

// slotConn is a hijacked connection that holds slots until it is closed.
type slotConn struct {
	net.Conn
	release func()       // of the slots, once
	shown   *atomic.Bool // NetConn was called
}

// checkEvery is how soon it is noticed that nobody closes a slotConn any more.
const checkEvery = time.Second

// newSlotConn returns the connection with the slots. They are released also if its socket is closed without it (by what
// NetConn returns), or if nobody has it any more.
func newSlotConn(conn net.Conn, release func()) *slotConn {
	c := &slotConn{conn, release, new(atomic.Bool)}
	isGone := c.isGone()
	var check func()
	check = func() {
		if isGone() {
			release()
			return
		}
		time.AfterFunc(checkEvery, check)
	}
	time.AfterFunc(checkEvery, check)
	return c
}

// isGone returns a function that reports whether the socket is closed or forgotten, and does not keep it itself. A
// connection that is no socket, and that NetConn has returned, is never gone.
func (c *slotConn) isGone() func() bool {
	inside := c.Conn
	for {
		over, ok := inside.(interface{ NetConn() net.Conn }) // a tls.Conn, say
		if !ok {
			break
		}
		inside = over.NetConn()
	}
	switch socket := inside.(type) {
	case *net.TCPConn:
		return isClosed(weak.Make(socket))
	case *net.UnixConn:
		return isClosed(weak.Make(socket))
	}
	weakly, shown := weak.Make(c), c.shown
	return func() bool { return weakly.Value() == nil && !shown.Load() }
}

// isClosed returns a function that reports whether a socket is closed, or gone.
func isClosed[T any, P interface {
	*T
	syscall.Conn
}](weakly weak.Pointer[T]) func() bool {
	return func() bool {
		socket := P(weakly.Value())
		if socket == nil {
			return true
		}
		raw, err := socket.SyscallConn()
		return err != nil || raw.Control(func(uintptr) {}) != nil
	}
}

// Close closes the connection and releases the slots.
func (c *slotConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// NetConn returns the connection itself, as NetConn of tls.Conn does.
func (c *slotConn) NetConn() net.Conn {
	c.shown.Store(true)
	return c.Conn
}

// CloseWrite closes the writing side, if the connection can.
func (c *slotConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// ReadFrom and WriteTo let the kernel copy between connections.
func (c *slotConn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }

// WriteTo copies what the connection receives.
func (c *slotConn) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, c.Conn) }
