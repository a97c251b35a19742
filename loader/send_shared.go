package loader

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Bounds on the pipelines of ShareRoundTrips.
const (
	maxPipelines    = 2   // in flight to one node: while one is being answered the next is being written
	maxPipelineSize = 256 // commands
)

// ShareRoundTrips sends the decisions of concurrent callers in shared pipelines. Use it where many goroutines ask at
// the same time. A decision then takes a third of the processor time in this process and three quarters in the server;
// a twentieth if the callers ask for the same. Two connections to a node are enough for all callers.
//
// A caller who finds nothing on its way to the node is sent directly, as without this option. While two round trips are
// on their way, further calls are collected for the next pipeline, up to 256. On a single server, four or more callers
// under one limit are decided by one run of a script, as in a [Batch]. The parts of an [All] are collected as calls are.
//
// Callers who ask for the same number of permits of the same subject under the same limit share commands too: the next
// command asks for the permits of as many callers as Redis can grant, and each caller gets the answer of a single call
// at that time, in the order of asking. (Only a GCRA tells all of them the ResetAfter of the last.) ZSetLog, whose
// calls have ids, and calls that book share pipelines only.
//
// If a caller leaves before its command is written, no decision is made for it. What differs for those that are
// collected: the client's hooks see pipelines, and contexts without the callers' values. If a command for a group fails,
// all its callers get the error. If a hook panics, it does so in every caller of the pipeline.
func ShareRoundTrips() Option {
	return func(l options) {
		l.sharing = &sharing{limits: l.Loader, queues: map[*redis.Client]*nodeQueue{}, groups: map[groupKey]*group{}}
	}
}

// sharing collects the commands of concurrent callers. It is used in place of go-redis's AutoPipeline, which is
// experimental, does not work with a Ring, keeps callers whose context has ended, and shares its goroutines and
// settings with all other users of the client.
type sharing struct {
	limits *Loader

	mu     sync.Mutex
	queues map[*redis.Client]*nodeQueue // those in use
	groups map[groupKey]*group          // those with a member
}

// nodeQueue is the queue of one node. A node that does not answer does not delay the others.
type nodeQueue struct {
	node      *redis.Client
	inFlight  int      // pipelines and direct calls, or goroutines about to make a pipeline
	items     []queued // for the next pipeline
	abandoned int      // items whose callers have left
	starting  bool     // a goroutine has been started that will make the next pipeline
}

// queued is one member, or a group in place of all its waiting members.
type queued struct {
	single *member
	group  *group
}

// member is one caller's command, in a pipeline by itself or in a group.
type member struct {
	cmd       *command
	ctx       context.Context
	queue     *nodeQueue // of its node
	group     *group     // nil: its command is not shared
	pipeline  *pipeline  // nil: not in flight
	abandoned bool       // its caller has left

	done      chan struct{} // closed when the fields below are set
	completed bool
	err       error
	raised    *raised

	shared    []int64 // the reply to a command that asked for other callers too
	remaining int64   // permits that remained after this caller's own
}

// send sends the call's command, directly if nothing is on its way to its node, or in a pipeline with others. It returns
// the command's error, or the context's as soon as the context ends.
func (s *sharing) send(ctx context.Context, c *call, cmd *command) error {
	node, err := s.limits.nodeOf(ctx, c.key())
	if err != nil {
		return err
	}
	m, q := s.join(ctx, node, c, cmd)
	if m == nil {
		defer s.leave(q)
		cmd.setWords(ctx, c.words)
		return c.postDirectly(ctx, cmd)
	}
	r, err := s.await(ctx, c, m)
	r.reraise()
	return err
}

// sendTogether sends the commands of entries in pipelines with others, and sets their outcomes.
func (s *sharing) sendTogether(ctx context.Context, entries []*entry) {
	members := make([]*member, len(entries))
	nodes := make([]*redis.Client, len(entries))
	for i, e := range entries {
		nodes[i], e.outcome = s.limits.nodeOf(ctx, e.call.key())
	}
	s.mu.Lock()
	for i, e := range entries {
		if e.outcome == nil {
			members[i] = s.enqueue(ctx, s.queueOf(nodes[i]), &e.call, e.cmd)
		}
	}
	for _, m := range members {
		if m != nil {
			s.startNext(m.queue)
		}
	}
	s.mu.Unlock()
	var first *raised
	for i, e := range entries {
		if members[i] != nil {
			var r *raised
			r, e.outcome = s.await(ctx, &e.call, members[i])
			first = cmp.Or(first, r)
		}
	}
	first.reraise()
}

// await waits until a member has its outcome, or its caller's context ends. It returns what a hook has raised.
func (s *sharing) await(ctx context.Context, c *call, m *member) (*raised, error) {
	select {
	case <-m.done:
	case <-ctx.Done():
		if late, left := s.abandon(m); left {
			c.late = late
			return nil, ctx.Err()
		}
	}
	if m.shared != nil {
		c.reply, c.remaining, c.sharedReply = m.shared, m.remaining, true
	}
	return m.raised, m.err
}

// join adds a command to the queue of a node. If nothing is on its way there, it returns no member: the call goes by
// itself, and leaves the queue at its end.
func (s *sharing) join(ctx context.Context, node *redis.Client, c *call, cmd *command) (*member, *nodeQueue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queueOf(node)
	if q.inFlight == 0 {
		q.inFlight++
		return nil, q
	}
	m := s.enqueue(ctx, q, c, cmd)
	s.startNext(q)
	return m, q
}

