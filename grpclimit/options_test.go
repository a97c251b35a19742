package grpclimit_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/sluice-redis/sluice/grpclimit"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// A function chooses the charges of each call. A status that it returns is the result, another error is not told.
func TestServerPerRequest(t *testing.T) {
	limits, _ := newLimits(t)
	whole := limits.ListLog("whole", loader.PerMinute(9))
	limit := checked(t, grpclimit.PerRequest(limits, func(c *grpclimit.Call) ([]grpclimit.Charge, error) {
		switch user, _ := grpclimit.KeyByMetadata("x-user").Subject(c); user {
		case "barred":
			return nil, status.Error(codes.PermissionDenied, "no")
		case "down":
			return nil, errors.New("secret")
		case "wrong":
			return []grpclimit.Charge{{Limiter: whole, Key: grpclimit.KeyOf("a", "b"), N: -1}}, nil
		}
		return []grpclimit.Charge{{Limiter: whole, Key: grpclimit.KeyOf("a", "b"), N: 4}}, nil
	}))
	c := dialMemory(t, &service{}, serverWith(limit))
	for user, want := range map[string]codes.Code{
		"ada": ok, "barred": codes.PermissionDenied, "down": codes.Unavailable, "wrong": codes.Internal,
	} {
		_, err := c.UnaryCall(as(within(t, 30*time.Second), user), &pb.SimpleRequest{})
		if text := status.Convert(err).Message(); status.Code(err) != want || strings.Contains(text, "secret") {
			t.Errorf("%s: %v, want %v", user, err, want)
		}
	}
	wantRemaining(t, whole, grpclimit.Subject("a", "b"), 5)
}

// What does not count by its result is given back, and a handler that panics keeps its charge.
func TestServerCountIf(t *testing.T) {
	limits, _ := newLimits(t)
	logins := limits.ListLog("login", loader.PerMinute(3))
	failed := grpclimit.CountIf(func(code codes.Code) bool { return code == codes.Unauthenticated })
	limit := checked(t, grpclimit.New(logins, grpclimit.KeyOf("all"), failed))
	var result error
	s := &service{unary: func(context.Context, *pb.SimpleRequest) error {
		if result == nil {
			return nil
		}
		if result.Error() == "panic" {
			panic("handler")
		}
		return result
	}}
	c := dialMemory(t, s, serverWith(limit))
	for _, step := range []struct {
		result    error
		remaining int64
	}{
		{nil, 3}, {status.Error(codes.NotFound, ""), 3}, {errors.New("plain"), 3},
		{status.Error(codes.Unauthenticated, ""), 2}, {errors.New("panic"), 2},
	} {
		for name, open := range kinds {
			result = step.result
			_ = open(c, within(t, 30*time.Second))
			t.Log(name, result)
			wantRemaining(t, logins, "all", step.remaining)
			must(t, logins.Reset(t.Context(), "all"))
		}
	}
}

// In shadow nothing is refused, and the observer is told.
func TestServerShadow(t *testing.T) {
	limits, _ := newLimits(t)
	var last grpclimit.Result
	limit := checked(t, grpclimit.New(limits.ListLog("api", loader.PerMinute(1)), grpclimit.KeyOf("all"),
		grpclimit.Shadow(), grpclimit.Observe(func(_ *grpclimit.Call, r grpclimit.Result) { last = r })))
	wantCodes(t, dialMemory(t, &service{}, serverWith(limit)), ok, ok)
	if !slices.Equal(last.Denied(true), []string{"api"}) || last.Code != ok {
		t.Errorf("%+v", last)
	}
}

