package loader_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// A master that is gone answers nobody with MOVED, and go-redis looks at the cluster only once a minute: the
// loader has it look again when no reply came.
func TestClusterClientLearnsOfAFailover(t *testing.T) {
	promoted := real(t)
	silent := newProxy(t, real(t).Options().Addr)
	for name, gone := range map[string]string{"refuses connections": "127.0.0.1:1", "does not answer": silent.addr} {
		for shared, opts := range map[string][]loader.Option{"": nil, ", round trips shared": {loader.ShareRoundTrips()}} {
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
