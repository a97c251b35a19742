package loader_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// answering is a client whose commands are answered by a function, and counted.
func answering(answer func(ctx context.Context) error) (*redis.Client, *atomic.Int64) {
	var asked atomic.Int64
	rdb := down()
	rdb.AddHook(around(func(ctx context.Context, cmds []redis.Cmder, _ func() error) error {
		asked.Add(1)
		err := answer(ctx)
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
		return err
	}))
	return rdb, &asked
}

var errDead = errors.New("dead")

// TestBreakerOpensAndCloses follows a breaker of 3 failures and 10 s whose calls may take 1 s.
func TestBreakerOpensAndCloses(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dead := true
				rdb, asked := answering(func(context.Context) error {
					if dead {
						return errDead
					}
					return serverError("BADSTATE no")
				})
				limits := loader.New(rdb, append(way.opts, loader.Breaker(3, 10*time.Second))...)
				limiter := limits.ListLog("x", loader.PerHour(5))
				ask := func(want int64, open bool) {
					t.Helper()
					_, err := way.ask(limits, limiter, "s")
					if errors.Is(err, loader.ErrBreakerOpen) != open || err == nil || asked.Load() != want {
						t.Fatalf("%v after %d calls that were sent; want %d, open %v", err, asked.Load(), want, open)
					}
				}
				ask(1, false)
				time.Sleep(2 * time.Second)
				ask(2, false)
				ask(3, false)
				ask(3, true) // three failures in 2 s
				time.Sleep(9999 * time.Millisecond)
				ask(3, true)
				time.Sleep(2 * time.Millisecond)
				ask(4, false) // the one of this pause
				ask(4, true)
				time.Sleep(10001 * time.Millisecond)
				dead = false
				ask(5, false)
				dead = true
				ask(6, false) // answered: counted anew
				ask(7, false)
				ask(8, false)
				ask(9, false) // many failures, but no time has passed
				time.Sleep(999 * time.Millisecond)
				ask(10, false)
				time.Sleep(time.Millisecond)
				ask(10, true)
			})
		})
	}
}

// TestBreakerWaitsForTheTimeout has a limiter with a fallback, whose calls may take 100 ms, beside one of 1 s.
func TestBreakerWaitsForTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb, asked := answering(func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		limits := loader.New(rdb)
		impatient := limits.ListLog("x", loader.PerHour(5), loader.FailOpen())
		patient := limits.ListLog("y", loader.PerHour(5))
		for range 6 {
			wantGrant(t, impatient, "s", 1)
		}
		if n := asked.Load(); n != 5 {
			t.Fatalf("%d calls were sent, want 5", n)
		}
		if err := errOf(patient.Allow(background, "s")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("silent for half of its timeout: %v", err)
		}
		const want = "breaker is open: nowhere:0 has not answered for 1.5s; the last failure: "
		if err := errOf(patient.Allow(background, "s")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("silent for longer: %v", err)
		}
		without := loader.New(rdb, loader.WithoutBreaker()).ListLog("x", loader.PerHour(5))
		for range 10 {
			if err := errOf(without.Allow(background, "s")); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("WithoutBreaker: %v", err)
			}
		}
	})
}

// TestBreakerHearsLateReplies has a server answer after its callers have left: the next call is sent without a pause,
// and if that is late too no other one is.
func TestBreakerHearsLateReplies(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rdb, asked := answering(func(context.Context) error {
					time.Sleep(1500 * time.Millisecond)
					return nil
				})
				limits := loader.New(rdb, append(way.opts, loader.Breaker(1, time.Minute))...)
				limiter := limits.ListLog("x", loader.PerHour(5))
				for range 2 {
					_, sent := way.ask(limits, limiter, "s") // for 1 s
					_, refused := way.ask(limits, limiter, "s")
					if errors.Is(sent, loader.ErrBreakerOpen) || !errors.Is(refused, loader.ErrBreakerOpen) {
						t.Errorf("%v, then %v", sent, refused)
					}
					time.Sleep(time.Second)
				}
				if n := asked.Load(); n != 2 {
					t.Errorf("%d calls were sent, want 2", n)
				}
			})
		})
	}
}

