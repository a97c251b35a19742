package together

import (
	"context"
	"slices"

	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// complete sets the outcome and wakes the caller.
func (m *member) complete(err error, raised *wire.Raised) {
	if !m.completed {
		m.completed, m.err, m.raised = true, err, raised
		close(m.done)
	}
}

// await waits until a member has its outcome, or its caller's context ends. It returns what a hook has raised.
func (s *sharing) await(ctx context.Context, m *member) (*wire.Raised, error) {
	select {
	case <-m.done:
	case <-ctx.Done():
		if late, left := s.abandon(m); left {
			m.cmd.Late = late
			return nil, ctx.Err()
		}
	}
	m.cmd.Shared = m.shared
	return m.raised, m.err
}

// enqueue adds a command to a queue.
func (s *sharing) enqueue(ctx context.Context, q *nodeQueue, cmd *wire.Command) *member {
	cmd.SetPiped()
	m := &member{cmd: cmd, ctx: ctx, queue: q, done: make(chan struct{})}
	if m.group = s.groupOf(cmd.Call); m.group != nil {
		m.group.waiting = append(m.group.waiting, m)
		q.enqueue(m.group)
	} else {
		cmd.Compose(ctx)
		q.items = append(q.items, queued{single: m})
	}
	return m
}

// abandon notes that a member's caller has left. It reports false if there is an outcome already. A pipeline that all
// callers have left is cancelled.
func (s *sharing) abandon(m *member) (late *wire.Late, left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.completed {
		return nil, false
	}
	m.abandoned = true
	m.cmd.GiveUp()
	switch {
	case m.pipeline != nil:
		late = &wire.Late{Ended: m.pipeline.returned, Read: m.lateReply}
		if m.pipeline.callers--; m.pipeline.callers == 0 {
			m.pipeline.cancel()
		}
	case m.group != nil:
		m.group.pruneAbandoned()
	default:
		m.queue.pruneAbandoned()
	}
	return late, true
}

// lateReply returns the reply to a command that its caller has abandoned, nil if there was none. Its pipeline has
// ended.
func (m *member) lateReply() []int64 {
	switch {
	case m.shared != nil:
		return m.shared.Reply
	case m.group == nil && m.completed && m.err == nil && m.raised == nil:
		return m.cmd.Val()
	}
	return nil
}

// pruneAbandoned counts one more abandoned member, and removes all of them once they are more than half of the queue.
func (q *nodeQueue) pruneAbandoned() {
	if q.abandoned++; 2*q.abandoned > len(q.items) {
		q.items = slices.DeleteFunc(q.items, func(item queued) bool { return item.single != nil && isAbandoned(item.single) })
		q.abandoned = 0
	}
}
