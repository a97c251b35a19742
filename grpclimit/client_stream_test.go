package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluice-redis/sluice/grpclimit"
	"github.com/sluice-redis/sluice/loader"
)

// streamInterceptor is a function that is chained behind the limit.
type streamInterceptor = func(
	context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, grpc.Streamer, ...grpc.CallOption,
) (grpc.ClientStream, error)

// retried makes one attempt that fails before the one that its caller gets.
func retried(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	first, err := streamer(ctx, desc, conn, method, opts...)
	if err != nil {
		return nil, err
	}
	err = errors.Join(first.SendMsg(&pb.StreamingOutputCallRequest{}), first.CloseSend())
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := first.RecvMsg(&pb.StreamingOutputCallResponse{}); status.Code(err) != codes.Unavailable {
		return nil, status.Errorf(codes.Internal, "the first attempt: %v", err)
	}
	return streamer(ctx, desc, conn, method, opts...)
}

// An interceptor behind the limit may make another attempt. It is the same call, which keeps its slot and is charged
// once.
func TestClientStreamRetried(t *testing.T) {
	for name, open := range kinds {
		if name == "unary" {
			continue
		}
		limits, _ := newLimits(t)
		partner, all := limits.ListLog("partner", loader.PerHour(9)), grpclimit.KeyOf("all")
		conns := limits.Concurrency("conns", 1, time.Minute)
		quota := checked(t, grpclimit.New(partner, all, grpclimit.Slots(conns, all)))
		s := &service{}
		s.unary = func(context.Context, *pb.SimpleRequest) error {
			wantRemainingSlots(t, conns, 0)
			if s.calls.Load() == 1 {
				return status.Error(codes.Unavailable, "")
			}
			return nil
		}
		c := dialTCP(t, s, nil, append(clientWith(quota), grpc.WithChainStreamInterceptor(retried))...)
		if err := open(c, within(t, 30*time.Second)); err != nil || s.calls.Load() != 2 {
			t.Errorf("%s: %v, %d calls", name, err, s.calls.Load())
		}
		wantFree(t, conns)
		wantRemaining(t, partner, "all", 8)
	}
}

// cached is a stream that no server answers.
type cached struct {
	grpc.ClientStream
	ctx     context.Context
	results chan error // of RecvMsg
	abort   error      // of Header and SendMsg
}

func (c *cached) Context() context.Context { return c.ctx }
func (c *cached) CloseSend() error         { return nil }
func (c *cached) RecvMsg(any) error        { return <-c.results }
func (c *cached) SendMsg(any) error        { return c.abort }

func (c *cached) Header() (metadata.MD, error) { return nil, c.abort }

// cachedWith answers each stream with results, or aborts it.
func cachedWith(abort error, results ...error) streamInterceptor {
	return func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ grpc.Streamer,
		_ ...grpc.CallOption) (grpc.ClientStream, error) {
		c := &cached{ctx: ctx, results: make(chan error, len(results)), abort: abort}
		for _, result := range results {
			c.results <- result
		}
		return c, nil
	}
}

// header waits for the header of a stream.
func header(c pb.TestServiceClient, ctx context.Context) error {
	stream, err := c.FullDuplexCall(ctx)
	if err == nil {
		_, err = stream.Header()
	}
	return err
}

// The slot of a stream that an interceptor behind the limit answers is free when the answer has ended, or the call.
func TestClientStreamAnswered(t *testing.T) {
	limits, _ := newLimits(t)
	conns, all := limits.Concurrency("conns", 1, time.Minute), grpclimit.KeyOf("all")
	quota := checked(t, grpclimit.AllOf(limits, nil, grpclimit.Slots(conns, all)))
	dial := func(behind streamInterceptor) pb.TestServiceClient {
		return dialMemory(t, &service{}, nil, append(clientWith(quota), grpc.WithChainStreamInterceptor(behind))...)
	}
	notFound := status.Error(codes.NotFound, "")
	for name, row := range map[string]struct {
		open    openFunc
		abort   error
		results []error
		want    codes.Code
	}{
		"an end":     {output, nil, []error{nil, io.EOF}, ok},
		"an error":   {output, nil, []error{nil, notFound}, codes.NotFound},
		"a response": {input, nil, []error{nil}, ok},
		"a message":  {input, notFound, nil, codes.NotFound},
		"a header":   {header, notFound, nil, codes.NotFound},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if err := row.open(dial(cachedWith(row.abort, row.results...)), ctx); status.Code(err) != row.want {
			t.Errorf("%s: %v", name, err)
		}
		wantFree(t, conns)
		cancel()
		awaitFree(t, conns)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := dial(cachedWith(nil, nil)).FullDuplexCall(ctx) // left open
	must(t, err)
	_, err = stream.Recv()
	must(t, err)
	wantRemainingSlots(t, conns, 0)
	cancel()
	awaitFree(t, conns)
}

// A stream of a context that never ends frees its slot when its connection is closed, also with another attempt behind
// the limit.
func TestClientConnClosed(t *testing.T) {
	limits, _ := newLimits(t)
	conns, all := limits.Concurrency("conns", 1, time.Minute), grpclimit.KeyOf("all")
	quota := checked(t, grpclimit.AllOf(limits, nil, grpclimit.Slots(conns, all)))
	unavailableOnce := func() *service {
		s := &service{}
		s.unary = func(context.Context, *pb.SimpleRequest) error {
			if s.calls.Load() == 1 {
				return status.Error(codes.Unavailable, "")
			}
			return nil
		}
		return s
	}
	for name, row := range map[string]struct {
		s       *service
		options []grpc.DialOption
	}{
		"one attempt": {&service{}, nil},
		"two":         {unavailableOnce(), []grpc.DialOption{grpc.WithChainStreamInterceptor(retried)}},
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		serve(t, listener, row.s, nil)
		options := append(clientWith(quota), grpc.WithTransportCredentials(insecure.NewCredentials()))
		conn, err := grpc.NewClient(listener.Addr().String(), append(options, row.options...)...)
		must(t, err)
		stream, err := pb.NewTestServiceClient(conn).FullDuplexCall(context.Background())
		must(t, err)
		must(t, stream.Send(&pb.StreamingOutputCallRequest{}))
		_, err = stream.Recv()
		must(t, err)
		wantRemainingSlots(t, conns, 0)
		must(t, conn.Close())
		awaitFree(t, conns)
		if _, err := stream.Recv(); status.Code(err) != codes.Canceled {
			t.Errorf("%s: %v", name, err)
		}
	}
}