// Each method has a limiter of its own; one without is refused.
func TestServerMethods(t *testing.T) {
	limits, _ := newLimits(t)
	limit := checked(t, grpclimit.New(limits.ListLog("any", loader.PerMinute(9)), grpclimit.KeyOf("all"),
		grpclimit.LimiterBy(grpclimit.PerMethod(func(method string) loader.Limiter {
			if method == unaryMethod {
				return limits.ListLog("grpc"+method, loader.PerMinute(2))
			}
			return nil
		}))))
	c := dialMemory(t, &service{}, serverWith(limit))
	wantCodes(t, c, ok, ok, exhausted)
	if err := input(c, within(t, 30*time.Second)); status.Code(err) != codes.Unavailable {
		t.Errorf("a method without a limiter: %v", err)
	}
	wantRemaining(t, limits.ListLog("grpc"+unaryMethod, loader.PerMinute(2)), "all", 0)
}

// PerMethod makes each limiter once, also for calls at the same time.
func TestPerMethodMakesOnce(t *testing.T) {
	made := 0
	limiterOf := grpclimit.PerMethod(func(string) loader.Limiter { made++; return loader.ListLog{} })
	done := make(chan bool)
	for range 8 {
		go func() {
			for range 100 {
				limiterOf(&grpclimit.Call{Method: unaryMethod})
			}
			done <- true
		}()
	}
	for range 8 {
		<-done
	}
	for range 2 {
		limiterOf(&grpclimit.Call{Method: emptyMethod})
	}
	if made != 2 {
		t.Errorf("%d limiters were made for 2 methods", made)
	}
}