func (s *sharing) queueOf(node *redis.Client) *nodeQueue {
	q := s.queues[node]
	if q == nil {
		q = &nodeQueue{node: node}
		s.queues[node] = q
	}
	return q
}

// enqueue adds a command to a queue.
func (s *sharing) enqueue(ctx context.Context, q *nodeQueue, c *call, cmd *command) *member {
	cmd.piped = true
	m := &member{cmd: cmd, ctx: ctx, queue: q, done: make(chan struct{})}
	if m.group = s.groupOf(c); m.group != nil {
		m.group.waiting = append(m.group.waiting, m)
		q.enqueue(m.group)
	} else {
		cmd.setWords(ctx, c.words)
		q.items = append(q.items, queued{single: m})
	}
	return m
}

// leave ends a direct call.
func (s *sharing) leave(q *nodeQueue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(q)
	s.startNext(q)
}

// startNext starts a goroutine that sends what is queued, unless maxPipelines are in flight.
func (s *sharing) startNext(q *nodeQueue) {
	if len(q.items) > 0 && q.inFlight < maxPipelines && !q.starting {
		q.inFlight++
		q.starting = true
		s.drain(q)
	}
}

// abandon notes that a member's caller has left. It reports false if there is an outcome already. A pipeline that all
// callers have left is cancelled.
func (s *sharing) abandon(m *member) (late *lateReply, left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.completed {
		return nil, false
	}
	m.abandoned = true
	m.cmd.giveUp()
	switch {
	case m.pipeline != nil:
		late = &lateReply{ended: m.pipeline.returned, read: m.lateReply}
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
		return m.shared
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

// complete sets the outcome and wakes the caller.
func (m *member) complete(err error, raised *raised) {
	if !m.completed {
		m.completed, m.err, m.raised = true, err, raised
		close(m.done)
	}
}

// pipeline is one round trip to a node.
type pipeline struct {
	cmds    []redis.Cmder
	singles []*member
	batches []*groupBatch

	ctx      context.Context // ends at the deadline, and when all callers have left
	cancel   context.CancelFunc
	deadline time.Time // the latest of the callers'
	callers  int       // who still wait
	ended    bool      // its callers have their outcomes, or have left

	returned chan struct{} // closed when go-redis has returned and all members have what was answered
	err      error
	raised   *raised
}

// drain starts a goroutine that sends pipelines until the queue is empty.
func (s *sharing) drain(q *nodeQueue) {
	s.limits.tasks.start(func() error {
		for s.sendNext(q) {
		}
		return nil
	})
}

// sendNext sends one pipeline, and reports whether the goroutine should send another. Even if go-redis returns late
// from an abandoned pipeline, the next one is not delayed: abandonPipeline starts it.
func (s *sharing) sendNext(q *nodeQueue) (more bool) {
	runtime.Gosched() // callers that are about to ask can join, above all those that the last pipeline has answered
	p := s.pipeline(q)
	if p == nil {
		return false
	}
	stop := context.AfterFunc(p.ctx, func() { s.abandonPipeline(q, p) })
	returned := false
	defer func() {
		stop()
		p.raised = caught(returned, recover())
		var heard bool
		more, heard = s.endPipeline(q, p)
		close(p.returned)
		if !heard {
			s.limits.eventLog.panicked(p.raised)
		}
		if more && p.raised.isGoexit() {
			s.drain(q) // this goroutine ends
		}
	}()
	p.err = s.limits.sendPipeline(p.ctx, p.cmds)
	returned = true
	return true
}

// sendPipeline sends commands in one pipeline, which go-redis splits by nodes. Those of one limiter are put together.
// It returns the first error.
func (l *Loader) sendPipeline(ctx context.Context, cmds []redis.Cmder) error {
	cmds = l.together(cmds)
	if len(cmds) == 1 {
		return l.rdb.Process(ctx, cmds[0])
	}
	pipe := l.rdb.Pipeline()
	for _, cmd := range cmds {
		if err := pipe.Process(ctx, cmd); err != nil {
			return err
		}
	}
	_, err := pipe.Exec(ctx)
	return err
}

// pipeline makes the next pipeline. It returns nil if there is nothing to send.
func (s *sharing) pipeline(q *nodeQueue) *pipeline {
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
	m.pipeline = p
	p.callers++
	if deadline, _ := m.ctx.Deadline(); deadline.After(p.deadline) {
		p.deadline = deadline
	}
}

// endPipeline gives the members their outcomes, also those whose callers have left: what was granted to them may be
// given back. more is false if the pipeline was abandoned before; heard is false if no caller was left.
func (s *sharing) endPipeline(q *nodeQueue, p *pipeline) (more, heard bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.cancel()
	abandoned := p.ended
	if abandoned && p.raised != nil {
		return false, false
	}
	p.ended = true
	for _, m := range p.singles {
		m.complete(m.cmd.outcome(true, p.err), p.raised)
	}
	for _, t := range p.batches {
		t.distribute(p)
		if !abandoned {
			s.endBatch(q, t.group)
		}
	}
	return !abandoned, !abandoned && p.callers > 0
}

// abandonPipeline frees the place of a pipeline that all callers have left, and starts the next one.
func (s *sharing) abandonPipeline(q *nodeQueue, p *pipeline) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	for _, t := range p.batches {
		s.endBatch(q, t.group)
	}
	s.release(q)
	s.startNext(q)
}

// release frees the place of a pipeline. A queue that is not in use is removed, because nodes come and go.
func (s *sharing) release(q *nodeQueue) {
	q.inFlight--
	if q.inFlight == 0 && len(q.items) == 0 && s.queues[q.node] == q {
		delete(s.queues, q.node)
	}
}
