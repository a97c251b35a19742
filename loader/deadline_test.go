package loader_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// never is when a call that is bounded by soon is taken for one that does not end.
const never = time.Minute

// bounds are the ways to bound a call.
var bounds = []struct {
	name string
	opts []loader.Option
	ctx  func() (context.Context, context.CancelFunc)
}{
	{"Timeout", []loader.Option{loader.Timeout(soon)}, func() (context.Context, context.CancelFunc) {
		return background, func() {}
	}},
	{"deadline", nil, func() (context.Context, context.CancelFunc) { return context.WithTimeout(background, soon) }},
}

// TestEveryCallIsBounded has Redis fail in every way, and calls everything that asks it, with either bound: each call
// ends, though the client would wait for a day.
func TestEveryCallIsBounded(t *testing.T) {
	for _, trouble := range troubles {
		t.Run(trouble.name, func(t *testing.T) {
			t.Parallel()
			tr := newTroubled(t, trouble.direct)
			booked, err := loader.New(tr.rdb).ZSetLog("booked", loader.PerHour(4)).Reserve(background, "s")
			must(t, err)
			end := trouble.begin(t, tr)
			for _, bound := range bounds {
				for how, opts := range map[string][]loader.Option{"alone": {loader.WithoutSharing()}, "shared": nil} {
					limits := loader.New(tr.rdb, append(opts, bound.opts...)...)
					calls := everyCall(t, limits)
					calls["Reservation.Cancel"] = booked.Cancel
					if bound.name == "Timeout" {
						delete(calls, "Reservation.Cancel") // it was booked by a Loader without one
					}
					for name, call := range calls {
						wantEnd(t, bound.name+", "+how+": "+name, func() {
							ctx, cancel := bound.ctx()
							defer cancel()
							_ = call(ctx)
						})
					}
				}
			}
			end()
		})
	}
}

// wantEnd fails the test if a call does not end.
func wantEnd(t *testing.T, name string, call func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() { defer close(ended); call() }()
	select {
	case <-ended:
	case <-time.After(never):
		t.Fatalf("%s has not ended after %v, with a bound of %v", name, never, soon)
	}
}

// everyCall is all that asks Redis, of every limiter.
func everyCall(t *testing.T, limits *loader.Loader) map[string]func(context.Context) error {
	t.Helper()
	calls := map[string]func(context.Context) error{
		"SetRate": func(ctx context.Context) error {
			return limits.TokenBucket("x", loader.PerHour(1000)).SetRate(ctx, "s", loader.PerHour(5))
		},
		"GiveBack": func(ctx context.Context) error {
			d := loader.Decision{Granted: true, Permits: 1, ID: "id"}
			return errOf(limits.ZSetLog("x", loader.PerHour(4)).GiveBack(ctx, "s", d, 1))
		},
	}
	for _, m := range makers {
		limiter := m.make(limits, loader.PerHour(1000))
		calls[m.name+".Allow"] = func(ctx context.Context) error { return errOf(limiter.Allow(ctx, "s")) }
		calls[m.name+".Wait"] = func(ctx context.Context) error { return limiter.Wait(ctx, "s") }
		calls[m.name+".Peek"] = func(ctx context.Context) error { return errOf(limiter.Peek(ctx, "s")) }
		calls[m.name+".Reset"] = func(ctx context.Context) error { return limiter.Reset(ctx, "s") }
		calls[m.name+" in a batch"] = func(ctx context.Context) error {
			batch := limits.Batch()
			batch.Allow(limiter, "s")
			batch.Peek(limiter, "t")
			return errOf(batch.Do(ctx))
		}
		if reserver, ok := limiter.(loader.Reserver); ok {
			calls[m.name+".Reserve"] = func(ctx context.Context) error { return errOf(reserver.Reserve(ctx, "s")) }
		}
	}
	return calls
}

// undisturbed is a context that has a deadline and does not end by itself.
type undisturbed struct{ context.Context }

func (undisturbed) Done() <-chan struct{} { return nil }
func (undisturbed) Err() error            { return nil }

