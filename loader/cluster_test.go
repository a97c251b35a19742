package loader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// newCluster starts three masters that share the slots in thirds.
func newCluster(t *testing.T) (nodes []*redis.Client, addrs []string) {
	t.Helper()
	for _, server := range redistest.StartCluster(t, 3, 0) {
		nodes, addrs = append(nodes, client(t, server.Addr)), append(addrs, server.Addr)
	}
	return nodes, addrs
}

// addReplica adds a replica of a node to a cluster.
func addReplica(t *testing.T, nodes []*redis.Client, of *redis.Client) *redis.Client {
	t.Helper()
	replica := client(t, redistest.StartClusterNode(t).Addr)
	redistest.Meet(t, replica, of)
	id := of.Do(background, "cluster", "myid").Val().(string)
	await(t, func() bool { return replica.ClusterReplicate(background, id).Err() == nil })
	await(t, func() bool {
		return strings.Contains(replica.Info(background, "replication").Val(), "master_link_status:up") &&
			strings.Contains(replica.ClusterInfo(background).Val(), "cluster_state:ok")
	})
	subject, _ := subjectOn(t, nodes, 2, "any") // CLUSTER SLOTS leaves out replicas that have got nothing
	must(t, of.Set(background, subject, "x", 0).Err())
	for _, node := range nodes {
		await(t, func() bool {
			ranges := node.Do(background, "cluster", "slots").Val().([]any)
			return slices.ContainsFunc(ranges, func(r any) bool { return len(r.([]any)) == 4 }) // first, last, master, replica
		})
	}
	return replica
}

// await returns when it is so.
func await(t *testing.T, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it has not become so in 20 s")
		}
	}
}

// subjectOn is a subject whose keys are on a node.
func subjectOn(t *testing.T, nodes []*redis.Client, node int, limiter string) (subject string, slot int64) {
	t.Helper()
	for i := range 1000 {
		subject = fmt.Sprintf("%s-%d-%d", limiter, node, i)
		slot = nodes[0].ClusterKeySlot(background, subject).Val()
		if slot*3/redistest.Slots == int64(node) {
			return subject, slot
		}
	}
	t.Fatal("no subject")
	return "", 0
}

