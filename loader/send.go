package loader

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// command is a decision on its way. go-redis sends it once and never again on its own: NoRetry.
//
// It knows whether it can have left: go-redis writes what Args returns, and asks for it only then
// (hooks that log commands ask too: then it counts as sent a moment early, which is the safe side). A
// command that its caller gives up before that is turned into a PING, so that nobody is charged for a
// decision that nobody waits for.
type command struct {
	*redis.Cmd
	state atomic.Int32
}

// The states of a command. It goes from waiting to one of the others and stays there.
const (
	waiting int32 = iota
	sent
	givenUp
)

func newCommand(ctx context.Context, args []any) *command {
	c := &command{Cmd: redis.NewCmd(ctx, args...)}
	c.SetFirstKeyPos(3)
	c.SetStepCount(1) // otherwise a ClusterClient asks COMMAND for it
	return c
}

// NoRetry keeps go-redis from sending the command again.
func (c *command) NoRetry() bool { return true }

// Args returns what is sent.
func (c *command) Args() []any {
	if !c.state.CompareAndSwap(waiting, sent) && c.state.Load() == givenUp {
		return []any{"ping"}
	}
	return c.Cmd.Args()
}

// Clone returns a copy that go-redis does not send again either.
func (c *command) Clone() redis.Cmder {
	clone, ok := c.Cmd.Clone().(*redis.Cmd)
	if !ok {
		clone = redis.NewCmd(context.Background())
	}
	return &command{Cmd: clone}
}

// giveUp keeps the command from being sent and reports whether it was in time.
func (c *command) giveUp() bool {
	return c.state.CompareAndSwap(waiting, givenUp) || c.state.Load() == givenUp
}

// send sends the command and returns its error, or the context's as soon as the context ends: the command
// is not to be read then.
func (l *Limits) send(ctx context.Context, cmd *command) error {
	if ctx.Done() == nil {
		return l.rdb.Process(ctx, cmd)
	}
	return await(ctx, func() error { return l.rdb.Process(ctx, cmd) })
}

// await calls do and returns its error, or the context's as soon as the context ends: go-redis itself
// keeps a deadline only where ContextTimeoutEnabled is set, and does not notice a cancellation while it
// reads. What do has begun then ends by itself: it waits for a connection no longer than the context
// lives, and for a reply no longer than the client's ReadTimeout, so no more goroutines linger
// than the client has connections. A context that cannot end costs nothing.
func await(ctx context.Context, do func() error) error {
	if ctx.Done() == nil {
		return do()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done: // just in time
		return err
	default:
		return ctx.Err()
	}
}

// bounded is the context of one call, with the Timeout of the loader.
func (l *Limits) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, l.timeout)
}
