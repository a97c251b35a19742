package loader

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// How long a call may take where neither Timeout nor the caller's context says.
const (
	defaultTimeout = time.Second
	policyTimeout  = 100 * time.Millisecond // where a policy stands ready
)

// deadlineSteps is how many contexts the calls of one timeout use in that time: each call has its whole timeout, less
// one step at most.
const deadlineSteps = 32

// timeout is how long one call of the limiter may take.
func (s *settings) timeout() time.Duration {
	if s.fallback != nil {
		return s.limits.policyDeadlines.timeout
	}
	return s.limits.deadlines.timeout
}

// deadlines gives calls without a deadline of their own one, without a timer or an allocation for each: calls that
// begin within one step of the timeout share a context.
type deadlines struct {
	timeout time.Duration
	current atomic.Pointer[sharedDeadline]
}

// sharedDeadline is the context of the calls that begin before it is full.
type sharedDeadline struct {
	context.Context
	full time.Time
}

// context returns a context that ends after the timeout, or up to one step earlier.
func (d *deadlines) context() context.Context {
	now := time.Now()
	if shared := d.current.Load(); shared != nil && now.Before(shared.full) {
		return shared.Context
	}
	ctx, cancel := context.WithDeadline(context.Background(), now.Add(d.timeout))
	context.AfterFunc(ctx, cancel)
	d.current.Store(&sharedDeadline{ctx, now.Add(d.timeout / deadlineSteps)})
	return ctx
}

// withValues is a context with the values of another.
type withValues struct {
	context.Context
	values context.Context
}

// Value returns the other context's value, unless package context asks what can end this one.
func (c withValues) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// bounded is the context of one call: the caller's, ended by the timeout. Cost: nothing for context.Background, one
// allocation for another context that cannot end.
func (l *Loader) bounded(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if ctx.Done() != nil {
		return context.WithTimeout(ctx, timeout)
	}
	d := &l.deadlines
	if timeout != d.timeout {
		d = &l.policyDeadlines
	}
	if timeout != d.timeout {
		return context.WithTimeout(ctx, timeout)
	}
	if ctx == context.Background() {
		return d.context(), func() {}
	}
	return withValues{d.context(), ctx}, func() {}
}

// keepsDeadlines reports whether a client ends a call with its context's deadline.
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

// task is a call of the client, or of anything that may run code of the caller's, in a goroutine of ours.
//
// go-redis itself keeps a deadline only where ContextTimeoutEnabled is set, and does not notice a cancellation while it
// reads. A task whose caller has gone ends by itself: it waits for a connection no longer than its context lives, and
// for a reply no longer than the client's ReadTimeout.
type task struct {
	run    func() // that of tasks, made once for all that this task does
	do     func() error
	ended  chan struct{} // has an element once do has ended
	err    error
	raised *raised
	state  atomic.Int32
}

// The states of a task.
const (
	running int32 = iota
	ended
	abandoned // its caller has gone
)

// tasks runs tasks, each in a goroutine of its own. None waits for the next: a test that looks for leaked goroutines, or
// runs in a testing/synctest bubble, finds none when the calls have ended.
type tasks struct {
	journal *journal
	free    sync.Pool // of tasks
}

// start runs do.
func (ts *tasks) start(do func() error) *task {
	t, ok := ts.free.Get().(*task)
	if !ok {
		t = &task{ended: make(chan struct{}, 1)}
		t.run = func() { ts.run(t) }
	}
	t.do = do
	go t.run()
	return t
}

// growStack has the stack of a new goroutine grow at once to what go-redis needs: by its own steps it takes as
// long as a tenth of a call.
//
//go:noinline
func growStack(i int) byte {
	var room [6 << 10]byte
	return room[i]
}

// run runs a task. Where its caller has gone, a panic is logged.
func (ts *tasks) run(t *task) {
	returned := false
	defer func() {
		t.raised = caught(returned, recover())
		if !t.state.CompareAndSwap(running, ended) {
			ts.journal.panicked(t.raised)
		}
		t.ended <- struct{}{}
	}()
	_ = growStack(0)
	t.err = t.do()
	returned = true
}

// wait returns when the task has ended, with its error, or as soon as the context ends, with the context's error and
// false: then the task goes on by itself. A panic of the task is raised.
func (ts *tasks) wait(ctx context.Context, t *task) (finished bool, err error) {
	select {
	case <-t.ended:
	case <-ctx.Done():
		if t.state.CompareAndSwap(running, abandoned) {
			return false, ctx.Err()
		}
		<-t.ended // just in time
	}
	err, r := t.err, t.raised
	t.do, t.err, t.raised = nil, nil, nil
	t.state.Store(running)
	ts.free.Put(t)
	r.again()
	return true, err
}

// await calls do and returns its error, or the context's as soon as the context ends. A panic in do is raised here.
func (ts *tasks) await(ctx context.Context, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := ts.wait(ctx, ts.start(do))
	return err
}

// await calls do with a context that ends after the timeout, and returns its error, or the context's.
func (l *Loader) await(ctx context.Context, timeout time.Duration, do func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := l.bounded(ctx, timeout)
	defer cancel()
	return l.tasks.await(ctx, func() error { return do(ctx) })
}

// awaitValue is await for a value.
func awaitValue[T any](ctx context.Context, ts *tasks, do func() (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	value := new(T)
	finished, err := ts.wait(ctx, ts.start(func() (err error) {
		*value, err = do()
		return err
	}))
	if !finished || err != nil {
		return none, err
	}
	return *value, nil
}

// awaitAll calls all of do at the same time and returns their errors, or the context's as soon as the context ends.
func (ts *tasks) awaitAll(ctx context.Context, do []func() error) []error {
	errs := make([]error, len(do))
	if err := ctx.Err(); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	started := make([]*task, len(do))
	for i := range do {
		started[i] = ts.start(do[i])
	}
	for i, t := range started {
		_, errs[i] = ts.wait(ctx, t)
	}
	return errs
}

// loads are calls that are made once for all who need them at the same time.
type loads struct {
	mu    sync.Mutex
	calls map[place]*sharedCall
}

// sharedCall is one of them.
type sharedCall struct {
	done   chan struct{} // closed when there is an outcome:
	err    error
	raised *raised
}

// do calls do, unless somebody is calling it at the moment, and returns the error, or the context's as soon as the
// context ends. The call goes on then.
func (s *loads) do(ctx context.Context, ts *tasks, key place, do func() error) error {
	c := s.join(ts, key, do)
	select {
	case <-c.done:
		c.raised.again()
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *loads) join(ts *tasks, key place, do func() error) *sharedCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.calls[key]; c != nil {
		return c
	}
	if s.calls == nil {
		s.calls = map[place]*sharedCall{}
	}
	c := &sharedCall{done: make(chan struct{})}
	s.calls[key] = c
	ts.start(func() error {
		returned := false
		defer func() {
			c.raised = caught(returned, recover())
			s.mu.Lock()
			delete(s.calls, key)
			s.mu.Unlock()
			close(c.done)
		}()
		c.err = do()
		returned = true
		return nil
	})
	return c
}
