package loader

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// The timeouts of a call without the option Timeout.
const (
	defaultTimeout = time.Second
	policyTimeout  = 100 * time.Millisecond // of limiters with a policy
)

// deadlineSteps is the number of contexts that are made during one timeout. Calls that begin in the same step share a
// context, so a call may have up to one step less than its timeout.
const deadlineSteps = 32

// timeout returns how long one call of the limiter may take.
func (s *settings) timeout() time.Duration {
	if s.fallback != nil {
		return s.limits.policyDeadlines.timeout
	}
	return s.limits.deadlines.timeout
}

// deadlines makes contexts with the timeout for calls that have none, without a timer and an allocation for each call.
type deadlines struct {
	timeout time.Duration
	current atomic.Pointer[sharedDeadline]
}

// sharedDeadline is the context of all calls that begin before full.
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

// withValues is a context with the values of another one.
type withValues struct {
	context.Context
	values context.Context
}

// Value returns the value of the deadline's context, which package context needs, or of the caller's.
func (c withValues) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// withTimeout returns the context of one call: the caller's, with the timeout. It allocates nothing for
// context.Background, and once for another context that never ends. A context that has a deadline and never ends by
// itself is one that a caller's leaving does not end: see httplimit.
func (l *Loader) withTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	deadline, bounded := ctx.Deadline()
	switch {
	case ctx.Done() != nil:
		return context.WithTimeout(ctx, timeout)
	case bounded && time.Until(deadline) < timeout:
		return context.WithDeadline(ctx, deadline)
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

// keepsDeadlines reports whether the client itself ends calls at their context's deadline.
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

// hasEnded reports whether a context has ended. If its deadline has come, it waits for the context's timer: a client
// with ContextTimeoutEnabled sets the same deadline on its socket, which may fire first.
func hasEnded(ctx context.Context) bool {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// await calls do with a context that has the timeout. It returns do's error, or the context's as soon as the context
// ends.
func (l *Loader) await(ctx context.Context, timeout time.Duration, do func(context.Context) error) error {
	ctx, cancel := l.withTimeout(ctx, timeout)
	defer cancel()
	return l.tasks.await(ctx, func() error { return do(ctx) })
}