func TestCluster(t *testing.T) {
	nodes, addrs := newCluster(t)
	rdb := clusterClient(t, addrs)
	limits := loader.New(rdb)

	t.Run("Preload", func(t *testing.T) { testPreload(t, limits, nodes) })

	t.Run("healing on every node", func(t *testing.T) {
		eachLimiter(t, func(t *testing.T, i int) {
			for n, node := range nodes {
				limiter := makers[i].make(limits, loader.PerMinute(2))
				subject, _ := subjectOn(t, nodes, n, makers[i].name)
				must(t, node.ScriptFlush(background).Err())
				wantGrant(t, limiter, subject, 2)
				wantDenial(t, limiter, subject, 1)
				if keys := node.Keys(background, "*{"+subject+"}*").Val(); len(keys) == 0 {
					t.Errorf("no key of %s on node %d", subject, n)
				}
				must(t, limiter.Reset(background, subject))
				wantGrant(t, limiter, subject, 1)
			}
		})
	})

	t.Run("only the node of the key is loaded", func(t *testing.T) {
		for _, node := range nodes {
			must(t, node.ScriptFlush(background).Err())
		}
		subject, _ := subjectOn(t, nodes, 1, "one")
		wantGrant(t, limits.GCRA("one", loader.PerMinute(2)), subject, 1)
		for n, node := range nodes {
			if loaded(t, node, sluice.GCRAV1) != (n == 1) {
				t.Errorf("node %d: loaded is %v", n, n != 1)
			}
		}
	})

	ids := make([]string, len(nodes))
	for n, node := range nodes {
		ids[n] = node.Do(background, "cluster", "myid").Val().(string)
	}
	t.Run("ASK", func(t *testing.T) {
		subject, slot := subjectOn(t, nodes, 0, "ask")
		must(t, nodes[1].Do(background, "cluster", "setslot", slot, "importing", ids[0]).Err())
		must(t, nodes[0].Do(background, "cluster", "setslot", slot, "migrating", ids[1]).Err())
		must(t, nodes[0].ScriptFlush(background).Err())
		must(t, nodes[1].ScriptFlush(background).Err())
		logger, lines := newLog()
		log := loader.New(rdb, loader.Logger(logger)).ListLog("ask", loader.PerMinute(2))
		for range 2 {
			wantGrant(t, log, subject, 1)
		}
		wantDenial(t, log, subject, 1)
		if !loaded(t, nodes[1], sluice.ListLogV1) {
			t.Error("it was not decided on the importing node")
		}
		if logged := lines.String(); !strings.Contains(logged, "node="+addrs[0]) || !strings.Contains(logged, `node="every master"`) {
			t.Errorf("logged %s; want the script loaded on %s, then on every master", logged, addrs[0])
		}
	})
	t.Run("MOVED", func(t *testing.T) {
		subject, slot := subjectOn(t, nodes, 0, "moved")
		for _, n := range []int{1, 0, 2} {
			must(t, nodes[n].Do(background, "cluster", "setslot", slot, "node", ids[1]).Err())
		}
		must(t, nodes[1].ScriptFlush(background).Err())
		log := limits.ListLog("moved", loader.PerMinute(2))
		for range 2 {
			wantGrant(t, log, subject, 1)
		}
		wantDenial(t, log, subject, 1)
		if n := nodes[1].Keys(background, "*{"+subject+"}*").Val(); len(n) != 1 {
			t.Errorf("the new node holds %q", n)
		}
	})

	t.Run("a look at a replica", func(t *testing.T) {
		replica := addReplica(t, nodes, nodes[2])
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, DisableIdentity: true, ReadOnly: true})
		defer func() { _ = rdb.Close() }()
		limits := loader.New(rdb, loader.ReadReplicas())
		log := limits.ListLog("look", loader.PerMinute(2))
		subject, _ := subjectOn(t, nodes, 2, "look")
		wantGrant(t, log, subject, 1)
		for range 2 {
			if _, err := log.Peek(background, subject); err != nil {
				t.Fatal(err)
			}
		}
		stats := replica.Info(background, "commandstats").Val()
		if !strings.Contains(stats, "cmdstat_evalsha_ro") || !strings.Contains(stats, "cmdstat_eval_ro") {
			t.Errorf("the replica was not asked:\n%s", stats)
		}
		if listed, err := limits.Nodes(background); err != nil || len(listed) != 3 {
			t.Errorf("%d nodes, want the 3 masters (%v)", len(listed), err)
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
		for range 2 {
			wantGrant(t, loader.New(rdb, loader.PreloadedOnly()).GCRA("acl", loader.PerMinute(2)), "s", 1)
		}
		for _, node := range nodes {
			if denied := node.Do(background, "acl", "log").Val().([]any); len(denied) > 0 {
				t.Errorf("%s refused %v", node.Options().Addr, denied)
			}
		}
	})
}

func testPreload(t *testing.T, limits *loader.Loader, nodes []*redis.Client) {
	t.Helper()
	listed, err := limits.Nodes(background)
	must(t, err)
	if len(listed) != len(nodes) {
		t.Fatalf("%d nodes, want %d", len(listed), len(nodes))
	}
	all := sluice.All()
	scripts := make([]*sluice.Script, len(all))
	for i := range all {
		scripts[i] = &all[i]
	}
	for _, want := range []bool{false, true} {
		for _, node := range listed {
			got, err := node.Loaded(background, scripts...)
			must(t, err)
			for i := range got {
				if got[i] != want {
					t.Errorf("%s on %s: loaded is %v", all[i].File, node.Addr(), got[i])
				}
			}
		}
		must(t, limits.Preload(background))
	}
	for _, node := range nodes {
		for _, script := range all {
			if !loaded(t, node, script) {
				t.Errorf("%s is not on %s", script.File, node.Options().Addr)
			}
		}
	}
}

