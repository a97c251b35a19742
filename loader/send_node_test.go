package loader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// opaque is a client around another one, which shows nothing but commands.
type opaque struct {
	redis.UniversalClient
	sent *atomic.Int64 // decisions that went through it
}

func (o opaque) Process(ctx context.Context, cmd redis.Cmder) error {
	if strings.HasPrefix(cmd.Name(), "eval") {
		o.sent.Add(1)
	}
	return o.UniversalClient.Process(ctx, cmd)
}

func (o opaque) Pipeline() redis.Pipeliner {
	o.sent.Add(1)
	return o.UniversalClient.Pipeline()
}

// open is one that says what it is around.
type open struct{ opaque }

func (o open) Unwrap() redis.UniversalClient { return o.UniversalClient }

// deployment is a client, and direct ones of its nodes.
type deployment struct {
	name  string
	rdb   redis.UniversalClient
	nodes []*redis.Client
}

// eachDeployment runs a test on one server, a Ring of eight fakes and a cluster of three.
func eachDeployment(t *testing.T, test func(t *testing.T, d deployment)) {
	one := real(t)
	var shards []*redis.Client
	shardAddrs := map[string]string{}
	for i := range 8 {
		_, shard := fake(t)
		shards = append(shards, shard)
		shardAddrs[fmt.Sprint(i)] = shard.Options().Addr
	}
	ring := redis.NewRing(&redis.RingOptions{Addrs: shardAddrs, DisableIdentity: true})
	t.Cleanup(func() { _ = ring.Close() })
	masters, addrs := newCluster(t)
	cluster := clusterClient(t, addrs)
	for _, d := range []deployment{
		{"Client", one, []*redis.Client{one}}, {"Ring", ring, shards}, {"ClusterClient", cluster, masters},
	} {
		t.Run(d.name, func(t *testing.T) { test(t, d) })
	}
}

// eachWrapping runs a test on the client of a deployment wrapped in different ways.
func eachWrapping(
	t *testing.T, d deployment, test func(t *testing.T, wrapped redis.UniversalClient, shown bool, sent *atomic.Int64),
) {
	sent := new(atomic.Int64)
	inner := open{opaque{d.rdb, new(atomic.Int64)}}
	for _, w := range []struct {
		name  string
		rdb   redis.UniversalClient
		shown bool
	}{
		{"not wrapped", d.rdb, true},
		{"without Unwrap", opaque{d.rdb, sent}, false},
		{"with Unwrap", open{opaque{d.rdb, sent}}, true},
		{"two layers with Unwrap", open{opaque{inner, sent}}, true},
		{"with Unwrap around one without", open{opaque{opaque{d.rdb, new(atomic.Int64)}, sent}}, false},
	} {
		t.Run(w.name, func(t *testing.T) { test(t, w.rdb, w.shown, sent) })
	}
}

func (d deployment) flush(t *testing.T) {
	t.Helper()
	for _, node := range d.nodes {
		must(t, node.ScriptFlush(background).Err())
	}
}

// TestReloads flushes all scripts before each of some calls and batches, whose subjects are on all nodes.
func TestReloads(t *testing.T) {
	eachDeployment(t, func(t *testing.T, d deployment) {
		eachWrapping(t, d, func(t *testing.T, wrapped redis.UniversalClient, _ bool, sent *atomic.Int64) {
			eachMode(t, func(t *testing.T, how string, opts []loader.Option) {
				limits := loader.New(wrapped, append(opts, loader.Timeout(10*time.Second))...)
				limiter := func(i int) loader.Limiter { return makers[i%len(makers)].make(limits, loader.PerHour(2)) }
				sent.Store(0)
				for i := range 20 { // each script several times, on each node
					d.flush(t)
					wantGrant(t, limiter(i), fmt.Sprint(t.Name(), i), 1)
				}
				if n := sent.Load(); (n < 2*20 || n > 3*20) && wrapped != d.rdb {
					t.Errorf("%d times the wrapper sent a decision, want 2 or 3 times a call", n)
				}
				for i := range 20 { // each was charged once
					wantRemaining(t, limiter(i), fmt.Sprint(t.Name(), i), 1)
				}
				var callers sync.WaitGroup
				d.flush(t)
				for i := range 20 {
					callers.Go(func() {
						subject := fmt.Sprint(t.Name(), i)
						wantGrant(t, limiter(i), subject, 1)
						wantDenial(t, limiter(i), subject, 1)
						must(t, limiter(i).Reset(background, subject))
						wantGrant(t, limiter(i), subject, 2)
					})
				}
				callers.Wait()

				d.flush(t)
				sent.Store(0)
				batch := limits.Batch()
				var want []int
				for i := range 50 {
					for _, grant := range []int{1, 1, 0} {
						batch.Allow(limiter(i), fmt.Sprint(t.Name(), "/batch", i))
						want = append(want, grant)
					}
				}
				wantBatch(t, batch, want...)
				if n := sent.Load(); n < 2 && wrapped != d.rdb {
					t.Errorf("%d times the wrapper sent a decision, want at least 2 times", n)
				}
			})
		})
	})
}

