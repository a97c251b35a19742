package loader_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// TestRedial has a server refuse more dials than the client's pool makes for calls: the next one goes on until the
// server is back, and those after it fail at once again.
func TestRedial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{PoolSize: 2, DialerRetries: 1})
		defer rdb.Close()
		dials, refused := 0, 5
		dial := loader.Redial(rdb).DialHook(func(context.Context, string, string) (net.Conn, error) {
			if dials++; dials <= refused {
				return nil, errors.New("refused")
			}
			return nil, nil
		})
		ask := func(want int, fails bool) {
			t.Helper()
			ctx, cancel := context.WithTimeout(context.Background(), 990*time.Millisecond)
			defer cancel()
			if _, err := dial(ctx, "tcp", "a:1"); dials != want || (err != nil) != fails {
				t.Errorf("%d dials, %v; want %d, failed %v", dials, err, want, fails)
			}
		}
		ask(1, true)
		ask(2, true)
		ask(6, false)
		refused = 100
		ask(7, true)
		ask(8, true)
		ask(28, true) // for as long as there is time
	})
}

// TestFailoverByName has a name lead to a new master, and the old one stay as a replica without a link, with all its
// connections. go-redis closes those that answer READONLY, but not those that answer MASTERDOWN: they end with their
// ConnMaxLifetime.
func TestFailoverByName(t *testing.T) {
	for stale, lifetime := range map[string]time.Duration{"yes": 0, "no": 100 * time.Millisecond} {
		var master atomic.Pointer[redistest.Server]
		old, promoted := redistest.Start(t), redistest.Start(t)
		master.Store(old)
		rdb := clientOf(t, &redis.Options{ConnMaxLifetime: lifetime,
			Dialer: func(_ context.Context, network, _ string) (net.Conn, error) {
				return net.Dial(network, master.Load().Addr)
			}})
		log := loader.New(rdb).ListLog("x", loader.PerHour(1000))
		wantGrant(t, log, "s", 1)
		must(t, old.Client(t).ConfigSet(background, "replica-serve-stale-data", stale).Err())
		must(t, old.Client(t).ReplicaOf(background, "127.0.0.1", "1").Err())
		master.Store(promoted)
		if lifetime == 0 {
			wantGrant(t, log, "s", 1)
			continue
		}
		redistest.Await(t, "the new master is asked", func() bool {
			d, err := log.Allow(background, "s")
			return err == nil && d.Granted
		})
	}
}
