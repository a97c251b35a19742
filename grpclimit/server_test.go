package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/sluice-redis/sluice/grpclimit"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

const (
	ok        = codes.OK
	exhausted = codes.ResourceExhausted
)

// A client that comes back after RetryInfo is granted, and not a microsecond before.
func TestServerRetryInfo(t *testing.T) {
	server, clock := redistest.StartWithClock(t, redistest.Servers(t)[0])
	rdb := server.Client(t)
	clock.Stop()
	limits := loader.New(rdb)
	limit := checked(t, grpclimit.New(limits.ListLog("api", loader.PerMinute(2)), grpclimit.KeyByIP()))
	s := &service{}
	c := dialTCP(t, s, serverWith(limit))
	wantCodes(t, c, ok)
	clock.Step(10 * time.Second)
	wantCodes(t, c, ok)
	_, err := c.UnaryCall(within(t, 30*time.Second), &pb.SimpleRequest{})
	if got := status.Convert(err); got.Code() != exhausted || got.Message() != "limit exceeded: try again in 50s" {
		t.Errorf("refused with %v", err)
	}
	retry, quota := detailsOf(err)
	wantQuota := &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{
		{Subject: "limiter:api", QuotaId: "api", QuotaValue: 2, Description: "2 in 1m0s"},
	}}
	if diff := cmp.Diff(wantQuota, quota, protocmp.Transform()); diff != "" {
		t.Errorf("QuotaFailure (-want +got):\n%s", diff)
	}
	clock.Step(retry.GetRetryDelay().AsDuration() - time.Microsecond)
	wantCodes(t, c, exhausted)
	clock.Step(time.Microsecond)
	wantCodes(t, c, ok, exhausted)
	if got := s.calls.Load(); got != 3 {
		t.Errorf("the handler ran %d times, want 3", got)
	}
}

// A call that costs more than the limit, and one of a limit of 0, never come free: there is no RetryInfo.
func TestServerNever(t *testing.T) {
	limits, _ := newLimits(t)
	cost := grpclimit.Cost(func(c *grpclimit.Call) int64 { return int64(c.Message.(*pb.SimpleRequest).ResponseSize) })
	for name, limit := range map[string]*grpclimit.Interceptor{
		"cost":    grpclimit.New(limits.ListLog("cost", loader.PerMinute(5)), grpclimit.KeyOf("all"), cost),
		"limit 0": grpclimit.New(limits.ListLog("none", loader.PerMinute(0)), grpclimit.KeyOf("all")),
	} {
		c := dialMemory(t, &service{}, serverWith(checked(t, limit)))
		_, err := c.UnaryCall(within(t, 30*time.Second), &pb.SimpleRequest{ResponseSize: 6})
		if retry, _ := detailsOf(err); status.Code(err) != exhausted || retry != nil {
			t.Errorf("%s: %v, RetryInfo %v, want RESOURCE_EXHAUSTED without it", name, err, retry)
		}
	}
}

// openFunc makes a call of one kind.
type openFunc = func(pb.TestServiceClient, context.Context) error

var kinds = map[string]openFunc{"unary": unary, "output": output, "input": input, "duplex": duplex}

func unary(c pb.TestServiceClient, ctx context.Context) error {
	_, err := c.UnaryCall(ctx, &pb.SimpleRequest{})
	return err
}

// output receives all that the server sends.
func output(c pb.TestServiceClient, ctx context.Context) error {
	stream, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
	for err == nil {
		_, err = stream.Recv()
	}
	return unlessEOF(err)
}

