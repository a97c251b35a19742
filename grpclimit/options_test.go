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
	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// A function chooses the charges of each call.
func TestServerPerRequest(t *testing.T) {
	limits, server := newLimits(t, loader.Timeout(time.Second))
	perUser, whole := limits.ListLog("user", loader.PerMinute(1)), limits.ListLog("whole", loader.PerMinute(9))
	user := grpclimit.KeyByMetadata("x-user")
	charges := map[string]func() ([]grpclimit.Charge, error){
		"ada": func() ([]grpclimit.Charge, error) {
			return []grpclimit.Charge{
				{Limiter: perUser, Key: user}, {Limiter: whole, Key: grpclimit.KeyOf("a", "b"), N: 4}}, nil
		},
		"free":   func() ([]grpclimit.Charge, error) { return []grpclimit.Charge{}, nil },
		"barred": func() ([]grpclimit.Charge, error) { return nil, status.Error(codes.PermissionDenied, "no") },
		"down":   func() ([]grpclimit.Charge, error) { return nil, errors.New("secret") },
		"nil":    func() ([]grpclimit.Charge, error) { return []grpclimit.Charge{{Key: user}}, nil },
		"gcra": func() ([]grpclimit.Charge, error) {
			bucket := limits.GCRA("bucket", loader.PerMinute(1))
			return []grpclimit.Charge{{Limiter: perUser, Key: user}, {Limiter: bucket, Key: user}}, nil
		},
		"no way back": func() ([]grpclimit.Charge, error) {
			bucket := limits.GCRA("bucket", loader.PerMinute(1))
			return []grpclimit.Charge{{Limiter: bucket, Key: user, CountIf: func(codes.Code) bool { return true }}}, nil
		},
	}
	limit := checked(t, grpclimit.PerRequest(limits, func(c *grpclimit.Call) ([]grpclimit.Charge, error) {
		subject, _ := user.Subject(c)
		return charges[subject]()
	}))
	c := dialMemory(t, &service{}, serverWith(limit))
	for n, step := range []struct {
		user string
		want codes.Code
	}{
		{"ada", ok}, {"ada", exhausted}, {"free", ok}, {"free", ok}, {"barred", codes.PermissionDenied},
		{"down", codes.Unavailable}, {"nil", codes.Unavailable}, {"gcra", codes.Internal}, {"no way back", codes.Internal},
	} {
		_, err := c.UnaryCall(as(within(t, 30*time.Second), step.user), &pb.SimpleRequest{})
		text := status.Convert(err).Message()
		if status.Code(err) != step.want || strings.Contains(text, "secret") || strings.Contains(text, "GCRA") {
			t.Errorf("call %d of %s: %v, want %v", n+1, step.user, err, step.want)
		}
	}
	must(t, limits.Flush(t.Context()))
	wantRemaining(t, whole, grpclimit.Subject("a", "b"), 5)
	server.Kill()
	_, err := c.UnaryCall(as(within(t, 30*time.Second), "ada"), &pb.SimpleRequest{})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("without Redis: %v", err)
	}
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

// In shadow everything is decided and told, and nothing is refused.
func TestServerShadow(t *testing.T) {
	limits, server := newLimits(t, loader.Timeout(time.Second))
	api, render := limits.ListLog("api", loader.PerMinute(1)), limits.Concurrency("render", 0, time.Minute)
	user := grpclimit.KeyByMetadata("x-user")
	var last grpclimit.Result
	limit := checked(t, grpclimit.New(api, user, grpclimit.Shadow(), grpclimit.Slots(render, user),
		grpclimit.Observe(func(_ *grpclimit.Call, r grpclimit.Result) { last = r })))
	c := dialMemory(t, &service{}, serverWith(limit))
	want := func(user string, granted ...bool) {
		t.Helper()
		_, err := c.UnaryCall(as(within(t, 30*time.Second), user), &pb.SimpleRequest{})
		must(t, err)
		var got []bool
		for _, d := range last.Decisions {
			got = append(got, d.Granted)
			if !d.Shadow || d.Subject != user || d.Slot != (d.Policy == "render") {
				t.Errorf("decision %+v", d)
			}
		}
		if last.Outcome != grpclimit.Allowed || last.Code != ok || !slices.Equal(got, granted) {
			t.Errorf("%q: %+v, want decisions %v", user, last, granted)
		}
	}
	want("ada", true, false)
	want("ada", false, false)
	want("")
	server.Kill()
	want("ada", false, false)
	if d := last.Decisions[0]; d.Err == nil || last.Err != nil {
		t.Errorf("without Redis: %+v", last)
	}
}

