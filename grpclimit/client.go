package grpclimit

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/sluice-redis/sluice/loader"
)

// UnaryClient makes the unary calls of a client wait until their permits may be used, so that a partner's quota is
// kept: see grpc.WithChainUnaryInterceptor. If the call's deadline cannot be met, it is DEADLINE_EXCEEDED at once, and
// nothing is charged. The other refusals are those of UnaryServer; errors.As finds the loader's error in them.
//
// One limiter is asked by WaitN, in the order of asking across all processes where the limiter has one. Several are
// asked as those of AllOf are, and again when the permits come free: without an order, and without MaxWait.
//
// What gRPC retries by itself (a retryPolicy in the service config) is not counted again: interceptors see a call once.
//
// Cost: one round trip for each call, more for several limiters that deny; for a slot, two.
func (i *Interceptor) UnaryClient(
	ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoker grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	a := i.admission(Call{Method: method, Message: req, ctx: ctx, outgoing: true})
	defer a.release()
	if err := a.admit(true); err != nil {
		return err
	}
	return slotLost(a.call.ctx, invoker(a.call.ctx, method, req, reply, conn, opts...))
}

// StreamClient makes the streams of a client wait before they begin, or with PerMessage before each message that is
// sent: see grpc.WithChainStreamInterceptor. The rest is as with UnaryClient. If a message is refused, the stream ends.
func (i *Interceptor) StreamClient(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer,
	opts ...grpc.CallOption,
) (stream grpc.ClientStream, err error) {
	a := i.admission(Call{Method: method, ctx: ctx, outgoing: true})
	open := false
	defer func() {
		if !open {
			a.release()
		}
	}()
	if err := a.admit(!i.options.perMessage); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(a.call.ctx)
	ended := func(error) {
		cancel()
		a.release()
	}
	stream, err = streamer(ctx, desc, conn, method, append(opts[:len(opts):len(opts)], grpc.OnFinish(ended))...)
	if err != nil {
		cancel()
		return nil, slotLost(a.call.ctx, err)
	}
	open = true
	return &clientStream{ClientStream: stream, admission: a, cancel: cancel}, nil
}

// waitForSlot waits for a slot.
func (a *admission) waitForSlot(limiter loader.Concurrency, subject string) (*loader.Slot, *refusal) {
	slot, err := limiter.Acquire(a.call.ctx, subject)
	if err != nil {
		return nil, waitFailure(a.call.ctx, err, Decision{Policy: nameOf(limiter), Slot: true}, time.Second)
	}
	return slot, nil
}

// wait waits until all limiters have granted.
func (a *admission) wait(asks []ask) *refusal {
	ctx, one := a.call.ctx, asks[0]
	err := checkClient(asks)
	if err != nil {
		return misconfigured(err)
	}
	if len(asks) == 1 {
		err = one.Limiter.WaitN(ctx, one.subject, one.permits())
	} else {
		err = a.waitAll(asks)
	}
	if err == nil {
		return nil
	}
	return waitFailure(ctx, err, Decision{Policy: one.name(), Subject: one.subject}, loader.Never)
}

// checkClient returns why a client cannot do what the charges want.
func checkClient(asks []ask) error {
	for _, a := range asks {
		if a.CountIf != nil {
			return errors.New("grpclimit: CountIf is for servers: a client has waited for its permits")
		}
	}
	return nil
}

// waitAll asks several limiters until all grant.
func (a *admission) waitAll(asks []ask) error {
	ctx := a.call.ctx
	for {
		d, err := a.decideAll(asks)
		if err != nil && len(d.Denied) == 0 || d.Granted {
			return err
		}
		denied := d.Denied[0]
		deadline, bounded := ctx.Deadline()
		if denied.Wait == loader.Never || bounded && time.Until(deadline) < denied.Wait {
			n := askOf(denied, asks).permits()
			return &loader.WaitError{Limiter: denied.Limiter, N: n, Wait: denied.Wait, Deadline: deadline}
		}
		pause := time.NewTimer(denied.Wait + rand.N(maxJitter))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
	}
}

// maxJitter keeps callers apart that were denied together: see loader.All.
const maxJitter = 10 * time.Millisecond

// waitFailure is the refusal of a call that did not get what it waited for.
func waitFailure(ctx context.Context, err error, d Decision, retry time.Duration) *refusal {
	var wait *loader.WaitError
	switch {
	case ctx.Err() != nil || !errors.As(err, &wait):
		return failure(ctx, err)
	case errors.Is(err, context.DeadlineExceeded):
		return refuse(Denied, codes.DeadlineExceeded, "the limit would be free after the deadline", err)
	case wait.Wait > 0:
		retry = wait.Wait
	}
	return denial([]Decision{d}, retry, err)
}

// clientStream is a stream whose messages may have to wait.
type clientStream struct {
	grpc.ClientStream
	admission *admission
	cancel    context.CancelFunc
}

// SendMsg sends a message, with PerMessage when it may be sent.
func (s *clientStream) SendMsg(m any) error {
	if s.admission.options.perMessage {
		if err := s.admission.admitMessage(m); err != nil {
			s.cancel()
			return err
		}
	}
	return s.ClientStream.SendMsg(m)
}

// RecvMsg receives a message.
func (s *clientStream) RecvMsg(m any) error {
	return slotLost(s.admission.call.ctx, s.ClientStream.RecvMsg(m))
}
