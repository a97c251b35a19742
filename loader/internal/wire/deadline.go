package wire

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// deadlineSteps is the number of contexts that are made during one timeout. Calls that begin in the same step share a
// context, so a call may have up to one step less than its timeout.
const deadlineSteps = 32

// deadlines make contexts for calls with the usual timeouts.
type deadlines []deadline

func newDeadlines(timeouts []time.Duration) deadlines {
	made := make(deadlines, len(timeouts))
	for i, timeout := range timeouts {
		made[i].timeout = timeout
	}
	return made
}

// deadline makes contexts with the timeout for calls that have none, without a timer and an allocation for each call.
type deadline struct {
	timeout time.Duration
	current atomic.Pointer[sharedDeadline]
}

// sharedDeadline is the context of all calls that begin before full.
type sharedDeadline struct {
	context.Context
	full time.Time
}

// context returns a context that ends after the timeout, or up to one step earlier.
func (d *deadline) context() context.Context {
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

// WithTimeout returns the context of one call: the caller's, with the timeout. It allocates nothing for
// context.Background, and once for another context that never ends. A context that has a deadline and never ends by
// itself is one that a caller's leaving does not end: see httplimit.
func (ds deadlines) WithTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	end, bounded := ctx.Deadline()
	switch {
	case ctx.Done() != nil:
		return context.WithTimeout(ctx, timeout)
	case bounded && time.Until(end) < timeout:
		return context.WithDeadline(ctx, end)
	}
	for i := range ds {
		switch d := &ds[i]; {
		case d.timeout != timeout:
		case ctx == context.Background():
			return d.context(), noCancel
		default:
			return withValues{d.context(), ctx}, noCancel
		}
	}
	return context.WithTimeout(ctx, timeout)
}

func noCancel() {}

// NotNil returns a context: in place of nil, NilContext.
func NotNil(ctx context.Context) context.Context {
	if ctx == nil {
		return NilContext
	}
	return ctx
}

// NilContext has ended, with an error which says that there was none.
var NilContext = newNilContext()

func newNilContext() context.Context {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	return nilContext{ended}
}

type nilContext struct{ context.Context }

var errNilContext = errors.New("the context is nil: want one such as context.Background()")

func (nilContext) Err() error { return errNilContext }

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

// patience gives connections time to become ready. A client with ContextTimeoutEnabled closes one that is not ready at
// its call's deadline, so on a slow network each call would begin another one. For a while after a call was not sent in
// time, go-redis is therefore not told of deadlines: callers leave at theirs, and the connection is for the next one.
type patience struct {
	since   atomic.Pointer[time.Time] // when the last call was not sent in time
	running atomic.Int32              // go-redis calls without their callers' deadlines
}

const (
	patienceTime = 5 * time.Second // also the longest that such a call may take
	maxPatient   = 16              // such calls
)

func (p *patience) extend() {
	now := time.Now()
	p.since.Store(&now)
}

func (p *patience) isGiven() bool {
	since := p.since.Load()
	return since != nil && time.Since(*since) < patienceTime
}

// Outlast returns the context with which go-redis sends what a goroutine of ours waits for. Call end when it has.
func (c *Client) Outlast(ctx context.Context) (_ context.Context, end func()) {
	p := &c.patience
	if !c.keepsDeadlines || !p.isGiven() {
		return ctx, func() {}
	}
	if p.running.Add(1) > maxPatient {
		p.running.Add(-1)
		return ctx, func() {}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patienceTime)
	return ctx, func() {
		cancel()
		p.running.Add(-1)
	}
}

// hasEnded reports whether a context has ended. If its deadline has come, it waits for the context's timer: a client
// with ContextTimeoutEnabled sets the same deadline on its socket, which may fire first.
func hasEnded(ctx context.Context) bool {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// Sleep returns after d, never earlier, or with the context's error as soon as the context ends.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