// downRing is a client of two shards that fails to connect at once.
func downRing() *redis.Ring {
	return redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"first": "first:0", "other": "other:0"}, HeartbeatFrequency: patient,
		NewClient: func(o *redis.Options) *redis.Client {
			rdb := down()
			rdb.Options().Addr = o.Addr
			return rdb
		},
	})
}

// TestOpenBreakersOfNodesThatLeave has one of two dead shards leave: it is in OpenBreakers for two minutes.
func TestOpenBreakersOfNodesThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := downRing()
		defer func() { _ = rdb.Close() }()
		rdb.AddHook(answers("", func() error { return errDead }))
		limits := loader.New(rdb, loader.WithoutSharing(), loader.Breaker(1, time.Minute))
		limiter, subjects := limits.ListLog("x", loader.PerHour(5)), subjectsByShard(t, rdb)
		wantOpen := func(want int) {
			t.Helper()
			for range 2 {
				for _, subject := range subjects {
					_ = errOf(limiter.Allow(background, subject))
				}
				time.Sleep(time.Second)
			}
			if open := limits.OpenBreakers(); len(open) != want || open["other:0"] == 0 {
				t.Errorf("%v are open, want %d and other:0", open, want)
			}
		}
		wantOpen(2)
		rdb.SetAddrs(map[string]string{"other": "other:0"})
		wantOpen(2)
		time.Sleep(2 * time.Minute)
		_ = errOf(limiter.Allow(background, "s"))
		wantOpen(1)
	})
}

// TestBreakersHearLateReplies has both shards of a Ring answer one Batch late: the next calls to both are sent at once.
func TestBreakersHearLateReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := downRing()
		defer func() { _ = rdb.Close() }()
		rdb.AddHook(around(func(context.Context, []redis.Cmder, func() error) error {
			time.Sleep(1500 * time.Millisecond)
			return nil
		}))
		limits := loader.New(rdb, loader.WithoutSharing(), loader.Breaker(1, time.Minute))
		limiter := limits.ListLog("x", loader.PerHour(5))
		refused := func() (n int) {
			batch := limits.Batch()
			for _, subject := range subjectsByShard(t, rdb) {
				batch.Allow(limiter, subject)
			}
			results, _ := batch.Do(background) // for 1 s
			for _, r := range results {
				if errors.Is(r.Err, loader.ErrBreakerOpen) {
					n++
				}
			}
			return n
		}
		sent, open := refused(), refused()
		time.Sleep(time.Second)
		if late := refused(); sent != 0 || open != 2 || late != 0 {
			t.Errorf("refused %d, %d, and %d after the answers; want 0, 2, 0", sent, open, late)
		}
		time.Sleep(time.Second) // until the last answers
	})
}

// TestBreakerTriesOnce has ten callers when the pause is over: one of them tries. The next pause runs from then.
func TestBreakerTriesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb, asked := answering(func(context.Context) error {
			time.Sleep(time.Second)
			return errDead
		})
		limits := loader.New(rdb, loader.Breaker(1, time.Minute), loader.Timeout(2*time.Second))
		limiter := limits.ListLog("x", loader.PerHour(5), loader.FailOpen())
		wantGrant(t, limiter, "s", 1)
		time.Sleep(2 * time.Minute)
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if d, err := limiter.Allow(background, "s"); err != nil || !d.Degraded {
					t.Errorf("%+v, %v", d, err)
				}
			})
		}
		all.Wait()
		if n := asked.Load(); n != 2 {
			t.Errorf("%d calls were sent, want 2", n)
		}
		time.Sleep(time.Minute - time.Second)
		wantGrant(t, limiter, "s", 1)
		if n := asked.Load(); n != 3 {
			t.Errorf("%d calls were sent, want 3", n)
		}
	})
}

