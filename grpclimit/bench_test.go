package grpclimit_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-redis/sluice/grpclimit"
	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// fixed is a limiter that costs nothing: what is measured beside it is the interceptor.
type fixed struct {
	loader.Limiter
	decision loader.Decision
}

func (f fixed) AllowN(context.Context, string, int64) (loader.Decision, error) {
	return f.decision, nil
}
func (f fixed) Name() string { return "api" }
func (f fixed) Check() error { return nil }

// byHand is an interceptor as one writes it for one limiter.
func byHand(limiter loader.Limiter) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		p, _ := peer.FromContext(ctx)
		address, _, err := net.SplitHostPort(p.Addr.String())
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, "no address")
		}
		d, err := limiter.AllowN(ctx, address, 1)
		if err != nil {
			return nil, status.Error(codes.Unavailable, "the limit cannot be checked now")
		}
		if d.Granted {
			return handler(ctx, req)
		}
		st, err := status.New(codes.ResourceExhausted, "limit exceeded").WithDetails(
			&errdetails.RetryInfo{RetryDelay: durationpb.New(d.Wait)},
			&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: "limiter:api"}}})
		if err != nil {
			return nil, err
		}
		return nil, st.Err()
	}
}

// BenchmarkUnaryServer is what the interceptor costs over calling the limiter by hand: with a limiter that costs
// nothing, and with a ListLog on a Redis server of this machine.
//
//	cd grpclimit && go test -run '^$' -bench UnaryServer -benchmem
func BenchmarkUnaryServer(b *testing.B) {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(b).Addr, ContextTimeoutEnabled: true})
	defer rdb.Close()
	perSecond := loader.Limit{Permits: 1_000_000, Window: time.Second}
	for _, row := range []struct {
		name    string
		limiter loader.Limiter
	}{
		{"granted", fixed{decision: loader.Decision{Granted: true}}},
		{"denied", fixed{decision: loader.Decision{Wait: time.Second, Limit: loader.PerMinute(5)}}},
		{"redis", loader.New(rdb).ListLog("api", perSecond)},
	} {
		limit := grpclimit.New(row.limiter, grpclimit.KeyByIP())
		must(b, limit.Check())
		b.Run(row.name+"/byHand", func(b *testing.B) { callServer(b, byHand(row.limiter)) })
		b.Run(row.name+"/New", func(b *testing.B) { callServer(b, limit.UnaryServer) })
	}
}

func callServer(b *testing.B, intercept grpc.UnaryServerInterceptor) {
	address := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 50051}
	ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: address})
	info := &grpc.UnaryServerInfo{FullMethod: unaryMethod}
	handler := func(context.Context, any) (any, error) { return nil, nil }
	b.ReportAllocs()
	for b.Loop() {
		_, _ = intercept(ctx, nil, info, handler)
	}
}