// Charges in shadow are asked if the others grant, each by itself.
func TestServerShadowBesideOthers(t *testing.T) {
	limits, _ := newLimits(t)
	perUser, tried := limits.ListLog("user", loader.PerMinute(2)), limits.ListLog("tried", loader.PerMinute(9))
	bucket := limits.GCRA("bucket", loader.PerMinute(1))
	all := grpclimit.KeyOf("all")
	limit := checked(t, grpclimit.AllOf(limits, []grpclimit.Charge{
		{Limiter: tried, Key: all, Shadow: true}, {Limiter: perUser, Key: all},
		{Limiter: bucket, Key: all, Shadow: true},
	}))
	wantCodes(t, dialMemory(t, &service{}, serverWith(limit)), ok, ok, exhausted)
	wantRemaining(t, tried, "all", 7)
	wantRemaining(t, bucket, "all", 0)
}

// Each method has a limiter of its own, or a subject of its own, by choice.
func TestServerMethods(t *testing.T) {
	limits, _ := newLimits(t)
	inName := checked(t, grpclimit.New(limits.ListLog("any", loader.PerMinute(9)), grpclimit.KeyOf("all"),
		grpclimit.LimiterBy(grpclimit.PerMethod(func(method string) loader.Limiter {
			switch method {
			case unaryMethod:
				return limits.ListLog("grpc"+method, loader.PerMinute(2), loader.RememberDenials(10))
			case emptyMethod:
				return limits.ListLog("grpc"+method, loader.PerMinute(1))
			}
			return nil
		}))))
	inSubject := checked(t, grpclimit.New(limits.ListLog("methods", loader.PerMinute(2)), grpclimit.KeyByMethod()))
	for name, step := range map[string]struct {
		limit        *grpclimit.Interceptor
		empty, input []codes.Code
	}{
		"name":    {inName, []codes.Code{ok, exhausted}, []codes.Code{codes.Unavailable}},
		"subject": {inSubject, []codes.Code{ok, ok, exhausted}, []codes.Code{ok, ok, exhausted}},
	} {
		c := dialMemory(t, &service{}, serverWith(step.limit))
		wantCodes(t, c, ok, ok, exhausted, exhausted)
		for n, want := range step.empty {
			_, err := c.EmptyCall(within(t, 30*time.Second), &pb.Empty{})
			if status.Code(err) != want {
				t.Errorf("%s: EmptyCall %d: %v, want %v", name, n+1, err, want)
			}
		}
		for n, want := range step.input {
			if err := input(c, within(t, 30*time.Second)); status.Code(err) != want {
				t.Errorf("%s: StreamingInputCall %d: %v, want %v", name, n+1, err, want)
			}
		}
	}
	wantRemaining(t, limits.ListLog("grpc"+unaryMethod, loader.PerMinute(2)), "all", 0)
	wantRemaining(t, limits.ListLog("methods", loader.PerMinute(2)), unaryMethod, 0)
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

// A cancelled call is no longer waited for, and the handler does not run.
func TestServerCancelled(t *testing.T) {
	limits, server := newLimits(t)
	proxy := redistest.StartProxy(t, server.Addr)
	slow := loader.New(clientOf(t, proxy.Addr), loader.Timeout(20*time.Second))
	outcome := make(chan grpclimit.Result, 2)
	limit := checked(t, grpclimit.New(slow.ListLog("api", loader.PerMinute(2)), grpclimit.KeyOf("all"),
		grpclimit.Observe(func(_ *grpclimit.Call, r grpclimit.Result) { outcome <- r })))
	s := &service{}
	c := dialMemory(t, s, serverWith(limit))
	wantCodes(t, c, ok)
	<-outcome
	proxy.Swallow()
	ctx, cancel := context.WithCancel(within(t, 30*time.Second))
	ended := make(chan error, 1)
	go func() { ended <- unary(c, ctx) }()
	redistest.Await(t, "a call to Redis", func() bool { return proxy.Counts().Swallowed > 0 })
	cancel()
	if err := <-ended; status.Code(err) != codes.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	if r := <-outcome; r.Outcome != grpclimit.CallerGone || r.Code != codes.Canceled {
		t.Errorf("cancelled: %+v", r)
	}
	if got := s.calls.Load(); got != 1 {
		t.Errorf("the handler ran %d times, want 1", got)
	}
	proxy.Pass()
	wantRemaining(t, limits.ListLog("api", loader.PerMinute(2)), "all", 1)
}

// Skipped calls ask nobody, and free ones no limiter.
func TestServerSkipAndCost(t *testing.T) {
	limits, _ := newLimits(t)
	api := limits.ListLog("api", loader.PerMinute(10))
	told := 0
	byUser := grpclimit.KeyByMetadata("x-user").IfEmpty(grpclimit.SkipEmpty)
	limit := checked(t, grpclimit.New(api, grpclimit.KeyOf("all"), nil,
		grpclimit.Skip(func(c *grpclimit.Call) bool { return c.Method == emptyMethod }),
		grpclimit.Slots(limits.Concurrency("calls", 1, time.Minute), byUser),
		grpclimit.Cost(func(c *grpclimit.Call) int64 {
			request, isUnary := c.Message.(*pb.SimpleRequest)
			if !isUnary {
				return 2
			}
			return int64(request.ResponseSize)
		}),
		grpclimit.Observe(func(*grpclimit.Call, grpclimit.Result) { told++ })))
	c := dialMemory(t, &service{}, serverWith(limit))
	ctx := within(t, 30*time.Second)
	_, err := c.EmptyCall(ctx, &pb.Empty{})
	must(t, err)
	for _, size := range []int32{0, 3, 5} {
		_, err := c.UnaryCall(ctx, &pb.SimpleRequest{ResponseSize: size})
		must(t, err)
	}
	must(t, input(c, ctx))
	wantRemaining(t, api, "all", 0)
	if _, err := c.UnaryCall(ctx, &pb.SimpleRequest{ResponseSize: -1}); status.Code(err) != codes.Internal {
		t.Errorf("a cost below 0: %v", err)
	}
	if told != 5 {
		t.Errorf("the observer was told %d times, want 5", told)
	}
}

// What is wrong is found at start, and refuses every call.
func TestCheck(t *testing.T) {
	limits := loader.New(clientOf(t, "127.0.0.1:1"))
	others := loader.New(clientOf(t, "127.0.0.1:1"))
	api, bucket := limits.ListLog("api", loader.PerMinute(2)), limits.GCRA("bucket", loader.PerMinute(2))
	all := grpclimit.KeyOf("all")
	failed := grpclimit.CountIf(func(codes.Code) bool { return true })
	cost := grpclimit.Cost(func(*grpclimit.Call) int64 { return 1 })
	with := func(limits *loader.Loader, second loader.Limiter, n int64) *grpclimit.Interceptor {
		return grpclimit.AllOf(limits, []grpclimit.Charge{{Limiter: api, Key: all}, {Limiter: second, Key: all, N: n}})
	}
	for want, limit := range map[string]*grpclimit.Interceptor{
		"the limiter is nil":              grpclimit.New(nil, all),
		"the key is empty":                grpclimit.New(api, grpclimit.Key{}),
		"KeyBy: the function is nil":      grpclimit.New(api, grpclimit.KeyBy(nil)),
		"want RefuseEmpty":                grpclimit.New(api, grpclimit.Join(all, all.IfEmpty(7))),
		"window 0s":                       grpclimit.New(limits.ListLog("x", loader.Limit{Permits: 1}), all),
		"CountIf: bucket cannot give":     grpclimit.New(bucket, all, failed),
		"a message has no result":         grpclimit.New(api, all, failed, grpclimit.PerMessage()),
		"ttl 0s":                          grpclimit.New(api, all, grpclimit.Slots(limits.Concurrency("x", 1, 0), all)),
		"PerRequest: the function is nil": grpclimit.PerRequest(limits, nil),
		"options for one limiter":         grpclimit.AllOf(limits, nil, cost),
		"the Loader is nil":               with(nil, api, 1),
		"cannot give permits back":        with(limits, bucket, 1),
		"one that the same Loader made":   with(others, api, 1),
		"exceeds limit 2":                 with(limits, api, 3),
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

// The function of PerRequest may return the same charges for each call: the options do not change them. AllOf keeps its
// own.
func TestServerKeepsCharges(t *testing.T) {
	limits, _ := newLimits(t)
	charges := []grpclimit.Charge{{Limiter: limits.ListLog("api", loader.PerMinute(1)), Key: grpclimit.KeyOf("all")}}
	limit := checked(t, grpclimit.PerRequest(limits, func(*grpclimit.Call) ([]grpclimit.Charge, error) {
		return charges, nil
	}, grpclimit.Shadow(), grpclimit.CountIf(func(codes.Code) bool { return true })))
	wantCodes(t, dialMemory(t, &service{}, serverWith(limit)), ok, ok)
	checked(t, grpclimit.AllOf(limits, charges, grpclimit.Shadow()))
	if charges[0].Shadow || charges[0].CountIf != nil {
		t.Errorf("the function's own charges are now %+v", charges[0])
	}
}

// One limiter may be charged for several subjects. The refusal names the one that was over the limit.
func TestServerSameLimiter(t *testing.T) {
	limits, _ := newLimits(t)
	api, user := limits.ListLog("api", loader.PerMinute(1)), grpclimit.KeyByMetadata("x-user")
	limit := checked(t, grpclimit.AllOf(limits, []grpclimit.Charge{
		{Limiter: api, Key: grpclimit.Join(grpclimit.KeyByMethod(), user), Name: "caller"},
		{Limiter: api, Key: grpclimit.KeyByMethod(), Name: "method"},
	}))
	c := dialMemory(t, &service{}, serverWith(limit))
	must(t, unary(c, as(within(t, 30*time.Second), "ada")))
	_, quota := detailsOf(unary(c, as(within(t, 30*time.Second), "bob")))
	if v := quota.GetViolations(); len(v) != 1 || v[0].QuotaId != "method" {
		t.Errorf("refused by %v", v)
	}
}

// What a cancelled call was charged is given back all the same.
func TestServerCountIfCancelled(t *testing.T) {
	limits, _ := newLimits(t)
	api := limits.ListLog("api", loader.PerMinute(1))
	notCancelled := grpclimit.CountIf(func(code codes.Code) bool { return code != codes.Canceled })
	limit := checked(t, grpclimit.New(api, grpclimit.KeyOf("all"), notCancelled))
	begun := make(chan bool)
	c := dialMemory(t, &service{unary: func(ctx context.Context, _ *pb.SimpleRequest) error {
		begun <- true
		<-ctx.Done()
		return ctx.Err()
	}}, serverWith(limit))
	ctx, cancel := context.WithCancel(within(t, 30*time.Second))
	ended := make(chan error, 1)
	go func() { ended <- unary(c, ctx) }()
	<-begun
	cancel()
	<-ended
	redistest.Await(t, "the permit", func() bool {
		d, err := api.Peek(t.Context(), "all")
		must(t, err)
		return d.Remaining == 1
	})
}