// TestBreakerProbeCancelled has the call that tries cancelled: the next one tries.
func TestBreakerProbeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := errDead
		rdb, asked := answering(func(context.Context) error { return answer })
		limiter := loader.New(rdb, loader.Breaker(1, time.Minute)).ListLog("x", loader.PerHour(5))
		for _, answer = range []error{errDead, context.Canceled, context.Canceled, errDead} {
			_, _ = limiter.Allow(background, "s")
			time.Sleep(time.Minute + time.Millisecond)
		}
		if n := asked.Load(); n != 4 {
			t.Errorf("%d calls were sent, want 4", n)
		}
	})
}

// TestBreakerJudges has outcomes that open it and others that do not.
func TestBreakerJudges(t *testing.T) {
	tests := map[string]struct {
		answer error
		opens  bool
	}{
		"lost":        {errDead, true},
		"deadline":    {context.DeadlineExceeded, true},
		"loading":     {serverError("LOADING data"), true},
		"busy":        {serverError("BUSY script"), true},
		"cluster":     {serverError("CLUSTERDOWN hash slot"), true},
		"master":      {serverError("MASTERDOWN link"), true},
		"clients":     {serverError("ERR max number of clients reached"), true},
		"read-only":   {serverError("READONLY replica"), false},
		"full":        {serverError("OOM command"), false},
		"badly asked": {serverError("BADARG limit: want more"), false},
		"refused":     {serverError("NOPERM no"), false},
		"cancelled":   {context.Canceled, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rdb, _ := answering(func(context.Context) error { return test.answer })
				limiter := loader.New(rdb, loader.Breaker(2, time.Minute)).ListLog("x", loader.PerHour(5))
				var err error
				for range 5 {
					_, err = limiter.Allow(background, "s")
					time.Sleep(time.Second)
				}
				if errors.Is(err, loader.ErrBreakerOpen) != test.opens {
					t.Errorf("%v; want it open: %v", err, test.opens)
				}
			})
		})
	}
}

// TestBreakerCountsRoundTrips has Batches of five, two of which are enough: each is sent whole or refused whole.
func TestBreakerCountsRoundTrips(t *testing.T) {
	for _, opt := range []loader.Option{nil, loader.WithoutSharing()} {
		synctest.Test(t, func(t *testing.T) {
			answer := errDead
			rdb, _ := answering(func(context.Context) error { return answer })
			limits := loader.New(rdb, loader.Breaker(2, time.Minute), opt)
			limiter := limits.ListLog("x", loader.PerHour(5))
			for i, want := range []int{0, 0, 5, 5, 0} {
				batch := limits.Batch()
				for k := range 5 {
					batch.Allow(limiter, strconv.Itoa(k))
				}
				refused := 0
				results, _ := batch.Do(background)
				for _, r := range results {
					if errors.Is(r.Err, loader.ErrBreakerOpen) {
						refused++
					}
				}
				if refused != want {
					t.Errorf("Batch %d: %d of 5 calls were refused, want %d", i+1, refused, want)
				}
				time.Sleep(time.Second)
				if i == 3 {
					answer = serverError("BADSTATE no")
					time.Sleep(time.Minute)
				}
			}
		})
	}
}

// TestBreakerAndStaleConnections has a firewall forget the twelve connections of a pool: five calls fail because of
// them, no more.
func TestBreakerAndStaleConnections(t *testing.T) {
	const connections = 12
	for _, piped := range []bool{false, true} {
		m, _ := fake(t)
		p := redistest.StartProxy(t, m.Addr())
		opt := options(p.Addr)
		opt.PoolSize, opt.PipelinePoolSize, opt.ContextTimeoutEnabled = connections, connections, true
		limits := loader.New(clientOf(t, opt), loader.Timeout(200*time.Millisecond), loader.WithoutSharing())
		limiter := limits.ListLog("x", loader.PerHour(1000))
		ask := func() error {
			if !piped {
				return errOf(limiter.Allow(background, "s"))
			}
			batch := limits.Batch()
			batch.Allow(limiter, "s")
			batch.Allow(limiter, "other")
			return errOf(batch.Do(background))
		}
		must(t, ask())
		p.Delay(0, 50*time.Millisecond)
		var all sync.WaitGroup
		for range connections {
			all.Go(func() { _ = ask() })
		}
		all.Wait()
		must(t, ask()) // none of those failed last: on a loaded machine some do
		p.SwallowLive()
		lost := 0
		for err := ask(); err != nil; err = ask() {
			if !errors.Is(err, loader.ErrBreakerOpen) {
				lost++
			}
			time.Sleep(time.Millisecond)
		}
		if lost != 5 {
			t.Errorf("in pipelines %v: %d calls were lost, want 5", piped, lost)
		}
	}
}

