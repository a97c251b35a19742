package grpclimit_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/sluice-redis/sluice/grpclimit"
	"github.com/sluice-redis/sluice/loader"
)

// A call whose deadline or MaxWait cannot be met ends at once and is not made.
func TestClientDeadline(t *testing.T) {
	limits, _ := newLimits(t)
	one, all := limits.ListLog("one", loader.PerHour(1)), grpclimit.KeyOf("all")
	bounded := limits.ListLog("one", loader.PerHour(1), loader.MaxWait(time.Second))
	slots := limits.Concurrency("slots", 1, time.Minute, loader.MaxWait(10*time.Millisecond))
	_, err := one.Allow(t.Context(), "all")
	must(t, err)
	held, err := slots.Acquire(t.Context(), "all")
	must(t, err)
	defer func() { must(t, held.Release()) }()
	for name, row := range map[string]struct {
		limit *grpclimit.Interceptor
		want  codes.Code
		retry time.Duration // at least
	}{
		"deadline": {grpclimit.New(one, all), codes.DeadlineExceeded, 0},
		"MaxWait":  {grpclimit.New(bounded, all), exhausted, 59 * time.Minute},
		"slot":     {grpclimit.AllOf(limits, nil, grpclimit.Slots(slots, all)), exhausted, time.Second},
	} {
		s := &service{}
		c := dialMemory(t, s, nil, clientWith(checked(t, row.limit))...)
		for kind, open := range kinds {
			err := open(c, within(t, 30*time.Minute))
			info, _ := detailsOf(err)
			var wait *loader.WaitError
			if got := info.GetRetryDelay().AsDuration(); status.Code(err) != row.want || got < row.retry ||
				(info == nil) != (row.retry == 0) || !errors.As(err, &wait) || s.calls.Load() != 0 {
				t.Errorf("%s, %s: %v, RetryInfo %v, %d calls", name, kind, err, info, s.calls.Load())
			}
		}
	}
}

// Several limiters are asked again until all grant.
func TestClientAllOf(t *testing.T) {
	var asked atomic.Int64
	limits, _ := newLimits(t, loader.Observe(loader.ObserverFunc(func(context.Context, loader.Event) { asked.Add(1) })))
	short := loader.Limit{Permits: 1, Window: 500 * time.Millisecond}
	one, two := limits.ListLog("one", short), limits.ListLog("two", loader.PerHour(5))
	all := grpclimit.KeyOf("all")
	quota := checked(t, grpclimit.AllOf(limits, []grpclimit.Charge{{Limiter: one, Key: all}, {Limiter: two, Key: all}}))
	c := dialMemory(t, &service{}, nil, clientWith(quota)...)
	wantCodes(t, c, ok, ok, ok)
	must(t, limits.Flush(t.Context()))
	if got := asked.Load(); got > 30 { // 2 limiters, and what one gives back: 3 events each time
		t.Errorf("%d decisions for 3 calls", got)
	}
	wantRemaining(t, two, "all", 2)
}

// A call that is cancelled while it waits ends at once, and is not made.
func TestClientCancelled(t *testing.T) {
	limits, _ := newLimits(t)
	long, all, asks := limits.ListLog("long", loader.PerHour(1)), grpclimit.KeyOf("all"), make(chan bool, 9)
	two := []grpclimit.Charge{{Limiter: long, Key: all}, {Limiter: limits.ListLog("two", loader.PerHour(5)), Key: all}}
	_, err := long.Allow(t.Context(), "all")
	must(t, err)
	for name, quota := range map[string]*grpclimit.Interceptor{
		"one": grpclimit.New(long, all, grpclimit.Cost(func(*grpclimit.Call) int64 { asks <- true; return 1 })),
		"two": grpclimit.PerRequest(limits, func(*grpclimit.Call) ([]grpclimit.Charge, error) {
			asks <- true
			return two, nil
		}),
	} {
		s := &service{}
		c := dialMemory(t, s, nil, clientWith(checked(t, quota))...)
		for kind, open := range kinds {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- open(c, ctx) }()
			<-asks
			cancel()
			if err := <-ended; status.Code(err) != codes.Canceled || s.calls.Load() > 0 {
				t.Errorf("%s, %s: %v, %d calls", name, kind, err, s.calls.Load())
			}
		}
	}
}

