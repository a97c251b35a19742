package wire

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestBreakersForgetNodes adds nodes: the breakers of others stay for the pause and a minute after their last call.
func TestBreakersForgetNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newBreakers(BreakerOptions{Pause: time.Minute}, nil, nil)
		breakerOf := func(addr string) *breaker {
			node := redis.NewClient(&redis.Options{Addr: addr})
			defer func() { _ = node.Close() }()
			return all.breakerOf(node)
		}
		breakerOf("left")
		breakerOf("asked").inFlight++
		time.Sleep(2 * time.Minute)
		if breakerOf("second"); len(all.nodes) != 3 {
			t.Errorf("%d breakers after 2 minutes, want 3", len(all.nodes))
		}
		time.Sleep(time.Second)
		if breakerOf("third"); len(all.nodes) != 3 || all.nodes["left"] != nil {
			t.Errorf("%v after more; want no left", all.nodes)
		}
	})
}
