package loader_test

import (
	"context"
	"errors"
	"fmt"
	"net"
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

// newCluster starts three masters that share the slots in thirds.
func newCluster(t *testing.T) (nodes []*redis.Client, addrs []string) {
	t.Helper()
	for _, server := range redistest.StartCluster(t, 3, 0) {
		nodes, addrs = append(nodes, client(t, server.Addr)), append(addrs, server.Addr)
	}
	return nodes, addrs
}

// await returns when it is so.
func await(t *testing.T, so func() bool) {
	t.Helper()
	redistest.Await(t, "what the test waits for", so)
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
	flush := func() {
		for _, node := range nodes {
			must(t, node.ScriptFlush(background).Err())
		}
	}
	preload := func() {
		for _, node := range nodes {
			must(t, loader.New(node).Preload(background))
		}
	}

	t.Run("Preload", func(t *testing.T) { testPreload(t, limits, nodes) })

	t.Run("only the node of the key is loaded", func(t *testing.T) {
		flush()
		subject, _ := subjectOn(t, nodes, 1, "one")
		wantGrant(t, limits.GCRA("one", loader.PerMinute(2)), subject, 1)
		for n, node := range nodes {
			if loaded(t, node, sluice.GCRAV1()) != (n == 1) {
				t.Errorf("node %d: loaded is %v", n, n != 1)
			}
		}
	})

	t.Run("a batch loads only where it is missing", func(t *testing.T) {
		flush()
		limits := loader.New(rdb)
		must(t, nodes[0].ScriptLoad(background, sluice.ListLogV1().Source).Err())
		batch := limits.Batch()
		for n := range 2 {
			subject, _ := subjectOn(t, nodes, n, "some")
			batch.Allow(limits.ListLog("some", loader.PerMinute(2)), subject)
		}
		wantBatch(t, batch, 1, 1)
		if loaded(t, nodes[2], sluice.ListLogV1()) {
			t.Error("a node was loaded that was not asked")
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
		for _, way := range allWays {
			flush()
			logger, lines := newLog()
			limits := loader.New(rdb, append(way.opts, loader.Logger(logger))...)
			log := limits.ListLog(way.name, loader.PerMinute(2))
			for _, want := range []bool{true, true, false} {
				if d, err := way.ask(limits, log, subject); err != nil || d.Granted != want {
					t.Errorf("%s: %+v, %v; want granted %v", way.name, d, err, want)
				}
			}
			if !loaded(t, nodes[1], sluice.ListLogV1()) {
				t.Errorf("%s: it was not decided on the importing node", way.name)
			}
			if logged := lines.String(); way.name == "alone" &&
				!(strings.Contains(logged, "node="+addrs[0]) && strings.Contains(logged, `node="every master"`)) {
				t.Errorf("logged %s; want the script loaded on %s, then on every master", logged, addrs[0])
			}
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

	// go-redis leaves the MOVED of the first attempt on a command whose second attempt lost its reply.
	t.Run("MOVED, then the reply is lost", func(t *testing.T) {
		preload()
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
		preload()
		for _, node := range nodes {
			must(t, node.Do(background, "acl", "setuser", "app", "reset", "on", ">pw", "~sluice:*",
				"+hello", "+client", "+evalsha", "+time", "+get", "+set", "+cluster|slots", "+cluster|shards").Err())
		}
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, DisableIdentity: true, Username: "app",
			Password: "pw"})
		defer func() { _ = rdb.Close() }()
		for _, way := range allWays {
			limits := loader.New(rdb, append(way.opts, loader.PreloadedOnly())...)
			for i := range 10 {
				d, err := way.ask(limits, limits.GCRA("acl", loader.PerMinute(2)), fmt.Sprint(way.name, i))
				granted(t, d, err)
			}
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
	must(t, limits.Preload(background))
	for _, node := range nodes {
		for _, script := range sluice.All() {
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
	if e := as[*loader.NodeError](t, err); e.Addr != "127.0.0.1:1" || !strings.Contains(err.Error(),
		"loading scripts on 127.0.0.1:1") {
		t.Error(err)
	}
	for _, server := range servers {
		if !loaded(t, server, sluice.ZSetLogV1()) {
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
	t.Run("a shard is down", func(t *testing.T) {
		up.Store(false)
		await(t, func() bool { return ring.Len() == 1 })
		if e := as[*loader.NodeError](t, limits.Preload(background)); e.Addr != servers[1].Options().Addr {
			t.Error(e)
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

// moving is a slot of a cluster that is on its way from the first master to the second.
type moving struct {
	t        *testing.T
	nodes    []*redis.Client
	ids      []string // of the nodes
	slot     int64
	subject  string
	from, to *redis.Client
}

func newMoving(t *testing.T) (m *moving, rdb *redis.ClusterClient) {
	t.Helper()
	nodes, addrs := newCluster(t)
	rdb = clusterClient(t, addrs)
	m = &moving{t: t, nodes: nodes, from: nodes[0], to: nodes[1]}
	m.subject, m.slot = subjectOn(t, nodes, 0, "moving")
	for _, node := range nodes {
		m.ids = append(m.ids, node.Do(background, "cluster", "myid").Val().(string))
	}
	must(t, loader.New(rdb).Preload(background))
	return m, rdb
}

// begin opens the slot at both ends.
func (m *moving) begin() {
	m.t.Helper()
	must(m.t, m.to.Do(background, "cluster", "setslot", m.slot, "importing", m.ids[0]).Err())
	must(m.t, m.from.Do(background, "cluster", "setslot", m.slot, "migrating", m.ids[1]).Err())
}

// move moves one key of the slot.
func (m *moving) move(key string) {
	m.t.Helper()
	host, port, _ := net.SplitHostPort(m.to.Options().Addr)
	must(m.t, m.from.Migrate(background, host, port, key, 0, patient).Err())
}

// end gives the slot to the second master.
func (m *moving) end() {
	m.t.Helper()
	for _, n := range []int{1, 0, 2} {
		must(m.t, m.nodes[n].Do(background, "cluster", "setslot", m.slot, "node", m.ids[1]).Err())
	}
}

// TestSlotHalfMoved has a TokenBucket, the limiter with several keys, in a slot of which one key has moved. Redis
// decides nothing then: the error says so, or the fallback answers. Who asks while the rest arrives is granted once.
func TestSlotHalfMoved(t *testing.T) {
	m, rdb := newMoving(t)
	const config = "sluice:x:{%s}:tb1"
	wantGrant(t, loader.New(rdb).TokenBucket("x", loader.PerHour(9)), m.subject, 1)
	m.begin()
	m.move(fmt.Sprintf(config, m.subject) + ":all")

	t.Run("it stays so", func(t *testing.T) {
		for _, way := range ways {
			t.Run(way.name, func(t *testing.T) {
				t.Parallel()
				var attempts atomic.Int64
				count := loader.ObserverFunc(func(_ context.Context, e loader.Event) { attempts.Store(int64(e.Attempts)) })
				limits := loader.New(rdb, append(way.opts, loader.Observe(count), loader.Timeout(10*time.Second))...)
				ask := func(opts ...loader.LimiterOption) (loader.Decision, error) {
					return way.ask(limits, limits.TokenBucket("x", loader.PerHour(9), opts...), m.subject)
				}
				_, err := ask()
				if as[redis.Error](t, err); !strings.Contains(err.Error(), "moving between two masters") ||
					!strings.Contains(err.Error(), "TRYAGAIN") || errors.Is(err, loader.ErrOutcomeUnknown) {
					t.Error(err)
				}
				if n := attempts.Load(); n < 10 {
					t.Errorf("%d attempts, want more", n)
				}
				if d, err := ask(loader.FailOpen()); err != nil || !d.Granted || !d.Degraded {
					t.Errorf("%+v, %v; want it granted by the fallback", d, err)
				}
			})
		}
	})
	t.Run("it arrives", func(t *testing.T) {
		var refused sync.Once
		rdb.AddHook(hook{after: func(_ redis.Cmder, err error) {
			if err != nil && strings.HasPrefix(err.Error(), "TRYAGAIN") {
				refused.Do(func() {
					m.move(fmt.Sprintf(config, m.subject))
					m.end()
				})
			}
		}})
		bucket := loader.New(rdb).TokenBucket("x", loader.PerHour(9))
		wantGrant(t, bucket, m.subject, 1)
		wantRemaining(t, bucket, m.subject, 7)
	})
}

// A dead master does not answer with MOVED, and go-redis looks at the cluster only once a minute: the
// loader has it look again when no reply came.
func TestClusterClientLearnsOfAFailover(t *testing.T) {
	promoted := real(t)
	silent := newProxy(t, real(t).Options().Addr)
	for name, gone := range map[string]string{"refuses connections": "127.0.0.1:1", "does not answer": silent.addr} {
		for shared, opts := range map[string][]loader.Option{"": {loader.WithoutSharing()}, ", round trips shared": nil} {
			t.Run(name+shared, func(t *testing.T) {
				var master atomic.Pointer[string]
				master.Store(&gone)
				rdb := redis.NewClusterClient(&redis.ClusterOptions{
					DisableIdentity: true,
					ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
						return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: *master.Load()}}}}, nil
					},
				})
				t.Cleanup(func() { _ = rdb.Close() })
				gcra := loader.New(rdb, opts...).GCRA("failover", loader.PerMinute(100))
				ask := func() error {
					silent.next(fault{silence: true})
					ctx := within(t, 100*time.Millisecond)
					_, err := gcra.Allow(ctx, "s")
					return err
				}
				if ask() == nil {
					t.Fatal("the old master answered")
				}
				addr := promoted.Options().Addr
				master.Store(&addr)
				await(t, func() bool { return ask() == nil })
			})
		}
	}
}
