package loader_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// handler keeps what is logged.
type handler struct {
	slog.Handler
	mu     sync.Mutex
	lines  []string
	handle func() // while a record is handled
}

func (l *handler) logger() *slog.Logger { return slog.New(l) }

func (l *handler) Enabled(context.Context, slog.Level) bool { return true }

func (l *handler) Handle(_ context.Context, r slog.Record) error {
	var line strings.Builder
	line.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool { line.WriteString(" " + a.String()); return true })
	l.mu.Lock()
	l.lines = append(l.lines, line.String())
	l.mu.Unlock()
	if l.handle != nil {
		l.handle()
	}
	return nil
}

func (l *handler) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.lines, func(line string) bool { return strings.Contains(line, part) })
}

// TestHandlerUsesALimiter has a slog handler that asks the limiter it hears of: nothing is locked while it does.
func TestHandlerUsesALimiter(t *testing.T) {
	for how, opts := range map[string][]loader.Option{
		"breaker": {loader.Breaker(1, time.Minute)}, "shared": {loader.ShareRoundTrips()},
		"both": {loader.Breaker(1, time.Minute), loader.ShareRoundTrips()},
	} {
		t.Run(how, func(t *testing.T) {
			p, rdb, _ := lossy(t)
			log := &handler{}
			limits := loader.New(rdb, append(opts, loader.Logger(log.logger()))...)
			limiter := limits.ListLog("x", loader.PerHour(1000))
			log.handle = func() { _, _ = limiter.Allow(background, "log") }
			p.next(slices.Repeat([]fault{{dropReply: true}}, 20)...)
			for range 3 {
				wantEnd(t, how, func() { _, _ = limiter.Allow(background, "s") })
			}
			ctx := within(t, soon)
			p.next(fault{silence: true})
			wantEnd(t, how+", with a deadline", func() { _, _ = limiter.Allow(ctx, "s") })
			if len(log.lines) == 0 {
				t.Error("nothing was logged")
			}
		})
	}
}

// TestSlowHandler has a slog handler that does not return: it holds up the caller that it logs for, and no other.
func TestSlowHandler(t *testing.T) {
	for how, opts := range map[string][]loader.Option{
		"breaker": {loader.Breaker(100, time.Minute)}, "shared": {loader.Breaker(100, time.Minute), loader.ShareRoundTrips()},
	} {
		t.Run(how, func(t *testing.T) {
			p, rdb, _ := lossy(t)
			log, release := &handler{}, make(chan struct{})
			var held atomic.Bool
			log.handle = func() { held.Store(true); <-release }
			limits := loader.New(rdb, append(opts, loader.Logger(log.logger()))...)
			limiter := limits.ListLog("x", loader.PerHour(1000))
			p.next(fault{dropReply: true})
			ended := make(chan struct{})
			go func() { defer close(ended); _, _ = limiter.Allow(background, "s") }()
			await(t, held.Load)
			for _, subject := range []string{"s", "t"} {
				wantEnd(t, subject, func() {
					wantGrant(t, limiter, subject, 1)
				})
			}
			close(release)
			<-ended
		})
	}
}

// TestObserverUsesALimiter has an observer that asks the limiter it hears of.
func TestObserverUsesALimiter(t *testing.T) {
	var limiter loader.ListLog
	var depth atomic.Int64
	limits := loader.New(real(t), loader.ShareRoundTrips(), loader.Breaker(1, time.Minute),
		loader.Observe(loader.ObserverFunc(func(context.Context, loader.Event) {
			if depth.Add(1) < 5 {
				_, _ = limiter.Allow(background, "s")
			}
		})))
	limiter = limits.ListLog("x", loader.PerHour(1000), loader.RememberDenials(5))
	wantEnd(t, "Allow", func() {
		wantGrant(t, limiter, "s", 1)
	})
	if n := depth.Load(); n != 5 {
		t.Errorf("it was told of %d decisions, want 5", n)
	}
}

// TestHookUsesALimiter has a hook of the client that asks the limiter for whose commands it is called.
func TestHookUsesALimiter(t *testing.T) {
	rdb := real(t)
	limits := loader.New(rdb, loader.ShareRoundTrips(), loader.Breaker(1, time.Minute))
	limiter := limits.ListLog("x", loader.PerHour(1000))
	must(t, limits.Preload(background))
	var depth atomic.Int64
	rdb.AddHook(hook{after: func(redis.Cmder, error) {
		if depth.Add(1) == 1 {
			_, _ = limiter.Allow(background, "other")
		}
	}})
	wantEnd(t, "Allow", func() {
		wantGrant(t, limiter, "s", 1)
	})
}