// Per message, each message that is sent waits, and a refused one ends the stream.
func TestClientPerMessage(t *testing.T) {
	limits, _ := newLimits(t)
	partner, all := limits.ListLog("partner", loader.PerHour(5)), grpclimit.KeyOf("all")
	quota := checked(t, grpclimit.New(partner, all, grpclimit.PerMessage()))
	c := dialTCP(t, &service{}, nil, clientWith(quota)...)
	ctx := within(t, time.Minute)
	must(t, unary(c, ctx))
	must(t, output(c, ctx))
	must(t, input(c, ctx))
	wantRemaining(t, partner, "all", 1)
	stream, err := c.FullDuplexCall(ctx)
	must(t, err)
	must(t, stream.Send(&pb.StreamingOutputCallRequest{}))
	if err := stream.Send(&pb.StreamingOutputCallRequest{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("the message over the limit: %v", err)
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Canceled {
		t.Errorf("the stream ended with %v", err)
	}
}

// A slot is held until a call or stream has ended, however it ends.
func TestClientSlots(t *testing.T) {
	limits, _ := newLimits(t)
	conns, all := limits.Concurrency("conns", 1, time.Minute), grpclimit.KeyOf("all")
	quota := checked(t, grpclimit.New(limits.ListLog("partner", loader.PerHour(100)), all, grpclimit.Slots(conns, all)))
	var result error
	s := &service{unary: func(context.Context, *pb.SimpleRequest) error {
		d, err := conns.Peek(t.Context(), "all")
		if err != nil || d.Remaining != 0 {
			t.Errorf("while a call runs: %+v, %v", d, err)
		}
		return result
	}}
	c := dialTCP(t, s, nil, clientWith(quota)...)
	for name, open := range kinds {
		for _, result = range []error{nil, status.Error(codes.NotFound, "")} {
			if err := open(c, within(t, 30*time.Second)); status.Code(err) != status.Code(result) {
				t.Errorf("%s: %v, want %v", name, err, result)
			}
			wantFree(t, conns)
		}
	}
	result = nil
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := c.FullDuplexCall(ctx) // left open
	must(t, err)
	must(t, stream.Send(&pb.StreamingOutputCallRequest{}))
	_, err = stream.Recv()
	must(t, err)
	wantRemainingSlots(t, conns, 0)
	cancel()
	awaitFree(t, conns)

	refusing := grpc.WithChainStreamInterceptor(func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string,
		grpc.Streamer, ...grpc.CallOption) (grpc.ClientStream, error) {
		return nil, errors.New("no stream")
	})
	c = dialTCP(t, s, nil, append(clientWith(quota), refusing)...)
	if _, err := c.FullDuplexCall(t.Context()); err == nil {
		t.Error("a stream")
	}
	wantFree(t, conns)
}

func wantFree(t *testing.T, slots loader.Concurrency) {
	t.Helper()
	wantRemainingSlots(t, slots, 1)
}

func wantRemainingSlots(t *testing.T, slots loader.Concurrency, want int64) {
	t.Helper()
	d, err := slots.Peek(t.Context(), "all")
	must(t, err)
	if d.Remaining != want {
		t.Errorf("%d free slots, want %d", d.Remaining, want)
	}
}

// A call that loses its slot is ABORTED.
func TestClientSlotLost(t *testing.T) {
	limits, _ := newLimits(t)
	conns, all := limits.Concurrency("conns", 1, time.Second), grpclimit.KeyOf("all")
	quota := checked(t, grpclimit.AllOf(limits, nil, grpclimit.Slots(conns, all)))
	s := &service{unary: func(ctx context.Context, _ *pb.SimpleRequest) error {
		must(t, conns.Reset(t.Context(), "all"))
		<-ctx.Done()
		return ctx.Err()
	}}
	c := dialMemory(t, s, nil, clientWith(quota)...)
	for name, open := range kinds {
		if err := open(c, within(t, 30*time.Second)); status.Code(err) != codes.Aborted {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Keys read what the client sends, and nothing that its own caller has sent.
func TestClientKeys(t *testing.T) {
	limits, _ := newLimits(t)
	partner := limits.ListLog("partner", loader.PerHour(9))
	quota := checked(t, grpclimit.New(partner, grpclimit.KeyByMetadata("x-user")))
	c := dialMemory(t, &service{}, nil, clientWith(quota)...)
	ctx := metadata.NewIncomingContext(within(t, 30*time.Second), metadata.Pairs("x-user", "caller"))
	if err := unary(c, ctx); status.Code(err) != codes.InvalidArgument {
		t.Errorf("without metadata: %v", err)
	}
	must(t, unary(c, as(ctx, "ada")))
	wantRemaining(t, partner, "ada", 8)
	c = dialMemory(t, &service{}, nil, clientWith(checked(t, grpclimit.New(partner, grpclimit.KeyByIP())))...)
	ctx = peer.NewContext(ctx, &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7)}}) // of its own caller
	if err := unary(c, ctx); status.Code(err) != codes.Internal {
		t.Errorf("by the address of its own caller: %v", err)
	}
}

// In shadow a client does not wait.
func TestClientShadow(t *testing.T) {
	limits, _ := newLimits(t)
	partner := limits.ListLog("partner", loader.PerHour(1))
	var denied []string
	slots := grpclimit.Slots(limits.Concurrency("slots", 0, time.Minute), grpclimit.KeyOf("all"))
	quota := checked(t, grpclimit.New(partner, grpclimit.KeyOf("all"), grpclimit.Shadow(), slots,
		grpclimit.Observe(func(_ *grpclimit.Call, r grpclimit.Result) { denied = append(denied, r.Denied(true)...) })))
	wantCodes(t, dialMemory(t, &service{}, nil, clientWith(quota)...), ok, ok, ok)
	if !slices.Equal(denied, []string{"slots", "partner", "slots", "partner", "slots"}) {
		t.Errorf("told of denials by %q", denied)
	}
}

// Without Redis a client's call is UNAVAILABLE here, and the cause can be found. With a deadline it rides out an
// outage.
func TestClientDeadRedis(t *testing.T) {
	limits, server := newLimits(t)
	quota := checked(t, grpclimit.New(limits.ListLog("partner", loader.PerHour(9)), grpclimit.KeyOf("all")))
	s := &service{}
	c := dialMemory(t, s, nil, clientWith(quota)...)
	must(t, unary(c, t.Context()))
	server.Kill()
	err := unary(c, t.Context())
	if status.Code(err) != codes.Unavailable || errors.Unwrap(err) == nil || s.calls.Load() != 1 {
		t.Errorf("without Redis: %v, cause %v, %d calls", err, errors.Unwrap(err), s.calls.Load())
	}
	ended := make(chan error, 1)
	go func() { ended <- unary(c, within(t, 30*time.Second)) }()
	server.Restart(t)
	must(t, <-ended)
}
