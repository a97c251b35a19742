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

// ShareRoundTrips sends the decisions of concurrent callers in one pipeline: while two pipelines are in flight to
// a node, further calls are collected for the next, up to 256. Nobody waits to be joined: a lone caller's decision is
// sent at once, by itself.
//
// Callers who ask for as many permits of the same subject under the same limit share commands as well: while one is in
// flight, the others are collected, and the next asks for the permits of as many as Redis can grant them to. The
// answers are those of single calls at the moment at which it ran, in the order in which they came; only the ResetAfter
// of a GCRA is that after the last of them. So one hot subject costs Redis a few commands a round trip however many
// ask, be it granted or denied. ZSetLog, whose calls carry ids, and what books ahead share round trips only.
//
// It pays where many goroutines ask at once: a decision then takes a third of the processor time in this process and
// three quarters in the server, or a twentieth where they ask the same, and two connections do for all. Contexts keep
// all their promises: a decision whose caller has gone before it was written is not made, and a pipeline that nobody
// waits for any more holds up no other. What differs: hooks of the client see pipelines, and contexts without the
// callers' values; where a command for many fails, all of them get its error; and a hook that panics does so in every
// caller whose decision was in the pipeline.
func ShareRoundTrips() Option {
	return func(l *Loader) {
		l.sharing = &sharing{limits: l, lines: map[*redis.Client]*line{}, groups: map[groupKey]*group{}}
	}
}

// sharing collects the commands of concurrent callers. go-redis's AutoPipeline does so too; it is
// experimental, has nothing for a Ring, keeps callers whose context has ended, and shares its goroutines and
// settings with whoever else uses it on the same client.
type sharing struct {
	limits *Loader

	mu     sync.Mutex
	lines  map[*redis.Client]*line // those in use
	groups map[groupKey]*group     // those with a request
}

// line is the way to one node: a node that does not answer holds up no other.
type line struct {
	node     *redis.Client
	inFlight int      // pipelines
	queue    []queued // for the next
	gone     int      // requests in the queue whose callers have left
	departs  bool     // somebody is about to look into the queue
}

// queued is one request, or a group for all that wait in it.
type queued struct {
	single *request
	group  *group
}

// request is one caller's command.
type request struct {
	cmd      *command
	ctx      context.Context
	line     *line     // to its node
	group    *group    // nil: it shares its command with nobody
	pipeline *pipeline // in which it is in flight
	gone     bool      // its caller does not wait any more

	done   chan struct{} // closed when there is an outcome:
	ended  bool
	err    error
	raised *raised

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
	r := s.enter(ctx, node, c, cmd)
	select {
	case <-r.done:
	case <-ctx.Done():
		if inFlight, left := s.leave(r); left {
			c.inFlight = inFlight
			return ctx.Err()
		}
	}
	r.raised.again()
	c.shared, c.remaining = r.shared, r.remaining
	return r.err
}

// enter puts a command into the queue of a node.
func (s *sharing) enter(ctx context.Context, node *redis.Client, c *call, cmd *command) *request {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[node]
	if l == nil {
		l = &line{node: node}
		s.lines[node] = l
	}
	r := &request{cmd: cmd, ctx: ctx, line: l, done: make(chan struct{})}
	if r.group = s.groupOf(c); r.group != nil {
		r.group.waiting = append(r.group.waiting, r)
		l.enqueue(r.group)
	} else {
		cmd.fill(ctx, c.words)
		l.queue = append(l.queue, queued{single: r})
	}
	s.depart(l)
	return r
}

// depart has a goroutine look into the queue, if there is something in it and room for a pipeline.
func (s *sharing) depart(l *line) {
	if len(l.queue) > 0 && l.inFlight < maxPipelines && !l.departs {
		l.inFlight++
		l.departs = true
		s.drive(l)
	}
}

// leave notes that nobody waits for a request any more, and reports false if it has an outcome. A pipeline that
// nobody waits for any more is given up; inFlight is ready once go-redis has come to an end with it.
func (s *sharing) leave(r *request) (inFlight <-chan struct{}, left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.ended {
		return nil, false
	}
	r.gone = true
	r.cmd.giveUp()
	switch {
	case r.pipeline != nil:
		inFlight = r.pipeline.returned
		if r.pipeline.callers--; r.pipeline.callers == 0 {
			r.pipeline.cancel()
		}
	case r.group != nil:
		r.group.left()
	default:
		r.line.left()
	}
	return inFlight, true
}

