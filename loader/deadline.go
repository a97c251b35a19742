package loader

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// How long a call may take where neither Timeout nor the caller's context says.
const (
	defaultTimeout = time.Second
	policyTimeout  = 100 * time.Millisecond // where a policy stands ready
)

// deadlineSteps is how many contexts the calls of one timeout use in that time: each call has its whole timeout, less
// one step at most.
const deadlineSteps = 32

// timeout is how long one call of the limiter may take.
func (s *settings) timeout() time.Duration {
	if s.fallback != nil {
		return s.limits.policyDeadlines.timeout
	}
	return s.limits.deadlines.timeout
}

// deadlines gives calls without a deadline of their own one, without a timer or an allocation for each: calls that
// begin within one step of the timeout share a context.
type deadlines struct {
	timeout time.Duration
	current atomic.Pointer[sharedDeadline]
}

// sharedDeadline is the context of the calls that begin before it is full.
type sharedDeadline struct {
	context.Context
	full time.Time
}

// context returns a context that ends after the timeout, or up to one step earlier.
func (d *deadlines) context() context.Context {
	now := time.Now()
	if shared := d.current.Load(); shared != nil && now.Before(shared.full) {
		return shared.Context
	}
	ctx, cancel := context.WithDeadline(context.Background(), now.Add(d.timeout))
	context.AfterFunc(ctx, cancel)
	d.current.Store(&sharedDeadline{ctx, now.Add(d.timeout / deadlineSteps)})
	return ctx
}

// withValues is a context with the values of another.
type withValues struct {
	context.Context
	values context.Context
}

// Value returns the other context's value, unless package context asks what can end this one.
func (c withValues) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// withTimeout is the context of one call: the caller's, ended by the timeout. Cost: nothing for context.Background, one
// allocation for another context that cannot end.
func (l *Loader) withTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if ctx.Done() != nil {
		return context.WithTimeout(ctx, timeout)
	}
	d := &l.deadlines
	if timeout != d.timeout {
		d = &l.policyDeadlines
	}
	if timeout != d.timeout {
		return context.WithTimeout(ctx, timeout)
	}
	if ctx == context.Background() {
		return d.context(), func() {}
	}
	return withValues{d.context(), ctx}, func() {}
}

// keepsDeadlines reports whether a client ends a call with its context's deadline.
func keepsDeadlines(client any) bool {
	switch c := client.(type) {
	case interface{ Options() *redis.Options }:
		return c.Options().ContextTimeoutEnabled
	case interface{ Options() *redis.ClusterOptions }:
		return c.Options().ContextTimeoutEnabled
	case interface{ Options() *redis.RingOptions }:
		return c.Options().ContextTimeoutEnabled
	}
	return false
}

// await calls do with a context that ends after the timeout, and returns its error, or the context's.
func (l *Loader) await(ctx context.Context, timeout time.Duration, do func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := l.withTimeout(ctx, timeout)
	defer cancel()
	return l.tasks.await(ctx, func() error { return do(ctx) })
}
