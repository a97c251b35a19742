package httplimit

import (
	"errors"
	"io"
	"net"
	"runtime"
)

// slotConn is a hijacked connection that holds slots until it is closed, or nobody has it any more.
type slotConn struct {
	net.Conn
	release func() // of the slots, once
}

func newSlotConn(conn net.Conn, release func()) *slotConn {
	c := &slotConn{conn, release}
	runtime.AddCleanup(c, func(release func()) { go release() }, release)
	return c
}

// Close closes the connection and releases the slots.
func (c *slotConn) Close() error {
	defer c.release()
	return c.Conn.Close()
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
