package loader_test

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// panicky is a hook of a client that panics at decisions, as often as is left.
func panicky(left *atomic.Int64) around {
	return func(_ context.Context, cmds []redis.Cmder, send func() error) error {
		if cmds[0].Name() == "evalsha" && left.Add(-1) >= 0 {
			panic("a hook panics")
		}
		return send()
	}
}

// askings are how a handler may ask, each about the subject of a request.
var askings = map[string]func(l *loader.Loader) func(ctx context.Context, subject string) error{
	"single": func(l *loader.Loader) func(context.Context, string) error {
		log := l.ListLog("x", loader.PerHour(1000))
		return func(ctx context.Context, subject string) error { return errOf(log.Allow(ctx, subject)) }
	},
	"wait": func(l *loader.Loader) func(context.Context, string) error {
		log := l.ZSetLog("x", loader.PerHour(1000))
		return func(ctx context.Context, subject string) error { return log.Wait(ctx, subject) }
	},
	"batch": func(l *loader.Loader) func(context.Context, string) error {
		log := l.ListLog("x", loader.PerHour(1000))
		return func(ctx context.Context, subject string) error {
			batch := l.Batch()
			batch.Allow(log, subject)
			batch.Allow(log, subject+" too")
			return errOf(batch.Do(ctx))
		}
	},
	"charge": func(l *loader.Loader) func(context.Context, string) error {
		tokens := l.Budget("x", []loader.Limit{loader.PerHour(1000)})
		return func(ctx context.Context, subject string) error { return tokens.Charge(ctx, subject, subject, 1) }
	},
}

// TestHookPanics has a hook of the client panic under http.Server, which recovers it: it is raised in the handler, the
// process goes on, and the same subject is decided as soon as the hook does not panic any more.
func TestHookPanics(t *testing.T) {
	for how, opts := range map[string][]loader.Option{
		"alone": {loader.Breaker(5, time.Minute), loader.WithoutSharing()}, "shared": {loader.Breaker(5, time.Minute)},
	} {
		for way, make := range askings {
			t.Run(how+" "+way, func(t *testing.T) {
				rdb, left := real(t), new(atomic.Int64)
				limits := loader.New(rdb, opts...)
				must(t, limits.Preload(background))
				rdb.AddHook(panicky(left))
				ask := make(limits)
				var raised atomic.Int64
				server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					defer func() {
						if v := recover(); v != nil {
							raised.Add(1)
							if v != "a hook panics" {
								t.Errorf("raised %v", v)
							}
							panic(v)
						}
					}()
					if err := ask(r.Context(), r.URL.Path); err != nil {
						t.Error(err)
					}
				}))
				server.Config.ErrorLog = log.New(io.Discard, "", 0)
				server.Start()
				defer server.Close()
				for _, subject := range []string{"/same", "/same", "/other"} {
					left.Store(2)
					for left.Load() > 0 {
						if response, err := http.Get(server.URL + subject); err == nil {
							_ = response.Body.Close()
							t.Fatalf("%s was answered %s", subject, response.Status)
						}
					}
					if n := raised.Swap(0); n != 2 {
						t.Errorf("%s: raised in %d handlers, want 2", subject, n)
					}
					wantEnd(t, subject, func() {
						response, err := http.Get(server.URL + subject)
						if err != nil || response.StatusCode != http.StatusOK {
							t.Errorf("%s, when nothing panics any more: %+v, %v", subject, response, err)
						}
					})
				}
			})
		}
	}
}

// TestHookPanicsInTheProbe has the only call that an open breaker lets through panic: the next one tries.
func TestHookPanicsInTheProbe(t *testing.T) {
	var answer atomic.Value // func() error: a call that has ended may still read it
	rdb := client(t, "nowhere:0")
	rdb.AddHook(answers("", func() error { return answer.Load().(func() error)() }))
	limits := loader.New(rdb, loader.Breaker(1, 20*time.Millisecond), loader.Timeout(time.Millisecond))
	limiter := limits.ListLog("x", loader.PerHour(5))
	answer.Store(func() error { return errDead })
	for !errors.Is(errOf(limiter.Allow(background, "s")), loader.ErrBreakerOpen) {
		time.Sleep(time.Millisecond)
	}
	answer.Store(func() error { panic("the probe panics") })
	await(t, func() (raised bool) {
		defer func() { raised = recover() != nil }()
		_, _ = limiter.Allow(background, "s")
		return false
	})
	answer.Store(func() error { return serverError("BADSTATE no") })
	await(t, func() bool { return !errors.Is(errOf(limiter.Allow(background, "s")), loader.ErrBreakerOpen) })
}

// panicsOn is a handler that panics once, at a message.
type panicsOn struct {
	slog.Handler
	message string
	left    *atomic.Bool
}

