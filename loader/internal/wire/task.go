package wire

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-redis/sluice/internal/rarelog"
)

// task is a call that runs in one of our goroutines: of the client, or of anything else that may run the caller's code.
//
// go-redis keeps a deadline only with ContextTimeoutEnabled, and does not notice a cancellation while it reads. An
// abandoned task still ends: it waits for a connection until its context ends, and for a reply until the client's
// ReadTimeout.
type task struct {
	run    func() // calls runTask; made once, because tasks are used again
	job    job
	ended  chan struct{} // receives a value when do has ended
	err    error
	raised *Raised
	state  atomic.Int32
}

// job is what a task does: a Command, or a function.
type job interface {
	do() error
	hearLate() // do has succeeded, after the task was abandoned
}

type function func() error

func (f function) do() error { return f() }
func (f function) hearLate() {}

// The states of a task.
const (
	running int32 = iota
	ended
	abandoned // its caller has left, or it has none
)

// tasks runs tasks, each in a new goroutine. No goroutine waits for a next task, so tests that look for leaked
// goroutines, or run in a testing/synctest bubble, find none after the calls.
type tasks struct {
	log  *rarelog.Log
	free sync.Pool // of tasks
}

// start runs a job in a new goroutine. The task is running, or abandoned if nobody waits for it.
func (ts *tasks) start(j job, state int32) *task {
	t, ok := ts.free.Get().(*task)
	if !ok {
		t = &task{ended: make(chan struct{}, 1)}
		t.run = func() { ts.runTask(t) }
	}
	t.job = j
	t.state.Store(state)
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

// runTask runs a task. If it is abandoned, a panic is logged.
func (ts *tasks) runTask(t *task) {
	returned := false
	defer func() {
		if !returned {
			t.raised = Caught(returned, recover())
		}
		if !t.state.CompareAndSwap(running, ended) {
			t.raised.Log(ts.log)
			if returned && t.err == nil {
				t.job.hearLate()
			}
		}
		t.ended <- struct{}{}
	}()
	_ = growStack(0)
	t.err = t.job.do()
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
	t.job, t.err, t.raised = nil, nil, nil
	ts.free.Put(t)
	if r != nil {
		r.Reraise()
	}
	return true, err
}

// maxReplyDelay is how long the reply to an abandoned command is waited for.
const maxReplyDelay = 30 * time.Second

// Late is the reply to a command that its caller has abandoned.
type Late struct {
	Ended <-chan struct{} // ready when the command has come to an end
	Read  func() []int64  // then: the reply, nil if there was none
}

// Wait returns the reply when it is there, nil if none comes.
func (l *Late) Wait() []int64 {
	if l == nil {
		return nil
	}
	select {
	case <-l.Ended:
		return l.Read()
	case <-time.After(maxReplyDelay):
		return nil
	}
}

// Start runs a function in a goroutine that has room for what go-redis calls. If it panics, that is logged.
func (ts *tasks) Start(do func()) {
	ts.start(function(func() error {
		do()
		return nil
	}), abandoned)
}

// AwaitOne calls do and returns its error. As soon as the context ends it returns false and the context's error.
func (ts *tasks) AwaitOne(ctx context.Context, do func() error) (finished bool, err error) {
	return ts.wait(ctx, ts.start(function(do), running))
}

// AwaitAll calls all functions at the same time and returns their errors, or the context's as soon as the context ends.
func (ts *tasks) AwaitAll(ctx context.Context, do []func() error) []error {
	if err := ctx.Err(); err != nil {
		return slices.Repeat([]error{err}, len(do))
	}
	errs, started := make([]error, len(do)), make([]*task, len(do))
	for i := range do {
		started[i] = ts.start(function(do[i]), running)
	}
	for i, t := range started {
		_, errs[i] = ts.wait(ctx, t)
	}
	return errs
}

// await calls do and returns its error, or the context's as soon as the context ends. It panics if do does.
func (ts *tasks) await(ctx context.Context, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := ts.wait(ctx, ts.start(function(do), running))
	return err
}
