package grpclimit

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
)

// serverStream is a stream in the context of its call, whose messages may be charged.
type serverStream struct {
	grpc.ServerStream
	limited *limitedCall
	denial  atomic.Pointer[error] // of a message; nothing is received after it
}

// Context returns the context of the call, which ends if a slot is lost.
func (s *serverStream) Context() context.Context { return s.limited.call.ctx }

// RecvMsg receives a message, and with PerMessage charges it.
func (s *serverStream) RecvMsg(m any) error {
	if denial := s.denial.Load(); denial != nil {
		return *denial
	}
	if err := s.ServerStream.RecvMsg(m); err != nil || !s.limited.options.perMessage {
		return err
	}
	err := s.limited.enterMessage(m)
	if err != nil {
		s.denial.Store(&err)
	}
	return err
}
