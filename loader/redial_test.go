package loader_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

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
