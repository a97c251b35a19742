package loader_test

import (
	"context"
	"encoding"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// hook sees the commands of a client.
type hook struct {
	before func(cmd redis.Cmder)
	after  func(cmd redis.Cmder, err error)
	piped  func(cmds []redis.Cmder) // before a pipeline
	done   func()                   // after one
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
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if h.piped != nil {
			h.piped(cmds)
		}
		err := next(ctx, cmds)
		if h.done != nil {
			h.done()
		}
		return err
	}
}

// breaker answers commands without sending them, those that it is for.
type breaker struct {
	command string // "" for all
	answer  func() error
}

func (b breaker) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b breaker) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if b.command != "" && b.command != cmd.Name() {
			return next(ctx, cmd)
		}
		return b.answer()
	}
}

func (b breaker) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// write is the words of a command as go-redis writes them.
func write(cmd redis.Cmder) []string {
	words := make([]string, len(cmd.Args()))
	for i, arg := range cmd.Args() {
		words[i] = fmt.Sprint(arg)
		if bytes, ok := arg.(encoding.BinaryMarshaler); ok {
			text, err := bytes.MarshalBinary()
			if err != nil {
				panic(err)
			}
			words[i] = string(text)
		}
	}
	return words
}
