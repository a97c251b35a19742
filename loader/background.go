package loader

import (
	"context"
	"sync"
)

// background is the returns that are sent without a caller who waits for them.
type background struct {
	mu   sync.Mutex
	left int
	idle chan struct{} // closed when left is 0 again; nil: nobody waits for that
}

// do runs a function in a new goroutine, with the values of the context but not its end. A panic is logged.
func (b *background) do(ctx context.Context, l *Loader, run func(context.Context)) {
	b.mu.Lock()
	b.left++
	b.mu.Unlock()
	go func() {
		returned := false
		defer func() {
			l.eventLog.panicked(caught(returned, recover()))
			b.done()
		}()
		run(context.WithoutCancel(ctx))
		returned = true
	}()
}

func (b *background) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left--; b.left == 0 && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
}

// Flush waits until everything is given back that is given back in the background: the permits of an All that was
// refused and of a Wait that ended early, a slot whose Release failed, and a slot that nobody got because the reply was
// lost or late. Use it when the program ends, and in tests. Give ctx a deadline: while Redis is down, a slot is tried
// again for its ttl. It returns the context's error if the context ends before; then the rest may stay charged, a slot
// until its lease ends. Returns that fail are not reported here: see Observe. Cost: nothing is sent.
func (l *Loader) Flush(ctx context.Context) error {
	b := &l.returns
	b.mu.Lock()
	if b.left > 0 && b.idle == nil {
		b.idle = make(chan struct{})
	}
	idle := b.idle
	b.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
