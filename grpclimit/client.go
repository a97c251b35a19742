package grpclimit

import (
	"context"
	"errors"
	"io"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
)

// UnaryClient makes the unary calls of a client wait until their permits may be used, so that a partner's quota is
// kept: see grpc.WithChainUnaryInterceptor. If the call's deadline cannot be met, it is DEADLINE_EXCEEDED at once, and
// nothing is charged. Other refusals are as in UnaryServer; errors.As finds the loader's error in them.
//
// One limiter is asked by WaitN, which books in the order in which calls reach Redis where the limiter can. Several are
// asked as in AllOf, and again when the permits come free: without an order, and without MaxWait.
//
// What gRPC retries by itself (a retryPolicy in the service config) is not counted again: interceptors see a call once.
//
// Cost: one round trip for each call, more for several limiters that deny; for a slot, two.
func (i *Interceptor) UnaryClient(
	ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoker grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	a := i.begin(Call{Method: method, Message: req, ctx: ctx, outgoing: true})
	defer a.Release()
	if err := a.enter(true); err != nil {
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
	a := i.begin(Call{Method: method, ctx: ctx, outgoing: true})
	end, open := a.Release, false
	defer func() {
		if !open {
			end()
		}
	}()
	if err := a.enter(!i.options.perMessage); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(a.call.ctx)
	stop := context.AfterFunc(ctx, a.Release)
	end = func() {
		stop() // so that the slots are free when this returns
		cancel()
		a.Release()
	}
	opts = append(slices.Clip(opts), grpc.OnFinish(whenClosed(conn, end)))
	stream, err = streamer(ctx, desc, conn, method, opts...)
	if err != nil {
		return nil, slotLost(a.call.ctx, err)
	}
	open = true
	return &clientStream{ClientStream: stream, limited: a, end: end, oneResponse: !desc.ServerStreams}, nil
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

// clientStream is a stream whose messages may have to wait. It ends for its caller, not with an attempt: interceptors
// behind this one may make several, or answer without any.
type clientStream struct {
	grpc.ClientStream
	limited     *limitedCall
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
	if s.limited.options.perMessage {
		if err := s.limited.enterMessage(m); err != nil {
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
	err := slotLost(s.limited.call.ctx, s.ClientStream.RecvMsg(m))
	if err != nil || s.oneResponse {
		s.end()
	}
	return err
}