// TestBreakerOfEachNode stops one master of three: those who ask the others do not notice.
func TestBreakerOfEachNode(t *testing.T) {
	nodes, addrs := newCluster(t)
	subjects := make([]string, len(nodes))
	for i := range nodes {
		subjects[i], _ = subjectOn(t, nodes, i, "x")
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ReadTimeout: patient})
	t.Cleanup(func() { _ = rdb.Close() })
	wantNodesApart(t, rdb, nodes[0], subjects)
}

// TestBreakerOfEachShard is TestBreakerOfEachNode for a Ring that does not find out by itself.
func TestBreakerOfEachShard(t *testing.T) {
	first, other := real(t), real(t)
	rdb := redis.NewRing(&redis.RingOptions{
		Addrs:              map[string]string{"first": first.Options().Addr, "other": other.Options().Addr},
		HeartbeatFrequency: patient, ReadTimeout: patient,
	})
	t.Cleanup(func() { _ = rdb.Close() })
	on := subjectsByShard(t, rdb)
	wantNodesApart(t, rdb, first, []string{on[first.Options().Addr], on[other.Options().Addr]})
}

// wantNodesApart stops the node of the first subject, and wants the others granted.
func wantNodesApart(t *testing.T, rdb redis.UniversalClient, node *redis.Client, subjects []string) {
	pid := pidOf(t, node)
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			limits := loader.New(rdb, append(way.opts, loader.Breaker(1, patient), loader.Timeout(time.Second))...)
			limiter := limits.ListLog("x", loader.PerHour(100))
			for _, subject := range subjects {
				wantGrant(t, limiter, subject, 1)
			}
			must(t, syscall.Kill(pid, syscall.SIGSTOP))
			defer func() { must(t, syscall.Kill(pid, syscall.SIGCONT)) }()

			ctx := within(t, soon)
			if _, err := limiter.Allow(ctx, subjects[0]); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the node that is stopped: %v", err)
			}
			time.Sleep(time.Second)
			for range 3 {
				for i, subject := range subjects {
					d, err := way.ask(limits, limiter, subject)
					if open := errors.Is(err, loader.ErrBreakerOpen); open != (i == 0) || i > 0 && !d.Granted {
						t.Errorf("node %d: %+v, %v", i, d, err)
					}
				}
			}
		})
	}
}

// pidOf is the process of a server.
func pidOf(t *testing.T, rdb *redis.Client) int {
	t.Helper()
	_, text, _ := strings.Cut(rdb.Info(background, "server").Val(), "process_id:")
	line, _, _ := strings.Cut(text, "\r\n")
	pid, err := strconv.Atoi(line)
	must(t, err)
	return pid
}

// TestNodesAbandoned has callers leave while a client finds out its nodes: run with -race.
func TestNodesAbandoned(t *testing.T) {
	m, _ := fake(t)
	addr := m.Addr()
	for _, opt := range []loader.Option{nil, loader.Breaker(5, time.Second)} {
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
		subjects[i], _ = subjectOn(t, nodes, i, "x")
	}
	must(t, loader.New(nodes[1]).Preload(background))
	must(t, loader.New(nodes[2]).Preload(background))
	servers[0].Kill()
	eachMode(t, func(t *testing.T, how string, opts []loader.Option) {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: seeds})
		defer func() { _ = rdb.Close() }()
		limiter := loader.New(rdb, append(opts, loader.Breaker(5, 300*time.Millisecond))...).ListLog("x",
			loader.PerHour(10_000))
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