// TestWrappedPreload preloads every node where the wrapper shows them, and says what to do where it does not.
func TestWrappedPreload(t *testing.T) {
	eachDeployment(t, func(t *testing.T, d deployment) {
		eachWrapping(t, d, func(t *testing.T, wrapped redis.UniversalClient, shown bool, _ *atomic.Int64) {
			d.flush(t)
			limits := loader.New(wrapped, loader.PreloadedOnly())
			bucket := limits.GCRA("x", loader.PerHour(1000))
			_, missing := bucket.Allow(background, "s")
			if !errors.Is(missing, loader.ErrNotLoaded) || strings.Contains(missing.Error(), "Unwrap") == shown {
				t.Errorf("NOSCRIPT: %v; it is to name Unwrap: %v", missing, !shown)
			}
			loading := limits.Preload(background)
			if shown {
				must(t, loading)
				for _, node := range d.nodes {
					if !loaded(t, node, sluice.SliceRingV1()) {
						t.Errorf("%s was not loaded", node.Options().Addr)
					}
				}
				wantGrant(t, bucket, "s", 1)
				return
			}
			if loading == nil || !strings.Contains(loading.Error(), "Unwrap() redis.UniversalClient") {
				t.Errorf("Preload: %v; want an error that names Unwrap", loading)
			}
			for _, node := range d.nodes {
				if loaded(t, node, sluice.GCRAV1()) {
					t.Errorf("%s was loaded by a Preload that failed", node.Options().Addr)
				}
			}
		})
	})
}

// TestWrappedNodesAreApart has one shard of a Ring down: where the nodes are shown, its breaker is its own.
func TestWrappedNodesAreApart(t *testing.T) {
	up := redistest.Start(t).Addr
	ring := redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"a": up, "b": "127.0.0.1:1"}, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1,
		HeartbeatFn: func(context.Context, *redis.Client) bool { return true },
	})
	t.Cleanup(func() { _ = ring.Close() })
	subjects := subjectsByShard(t, ring)
	log := loader.New(open{opaque{ring, new(atomic.Int64)}}, loader.Breaker(1, time.Hour),
		loader.Timeout(time.Second)).ListLog("x", loader.PerHour(9))
	for range 2 {
		wantGrant(t, log, subjects[up], 1)
		_, err := log.Allow(background, subjects["127.0.0.1:1"])
		if err == nil {
			t.Error("a shard that is down has answered")
		}
	}
	time.Sleep(time.Second)
	if _, err := log.Allow(background, subjects["127.0.0.1:1"]); !errors.Is(err, loader.ErrBreakerOpen) {
		t.Errorf("the breaker of the shard that is down: %v", err)
	}
}

// subjectsByShard is a subject of each of two shards, by the shard's address.
func subjectsByShard(t *testing.T, ring *redis.Ring) map[string]string {
	t.Helper()
	subjects := map[string]string{}
	for i := 0; len(subjects) < 2; i++ {
		shard, err := ring.GetShardClientForKey(fmt.Sprint(i))
		must(t, err)
		subjects[shard.Options().Addr] = fmt.Sprint(i)
	}
	return subjects
}

// reloading counts how often it was told to ask for the nodes again.
type reloading struct {
	*redis.Client
	told *atomic.Int64
}

func (r reloading) ReloadState(context.Context) { r.told.Add(1) }

// TestWrappedReloadsNodes loses a server: a wrapped client is told to ask who the masters are now, too.
func TestWrappedReloadsNodes(t *testing.T) {
	inner := reloading{unreachable(t), new(atomic.Int64)}
	_, err := loader.New(open{opaque{inner, new(atomic.Int64)}}).GCRA("x", loader.PerHour(9)).Allow(background, "s")
	if err == nil || inner.told.Load() == 0 {
		t.Errorf("%v; told %d times, want once an attempt", err, inner.told.Load())
	}
}
