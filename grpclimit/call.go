package grpclimit

import (
	"context"

	"github.com/sluice-redis/sluice/internal/admit"
)

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

// limitedCall is one call on its way, or a message of a stream.
type limitedCall struct {
	*Interceptor
	admit.Request
	call    *Call
	skipped bool
}

func (i *Interceptor) begin(call Call) *limitedCall {
	return &limitedCall{Interceptor: i, call: &call}
}

// enter takes slots, and permits if the call is charged now. The caller calls Release, also after a refusal or a panic.
func (a *limitedCall) enter(charged bool) error {
	skip := a.options.Skip
	a.skipped = skip != nil && skip(a.call)
	if a.skipped {
		return nil
	}
	parts := admit.Resources
	if charged {
		parts |= admit.Charges
	}
	return a.decide(parts)
}

// enterMessage charges one message of a stream.
func (a *limitedCall) enterMessage(message any) error {
	if a.skipped {
		return nil
	}
	call := *a.call
	call.Message = message
	return a.begin(call).decide(admit.Charges)
}

// decide decides, tells the observers, and returns the error of a refusal.
func (a *limitedCall) decide(parts admit.Part) error {
	if a.call.outgoing {
		parts |= admit.Waiting
	}
	a.door.Decide(a.call.ctx, &a.Request, a.call, parts)
	a.call.ctx = a.Request.Context()
	refused := refusalOf(a.Result)
	for _, observe := range a.options.observe {
		observe(a.call, Result{Result: a.Result, Code: refused.code()})
	}
	if refused == nil {
		return nil
	}
	return refused
}

// finish gives back what does not count by the result of the call, and returns that.
func (a *limitedCall) finish(err error) error {
	err = slotLost(a.call.ctx, err)
	_ = a.Finish(a.call.ctx, int(codeOf(err))) // the loader's observer is told
	return err
}

// Settle says what a call has used of its budgets: see Budgets. The last call before the handler returns counts. ctx is
// the context of the call that the handler got. Cost: nothing is sent.
func Settle(ctx context.Context, actual int64) { admit.Settle(ctx, actual) }
