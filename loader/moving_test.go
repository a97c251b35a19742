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

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

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
// decides nothing then: the error says so, or the policy answers. Who asks while the rest arrives is granted once.
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
				limits := loader.New(rdb, append(way.opts, loader.Observe(count))...)
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
					t.Errorf("%+v, %v; want it granted by the policy", d, err)
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
