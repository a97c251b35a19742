package grpclimit

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"

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
	end, open := a.release, false
	defer func() {
		if !open {
			end()
		}
	}()
	if err := a.admit(!i.options.perMessage); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(a.call.ctx)
	end = func() {
		cancel()
		a.release()
	}
	opts = append(slices.Clip(opts), grpc.OnFinish(whenClosed(conn, end)))
	stream, err = streamer(ctx, desc, conn, method, opts...)
	if err != nil {
		return nil, slotLost(a.call.ctx, err)
	}
	open = true
	context.AfterFunc(ctx, a.release)
	return &clientStream{ClientStream: stream, admission: a, end: end, oneResponse: !desc.ServerStreams}, nil
}

// whenClosed ends a stream that gRPC has ended because its connection was closed: its context may never end. After any
// other end there may be another attempt.
func whenClosed(conn *grpc.ClientConn, end func()) func(error) {
	return func(error) {
		if conn.GetState() == connectivity.Shutdown {
			end()
		}
	}
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
	never := loader.Decision{Wait: loader.Never}
	d := loader.AllDecision{Decision: never, Denied: []loader.Part{{Decision: never}}} // by one, if it exceeds its limit
	if len(asks) == 1 {
		err = one.Limiter.WaitN(ctx, one.subject, one.permits())
	} else {
		d, err = a.waitAll(asks)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, loader.ErrExceedsLimit):
		return a.denied(asks, d, err)
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

// waitAll asks several limiters until all grant. With the error ErrExceedsLimit it returns which they are.
func (a *admission) waitAll(asks []ask) (loader.AllDecision, error) {
	ctx := a.call.ctx
	for {
		d, err := a.decideAll(asks)
		if d.Granted || errors.Is(err, loader.ErrExceedsLimit) || err != nil && len(d.Denied) == 0 {
			return d, err
		}
		denied := d.Denied[0]
		deadline, bounded := ctx.Deadline()
		if denied.Wait == loader.Never || bounded && time.Until(deadline) < denied.Wait {
			n := asks[denied.Index].permits()
			return d, &loader.WaitError{Limiter: denied.Limiter, N: n, Wait: denied.Wait, Deadline: deadline}
		}
		pause := time.NewTimer(denied.Wait + rand.N(maxJitter))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return d, ctx.Err()
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

// clientStream is a stream whose messages may have to wait. It ends for its caller, not with an attempt: interceptors
// behind this one may make several, or answer without any.
type clientStream struct {
	grpc.ClientStream
	admission   *admission
	end         func() // cancels the stream and frees its slots, any number of times
	oneResponse bool
}

// Header waits for the header.
func (s *clientStream) Header() (metadata.MD, error) {
	header, err := s.ClientStream.Header()
	return header, s.aborted(err)
}

// SendMsg sends a message, with PerMessage when it may be sent.
func (s *clientStream) SendMsg(m any) error {
	if s.admission.options.perMessage {
		if err := s.admission.admitMessage(m); err != nil {
			s.end()
			return err
		}
	}
	return s.aborted(s.ClientStream.SendMsg(m))
}

// aborted returns an error of Header or SendMsg. Unless it is io.EOF, it ends the stream: see grpc.ClientStream.
func (s *clientStream) aborted(err error) error {
	if err != nil && !errors.Is(err, io.EOF) {
		s.end()
	}
	return err
}

// RecvMsg receives a message.
func (s *clientStream) RecvMsg(m any) error {
	err := slotLost(s.admission.call.ctx, s.ClientStream.RecvMsg(m))
	if err != nil || s.oneResponse {
		s.end()
	}
	return err
}
