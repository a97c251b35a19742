package loader

import (
	"context"
	"sync"
	"sync/atomic"
)

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

// tasks runs tasks, each in a goroutine of its own. None waits for the next: a test that looks for leaked goroutines,
// or runs in a testing/synctest bubble, finds none when the calls have ended.
type tasks struct {
	eventLog *eventLog
	free     sync.Pool // of tasks
}

// start runs do.
func (ts *tasks) start(do func() error) *task {
	t, ok := ts.free.Get().(*task)
	if !ok {
		t = &task{ended: make(chan struct{}, 1)}
		t.run = func() { ts.runTask(t) }
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

// runTask runs a task. Where its caller has gone, a panic is logged.
func (ts *tasks) runTask(t *task) {
	returned := false
	defer func() {
		t.raised = caught(returned, recover())
		if !t.state.CompareAndSwap(running, ended) {
			ts.eventLog.panicked(t.raised)
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
	r.reraise()
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
