package loader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// TestRecoversFromDeadConnections has all connections go silent while new ones work, as behind a firewall that has
// forgotten them, for a client that has no timeout of its own: calls are lost until their bound, and then none.
func TestRecoversFromDeadConnections(t *testing.T) {
	eachMode(t, func(t *testing.T, how string, opts []loader.Option) {
		proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
		opt := options(proxy.Addr)
		opt.ReadTimeout, opt.ContextTimeoutEnabled, opt.PoolSize = -1, true, 10
		limits := loader.New(clientOf(t, opt), append(opts, loader.Timeout(200*time.Millisecond))...)
		must(t, limits.Preload(background))
		limiter := limits.ListLog("x", loader.PerHour(1_000_000))
		var asked, decided atomic.Int64
		stop := make(chan struct{})
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					asked.Add(1)
					if errOf(limiter.Allow(background, fmt.Sprint(i, n%7))) == nil {
						decided.Add(1)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		await(t, func() bool { return decided.Load() > 200 })
		proxy.SwallowLive()
		before, failed := decided.Load(), asked.Load()-decided.Load()
		await(t, func() bool { return decided.Load() > before+1000 })
		lost := asked.Load() - decided.Load() - failed
		close(stop)
		all.Wait()
		t.Logf("%d calls lost", lost)
		if lost > 500 {
			t.Errorf("%d calls lost, want some 50", lost)
		}
	})
}

// TestSharedQueueIsBounded has a server that does not answer any more and callers who come and go: what nobody waits
// for leaves the queue, and the goroutines end.
func TestSharedQueueIsBounded(t *testing.T) {
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	opt := options(proxy.Addr)
	opt.ContextTimeoutEnabled = true
	limits := loader.New(clientOf(t, opt), loader.ShareRoundTrips(), loader.Timeout(50*time.Millisecond))
	must(t, limits.Preload(background))
	limiter := limits.GCRA("x", loader.PerHour(1000))
	before := runtime.NumGoroutine()
	proxy.Swallow()
	for round := range 5 {
		var all sync.WaitGroup
		for i := range 300 {
			all.Go(func() { _ = errOf(limiter.Allow(background, fmt.Sprint(i%40, round))) })
		}
		all.Wait()
		if n := limits.SharedRequests(); n > 300 {
			t.Fatalf("%d requests in the queues, want those of one round at most", n)
		}
	}
	await(t, func() bool { return limits.SharedRequests() == 0 })
	proxy.Pass()
	await(t, func() bool { return errOf(limiter.Allow(background, "s")) == nil })
	await(t, func() bool { return runtime.NumGoroutine() < before+20 }) // the proxy has some for each connection
}

// gate is a hook that holds each decision, before it is written, until it is let through.
type gate struct {
	arrived chan struct{}
	through chan struct{}
}

func (g gate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		g.arrived <- struct{}{}
		<-g.through
		return next(ctx, cmd)
	}
}

func (g gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		g.arrived <- struct{}{}
		<-g.through
		return next(ctx, cmds)
	}
}

// TestCancelledBeforeItLeft has callers cancelled when their decision is about to be written: nobody is charged for
// them, also where one command asks for several.
func TestCancelledBeforeItLeft(t *testing.T) {
	eachMode(t, func(t *testing.T, how string, opts []loader.Option) {
		rdb := real(t)
		direct := client(t, rdb.Options().Addr)
		limits := loader.New(rdb, append(opts, loader.Timeout(never))...)
		must(t, limits.Preload(background))
		limiter := limits.ListLog("x", loader.PerHour(1000))
		g := gate{make(chan struct{}), make(chan struct{})}
		rdb.AddHook(g)
		ctx, cancel := context.WithCancel(background)
		var all sync.WaitGroup
		ask := func(ctx context.Context, n int, want error) {
			for range n {
				all.Go(func() {
					err := errOf(limiter.Allow(ctx, "s"))
					if !errors.Is(err, want) || errors.Is(err, loader.ErrOutcomeUnknown) {
						t.Errorf("%v, want %v: it has not left", err, want)
					}
				})
			}
		}
		ask(background, 1, nil)
		<-g.arrived
		want := int64(1)
		if how == "shared" {
			ask(ctx, 5, context.Canceled)
			ask(background, 1, nil)
			await(t, func() bool { return limits.SharedRequests() == 6 })
			g.through <- struct{}{}
			want = 2
		} else {
			ask(ctx, 1, context.Canceled)
		}
		<-g.arrived
		cancel()
		time.AfterFunc(soon, func() { close(g.through) })
		go func() {
			for range g.arrived {
			}
		}()
		all.Wait()
		await(t, func() bool { return direct.LLen(background, "sluice:x:{s}:ll1").Val() >= want })
		if n := direct.LLen(background, "sluice:x:{s}:ll1").Val(); n != want {
			t.Errorf("%d were charged, want %d: those who stayed", n, want)
		}
	})
}

