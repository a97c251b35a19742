package policygrpc_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluice-redis/sluice/grpclimit"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/policy"
	"github.com/sluice-redis/sluice/policy/policygrpc"
)

const file = `
limits:
  unary:
    when: request.method == "POST" && request.path == "/grpc.testing.TestService/UnaryCall"
    by: ip(request.ip, 64)
    rates: 3/1m
  account:
    by: request.header["x-user"]
    empty: refuse
    rates: 2/1m
    count: response.status == 200
  plan:
    by: user.key
    empty: skip
    plan: user.plan
    plans: {free: 1/1m}
  tried:
    by: request.host
    empty: shared
    rates: 1/1m
    mode: shadow
`

// service answers with the code in the metadata.
type service struct {
	pb.UnimplementedTestServiceServer
}

func (service) UnaryCall(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	if wanted := metadata.ValueFromIncomingContext(ctx, "x-fail"); len(wanted) > 0 {
		return nil, status.Error(codes.NotFound, "not found")
	}
	return &pb.SimpleResponse{}, nil
}

func (service) FullDuplexCall(stream pb.TestService_FullDuplexCallServer) error {
	return stream.Send(&pb.StreamingOutputCallResponse{})
}

// policiesOf loads the file.
func policiesOf(t *testing.T, limits *loader.Loader, opts ...policy.Option) *policy.Policies {
	t.Helper()
	path := filepath.Join(t.TempDir(), "limits.yaml")
	must(t, os.WriteFile(path, []byte(file), 0o600))
	policies, err := policy.Load(limits, path, append(opts, policy.ReloadEvery(0))...)
	must(t, err)
	return policies
}

// A wrong option is found when the program starts.
func TestCheck(t *testing.T) {
	policies := policiesOf(t, newLoader(t))
	must(t, policygrpc.New(policies, nil, grpclimit.PerMessage()).Check())
	invalid := policygrpc.New(policies, nil, grpclimit.Cost(func(*grpclimit.Call) int64 { return 2 }))
	if err := invalid.Check(); err == nil || !strings.Contains(err.Error(), "LimiterBy and Cost") {
		t.Errorf("Cost: %v", err)
	}
}

// dial serves the file over a real connection.
func dial(t *testing.T, limits *loader.Loader, opts ...policy.Option) pb.TestServiceClient {
	t.Helper()
	limit := policygrpc.New(policiesOf(t, limits, opts...), func(ctx context.Context) map[string]string {
		return map[string]string{"user.key": strings.Join(metadata.ValueFromIncomingContext(ctx, "x-key"), ""),
			"user.plan": "free"}
	})
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limit.UnaryServer),
		grpc.ChainStreamInterceptor(limit.StreamServer))
	pb.RegisterTestServiceServer(server, service{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return pb.NewTestServiceClient(conn)
}

func newLoader(t *testing.T) *loader.Loader {
	return loader.New(redistest.Client(t, miniredis.RunT(t).Addr()), loader.Timeout(10*time.Second)) // this machine may be busy
}

// unary and stream are calls with metadata "name=value ..".
func unary(client pb.TestServiceClient, md string) error {
	_, err := client.UnaryCall(with(md), &pb.SimpleRequest{})
	return err
}

func stream(client pb.TestServiceClient, md string) error {
	s, err := client.FullDuplexCall(with(md))
	if err != nil {
		return err
	}
	_, err = s.Recv()
	return err
}

func with(md string) context.Context {
	ctx := context.Background()
	for _, word := range strings.Fields(md) {
		name, value, _ := strings.Cut(word, "=")
		ctx = metadata.AppendToOutgoingContext(ctx, name, value)
	}
	return ctx
}

func TestCalls(t *testing.T) {
	var mu sync.Mutex
	var got []string
	limits := newLoader(t)
	client := dial(t, limits, policy.Observe(func(_ context.Context, d policy.Decision, err error) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprintf("%v %s %v", d.Granted, d.Policy, d.Refused))
	}))
	for n, c := range []struct {
		call func(pb.TestServiceClient, string) error
		md   string
		want codes.Code
		got  string
	}{
		{unary, "x-user=ada", codes.OK, "true account false"},
		{unary, "", codes.InvalidArgument, "false account true"},
		{unary, "x-user=ada x-fail=1", codes.NotFound, "true account false"},
		{stream, "x-user=ada", codes.OK, "true account false"},
		{stream, "x-user=ada", codes.ResourceExhausted, "false account false"},
		{unary, "x-user=bob", codes.OK, "true unary false"},
		{unary, "x-user=eve", codes.ResourceExhausted, "false unary false"},
		{stream, "x-user=eve x-key=k1", codes.OK, "true plan false"},
		{stream, "x-user=eve x-key=k1", codes.ResourceExhausted, "false plan false"},
	} {
		err := c.call(client, c.md)
		if got := status.Code(err); got != c.want {
			t.Errorf("call %d: %v, want %v", n, err, c.want)
		}
		if c.want == codes.ResourceExhausted && !slices.ContainsFunc(status.Convert(err).Details(), isRetryInfo) {
			t.Errorf("call %d: no RetryInfo", n)
		}
		mu.Lock()
		if diff := cmp.Diff([]string{c.got}, got); diff != "" {
			t.Errorf("call %d: the observer is told (-want +got)\n%s", n, diff)
		}
		got = nil
		mu.Unlock()
		must(t, limits.Flush(context.Background()))
	}
}

func isRetryInfo(detail any) bool {
	_, ok := detail.(*errdetails.RetryInfo)
	return ok
}

func TestStatus(t *testing.T) {
	for code, want := range map[codes.Code]int{
		codes.OK: 200, codes.Unauthenticated: 401, codes.NotFound: 404, codes.Internal: 500, codes.Code(99): 500,
	} {
		if got := policygrpc.Status(code); got != want {
			t.Errorf("%v: got %d, want %d", code, got, want)
		}
	}
}

// An Interceptor that nobody made refuses every call, and Check says so.
func TestNobodyMadeIt(t *testing.T) {
	var zero policygrpc.Interceptor
	info := grpc.UnaryServerInfo{FullMethod: "/grpc.testing.TestService/UnaryCall"}
	handler := func(context.Context, any) (any, error) { return nil, nil }
	if _, err := zero.UnaryServer(t.Context(), nil, &info, handler); status.Code(err) != codes.Internal {
		t.Errorf("got %v, want INTERNAL", err)
	}
	if zero.Check() == nil {
		t.Error("Check finds nothing wrong")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
