// Package together sends questions of many callers in one round trip.
//
// Send sends a call directly while nothing else is on its way to the call's node. Otherwise the call becomes a member of
// the node's queue: in a group of callers who ask for the same, perhaps alone, or by itself if it has an id. Pipelines
// take what is queued. A pipeline's commands about many keys are packed into one.
//
// In reading order: calls is for callers who have many calls themselves, client has Send; then state, what one lock
// guards; queue, pipeline, member, pack, many; group, round and answer are what a group does in one pipeline.
package together

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// Client asks servers, and shares round trips among callers. New makes it. It is safe for concurrent use.
type Client struct {
	*wire.Client
	share  *sharing // nil: each call goes by itself
	paused atomic.Int64
}

// New returns a Client. With share, callers share round trips.
func New(o wire.Options, share bool) *Client {
	c := &Client{Client: wire.New(o)}
	if share {
		c.share = &sharing{client: c, queues: map[*redis.Client]*nodeQueue{}, groups: map[groupKey]*group{}}
	}
	return c
}

// Ask asks one question: see wire.Call.
func (c *Client) Ask(ctx context.Context, call *wire.Call) (wire.Answer, error) {
	if c.share == nil {
		return call.Ask(ctx, c.Client)
	}
	return call.Ask(ctx, c.share)
}

// Send sends a command, directly if nothing is on its way to its node, or in a pipeline with others. It returns the
// command's error, or the context's as soon as the context ends.
func (s *sharing) Send(ctx context.Context, cmd *wire.Command) error {
	var node *redis.Client
	if !s.client.Single {
		var err error
		node, err = s.client.NodeOf(ctx, cmd.Call.Key)
		if err != nil {
			return err
		}
	}
	m, q := s.enter(ctx, node, cmd)
	if m == nil {
		defer s.exit(q)
		return s.client.Client.Send(ctx, cmd)
	}
	r, err := s.await(ctx, m)
	r.Reraise()
	return err
}

// enter adds a command to the queue of a node. If nothing is on its way there, it returns no member: the call goes by
// itself, and leaves the queue at its end.
func (s *sharing) enter(ctx context.Context, node *redis.Client, cmd *wire.Command) (*member, *nodeQueue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[node]
	if q == nil {
		q = s.addQueue(node)
	}
	if q.inFlight == 0 {
		q.inFlight++
		return nil, q
	}
	m := s.enqueue(ctx, q, cmd)
	s.startNext(q)
	return m, q
}

// exit ends a direct call.
func (s *sharing) exit(q *nodeQueue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.inFlight--
	if len(q.items) > 0 {
		s.startNext(q)
	} else if q.inFlight == 0 && q.node != nil {
		s.forget(q)
	}
}

// Waiting returns how many callers' commands are in queues, and how many nodes have a queue. It is for tests.
func (c *Client) Waiting() (callers, queues int) {
	s := c.share
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, queue := range s.queues {
		callers += len(queue.items)
	}
	for _, g := range s.groups {
		callers += len(g.waiting)
	}
	return callers, len(s.queues)
}