func (h panicsOn) Enabled(context.Context, slog.Level) bool { return true }

func (h panicsOn) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.message && h.left.CompareAndSwap(true, false) {
		panic("the handler panics")
	}
	return nil
}

// TestHandlerPanicsInTheProbe has the handler panic that logs the end of an outage: all calls are sent again.
func TestHandlerPanicsInTheProbe(t *testing.T) {
	var answer atomic.Value // func() error
	rdb := client(t, "nowhere:0")
	rdb.AddHook(answers("", func() error { return answer.Load().(func() error)() }))
	var left atomic.Bool
	left.Store(true)
	logger := slog.New(panicsOn{slog.DiscardHandler, "breaker closed", &left})
	limits := loader.New(rdb, loader.Breaker(1, 20*time.Millisecond), loader.Logger(logger),
		loader.Timeout(time.Millisecond))
	limiter := limits.ListLog("x", loader.PerHour(5))
	answer.Store(func() error { return errDead })
	for !errors.Is(errOf(limiter.Allow(background, "s")), loader.ErrBreakerOpen) {
		time.Sleep(time.Millisecond)
	}
	answer.Store(func() error { return serverError("BADSTATE no") })
	await(t, func() bool {
		defer func() { _ = recover() }()
		_, _ = limiter.Allow(background, "s")
		return !left.Load()
	})
	await(t, func() bool { return !errors.Is(errOf(limiter.Allow(background, "s")), loader.ErrBreakerOpen) })
}

// TestHookExits has a hook end its goroutine, as a test that fails does: the caller's goroutine ends, and no one hangs.
func TestHookExits(t *testing.T) {
	eachMode(t, func(t *testing.T, how string, opts []loader.Option) {
		rdb := real(t)
		limits := loader.New(rdb, opts...)
		must(t, limits.Preload(background))
		var exit atomic.Bool
		rdb.AddHook(hook{before: func(redis.Cmder) {
			if exit.CompareAndSwap(true, false) {
				runtime.Goexit()
			}
		}})
		limiter := limits.ListLog("x", loader.PerHour(5))
		exit.Store(true)
		wantEnd(t, "the caller", func() {
			_, err := limiter.Allow(background, "s")
			t.Errorf("it returned: %v", err)
		})
		wantGrant(t, limiter, "s", 1)
	})
}

// TestObserverPanics has an observer panic at the end of a decision: all other calls go on.
func TestObserverPanics(t *testing.T) {
	eachMode(t, func(t *testing.T, how string, opts []loader.Option) {
		var left atomic.Int64
		left.Store(1)
		limits := loader.New(real(t), append(opts, loader.Observe(loader.ObserverFunc(func(context.Context, loader.Event) {
			if left.Add(-1) >= 0 {
				panic("an observer panics")
			}
		})))...)
		limiter := limits.ListLog("x", loader.PerHour(5))
		func() {
			defer func() {
				if v := recover(); v != "an observer panics" {
					t.Errorf("raised %v", v)
				}
			}()
			_, _ = limiter.Allow(background, "s")
		}()
		wantGrant(t, limiter, "s", 1)
	})
}

// TestEventOfAPanic has a hook panic: the observer is told of the end of what it was told the begin of.
func TestEventOfAPanic(t *testing.T) {
	for way, make := range askings {
		t.Run(way, func(t *testing.T) {
			rdb, left, w := real(t), new(atomic.Int64), &watcher{t: t}
			limits := loader.New(rdb, loader.Observe(w))
			must(t, limits.Preload(background))
			rdb.AddHook(panicky(left))
			left.Store(1)
			func() {
				defer func() { _ = recover() }()
				_ = make(limits)(background, "s")
			}()
			for _, e := range w.events {
				if e.Err == nil {
					t.Errorf("%+v, want an error", e)
				}
			}
			if len(w.events) == 0 {
				t.Error("no event")
			}
		})
	}
}

// TestAbandonedPanic has a hook panic when its caller has gone: it is logged, and the process goes on.
func TestAbandonedPanic(t *testing.T) {
	eachMode(t, func(t *testing.T, how string, opts []loader.Option) {
		rdb, log := real(t), &handler{}
		limits := loader.New(rdb, append(opts, loader.Logger(slog.New(log)))...)
		must(t, limits.Preload(background))
		late := make(chan struct{})
		rdb.AddHook(hook{before: func(redis.Cmder) {
			<-late
			panic("much too late")
		}})
		ctx := within(t, soon)
		if err := errOf(limits.ListLog("x", loader.PerHour(5)).Allow(ctx, "s")); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		close(late)
		await(t, func() bool { return log.has("panic given up") && log.has("much too late") })
	})
}
