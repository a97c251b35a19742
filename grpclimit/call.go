package grpclimit

import "context"

// Call is a call, or a message of a stream, that is about to be limited.
type Call struct {
	// Method is the full method, "/shop.Orders/Place".
	Method string

	// Message is the request of a unary call, or with PerMessage the message of a stream. It is nil at the beginning of
	// a stream.
	Message any

	ctx      context.Context
	outgoing bool // it is a client's
}

// Context returns the context of the call. On a server it has the peer and the incoming metadata, on a client the
// outgoing metadata.
func (c *Call) Context() context.Context { return c.ctx }
