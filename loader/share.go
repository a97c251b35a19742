package loader

import (
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

// ShareRoundTrips sends the decisions of concurrent callers in one pipeline. Use it where many goroutines ask at once: a
// decision then takes a third of the processor time in this process and three quarters in the server, or a twentieth
// where they ask the same, and two connections serve all.
//
// While two pipelines are in flight to a node, further calls are collected for the next one, up to 256. A lone caller's
// decision is sent at once, by itself.
//
// Callers who ask for the same number of permits of the same subject under the same limit form a group, and share
// commands too. While one command is in flight, the others are collected; the next command asks for the permits of as
// many callers as Redis can grant. Each gets the answer of a single call at that time, in the order of asking; only the
// ResetAfter of a GCRA is that after the last of them. So one hot subject costs Redis a few commands a round trip,
// however many ask, granted or denied. ZSetLog, whose calls carry ids, and calls that book share round trips only.
//
// Contexts work as without it: a decision whose caller left before it was written is not made, and a pipeline that all
// callers have left holds up no other. What differs: the client's hooks see pipelines, and contexts without the callers'
// values; if a command for a group fails, all its callers get the error; and a hook that panics does so in every caller
// of the pipeline.
func ShareRoundTrips() Option {
	return func(l *Loader) {
		l.sharing = &sharing{limits: l, queues: map[*redis.Client]*nodeQueue{}, groups: map[groupKey]*group{}}
	}
}

// sharing collects the commands of concurrent callers. go-redis's AutoPipeline does so too; but it is experimental, does
// not work with a Ring, keeps callers whose context has ended, and shares its goroutines and settings with all other
// users of the client.
type sharing struct {
	limits *Loader

	mu     sync.Mutex
	queues map[*redis.Client]*nodeQueue // those in use
	groups map[groupKey]*group          // those with a member
}

// nodeQueue is what waits for one node. A node that does not answer holds up no other.
type nodeQueue struct {
	node      *redis.Client
	inFlight  int      // pipelines
	items     []queued // for the next pipeline
	abandoned int      // members in the queue whose callers have left
	starting  bool     // a goroutine is about to look into the queue
}

// queued is one member, or a group for all that wait in it.
type queued struct {
	single *member
	group  *group
}

// member is one caller's command, in a pipeline by itself or in a group.
type member struct {
	cmd       *command
	ctx       context.Context
	queue     *nodeQueue // of its node
	group     *group     // nil: its command is its own
	pipeline  *pipeline  // in which it is in flight
	abandoned bool       // its caller has left

	done      chan struct{} // closed when there is an outcome:
	completed bool
	err       error
	raised    *raised

	shared    []int64 // the reply to a command that asked for others too
	remaining int64   // behind this one
}

// send sends the call's command with those of others, and returns its error, or the context's as soon as the
// context ends.
func (s *sharing) send(ctx context.Context, c *call, cmd *command) error {
	node, err := s.limits.nodeOf(ctx, c.key())
	if err != nil {
		return err
	}
	cmd.piped = true
	m := s.join(ctx, node, c, cmd)
	select {
	case <-m.done:
	case <-ctx.Done():
		if inFlight, left := s.abandon(m); left {
			c.inFlight = inFlight
			return ctx.Err()
		}
	}
	m.raised.reraise()
	if m.shared != nil {
		c.reply, c.remaining, c.sharedReply = m.shared, m.remaining, true
	}
	return m.err
}

// join puts a command into the queue of a node.
func (s *sharing) join(ctx context.Context, node *redis.Client, c *call, cmd *command) *member {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[node]
	if q == nil {
		q = &nodeQueue{node: node}
		s.queues[node] = q
	}
	m := &member{cmd: cmd, ctx: ctx, queue: q, done: make(chan struct{})}
	if m.group = s.groupOf(c); m.group != nil {
		m.group.waiting = append(m.group.waiting, m)
		q.enqueue(m.group)
	} else {
		cmd.setWords(ctx, c.words)
		q.items = append(q.items, queued{single: m})
	}
	s.startNext(q)
	return m
}

// startNext has a goroutine look into the queue, if there is something in it and room for a pipeline.
func (s *sharing) startNext(q *nodeQueue) {
	if len(q.items) > 0 && q.inFlight < maxPipelines && !q.starting {
		q.inFlight++
		q.starting = true
		s.drain(q)
	}
}

// abandon notes that a member's caller has left, and reports false if there is an outcome already. A pipeline whose
// callers have all left is given up; inFlight is ready once go-redis has come to an end with it.
func (s *sharing) abandon(m *member) (inFlight <-chan struct{}, left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.completed {
		return nil, false
	}
	m.abandoned = true
	m.cmd.giveUp()
	switch {
	case m.pipeline != nil:
		inFlight = m.pipeline.returned
		if m.pipeline.callers--; m.pipeline.callers == 0 {
			m.pipeline.cancel()
		}
	case m.group != nil:
		m.group.pruneAbandoned()
	default:
		m.queue.pruneAbandoned()
	}
	return inFlight, true
}

// pruneAbandoned removes abandoned members from the queue, once they are more than half of it.
func (q *nodeQueue) pruneAbandoned() {
	if q.abandoned++; 2*q.abandoned > len(q.items) {
		q.items = slices.DeleteFunc(q.items, func(item queued) bool { return item.single != nil && isAbandoned(item.single) })
		q.abandoned = 0
	}
}

// complete tells the caller that there is an outcome.
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
	batches []*groupBatch // of groups

	ctx     context.Context // ends with the last of the callers' deadlines, and when all callers have left
	cancel  context.CancelFunc
	callers int  // who wait for it
	ended   bool // its callers have been told, or have left

	returned chan struct{} // closed when go-redis has returned:
	err      error
	raised   *raised
}

