//go:build unix

package soak

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// TestServerOutage freezes a server, and then kills it, under callers in each place whose limiters grant without it. It
// prints what they notice; -chaos=full has longer outages, and callers without a breaker.
func TestServerOutage(t *testing.T) {
	breakers := []string{"with"}
	if full() {
		breakers = append(breakers, "without")
	}
	t.Logf("%-22s %-8s %-7s %10s %9s %10s %9s %9s %11s", "", "breaker", "Redis", "before", "p99", "in outage", "p99",
		"back", "goroutines")
	for _, place := range places {
		for _, breaker := range breakers {
			t.Run(place.name+" "+breaker, func(t *testing.T) {
				server := redistest.Start(t)
				note := place.start(t, server, breaker)
				for _, outage := range []struct {
					name       string
					begin, end func()
				}{
					{"frozen", func() { _ = syscall.Kill(server.PID, syscall.SIGSTOP) },
						func() { _ = syscall.Kill(server.PID, syscall.SIGCONT) }},
					{"gone", server.Kill, func() { server.Restart(t) }},
				} {
					suffer(t, note, fmt.Sprintf("%-22s %-8s %-7s", place.name, breaker, outage.name), breaker == "with",
						outage.begin, outage.end)
				}
			})
		}
	}
}

// suffer has an outage begin and end, and prints what was noted before, in and after it.
func suffer(t *testing.T, note func() noted, name string, breaker bool, begin, end func()) {
	t.Helper()
	lasts := time.Duration(byExtent(500, 4000)) * time.Millisecond
	decides := func() bool { // the long form wants it for a while, not only between two failures
		time.Sleep(lasts / 4)
		n := note()
		return n.calls > n.degraded && (!full() || n.degraded == 0)
	}
	redistest.Await(t, "decisions of Redis", decides)
	note()
	time.Sleep(lasts / 2)
	before := note()
	begin()
	redistest.Await(t, "a breaker opens", func() bool { return !breaker || note().refused > 0 })
	time.Sleep(600 * time.Millisecond) // the first timeouts, of 100 and 250 ms, and what waits behind them
	note()
	time.Sleep(lasts)
	in := note()
	end()
	back := time.Now()
	redistest.Await(t, "decisions of Redis after an outage", decides)
	after := note()
	rate := func(n noted, in time.Duration) string { return fmt.Sprintf("%.0f/s", float64(n.calls)/in.Seconds()) }
	t.Logf("%s %10s %9v %10s %9v %9v %11d", name, rate(before, lasts/2), before.p99, rate(in, lasts), in.p99,
		max(0, after.lastDegraded.Sub(back)).Round(time.Millisecond), in.goroutines)
	if breaker && in.refused < in.calls/2 {
		t.Errorf("%s: %d of %d calls were not sent, want most", name, in.refused, in.calls)
	}
	if in.goroutines > 1000 {
		t.Errorf("%s: %d goroutines, want 1000 or fewer", name, in.goroutines)
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
	l := startLoad(16, askLimiter(limiter))
	defer l.stop()
	redistest.Await(t, "decisions of Redis", func() bool { return l.calls.Load() > l.degraded.Load() })
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
				all.Go(func() { l.count(askLimiter(limiter)(i), 0) })
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

// TestServerFailoverIsABlip has a master and its replica change places, which answers all callers within their time.
func TestServerFailoverIsABlip(t *testing.T) {
	s, ctx := redistest.StartSentinels(t, 5*time.Second), context.Background()
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: s.Name, SentinelAddrs: s.Addrs})
	t.Cleanup(func() { _ = rdb.Close() })
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: s.Addrs[0]})
	t.Cleanup(func() { _ = sentinel.Close() })
	l := startLoad(16, askLimiter(loader.New(rdb).GCRA("x", loader.PerSecond(1_000_000))))
	defer l.stop()
	for range byExtent(1, 20) {
		from, to := s.Master, s.Replica
		redistest.Await(t, "a failover begins", func() bool { return sentinel.Failover(ctx, s.Name).Err() == nil })
		redistest.Await(t, "the replica is the master", func() bool { return s.MasterIs(to.Addr) })
		redistest.AwaitReplica(t, from.Client(t))
		s.Master, s.Replica = to, from
	}
	t.Logf("%-24s failed %d, because a breaker was open %d", "a failover", l.degraded.Load(), l.refused.Load())
	if n := l.refused.Load(); n > 0 {
		t.Errorf("%d calls were not sent", n)
	}
}