// left clears the queue of those who have left, once they are the most of it.
func (l *line) left() {
	if l.gone++; 2*l.gone > len(l.queue) {
		l.queue = slices.DeleteFunc(l.queue, func(q queued) bool { return q.single != nil && hasLeft(q.single) })
		l.gone = 0
	}
}

// end tells the caller that there is an outcome.
func (r *request) end(err error, raised *raised) {
	if !r.ended {
		r.ended, r.err, r.raised = true, err, raised
		close(r.done)
	}
}

// pipeline is one round trip to a node.
type pipeline struct {
	cmds    []redis.Cmder
	singles []*request
	turns   []*groupTurn // of groups

	ctx     context.Context // ends with the last of the callers' deadlines, and when all callers have left
	cancel  context.CancelFunc
	callers int  // who wait for it
	landed  bool // its callers have been told, or have left

	returned chan struct{} // closed when go-redis has returned:
	err      error
	raised   *raised
}

// drive sends pipelines for as long as there is something to send, in a goroutine of ours.
func (s *sharing) drive(l *line) {
	s.limits.tasks.start(func() error {
		for s.driveOnce(l) {
		}
		return nil
	})
}

// driveOnce sends one pipeline, and reports whether the caller is to go on. A pipeline that is given up is no longer in
// the way of others, though go-redis may take its time to return.
func (s *sharing) driveOnce(l *line) (more bool) {
	runtime.Gosched() // those about to ask may come along: the callers that the last pipeline has answered most of all
	p := s.next(l)
	if p == nil {
		return false
	}
	stop := context.AfterFunc(p.ctx, func() { s.giveUp(l, p) })
	returned := false
	defer func() {
		stop()
		p.raised = caught(returned, recover())
		close(p.returned)
		var heard bool
		more, heard = s.land(l, p)
		if !heard {
			s.limits.journal.panicked(p.raised)
		}
		if more && p.raised.exits() {
			s.drive(l) // this goroutine ends
		}
	}()
	p.err = s.limits.sendAll(p.ctx, p.cmds)
	returned = true
	return true
}

// next is the pipeline to send, nil when there is nothing to send.
func (s *sharing) next(l *line) *pipeline {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &pipeline{returned: make(chan struct{})}
	l.departs = false
	taken := 0
	for ; taken < len(l.queue) && len(p.cmds) < maxPipelineSize; taken++ {
		s.board(p, l.queue[taken])
	}
	l.queue, l.gone = slices.Delete(l.queue, 0, taken), 0
	if p.callers == 0 {
		s.release(l)
		return nil
	}
	s.depart(l)
	p.ctx, p.cancel = context.WithDeadline(context.Background(), p.deadline())
	return p
}

// board puts what was queued into a pipeline, without those who have left.
func (s *sharing) board(p *pipeline, q queued) {
	if q.group != nil {
		s.boardGroup(p, q.group)
		return
	}
	if !hasLeft(q.single) {
		p.singles = append(p.singles, q.single)
		p.cmds = append(p.cmds, q.single.cmd)
		p.take(q.single)
	}
}

func (p *pipeline) take(r *request) {
	r.pipeline = p
	p.callers++
}

// deadline is the last of the callers'.
func (p *pipeline) deadline() (last time.Time) {
	later := func(r *request) {
		if deadline, _ := r.ctx.Deadline(); deadline.After(last) {
			last = deadline
		}
	}
	for _, r := range p.singles {
		later(r)
	}
	for _, t := range p.turns {
		for _, r := range t.members {
			later(r)
		}
	}
	return last
}

// land tells the callers, and reports whether the pipeline was not given up before and whether any caller was there to
// hear of it.
func (s *sharing) land(l *line, p *pipeline) (more, heard bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.cancel()
	if p.landed {
		return false, false
	}
	p.landed = true
	for _, r := range p.singles {
		r.end(r.cmd.outcome(true, p.err), p.raised)
	}
	for _, t := range p.turns {
		t.land(p)
		s.endTurn(l, t.group)
	}
	return true, p.callers > 0
}

// giveUp makes room for another pipeline in the place of one whose callers have all left.
func (s *sharing) giveUp(l *line, p *pipeline) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.landed {
		return
	}
	p.landed = true
	for _, t := range p.turns {
		s.endTurn(l, t.group)
	}
	s.release(l)
	s.depart(l)
}

// release gives back the place of a pipeline. A line that is not in use is forgotten: nodes come and go.
func (s *sharing) release(l *line) {
	l.inFlight--
	if l.inFlight == 0 && len(l.queue) == 0 && s.lines[l.node] == l {
		delete(s.lines, l.node)
	}
}
