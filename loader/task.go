package loader

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
)

// task is a call that runs in one of our goroutines: of the client, or of anything else that may run the caller's code.
//
// go-redis keeps a deadline only with ContextTimeoutEnabled, and does not notice a cancellation while it reads. An
// abandoned task still ends: it waits for a connection until its context ends, and for a reply until the client's
// ReadTimeout.
type task struct {
	run    func() // calls runTask; made once, because tasks are used again
	do     func() error
	ended  chan struct{} // receives a value when do has ended
	err    error
	raised *raised
	state  atomic.Int32
}

// The states of a task.
const (
	running int32 = iota
	ended
	abandoned // its caller has left
)

// tasks runs tasks, each in a new goroutine. No goroutine waits for a next task, so tests that look for leaked
// goroutines, or run in a testing/synctest bubble, find none after the calls.
type tasks struct {
	eventLog *eventLog
	free     sync.Pool // of tasks
}

// start runs do in a new goroutine.
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

// growStack makes the stack of a new goroutine large enough for go-redis at once. Growing it step by step would take up
// to a tenth of the time of a call.
//
//go:noinline
func growStack(i int) byte {
	var room [6 << 10]byte
	return room[i]
}

// runTask runs a task. If its caller has left, a panic is logged.
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

// wait waits for the end of a task and returns its error. As soon as the context ends it returns false and the
// context's error, and the task is abandoned. It panics if the task did.
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

// lateReply returns the reply to the command of an abandoned task.
func (t *task) lateReply(cmd *command) *lateReply {
	return &lateReply{ended: t.ended, read: func() []int64 {
		if t.err != nil || t.raised != nil {
			return nil
		}
		return cmd.Val()
	}}
}

// await calls do and returns its error, or the context's as soon as the context ends. It panics if do does.
func (ts *tasks) await(ctx context.Context, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := ts.wait(ctx, ts.start(do))
	return err
}

// awaitAll calls all functions at the same time and returns their errors, or the context's as soon as the context ends.
func (ts *tasks) awaitAll(ctx context.Context, do []func() error) []error {
	if err := ctx.Err(); err != nil {
		return slices.Repeat([]error{err}, len(do))
	}
	errs, started := make([]error, len(do)), make([]*task, len(do))
	for i := range do {
		started[i] = ts.start(do[i])
	}
	for i, t := range started {
		_, errs[i] = ts.wait(ctx, t)
	}
	return errs
}

// raised is how the caller's code (a hook, an observer, a handler) ended in one of our goroutines without returning: by
// a panic, or by runtime.Goexit, which a failed test calls. It is raised again in the caller's goroutine.
type raised struct {
	value any    // of the panic; nil: it was runtime.Goexit
	stack []byte // of the panic
}

// caught is for deferred functions. It returns how a function ended that did not return; value is the result of
// recover.
func caught(returned bool, value any) *raised {
	switch {
	case returned:
		return nil
	case value == nil:
		return &raised{}
	}
	return &raised{value: value, stack: debug.Stack()}
}

// isGoexit reports whether the function ended by runtime.Goexit.
func (r *raised) isGoexit() bool { return r != nil && r.value == nil }

// reraise panics, or calls runtime.Goexit, in this goroutine. It does nothing if r is nil.
func (r *raised) reraise() {
	switch {
	case r == nil:
		return
	case r.isGoexit():
		runtime.Goexit()
	}
	panic(r.value)
}
