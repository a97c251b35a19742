package loader

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// redialPause is how long a client waits before it dials again.
const redialPause = 50 * time.Millisecond

// Redial is a hook for rdb that finds a server soon after it is back: rdb.AddHook(loader.Redial(rdb)), or for the nodes
// of a cluster in its OnNewNode. Without it a client whose dials have failed PoolSize times dials once a second; with
// it, every 50 ms for as long as a dial may take (DialTimeout), and a second later again.
func Redial(rdb *redis.Client) redis.Hook {
	opt := rdb.Options()
	return &redialHook{most: int64(opt.PoolSize * max(opt.DialerRetries, 1))}
}

// redialHook counts failed dials as the client's pool does. When there are too many, the pool dials no more for calls,
// but in the background until a dial succeeds.
type redialHook struct {
	most   int64
	failed atomic.Int64
}

func (h *redialHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		inBackground := h.failed.Load() >= h.most
		conn, err := next(ctx, network, addr)
		for err != nil && inBackground {
			select {
			case <-ctx.Done():
				return nil, err
			case <-time.After(redialPause):
				conn, err = next(ctx, network, addr)
			}
		}
		if err != nil {
			h.failed.Add(1)
		} else if inBackground {
			h.failed.Store(0)
		}
		return conn, err
	}
}

func (*redialHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (*redialHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
