//go:build unix

package soak

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// load is what callers ask without a pause, and how they are answered.
type load struct {
	calls, slow, degraded, refused atomic.Int64 // slow: longer than 1 ms; refused: by a breaker
	lastDegraded                   atomic.Int64 // when, in ns
	stop                           func()
}

// startLoad has callers ask a limiter until stop.
func startLoad(callers int, limiter loader.Limiter) *load {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	l := &load{}
	l.stop = func() {
		cancel()
		all.Wait()
	}
	for i := range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				begun := time.Now()
				d, err := limiter.Allow(context.Background(), strconv.Itoa(i))
				l.count(time.Since(begun), d.Degraded || err != nil, errors.Join(d.Cause, err))
			}
		})
	}
	return l
}

func (l *load) count(took time.Duration, degraded bool, cause error) {
	l.calls.Add(1)
	if took > time.Millisecond {
		l.slow.Add(1)
	}
	if degraded {
		l.degraded.Add(1)
		l.lastDegraded.Store(time.Now().UnixNano())
	}
	if errors.Is(cause, loader.ErrBreakerOpen) {
		l.refused.Add(1)
	}
}

// during returns how many calls a second there were while do ran, and which share of them was slow, in per cent.
func (l *load) during(do func()) (rate, slow float64) {
	calls, slows, begun := l.calls.Load(), l.slow.Load(), time.Now()
	do()
	n := float64(max(l.calls.Load()-calls, 1))
	return n / time.Since(begun).Seconds(), 100 * float64(l.slow.Load()-slows) / n
}

// TestServerOutage freezes a server, and then kills it, under 50 callers whose limiter fails open. It prints what they
// notice; -chaos=full has longer outages.
func TestServerOutage(t *testing.T) {
	lasts := time.Duration(byExtent(500, 4000)) * time.Millisecond
	t.Logf("%26s %11s %13s %17s %23s %19s", "", "before", "in the outage", "calls above 1 ms", "Redis decides after",
		"goroutines")
	for how, opts := range map[string][]loader.Option{"with": nil, "without": {loader.WithoutBreaker()}} {
		if how == "without" && !full() {
			continue
		}
		server := redistest.Start(t)
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
		t.Cleanup(func() { _ = rdb.Close() })
		limiter := loader.New(rdb, opts...).GCRA("x", loader.PerSecond(1_000_000), loader.FailOpen())
		for _, outage := range []struct {
			name       string
			begin, end func()
		}{
			{"frozen", func() { _ = syscall.Kill(server.PID, syscall.SIGSTOP) },
				func() { _ = syscall.Kill(server.PID, syscall.SIGCONT) }},
			{"gone", server.Kill, func() { server.Restart(t) }},
		} {
			l := startLoad(50, limiter)
			time.Sleep(lasts / 4)
			before, _ := l.during(func() { time.Sleep(lasts / 4) })
			outage.begin()
			time.Sleep(250 * time.Millisecond)
			asked := l.refused.Load()
			in, slow := l.during(func() { time.Sleep(lasts) })
			goroutines := runtime.NumGoroutine()
			if how == "with" && l.refused.Load() == asked {
				t.Errorf("%s: every call was sent", outage.name)
			}
			outage.end()
			back := time.Now().UnixNano()
			redistest.Await(t, "decisions of Redis", func() bool {
				degraded := l.degraded.Load()
				time.Sleep(lasts / 4)
				return l.degraded.Load() == degraded
			})
			l.stop()
			t.Logf("%-8s a breaker, %-7s %9.0f/s %11.0f/s %15.2f %% %20d ms %19d", how, outage.name, before, in, slow,
				max(0, l.lastDegraded.Load()-back)/1e6, goroutines)
		}
	}
}

// TestServerBlips has faults that a call survives within its time: no breaker opens.
func TestServerBlips(t *testing.T) {
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	admin := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = admin.Close() })
	ctx := context.Background()
	opts := []loader.LimiterOption{loader.FailOpen()}
	if !full() { // a busy machine may stall for longer than 100 ms
		opts = nil
	}
	limiter := loader.New(rdb).GCRA("x", loader.PerSecond(1_000_000), opts...)
	const slowScript = `local from = redis.call('TIME') repeat local now = redis.call('TIME')
		until (now[1] - from[1]) * 1000000 + now[2] - from[2] > 50000`
	l := startLoad(16, limiter)
	defer l.stop()
	for name, blip := range map[string]func(){
		"all connections are cut": func() { admin.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes") },
		"a script of 50 ms":       func() { admin.Eval(ctx, slowScript, nil) },
		"a stall of 50 ms": func() {
			_ = syscall.Kill(server.PID, syscall.SIGSTOP)
			time.Sleep(50 * time.Millisecond)
			_ = syscall.Kill(server.PID, syscall.SIGCONT)
		},
		"2000 callers at once": func() {
			var all sync.WaitGroup
			for i := range 2000 {
				all.Go(func() {
					d, err := limiter.Allow(ctx, fmt.Sprint("burst", i))
					l.count(0, d.Degraded || err != nil, errors.Join(d.Cause, err))
				})
			}
			all.Wait()
		},
	} {
		degraded, refused := l.degraded.Load(), l.refused.Load()
		for range byExtent(3, 20) {
			blip()
			time.Sleep(100 * time.Millisecond)
		}
		t.Logf("%-24s degraded %3d, because a breaker was open %d", name, l.degraded.Load()-degraded,
			l.refused.Load()-refused)
	}
	if n := l.refused.Load(); n > 0 {
		t.Errorf("%d calls were not sent", n)
	}
}
