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
				row := fmt.Sprintf("%-22s %-8s ", place.name, breaker)
				suffer(t, note, row+"frozen ", breaker == "with",
					func() { send(t, server, syscall.SIGSTOP) }, func() { send(t, server, syscall.SIGCONT) })
				suffer(t, note, row+"gone   ", breaker == "with", server.Kill, func() { server.Restart(t) })
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

// TestServerOutageNginx has 50 connections ask nginx in turns: while Redis decides, while it is frozen, and with a
// server that always answers 204 in place of sluiced. What all three take is nginx's and the callers', not sluiced's.
func TestServerOutageNginx(t *testing.T) {
	well, frozen := redistest.Start(t), redistest.Start(t)
	sites := []struct {
		name string
		get  get
		load load
	}{
		{name: "Redis decides", get: startSite(t, well, "with")},
		{name: "Redis is frozen", get: startSite(t, frozen, "with")},
		{name: "204 in place of sluiced", get: startSite(t, nil, "")},
	}
	for i := range sites[:2] {
		redistest.Await(t, "decisions of Redis", func() bool { return sites[i].get.ask(0) == nil })
	}
	send(t, frozen, syscall.SIGSTOP)
	defer send(t, frozen, syscall.SIGCONT)
	for round := range byExtent(2, 12) {
		for i := range sites {
			callers := sites[i].load.start(50, sites[i].get.ask)
			time.Sleep(time.Second)
			callers.stop()
			if round == 0 { // the breaker opens
				sites[i].load.note()
			}
		}
	}
	for i := range sites {
		n := sites[i].load.note()
		t.Logf("%-24s %6d calls, %d not decided by Redis, p99 %v", sites[i].name, n.calls, n.degraded, n.p99)
		if i > 0 && n.degraded < n.calls {
			t.Errorf("%s: Redis has decided %d calls", sites[i].name, n.calls-n.degraded)
		}
	}
}

// blipsOn are faults of a server that a call survives within its time, where the machine has time for all calls.
func blipsOn(t *testing.T, server *redistest.Server) map[string]func() {
	const slowScript = `local from = redis.call('TIME') repeat local now = redis.call('TIME')
		until (now[1] - from[1]) * 1000000 + now[2] - from[2] > 50000`
	admin, ctx := server.Client(t), context.Background()
	return map[string]func(){
		"all connections are cut": func() { admin.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes") },
		"a script of 50 ms":       func() { admin.Eval(ctx, slowScript, nil) },
		"a stall of 50 ms": func() {
			send(t, server, syscall.SIGSTOP)
			time.Sleep(50 * time.Millisecond)
			send(t, server, syscall.SIGCONT)
		},
		"2000 callers at once": func() {},
	}
}

// TestServerBlips has blips meet callers with a breaker and callers without, in turns. What those with one are refused
// is the breaker's fault if those without are all answered by Redis; else the machine had no time for all calls.
func TestServerBlips(t *testing.T) {
	server, arms := redistest.Start(t), [...]string{"with", "without"}
	for name, blip := range blipsOn(t, server) {
		degraded, refused := [len(arms)]int64{}, int64(0)
		for round := range byExtent(3, 20) {
			for turn := range arms {
				i := (turn + int(round)) % len(arms)
				l := meet(t, server, blip, name == "2000 callers at once", arms[i])
				degraded[i] += l.degraded.Load()
				refused += l.refused.Load()
			}
		}
		t.Logf("%-24s not decided by Redis: %d with a breaker, %d of them because it was open; %d without", name,
			degraded[0], refused, degraded[1])
		if refused > 0 && degraded[1] == 0 {
			t.Errorf("%s: a breaker refused %d calls, and without one all are decided", name, refused)
		}
	}
}

// meet has a blip meet 16 callers, and 2000 more if it is a crowd, and returns what they noticed.
func meet(t *testing.T, server *redistest.Server, blip func(), crowd bool, breaker string) *load {
	rdb, l := redis.NewClient(&redis.Options{Addr: server.Addr}), &load{}
	defer rdb.Close()
	var opts []loader.LimiterOption
	if full() { // calls have 100 ms then: a busy machine may stall for longer
		opts = append(opts, loader.FailOpen())
	}
	ask := newLimiter(rdb, breaker, opts...)
	defer l.start(16, func(caller int) error {
		time.Sleep(time.Millisecond) // a call that is refused takes no time: they would be too many
		return ask(caller)
	}).stop()
	redistest.Await(t, "decisions of Redis", func() bool { return l.calls.Load() > l.degraded.Load() })
	l.note()
	blip()
	var all sync.WaitGroup
	for i := range 2000 {
		if crowd {
			all.Go(func() { l.call(i, ask) })
		}
	}
	all.Wait()
	time.Sleep(100 * time.Millisecond)
	return l
}

// TestServerFailoverIsABlip has a master and its replica change places, which answers all callers within their time.
func TestServerFailoverIsABlip(t *testing.T) {
	s, ctx := redistest.StartSentinels(t, 5*time.Second), context.Background()
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: s.Name, SentinelAddrs: s.Addrs})
	t.Cleanup(func() { _ = rdb.Close() })
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: s.Addrs[0]})
	t.Cleanup(func() { _ = sentinel.Close() })
	l := &load{}
	defer l.start(16, newLimiter(rdb, "with")).stop()
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