// slowConn is a connection on which decisions are on their way for a while.
type slowConn struct {
	net.Conn
	delay *atomic.Int64
}

func (c slowConn) Write(b []byte) (int, error) {
	if bytes.Contains(bytes.ToLower(b), []byte("evalsha")) {
		time.Sleep(time.Duration(c.delay.Load()))
	}
	return c.Conn.Write(b)
}

// TestWaitCancelledOnItsWay has a Wait of a ZSetLog cancelled while its decision is on the way to the server: it is
// given back when it has arrived, not before.
func TestWaitCancelledOnItsWay(t *testing.T) {
	eachMode(t, func(t *testing.T, how string, opts []loader.Option) {
		server := redistest.Start(t)
		var delay atomic.Int64
		opt := options(server.Addr)
		opt.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return slowConn{conn, &delay}, err
		}
		limits := loader.New(clientOf(t, opt), opts...)
		must(t, limits.Preload(background))
		log := limits.ZSetLog("x", loader.Limit{Permits: 1, Window: time.Hour})
		delay.Store(int64(400 * time.Millisecond))
		ctx := within(t, 50*time.Millisecond)
		e := as[*loader.OutcomeUnknownError](t, log.Wait(ctx, "s"))
		if e.ID == "" {
			t.Error("the caller is not told the id")
		}
		direct := client(t, server.Addr)
		charged := func() int64 { return direct.ZCard(background, "sluice:x:{s}:zl1").Val() }
		await(t, func() bool {
			return bytes.Contains([]byte(direct.Info(background, "commandstats").Val()), []byte("cmdstat_evalsha"))
		})
		await(t, func() bool { return charged() == 0 })
		delay.Store(0)
		wantGrant(t, log, "s", 1)
	})
}

// TestNodesAbandoned has callers leave while a client finds out its nodes: run with -race.
func TestNodesAbandoned(t *testing.T) {
	m, _ := fake(t)
	addr := m.Addr()
	for _, opt := range []loader.Option{loader.ShareRoundTrips(), loader.Breaker(5, time.Second)} {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			time.Sleep(20 * time.Millisecond)
			return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
		}})
		limiter := loader.New(rdb, opt).ListLog("x", loader.PerHour(5))
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				ctx := within(t, time.Duration(1+i)*time.Millisecond)
				if err := errOf(limiter.Allow(ctx, "s")); err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		await(t, func() bool { return errOf(limiter.Allow(background, "s")) == nil })
		must(t, rdb.Close())
	}
}

