package loader

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Bounds on the pipelines of ShareRoundTrips.
const (
	mostTrips      = 2   // on their way to a node: while one is being answered the next is being written
	mostPassengers = 256 // commands in a pipeline
)

// ShareRoundTrips sends the decisions that are in flight together in one pipeline: while two are on their way to
// a node, those who ask in the meantime are collected for the next, up to 256. Nobody waits to be joined: a
// lone caller's decision goes at once, by itself.
//
// Those who ask for as many permits of the same subject under the same limit share commands as well: while one is on
// its way, the others are collected, and the next asks for the permits of as many as Redis can grant them to. The answers
// are those of single calls at the moment at which it ran, in the order in which they came; only the ResetAfter of a GCRA
// is that after the last of them. So one hot subject costs Redis a few commands a round trip however many ask, be
// it granted or denied. ZSetLog, whose calls carry ids, and what books ahead share round trips only.
//
// It pays where many goroutines ask at once: a decision then takes a third of the processor time in this
// process and three quarters in the server, or a twentieth where they ask the same; two connections do for all, and
// contexts that can end cost nothing more. They keep all their promises, and a decision whose caller has gone before
// it left is not made. What differs: hooks of the client see pipelines, and contexts without the callers' values; and
// where a command for many fails, all of them get its error.
func ShareRoundTrips() Option {
	return func(l *Limits) {
		l.sharing = &sharing{limits: l, lines: map[*redis.Client]*line{}, crowds: crowds{of: map[same]*crowd{}}}
	}
}

// sharing collects the commands of concurrent callers. go-redis's AutoPipeline does so too; it is
// experimental, has nothing for a Ring, keeps callers whose context has ended, and shares its goroutines and
// settings with whoever else uses it on the same client.
type sharing struct {
	limits *Limits
	knows  atomic.Bool // the client knows the nodes

	mu    sync.Mutex
	lines map[*redis.Client]*line // those in use

	crowds crowds
}

// line is the way to one node: a node that does not answer holds up no other.
type line struct {
	node     *redis.Client
	driving  int     // goroutines that make trips
	boarding []*trip // not yet on their way
}

// trip is one pipeline.
type trip struct {
	cmds []*command
	done chan struct{}
	err  error // of the pipeline, when done
}

// send sends commands about a key with those of others, and returns the error of the pipeline that they were in, or
// the context's as soon as the context ends.
func (s *sharing) send(ctx context.Context, key string, cmds ...*command) error {
	node, err := s.nodeOf(ctx, key)
	if err != nil {
		return err
	}
	for _, cmd := range cmds {
		cmd.piped = true
	}
	l, t, first := s.join(node, cmds)
	switch {
	case first && ctx.Done() == nil:
		s.drive(l)
	case first:
		go s.driveOn(l)
	}
	return t.await(ctx)
}

// nodeOf is the node of a key. The first time a ClusterClient has to ask for it.
func (s *sharing) nodeOf(ctx context.Context, key string) (node *redis.Client, err error) {
	if s.knows.Load() {
		return s.limits.nodeOf(ctx, key)
	}
	err = await(ctx, func() error {
		found, err := s.limits.nodeOf(ctx, key)
		if err == nil {
			node = found
			s.knows.Store(true)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return node, nil
}

// join puts commands into the next trip to a node, and reports whether whoever calls it has to drive.
func (s *sharing) join(node *redis.Client, cmds []*command) (l *line, t *trip, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l = s.lines[node]
	if l == nil {
		l = &line{node: node}
		s.lines[node] = l
	}
	first = len(l.boarding) == 0 && l.driving < mostTrips
	if first {
		l.driving++
	}
	return l, l.board(cmds), first
}

// board puts commands into the last trip that has room.
func (l *line) board(cmds []*command) *trip {
	if n := len(l.boarding); n > 0 && len(l.boarding[n-1].cmds)+len(cmds) <= mostPassengers {
		t := l.boarding[n-1]
		t.cmds = append(t.cmds, cmds...)
		return t
	}
	t := &trip{cmds: cmds, done: make(chan struct{})}
	l.boarding = append(l.boarding, t)
	return t
}

// next is the trip to make, nil when nobody waits. Whoever is about to ask may come along: those whom the
// last trip has brought back most of all, or they would miss every second one.
func (s *sharing) next(l *line) *trip {
	runtime.Gosched()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(l.boarding) > 0 {
		t := l.boarding[0]
		l.boarding = l.boarding[1:]
		return t
	}
	l.driving--
	if l.driving == 0 {
		delete(s.lines, l.node) // nodes come and go
	}
	return nil
}

// drive makes one trip and leaves those who have come since to another goroutine.
func (s *sharing) drive(l *line) {
	if t := s.next(l); t != nil {
		t.run(s.limits)
		go s.driveOn(l)
	}
}

// driveOn makes trips for as long as anybody waits.
func (s *sharing) driveOn(l *line) {
	for t := s.next(l); t != nil; t = s.next(l) {
		t.run(s.limits)
	}
}

// run sends the commands that are still wanted.
func (t *trip) run(l *Limits) {
	defer close(t.done)
	cmds := make([]*command, 0, len(t.cmds))
	for _, cmd := range t.cmds {
		if cmd.wanted() {
			cmds = append(cmds, cmd)
		}
	}
	if len(cmds) > 0 {
		t.err = l.sendAll(context.Background(), cmds)
	}
}

// await returns the error of the trip when it is done, or the context's as soon as the context ends.
func (t *trip) await(ctx context.Context) error {
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
	}
	select {
	case <-t.done: // just in time
		return t.err
	default:
		return ctx.Err()
	}
}
