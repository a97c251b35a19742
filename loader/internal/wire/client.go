package wire

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/rarelog"
)

// Options are what a Client is made of.
type Options struct {
	Redis         redis.UniversalClient // nil: no call may be made
	Functions     bool                  // call functions, not scripts
	PreloadedOnly bool                  // load no scripts
	Timeouts      []time.Duration       // of calls: the first is the default, and that of loading scripts
	Breaker       *BreakerOptions       // nil: none
	Log           *rarelog.Log          // nil: nothing is logged
}

// Client asks the servers of one client. New makes it. It is safe for concurrent use.
type Client struct {
	Options
	deadlines
	nodes
	tasks
	breakers       *breakers // nil: none
	keepsDeadlines bool      // the client ends calls at their context's deadline
	patience       patience
	answered       atomic.Bool // a server has answered
}

// New returns a Client. It sends nothing.
func New(o Options) *Client {
	c := &Client{Options: o}
	c.log = o.Log
	c.rdb, c.unwrapped = o.Redis, unwrapped(o.Redis)
	_, c.Single = c.unwrapped.(singleClient)
	c.shared = sharedCalls{tasks: &c.tasks, calls: map[LoadTarget]*sharedCall{}}
	c.keepsDeadlines = keepsDeadlines(c.unwrapped)
	c.deadlines = newDeadlines(o.Timeouts)
	if o.Breaker != nil {
		c.breakers = newBreakers(*o.Breaker, o.Redis, o.Log)
	}
	return c
}

// Await calls do with a context that has the timeout. It returns do's error, or the context's as soon as the context
// ends.
func (c *Client) Await(ctx context.Context, timeout time.Duration, do func(context.Context) error) error {
	ctx, cancel := c.WithTimeout(NotNil(ctx), timeout)
	defer cancel()
	return c.await(ctx, func() error { return do(ctx) })
}

// OpenBreakers returns the nodes that calls were not sent to since they last answered, and for how long each is silent.
func (c *Client) OpenBreakers() map[string]time.Duration {
	found := map[string]time.Duration{}
	if c.breakers == nil {
		return found
	}
	c.breakers.mu.Lock()
	defer c.breakers.mu.Unlock()
	c.breakers.forget()
	for _, b := range append(slices.Collect(maps.Values(c.breakers.nodes)), c.breakers.only) {
		b.mu.Lock()
		if b.refused {
			found[b.node] = time.Since(b.silentSince)
		}
		b.mu.Unlock()
	}
	return found
}