// TestBreakerOnAColdCluster has one of three masters dead before the process starts, and one call in ten about a
// healthy node: those are decided.
func TestBreakerOnAColdCluster(t *testing.T) {
	servers := redistest.StartCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	seeds := make([]string, len(servers))
	nodes := make([]*redis.Client, len(servers))
	for i, s := range servers {
		seeds[i], nodes[i] = s.Addr, client(t, s.Addr)
	}
	subjects := make([]string, len(servers))
	for i := range servers {
		subjects[i] = subjectOf(t, nodes, i)
	}
	must(t, loader.New(nodes[1]).Preload(background))
	must(t, loader.New(nodes[2]).Preload(background))
	servers[0].Kill()
	eachMode(t, func(t *testing.T, how string, opts []loader.Option) {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: seeds})
		defer func() { _ = rdb.Close() }()
		limiter := loader.New(rdb, append(opts, loader.Breaker(5, 300*time.Millisecond))...).ListLog("x", loader.PerHour(10_000))
		var healthy, failed int
		for i := range 200 {
			subject := subjects[0]
			if i%10 == 9 {
				subject = subjects[1+i/10%2]
			}
			err := errOf(limiter.Allow(background, subject))
			if i%10 == 9 {
				healthy++
				if err != nil {
					failed++
				}
			}
		}
		t.Logf("%d of %d calls about healthy nodes failed", failed, healthy)
		if failed > 1 { // the first may come before a seed has answered
			t.Errorf("%d of %d calls about healthy nodes failed", failed, healthy)
		}
	})
}

// subjectOf is a subject about which the n-th node decides.
func subjectOf(t *testing.T, nodes []*redis.Client, n int) string {
	t.Helper()
	for i := range 1000 {
		subject := fmt.Sprint(i)
		err := nodes[n].Get(background, "sluice:x:{"+subject+"}:ll1").Err()
		if err == nil || errors.Is(err, redis.Nil) {
			return subject
		}
	}
	t.Fatal("no subject found")
	return ""
}

// TestWaitAsksAgain has a Wait meet what proves that nothing ran, for three seconds: it goes on asking, gently, and
// without a deadline it does not.
func TestWaitAsksAgain(t *testing.T) {
	for _, text := range []string{"LOADING it loads", "READONLY a replica", "CLUSTERDOWN", "MASTERDOWN", "BUSY with a script"} {
		for _, m := range makers {
			t.Run(text+" "+m.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					started := time.Now()
					rdb, asked := answering(func(context.Context) error {
						if time.Since(started) < 3*time.Second {
							return badArgument(text)
						}
						return errDead
					})
					limits := loader.New(rdb, loader.Breaker(3, 100*time.Millisecond))
					limiter := m.make(limits, loader.PerHour(5))
					if err := limiter.Wait(background, "s"); err == nil || time.Since(started) > time.Second {
						t.Errorf("without a deadline, after %v: %v", time.Since(started), err)
					}
					asked.Store(0)
					ctx := within(t, time.Minute)
					err := limiter.Wait(ctx, "s")
					if n := asked.Load(); !errors.Is(err, errDead) || time.Since(started) < 3*time.Second || n > 100 {
						t.Errorf("after %v and %d calls: %v", time.Since(started), n, err)
					}
				})
			})
		}
	}
}

// TestWaitUntilItsDeadline has Redis be down for good: the error comes when the time is up, and names the cause.
func TestWaitUntilItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb, _ := answering(func(context.Context) error { return badArgument("LOADING it loads") })
		limits := loader.New(rdb)
		for name, limiter := range map[string]loader.Limiter{
			"deadline": limits.ListLog("x", loader.PerHour(5)),
			"MaxWait":  limits.ListLog("x", loader.PerHour(5), loader.MaxWait(10*time.Second)),
		} {
			ctx, cancel := background, func() {}
			if name == "deadline" {
				ctx, cancel = context.WithTimeout(background, 10*time.Second)
			}
			started := time.Now()
			err := limiter.Wait(ctx, "s")
			if took := time.Since(started); err == nil || took < 9*time.Second || took > 11*time.Second {
				t.Errorf("%s: after %v: %v", name, took, err)
			}
			cancel()
		}
	})
}

// TestReachDoesNotOverflow has a group be granted all that it asks for, round after round.
func TestReachDoesNotOverflow(t *testing.T) {
	for rounds := range 200 {
		if reach := loader.ReachAfter(rounds, 1_000_000_000); reach < 0 || rounds > 40 && reach < 1_000_000_000 {
			t.Fatalf("after %d rounds it reaches for %d", rounds, reach)
		}
	}
}