// drain sends pipelines for as long as there is something to send, in a goroutine of ours.
func (s *sharing) drain(q *nodeQueue) {
	s.limits.tasks.start(func() error {
		for s.sendNext(q) {
		}
		return nil
	})
}

// sendNext sends one pipeline, and reports whether the caller is to go on. A pipeline that is given up holds up
// no other, even if go-redis returns late.
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
		close(p.returned)
		var heard bool
		more, heard = s.endPipeline(q, p)
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

// pipeline is the next pipeline to send, nil when there is nothing to send.
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
	p.ctx, p.cancel = context.WithDeadline(context.Background(), p.deadline())
	return p
}

// addItem puts what was queued into a pipeline, without abandoned members.
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
}

// deadline is the latest of the callers' deadlines.
func (p *pipeline) deadline() (last time.Time) {
	later := func(m *member) {
		if deadline, _ := m.ctx.Deadline(); deadline.After(last) {
			last = deadline
		}
	}
	for _, m := range p.singles {
		later(m)
	}
	for _, t := range p.batches {
		for _, m := range t.members {
			later(m)
		}
	}
	return last
}

// endPipeline tells the callers, and reports whether the pipeline was not given up before and whether any caller was there to
// hear of it.
func (s *sharing) endPipeline(q *nodeQueue, p *pipeline) (more, heard bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.cancel()
	if p.ended {
		return false, false
	}
	p.ended = true
	for _, m := range p.singles {
		m.complete(m.cmd.outcome(true, p.err), p.raised)
	}
	for _, t := range p.batches {
		t.distribute(p)
		s.endBatch(q, t.group)
	}
	return true, p.callers > 0
}

// abandonPipeline makes room for another pipeline in the place of one whose callers have all left.
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

// release gives back the place of a pipeline. A queue that is not in use is forgotten: nodes come and go.
func (s *sharing) release(q *nodeQueue) {
	q.inFlight--
	if q.inFlight == 0 && len(q.items) == 0 && s.queues[q.node] == q {
		delete(s.queues, q.node)
	}
}