func TestPreloadGoesOnWhereANodeFails(t *testing.T) {
	servers := []*redis.Client{real(t), real(t)}
	ring := redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{
			"a": servers[0].Options().Addr, "b": "127.0.0.1:1", "c": servers[1].Options().Addr,
		},
		DisableIdentity: true, HeartbeatFrequency: time.Hour, MaxRetries: -1,
	})
	t.Cleanup(func() { _ = ring.Close() })
	limits := loader.New(ring)
	ctx := within(t, 10*time.Second)
	err := limits.Preload(ctx)
	if e := as[*loader.NodeError](t, err); e.Addr != "127.0.0.1:1" || !strings.Contains(err.Error(), "loading scripts on 127.0.0.1:1") {
		t.Error(err)
	}
	for _, server := range servers {
		if !loaded(t, server, sluice.ZSetLogV1) {
			t.Errorf("%s was not loaded", server.Options().Addr)
		}
	}
}

func TestRing(t *testing.T) {
	servers := []*redis.Client{real(t), real(t)}
	var up atomic.Bool
	up.Store(true)
	ring := redis.NewRing(&redis.RingOptions{
		Addrs:           map[string]string{"a": servers[0].Options().Addr, "b": servers[1].Options().Addr},
		DisableIdentity: true, HeartbeatFrequency: 5 * time.Millisecond,
		HeartbeatFn: func(_ context.Context, shard *redis.Client) bool {
			return up.Load() || shard.Options().Addr != servers[1].Options().Addr
		},
	})
	t.Cleanup(func() { _ = ring.Close() })
	limits := loader.New(ring)

	t.Run("Preload", func(t *testing.T) { testPreload(t, limits, servers) })
	t.Run("healing on every shard", func(t *testing.T) {
		eachLimiter(t, func(t *testing.T, i int) {
			limiter := makers[i].make(limits, loader.PerMinute(2))
			for k := range 10 {
				for _, server := range servers {
					must(t, server.ScriptFlush(background).Err())
				}
				subject := fmt.Sprintf("%s-%d", makers[i].name, k)
				wantGrant(t, limiter, subject, 2)
				wantDenial(t, limiter, subject, 1)
			}
		})
		for _, server := range servers {
			if server.DBSize(background).Val() == 0 {
				t.Errorf("nothing is on %s", server.Options().Addr)
			}
		}
	})
	t.Run("a shard is down", func(t *testing.T) {
		up.Store(false)
		await(t, func() bool { return ring.Len() == 1 })
		nodes, err := limits.Nodes(background)
		if err != nil || len(nodes) != 2 {
			t.Fatalf("%v, %v", nodes, err)
		}
		if e := as[*loader.NodeError](t, limits.Preload(background)); e.Addr != servers[1].Options().Addr {
			t.Error(e)
		}
		for _, node := range nodes {
			_, err := node.Loaded(background, &sluice.GCRAV1)
			if (err != nil) != (node.Addr() == servers[1].Options().Addr) {
				t.Errorf("%s: %v", node.Addr(), err)
			}
		}
	})
}

// TestRingLostReply has a Ring lose a reply: it is not charged twice either.
func TestRingLostReply(t *testing.T) {
	p, _, direct := lossy(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": p.addr}, DisableIdentity: true})
	t.Cleanup(func() { _ = ring.Close() })
	p.next(fault{dropReply: true})
	_, err := loader.New(ring).ListLog("x", loader.PerHour(5)).Allow(background, "s")
	e := as[*loader.OutcomeUnknownError](t, err)
	if n := direct.LLen(background, e.Keys[0]).Val(); n != 1 || !errors.Is(err, loader.ErrOutcomeUnknown) {
		t.Errorf("charged %d times", n)
	}
}
