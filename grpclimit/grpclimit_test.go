package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sluice-redis/sluice/grpclimit"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

const (
	unaryMethod = "/grpc.testing.TestService/UnaryCall"
	emptyMethod = "/grpc.testing.TestService/EmptyCall"
)

// service is a TestService of gRPC's interoperability tests. Each call runs its function.
type service struct {
	pb.UnimplementedTestServiceServer
	unary func(context.Context, *pb.SimpleRequest) error
	calls atomic.Int64 // of handlers, streams included
}

func (s *service) run(ctx context.Context, req *pb.SimpleRequest) error {
	s.calls.Add(1)
	if s.unary == nil {
		return nil
	}
	return s.unary(ctx, req)
}

func (s *service) EmptyCall(ctx context.Context, _ *pb.Empty) (*pb.Empty, error) {
	return &pb.Empty{}, s.run(ctx, nil)
}

func (s *service) UnaryCall(ctx context.Context, req *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{}, s.run(ctx, req)
}

// StreamingOutputCall sends three messages.
func (s *service) StreamingOutputCall(
	_ *pb.StreamingOutputCallRequest, stream grpc.ServerStreamingServer[pb.StreamingOutputCallResponse],
) error {
	if err := s.run(stream.Context(), nil); err != nil {
		return err
	}
	for range 3 {
		if err := stream.Send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
	return nil
}

// StreamingInputCall answers how many messages it has received.
func (s *service) StreamingInputCall(
	stream grpc.ClientStreamingServer[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse],
) error {
	if err := s.run(stream.Context(), nil); err != nil {
		return err
	}
	for n := int32(0); ; n++ {
		_, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: n})
		}
		if err != nil {
			return err
		}
	}
}

// FullDuplexCall answers each message with one.
func (s *service) FullDuplexCall(
	stream grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse],
) error {
	if err := s.run(stream.Context(), nil); err != nil {
		return err
	}
	for {
		if _, err := stream.Recv(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := stream.Send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// serverWith are the options of a server with an interceptor. Before it, panics become INTERNAL.
func serverWith(limits ...*grpclimit.Interceptor) []grpc.ServerOption {
	options := []grpc.ServerOption{grpc.ChainUnaryInterceptor(recoverUnary), grpc.ChainStreamInterceptor(recoverStream)}
	for _, limit := range limits {
		options = append(options, grpc.ChainUnaryInterceptor(limit.UnaryServer),
			grpc.ChainStreamInterceptor(limit.StreamServer))
	}
	return options
}

func recoverUnary(
	ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (resp any, err error) {
	defer recovered(&err)
	return handler(ctx, req)
}

func recoverStream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer recovered(&err)
	return handler(srv, ss)
}

func recovered(err *error) {
	if p := recover(); p != nil {
		*err = status.Errorf(codes.Internal, "panic: %v", p)
	}
}

// clientWith are the options of a client with an interceptor.
func clientWith(limit *grpclimit.Interceptor) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(limit.UnaryClient), grpc.WithChainStreamInterceptor(limit.StreamClient)}
}

// dialTCP serves on a TCP port, and returns a client of it.
func dialTCP(t *testing.T, s *service, options []grpc.ServerOption, dial ...grpc.DialOption) pb.TestServiceClient {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	serve(t, listener, s, options)
	return client(t, listener.Addr().String(), dial...)
}

// dialMemory serves in memory, and returns a client of it.
func dialMemory(t *testing.T, s *service, options []grpc.ServerOption, dial ...grpc.DialOption) pb.TestServiceClient {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	serve(t, listener, s, options)
	return client(t, "passthrough:memory", append(dial, grpc.WithContextDialer(
		func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))...)
}

func serve(t *testing.T, listener net.Listener, s *service, options []grpc.ServerOption) {
	t.Helper()
	server := grpc.NewServer(options...)
	pb.RegisterTestServiceServer(server, s)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		must(t, <-ended)
	})
}

func client(t *testing.T, target string, options ...grpc.DialOption) pb.TestServiceClient {
	t.Helper()
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient(target, options...)
	must(t, err)
	t.Cleanup(func() { must(t, conn.Close()) })
	return pb.NewTestServiceClient(conn)
}

// newLimits starts a Redis server for limits.
func newLimits(t *testing.T, options ...loader.Option) (*loader.Loader, *redistest.Server) {
	t.Helper()
	server := redistest.Start(t)
	return loader.New(server.Client(t), options...), server
}

func checked(t *testing.T, limit *grpclimit.Interceptor) *grpclimit.Interceptor {
	t.Helper()
	must(t, limit.Check())
	return limit
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// within is a context for calls that end by themselves.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// call makes a unary call, and returns its code.
func call(t *testing.T, c pb.TestServiceClient) codes.Code {
	t.Helper()
	_, err := c.UnaryCall(within(t, 30*time.Second), &pb.SimpleRequest{})
	return status.Code(err)
}

func wantCodes(t *testing.T, c pb.TestServiceClient, want ...codes.Code) {
	t.Helper()
	for n, code := range want {
		if got := call(t, c); got != code {
			t.Errorf("call %d: %v, want %v", n+1, got, code)
		}
	}
}

// detailsOf returns the details of a status; nil: there are none.
func detailsOf(err error) (retry *errdetails.RetryInfo, quota *errdetails.QuotaFailure) {
	for _, detail := range status.Convert(err).Details() {
		switch detail := detail.(type) {
		case *errdetails.RetryInfo:
			retry = detail
		case *errdetails.QuotaFailure:
			quota = detail
		}
	}
	return retry, quota
}

// wantRemaining checks what a subject has left.
func wantRemaining(t *testing.T, limiter loader.Limiter, subject string, want int64) {
	t.Helper()
	d, err := limiter.Peek(t.Context(), subject)
	must(t, err)
	if d.Remaining != want {
		t.Errorf("%q has %d left, want %d", subject, d.Remaining, want)
	}
}