// input sends two messages.
func input(c pb.TestServiceClient, ctx context.Context) error {
	stream, err := c.StreamingInputCall(ctx)
	for n := 0; err == nil && n < 2; n++ {
		err = stream.Send(&pb.StreamingInputCallRequest{})
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	_, err = stream.CloseAndRecv()
	return err
}

// duplex sends two messages and receives two.
func duplex(c pb.TestServiceClient, ctx context.Context) error {
	stream, err := c.FullDuplexCall(ctx)
	for n := 0; err == nil && n < 2; n++ {
		if err = stream.Send(&pb.StreamingOutputCallRequest{}); err == nil || errors.Is(err, io.EOF) {
			_, err = stream.Recv()
		}
	}
	if err != nil {
		return err
	}
	if err = stream.CloseSend(); err == nil {
		_, err = stream.Recv()
	}
	return unlessEOF(err)
}

func unlessEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Per message, a stream is refused at the message over the limit. What the server sends is not counted.
func TestServerPerMessage(t *testing.T) {
	limits, _ := newLimits(t)
	api := limits.ListLog("api", loader.PerMinute(5))
	limit := checked(t, grpclimit.New(api, grpclimit.KeyOf("all"), grpclimit.PerMessage()))
	c := dialTCP(t, &service{}, serverWith(limit))
	ctx := within(t, 30*time.Second)
	must(t, output(c, ctx)) // one message to the server, three from it
	wantRemaining(t, api, "all", 4)
	must(t, duplex(c, ctx))
	must(t, input(c, ctx))
	wantRemaining(t, api, "all", 0)
	for name, open := range map[string]openFunc{"output": output, "input": input, "duplex": duplex} {
		err := open(c, ctx)
		if retry, _ := detailsOf(err); status.Code(err) != exhausted || retry == nil {
			t.Errorf("%s: %v, RetryInfo %v", name, err, retry)
		}
	}
	stream, err := c.FullDuplexCall(ctx) // costs nothing until a message comes
	must(t, err)
	must(t, stream.CloseSend())
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("a stream without messages: %v", err)
	}
}

// Without a decision a call is UNAVAILABLE, and its text tells nothing of Redis. The fallback of a limiter stands in.
func TestServerDeadRedis(t *testing.T) {
	limits, server := newLimits(t, loader.Timeout(time.Second))
	server.Kill()
	with := func(opts ...loader.LimiterOption) pb.TestServiceClient {
		api := limits.ListLog("api", loader.PerMinute(2), opts...)
		return dialMemory(t, &service{}, serverWith(checked(t, grpclimit.New(api, grpclimit.KeyOf("all")))))
	}
	c := with()
	_, err := c.UnaryCall(within(t, 30*time.Second), &pb.SimpleRequest{})
	if got := status.Convert(err); got.Code() != codes.Unavailable || strings.Contains(got.Message(), server.Addr) {
		t.Errorf("without a fallback: %v", err)
	}
	if err := input(c, within(t, 30*time.Second)); status.Code(err) != codes.Unavailable {
		t.Errorf("a stream without a fallback: %v", err)
	}
	wantCodes(t, with(loader.FailLocal(1)), ok, ok, exhausted)
}

// QuotaFailure names those of several limiters that deny.
func TestServerAllOf(t *testing.T) {
	limits, _ := newLimits(t)
	limit := checked(t, grpclimit.AllOf(limits, []grpclimit.Charge{
		{Limiter: limits.ListLog("user", loader.PerMinute(1)), Key: grpclimit.KeyByMetadata("X-User")},
		{Limiter: limits.SliceRing("whole", []loader.Limit{loader.PerMinute(2)}), Key: grpclimit.KeyOf("all"),
			Name: "the whole service"},
	}))
	c := dialMemory(t, &service{}, serverWith(limit))
	for n, step := range []struct {
		user   string
		want   codes.Code
		denies []string
	}{
		{"ada", ok, nil}, {"ada", exhausted, []string{"user"}}, {"bob", ok, nil},
		{"ada", exhausted, []string{"the whole service", "user"}}, {"", codes.InvalidArgument, nil},
	} {
		_, err := c.UnaryCall(as(within(t, 30*time.Second), step.user), &pb.SimpleRequest{})
		_, quota := detailsOf(err)
		var denies []string
		for _, v := range quota.GetViolations() {
			denies = append(denies, v.QuotaId)
		}
		if slices.Sort(denies); status.Code(err) != step.want || !slices.Equal(denies, step.denies) {
			t.Errorf("call %d: %v by %q, want %v by %q", n+1, err, denies, step.want, step.denies)
		}
		must(t, limits.Flush(t.Context()))
	}
}

func as(ctx context.Context, user string) context.Context {
	if user == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "x-user", user)
}