// A slot is held while a call runs, and free after it, whatever its end.
func TestServerSlots(t *testing.T) {
	limits, _ := newLimits(t)
	render, all := limits.Concurrency("render", 1, time.Minute), grpclimit.KeyOf("all")
	api := limits.ListLog("api", loader.PerMinute(100))
	limit := checked(t, grpclimit.New(api, all, grpclimit.Slots(render, all)))
	begun, end := make(chan bool), make(chan string)
	s := &service{unary: func(ctx context.Context, _ *pb.SimpleRequest) error {
		begun <- true
		select {
		case how := <-end:
			if how == "panic" {
				panic(how)
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	c := dialMemory(t, s, serverWith(limit))
	other := dialMemory(t, &service{}, serverWith(limit))
	for name, open := range kinds {
		for _, how := range []string{"return", "panic", "cancel"} {
			ctx, cancel := context.WithCancel(within(t, 30*time.Second))
			ended := make(chan error, 1)
			go func() { ended <- open(c, ctx) }()
			<-begun
			_, err := other.UnaryCall(within(t, 30*time.Second), &pb.SimpleRequest{})
			retry, quota := detailsOf(err)
			denied := quota.GetViolations()[0]
			if retry.GetRetryDelay().AsDuration() != time.Second || denied.Description != "1 at once" {
				t.Errorf("%s, %s: beside it %v", name, how, err)
			}
			if how == "cancel" {
				cancel()
			} else {
				end <- how
			}
			want := map[string]codes.Code{"return": ok, "panic": codes.Internal, "cancel": codes.Canceled}[how]
			if err := <-ended; status.Code(err) != want {
				t.Errorf("%s, %s: ended with %v", name, how, err)
			}
			awaitFree(t, render)
			cancel()
		}
	}
	wantRemaining(t, api, "all", 100-4*3) // those that got no slot have theirs back
}

// awaitFree waits until a slot is free. The caller of a cancelled call knows its end before the server does.
func awaitFree(t *testing.T, slots loader.Concurrency) {
	t.Helper()
	redistest.Await(t, "a free slot", func() bool {
		d, err := slots.Peek(t.Context(), "all")
		must(t, err)
		return d.Remaining > 0
	})
}

// A call is held as long as Delay says; the second one that is refused bans.
func TestServerDelayAndBan(t *testing.T) {
	limits, _ := newLimits(t)
	all, often := grpclimit.KeyOf("all"), loader.Limit{Permits: 1, Window: time.Millisecond}
	held := checked(t, grpclimit.New(limits.ListLog("often", often), all, grpclimit.Delay(time.Minute)))
	wantCodes(t, dialMemory(t, &service{}, serverWith(held)), ok, ok, ok)

	api, refusals := limits.ListLog("api", loader.PerHour(1)), limits.ListLog("banned", loader.PerHour(2))
	c := dialMemory(t, &service{}, serverWith(checked(t, grpclimit.New(api, all, grpclimit.Ban(refusals)))))
	wantCodes(t, c, ok, exhausted, exhausted)
	_, err := c.UnaryCall(within(t, 30*time.Second), &pb.SimpleRequest{})
	if _, quota := detailsOf(err); len(quota.GetViolations()) != 1 || quota.Violations[0].QuotaId != "banned" {
		t.Errorf("the fourth call: %v, want a ban", err)
	}
}

// An estimate is reserved while the handler runs, and what it says with Settle is charged.
func TestServerBudgets(t *testing.T) {
	limits, _ := newLimits(t)
	tokens, all := limits.Budget("tokens", []loader.Limit{loader.PerHour(10)}), grpclimit.KeyOf("all")
	want := func(remaining int64) {
		t.Helper()
		if d, err := tokens.Peek(t.Context(), "all"); err != nil || d.Remaining != remaining {
			t.Errorf("%d remain, %v, want %d", d.Remaining, err, remaining)
		}
	}
	limit := checked(t, grpclimit.AllOf(limits, nil,
		grpclimit.Budgets(tokens, all, func(*grpclimit.Call) int64 { return 6 })))
	s := &service{unary: func(ctx context.Context, _ *pb.SimpleRequest) error {
		want(4)
		grpclimit.Settle(ctx, 9)
		return nil
	}}
	wantCodes(t, dialMemory(t, s, serverWith(limit)), codes.OK, codes.ResourceExhausted)
	want(1)
}

// A call that loses its slot is cancelled and ABORTED. A call that ends otherwise keeps its result.
func TestServerSlotLost(t *testing.T) {
	limits, _ := newLimits(t)
	render, all := limits.Concurrency("render", 1, time.Second), grpclimit.KeyOf("all")
	limit := checked(t, grpclimit.AllOf(limits, nil, grpclimit.Slots(render, all)))
	var after error
	s := &service{unary: func(ctx context.Context, _ *pb.SimpleRequest) error {
		must(t, render.Reset(ctx, "all"))
		<-ctx.Done()
		if after != nil {
			return after
		}
		return ctx.Err()
	}}
	c := dialMemory(t, s, serverWith(limit))
	wantCodes(t, c, codes.Aborted)
	if err := input(c, within(t, 30*time.Second)); status.Code(err) != codes.Aborted {
		t.Errorf("a stream: %v", err)
	}
	after = status.Error(codes.NotFound, "")
	wantCodes(t, c, codes.NotFound)
}

// A call that is cancelled while it is decided is CANCELED, and the handler does not run.
func TestServerCancelled(t *testing.T) {
	limits, _ := newLimits(t)
	var last grpclimit.Result
	limit := checked(t, grpclimit.New(limits.ListLog("api", loader.PerMinute(2)), grpclimit.KeyOf("all"),
		grpclimit.Observe(func(_ *grpclimit.Call, r grpclimit.Result) { last = r })))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	info := &grpc.UnaryServerInfo{FullMethod: unaryMethod}
	_, err := limit.UnaryServer(ctx, nil, info, func(context.Context, any) (any, error) {
		t.Error("the handler runs")
		return nil, nil
	})
	if status.Code(err) != codes.Canceled || last.Outcome != grpclimit.CallerGone || last.Code != codes.Canceled {
		t.Errorf("%v, %+v", err, last)
	}
}

// Skipped calls ask nobody, and Cost sees the message of a unary call.
func TestServerSkipAndCost(t *testing.T) {
	limits, _ := newLimits(t)
	api := limits.ListLog("api", loader.PerMinute(10))
	limit := checked(t, grpclimit.New(api, grpclimit.KeyOf("all"), nil,
		grpclimit.Skip(func(c *grpclimit.Call) bool { return c.Method == emptyMethod }),
		grpclimit.Cost(func(c *grpclimit.Call) int64 {
			if request, isUnary := c.Message.(*pb.SimpleRequest); isUnary {
				return int64(request.ResponseSize)
			}
			return 2
		})))
	c, ctx := dialMemory(t, &service{}, serverWith(limit)), within(t, 30*time.Second)
	_, err := c.EmptyCall(ctx, &pb.Empty{})
	must(t, err)
	_, err = c.UnaryCall(ctx, &pb.SimpleRequest{ResponseSize: 3})
	must(t, err)
	must(t, input(c, ctx))
	wantRemaining(t, api, "all", 5)
}

// What is wrong is found at start, and refuses every call.
func TestCheck(t *testing.T) {
	limits := loader.New(redistest.Client(t, "127.0.0.1:1"))
	api, all := limits.ListLog("api", loader.PerMinute(2)), grpclimit.KeyOf("all")
	failed := grpclimit.CountIf(func(codes.Code) bool { return true })
	for want, limit := range map[string]*grpclimit.Interceptor{
		"the key is empty":                grpclimit.New(api, grpclimit.Key{}),
		"a message has no result":         grpclimit.New(api, all, failed, grpclimit.PerMessage()),
		"PerRequest: the function is nil": grpclimit.PerRequest(limits, nil),
	} {
		if err := limit.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check: %v, want %q", err, want)
		}
		info := &grpc.UnaryServerInfo{FullMethod: unaryMethod}
		_, err := limit.UnaryServer(t.Context(), nil, info, func(context.Context, any) (any, error) {
			t.Error("the handler runs")
			return nil, nil
		})
		if status.Code(err) != codes.Internal || !errors.Is(err, limit.Check()) {
			t.Errorf("%s: a call is %v", want, err)
		}
	}
}

// Of a stream that is skipped, the messages are too.
func TestServerSkipPerMessage(t *testing.T) {
	limits, _ := newLimits(t)
	api := limits.ListLog("api", loader.PerMinute(1))
	skip := grpclimit.Skip(func(*grpclimit.Call) bool { return true })
	limit := checked(t, grpclimit.New(api, grpclimit.KeyOf("all"), skip, grpclimit.PerMessage()))
	must(t, input(dialMemory(t, &service{}, serverWith(limit)), within(t, 30*time.Second)))
	must(t, input(dialMemory(t, &service{}, nil, clientWith(limit)...), within(t, 30*time.Second)))
	wantRemaining(t, api, "all", 1)
}

// A handler that goes on after a refused message receives no other, and its caller is told of the refusal.
func TestServerPerMessageIgnored(t *testing.T) {
	limits, _ := newLimits(t)
	api := limits.ListLog("api", loader.PerMinute(1))
	limit := checked(t, grpclimit.New(api, grpclimit.KeyOf("all"), grpclimit.PerMessage()))
	stream := &endless{ctx: t.Context()}
	var refused []error
	err := limit.StreamServer(nil, stream, &grpc.StreamServerInfo{}, func(_ any, limited grpc.ServerStream) error {
		for range 3 {
			refused = append(refused, limited.RecvMsg(nil))
		}
		return nil
	})
	if refused[0] != nil || status.Code(refused[1]) != exhausted || refused[2] != refused[1] || err != refused[1] {
		t.Errorf("three messages: %v, the stream: %v", refused, err)
	}
	if stream.received != 2 {
		t.Errorf("%d messages were received, want 2", stream.received)
	}
}

// endless is a stream that always has another message.
type endless struct {
	grpc.ServerStream
	ctx      context.Context
	received int
}

func (e *endless) Context() context.Context { return e.ctx }

func (e *endless) RecvMsg(any) error {
	e.received++
	return nil
}
