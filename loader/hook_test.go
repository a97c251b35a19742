package loader_test

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// hook sees the commands of a client.
type hook struct {
	before func(cmd redis.Cmder)
	after  func(cmd redis.Cmder, err error)
}

func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if h.before != nil {
			h.before(cmd)
		}
		err := next(ctx, cmd)
		if h.after != nil {
			h.after(cmd, err)
		}
		return err
	}
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// breaker answers commands without sending them.
type breaker struct{ answer func() error }

func (b breaker) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b breaker) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { return b.answer() }
}

func (b breaker) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
