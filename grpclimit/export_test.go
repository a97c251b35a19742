package grpclimit

import "context"

// NewCall is a call of a server.
func NewCall(ctx context.Context, method string, message any) *Call {
	return &Call{Method: method, Message: message, ctx: ctx}
}
