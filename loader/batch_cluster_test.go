package loader_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader"
)

// TestClusterTogether is of what reaches several nodes at once: batches, and shared round trips.
func TestClusterTogether(t *testing.T) {
	nodes, addrs := newCluster(t)
	rdb := clusterClient(t, addrs)
	flush := func() {
		for _, node := range nodes {
			must(t, node.ScriptFlush(background).Err())
		}
	}

	t.Run("a batch heals on every node", func(t *testing.T) {
		flush()
		limits := loader.New(rdb)
		batch := limits.Batch()
		var want []int
		for n := range nodes {
			for _, m := range makers {
				subject, _ := subjectOn(t, nodes, n, m.name)
				for _, grant := range []int{1, 1, 0} {
					batch.Allow(m.make(limits, loader.PerMinute(2)), subject)
					want = append(want, grant)
				}
			}
		}
		wantBatch(t, batch, want...)
	})
	t.Run("a batch loads only where it is missing", func(t *testing.T) {
		flush()
		limits := loader.New(rdb)
		must(t, nodes[0].ScriptLoad(background, sluice.ListLogV1.Source).Err())
		batch := limits.Batch()
		for n := range 2 {
			subject, _ := subjectOn(t, nodes, n, "some")
			batch.Allow(limits.ListLog("some", loader.PerMinute(2)), subject)
		}
		wantBatch(t, batch, 1, 1)
		if loaded(t, nodes[2], sluice.ListLogV1) {
			t.Error("a node was loaded that was not asked")
		}
	})
	t.Run("shared round trips heal on every node", func(t *testing.T) {
		flush()
		limits := loader.New(rdb, loader.ShareRoundTrips())
		var callers sync.WaitGroup
		for i := range 60 {
			callers.Go(func() {
				limiter := makers[i%len(makers)].make(limits, loader.PerMinute(2))
				for _, want := range []bool{true, true, false} {
					ctx, cancel := context.WithTimeout(background, time.Minute)
					d, err := limiter.Allow(ctx, fmt.Sprint("shared-", i))
					cancel()
					if err != nil || d.Granted != want {
						t.Errorf("%+v, %v", d, err)
					}
				}
			})
		}
		callers.Wait()
	})

	ids := make([]string, len(nodes))
	for n, node := range nodes {
		ids[n] = node.Do(background, "cluster", "myid").Val().(string)
		must(t, loader.New(node).Preload(background))
	}
	t.Run("ASK", func(t *testing.T) {
		subject, slot := subjectOn(t, nodes, 0, "asked")
		must(t, nodes[1].Do(background, "cluster", "setslot", slot, "importing", ids[0]).Err())
		must(t, nodes[0].Do(background, "cluster", "setslot", slot, "migrating", ids[1]).Err())
		must(t, nodes[1].ScriptFlush(background).Err())
		limits := loader.New(rdb)
		batch := limits.Batch()
		for range 3 {
			batch.Allow(limits.ListLog("asked", loader.PerMinute(2)), subject)
		}
		wantBatch(t, batch, 1, 1, 0)
		if nodes[1].DBSize(background).Val() == 0 {
			t.Error("it was not decided on the importing node")
		}
	})

	// go-redis leaves the MOVED of the first attempt on a command whose second attempt lost its reply.
	t.Run("MOVED, then the reply is lost", func(t *testing.T) {
		p := newProxy(t, addrs[1])
		rdb := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: addrs, DisableIdentity: true,
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if addr == addrs[1] {
					addr = p.addr
				}
				return (&net.Dialer{}).DialContext(ctx, network, addr)
			},
		})
		defer func() { _ = rdb.Close() }()
		limits := loader.New(rdb)
		must(t, limits.Preload(background))
		subject, slot := subjectOn(t, nodes, 0, "lost")
		batch := limits.Batch()
		batch.Peek(limits.ListLog("lost", loader.PerHour(9)), subject) // the client knows the nodes
		_, err := batch.Do(background)
		must(t, err)
		for _, n := range []int{1, 0, 2} {
			must(t, nodes[n].Do(background, "cluster", "setslot", slot, "node", ids[1]).Err())
		}
		plain := []*loader.Result{
			batch.Allow(limits.ListLog("lost", loader.PerHour(9)), subject),
			batch.Allow(limits.ListLog("lost", loader.PerHour(9)), subject),
		}
		withID := batch.Allow(limits.ZSetLog("lost", loader.PerHour(9)), subject)
		p.next(fault{dropReply: true})
		_, _ = batch.Do(background)
		for _, r := range plain {
			if !errors.Is(r.Err, loader.ErrOutcomeUnknown) {
				t.Errorf("%+v, %v", r.Decision, r.Err)
			}
		}
		granted(t, withID.Decision, withID.Err)
		if n := nodes[1].LLen(background, "sluice:lost:{"+subject+"}:ll1").Val(); n != 2 || withID.Remaining != 8 {
			t.Errorf("charged %d times, and %d with an id", n, 9-withID.Remaining)
		}
	})

	t.Run("a user without COMMAND and SCRIPT", func(t *testing.T) {
		for _, node := range nodes {
			must(t, loader.New(node).Preload(background))
			must(t, node.Do(background, "acl", "setuser", "app", "reset", "on", ">pw", "~sluice:*",
				"+hello", "+client", "+evalsha", "+time", "+get", "+set", "+cluster|slots", "+cluster|shards").Err())
		}
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, DisableIdentity: true, Username: "app", Password: "pw"})
		defer func() { _ = rdb.Close() }()
		limits := loader.New(rdb, loader.PreloadedOnly(), loader.ShareRoundTrips())
		gcra := limits.GCRA("acl", loader.PerMinute(2))
		batch := limits.Batch()
		for i := range 10 {
			batch.Allow(gcra, fmt.Sprint(i))
		}
		_, err := batch.Do(background)
		must(t, err)
		wantGrant(t, gcra, "1", 1)
		for _, node := range nodes {
			if denied := node.Do(background, "acl", "log").Val().([]any); len(denied) > 0 {
				t.Errorf("%s refused %v", node.Options().Addr, denied)
			}
		}
	})
}

// TestRingTogether heals on every shard.
func TestRingTogether(t *testing.T) {
	servers := []*redis.Client{real(t), real(t)}
	ring := redis.NewRing(&redis.RingOptions{
		Addrs:           map[string]string{"a": servers[0].Options().Addr, "b": servers[1].Options().Addr},
		DisableIdentity: true,
	})
	t.Cleanup(func() { _ = ring.Close() })
	limits := loader.New(ring, loader.ShareRoundTrips())
	batch := limits.Batch()
	var want []int
	for i := range 20 {
		for _, grant := range []int{1, 1, 0} {
			batch.Allow(makers[i%len(makers)].make(limits, loader.PerMinute(2)), fmt.Sprint("batch-", i))
			want = append(want, grant)
		}
	}
	wantBatch(t, batch, want...)

	for _, server := range servers {
		must(t, server.ScriptFlush(background).Err())
	}
	var callers sync.WaitGroup
	for i := range 20 {
		callers.Go(func() {
			limiter := makers[i%len(makers)].make(limits, loader.PerMinute(2))
			for _, want := range []bool{true, true, false} {
				if d, err := limiter.Allow(background, fmt.Sprint("shared-", i)); err != nil || d.Granted != want {
					t.Errorf("%+v, %v", d, err)
				}
			}
		})
	}
	callers.Wait()
	for _, server := range servers {
		if server.DBSize(background).Val() == 0 {
			t.Errorf("nothing is on %s", server.Options().Addr)
		}
	}
}
