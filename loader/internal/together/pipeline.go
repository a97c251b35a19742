package together

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// Bounds on the pipelines.
const (
	maxPipelines    = 2   // in flight to one node: while one is being answered the next is being written
	maxPipelineSize = 256 // commands
	slowPart        = 8   // a pipeline in flight for this part of a call's timeout delays no other
)

// startNext starts a goroutine that sends what is queued, unless maxPipelines are in flight.
func (s *sharing) startNext(q *nodeQueue) {
	if len(q.items) > 0 && q.inFlight < maxPipelines && !q.starting {
		q.inFlight++
		q.starting = true
		s.drain(q)
	}
}

// drain starts a goroutine that sends pipelines until the queue is empty.
func (s *sharing) drain(q *nodeQueue) {
	s.client.Start(func() {
		for s.sendNext(q) {
		}
	})
}

// sendNext sends one pipeline, and reports whether the goroutine should send another. Even if go-redis returns late
// from an abandoned pipeline, the next one is not delayed: freePlace starts it.
func (s *sharing) sendNext(q *nodeQueue) (more bool) {
	runtime.Gosched() // callers that are about to ask can join, above all those that the last pipeline has answered
	p := s.takePipeline(q)
	if p == nil {
		return false
	}
	stop := context.AfterFunc(p.ctx, func() { s.freePlace(q, p, true) })
	slow := time.AfterFunc(p.timeout/slowPart, func() { s.freePlace(q, p, false) })
	returned := false
	defer func() {
		stop()
		slow.Stop()
		p.raised = wire.Caught(returned, recover())
		var heard bool
		more, heard = s.endPipeline(q, p)
		close(p.returned)
		if !heard {
			p.raised.Log(s.client.Log)
		}
		if more && p.raised.IsGoexit() {
			s.drain(q) // this goroutine ends
		}
	}()
	p.err = s.client.sendPipeline(p.ctx, p.cmds)
	returned = true
	return true
}

// sendPipeline sends commands in one pipeline, which go-redis splits by nodes. Those of one limiter are put together.
// It returns the first error.
func (c *Client) sendPipeline(ctx context.Context, cmds []redis.Cmder) error {
	ctx, end := c.Outlast(ctx)
	defer end()
	cmds = c.pack(cmds)
	if len(cmds) == 1 {
		return c.Redis.Process(ctx, cmds[0])
	}
	pipe := c.Redis.Pipeline()
	for _, cmd := range cmds {
		if err := pipe.Process(ctx, cmd); err != nil {
			return err
		}
	}
	_, err := pipe.Exec(ctx)
	return err
}

// takePipeline makes the next pipeline. It returns nil if there is nothing to send.
func (s *sharing) takePipeline(q *nodeQueue) *pipeline {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &pipeline{returned: make(chan struct{})}
	q.starting = false
	taken := 0
	for ; taken < len(q.items) && len(p.cmds) < maxPipelineSize; taken++ {
		s.addItem(p, q.items[taken])
	}
	q.items, q.abandoned = slices.Delete(q.items, 0, taken), 0
	if p.callers == 0 {
		s.release(q)
		return nil
	}
	s.startNext(q)
	p.ctx, p.cancel = context.WithDeadline(context.Background(), p.deadline)
	return p
}

// addItem adds a queued item to a pipeline, without abandoned members.
func (s *sharing) addItem(p *pipeline, item queued) {
	if item.group != nil {
		s.addGroup(p, item.group)
		return
	}
	if !isAbandoned(item.single) {
		p.singles = append(p.singles, item.single)
		p.cmds = append(p.cmds, item.single.cmd)
		p.addMember(item.single)
	}
}

func (p *pipeline) addMember(m *member) {
	m.pipeline, p.last = p, m
	p.callers++
	p.timeout = min(cmp.Or(p.timeout, m.cmd.Call.Timeout), m.cmd.Call.Timeout)
	if deadline, _ := m.ctx.Deadline(); deadline.After(p.deadline) {
		p.deadline = deadline
	}
}

// endPipeline gives the members their outcomes, also those whose callers have left: what was granted to them may be
// given back. more is false if its place was freed before; heard is false if no caller was left.
func (s *sharing) endPipeline(q *nodeQueue, p *pipeline) (more, heard bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.cancel()
	abandoned := p.ended
	if abandoned && p.raised != nil {
		return false, false
	}
	p.ended = true
	if abandoned && p.err == nil {
		p.last.cmd.Call.HearLate()
	}
	for _, m := range p.singles {
		m.complete(m.cmd.Outcome(true, p.err), p.raised)
	}
	for _, t := range p.batches {
		t.distribute(p.err, p.raised)
		if !abandoned {
			s.endBatch(q, t.group)
		}
	}
	if p.slow {
		s.startNext(q)
	}
	return !p.slow, !abandoned && p.callers > 0
}

// freePlace frees the place of a pipeline that is slow, or that all callers have left, and starts the next one.
func (s *sharing) freePlace(q *nodeQueue, p *pipeline, abandoned bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = abandoned
	if p.slow {
		return
	}
	p.slow = true
	for _, t := range p.batches {
		s.endBatch(q, t.group)
	}
	s.release(q)
	s.startNext(q)
}

// addGroup adds the commands of a group to a pipeline.
func (s *sharing) addGroup(p *pipeline, g *group) {
	g.queued = false
	b := &groupBatch{group: g, members: slices.DeleteFunc(g.waiting, isAbandoned)}
	g.waiting, g.abandoned = nil, 0
	if len(b.members) == 0 {
		delete(s.groups, g.groupKey)
		return
	}
	g.inFlight = true
	for _, m := range b.members {
		p.addMember(m)
	}
	for _, c := range b.split() {
		p.cmds = append(p.cmds, c.Command)
	}
	p.batches = append(p.batches, b)
}

// endBatch puts the group into the queue again if callers wait in it, and forgets it otherwise.
func (s *sharing) endBatch(q *nodeQueue, g *group) {
	g.inFlight = false
	if len(g.waiting) == 0 {
		delete(s.groups, g.groupKey)
		return
	}
	next := g.waiting[0].queue
	next.enqueue(g)
	if next != q {
		s.startNext(next)
	}
}
