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
// It pays where many goroutines ask at once: a decision then takes a third of the processor time in this
// process and three quarters in the server, two connections do for all, and contexts that can end cost
// nothing more. They keep all their promises, and a decision whose caller has gone before it left is not
// made. What differs: hooks of the client see pipelines, and contexts without the callers' values.
func ShareRoundTrips() Option {
	return func(l *Limits) { l.sharing = &sharing{limits: l, lines: map[*redis.Client]*line{}} }
}

// sharing collects the commands of concurrent callers. go-redis's AutoPipeline does so too; it is
// experimental, has nothing for a Ring, keeps callers whose context has ended, and shares its goroutines and
// settings with whoever else uses it on the same client.
type sharing struct {
	limits *Limits
	knows  atomic.Bool // the client knows the nodes

	mu    sync.Mutex
	lines map[*redis.Client]*line // those in use
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

// send sends a command with those of others, and returns its error, or the context's as soon as the context
// ends.
func (s *sharing) send(ctx context.Context, key string, cmd *command) error {
	node, err := s.nodeOf(ctx, key)
	if err != nil {
		return err
	}
	cmd.piped = true
	l, t, first := s.join(node, cmd)
	switch {
	case first && ctx.Done() == nil:
		s.drive(l)
	case first:
		go s.driveOn(l)
	}
	return t.await(ctx, cmd)
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

// join puts a command into the next trip to a node, and reports whether whoever calls it has to drive.
func (s *sharing) join(node *redis.Client, cmd *command) (l *line, t *trip, first bool) {
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
	return l, l.board(cmd), first
}

// board puts a command into the last trip that has room.
func (l *line) board(cmd *command) *trip {
	if n := len(l.boarding); n > 0 && len(l.boarding[n-1].cmds) < mostPassengers {
		t := l.boarding[n-1]
		t.cmds = append(t.cmds, cmd)
		return t
	}
	t := &trip{cmds: []*command{cmd}, done: make(chan struct{})}
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
	cmds := make([]redis.Cmder, 0, len(t.cmds))
	for _, cmd := range t.cmds {
		if cmd.wanted() {
			cmds = append(cmds, cmd)
		}
	}
	if len(cmds) > 0 {
		t.err = l.sendAll(context.Background(), cmds)
	}
}

// await returns a command's error when the trip is done, or the context's as soon as the context ends.
func (t *trip) await(ctx context.Context, cmd *command) error {
	select {
	case <-t.done:
		return cmd.outcome(true, t.err)
	case <-ctx.Done():
	}
	select {
	case <-t.done: // just in time
		return cmd.outcome(true, t.err)
	default:
		return ctx.Err()
	}
}