// TestDeadlineWithoutDone has a server that never answers: a call ends at the deadline of its context, also if that
// does not end by itself, and else after the timeout.
func TestDeadlineWithoutDone(t *testing.T) {
	eachMode(t, func(t *testing.T, _ string, sharing []loader.Option) {
		synctest.Test(t, func(t *testing.T) {
			rdb, _ := answering(func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
			limits := loader.New(rdb, sharing...)
			log := limits.ListLog("x", loader.PerHour(5))
			for after, want := range map[time.Duration]time.Duration{
				200 * time.Millisecond: 200 * time.Millisecond, time.Minute: time.Second, -time.Second: 0,
			} {
				ctx, cancel := context.WithTimeout(background, after)
				started := time.Now()
				d, err := log.Allow(undisturbed{ctx}, "s")
				all := limits.All()
				all.Allow(log, "s")
				_, err2 := all.Do(undisturbed{ctx})
				if took := time.Since(started); err == nil || err2 == nil || took > 2*want || took < want*31/32 {
					t.Errorf("after %v, want %v: %+v, %v, %v", took, want, d, err, err2)
				}
				cancel()
			}
		})
	})
}

// lateTimer is a context that ends a millisecond after its deadline.
type lateTimer struct{ context.Context }

func (c lateTimer) Deadline() (time.Time, bool) {
	deadline, ok := c.Context.Deadline()
	return deadline.Add(-time.Millisecond), ok
}

// TestSocketDeadlineFiresFirst has the client's socket end a call at the deadline of the caller's context, before the
// context does: the error is the context's, and both have ended.
func TestSocketDeadlineFiresFirst(t *testing.T) {
	eachMode(t, func(t *testing.T, _ string, opts []loader.Option) {
		synctest.Test(t, func(t *testing.T) {
			rdb, _ := answering(func(ctx context.Context) error {
				deadline, _ := ctx.Deadline()
				time.Sleep(time.Until(deadline))
				return os.ErrDeadlineExceeded
			})
			ctx := lateTimer{within(t, 5*time.Millisecond)}
			_, err := loader.New(rdb, opts...).ListLog("x", loader.PerHour(5)).Allow(ctx, "s")
			if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() == nil {
				t.Errorf("%v, the context: %v", err, ctx.Err())
			}
		})
	})
}

// TestDefaultBounds has a server that never answers: calls end after 1 s, or 100 ms where a fallback stands ready, less
// the step of a 32nd that calls share a deadline for. Timeout sets it for both.
func TestDefaultBounds(t *testing.T) {
	open, local := loader.FailOpen(), loader.FailLocal(1)
	for _, test := range []struct {
		name  string
		opts  []loader.Option
		with  []loader.LimiterOption
		bound time.Duration
	}{
		{"no fallback", nil, nil, time.Second},
		{"FailOpen", nil, []loader.LimiterOption{open}, 100 * time.Millisecond},
		{"FailLocal", nil, []loader.LimiterOption{local}, 100 * time.Millisecond},
		{"Timeout", []loader.Option{loader.Timeout(300 * time.Millisecond)}, nil, 300 * time.Millisecond},
		{"Timeout, FailOpen", []loader.Option{loader.Timeout(2 * time.Second)}, []loader.LimiterOption{open},
			2 * time.Second},
	} {
		for how, sharing := range map[string][]loader.Option{"alone": {loader.WithoutSharing()}, "shared": nil} {
			t.Run(test.name+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rdb, _ := answering(func(ctx context.Context) error {
						<-ctx.Done()
						return ctx.Err()
					})
					limiter := loader.New(rdb, append(sharing, test.opts...)...).ListLog("x", loader.PerHour(5), test.with...)
					for range 3 {
						started := time.Now()
						d, err := limiter.Allow(background, "s")
						if took := time.Since(started); took > test.bound || took < test.bound*31/32 {
							t.Errorf("after %v, want %v: %+v, %v", took, test.bound, d, err)
						}
						if (err == nil) != (test.with != nil) || d.Degraded != (test.with != nil) {
							t.Errorf("%+v, %v", d, err)
						}
						time.Sleep(7 * time.Millisecond)
					}
				})
			})
		}
	}
}

// slowNetwork dials a server that grants everything, over a network on which each round trip takes so long.
func slowNetwork(roundTrip time.Duration) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		time.Sleep(roundTrip)
		conn, server := net.Pipe()
		go func() {
			in := bufio.NewScanner(server)
			for in.Scan() {
				words, _ := strconv.Atoi(in.Text()[1:])
				reply := "-ERR unknown command\r\n"
				for range 2 * words {
					in.Scan()
					if in.Text() == "evalsha" {
						reply = "*5\r\n:1\r\n:2\r\n:0\r\n:9\r\n:5\r\n"
					}
				}
				time.Sleep(roundTrip)
				_, _ = server.Write([]byte(reply))
			}
		}()
		return conn, nil
	}
}

// TestSlowNetwork has a connection take longer to become ready than a call may take: that fails the first calls only,
// alone and in pipelines.
func TestSlowNetwork(t *testing.T) {
	eachMode(t, func(t *testing.T, _ string, opts []loader.Option) {
		for _, keeps := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				opt := options("nowhere:0")
				opt.Dialer, opt.ContextTimeoutEnabled = slowNetwork(60*time.Millisecond), keeps
				rdb := redis.NewClient(opt)
				defer rdb.Close()
				limiter := loader.New(rdb, opts...).GCRA("x", loader.PerMinute(5), loader.FailOpen())
				begin, degraded := time.Now(), 0
				for time.Since(begin) < 10*time.Second {
					if d, err := limiter.Allow(background, "s"); err != nil || d.Degraded {
						degraded++
						time.Sleep(50 * time.Millisecond)
					}
				}
				if degraded > 5 {
					t.Errorf("ContextTimeoutEnabled %v: %d calls were degraded", keeps, degraded)
				}
			})
		}
	})
}
