package loader

import (
	"context"
	"sync"

	"github.com/sluice-redis/sluice/internal/rarelog"
	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// background is the returns that are sent without a caller who waits for them.
type background struct {
	mu   sync.Mutex
	left int
	idle chan struct{} // closed when left is 0 again; nil: nobody waits for that
}

// do runs a function in a new goroutine, with the values of the context but not its end. A panic is logged.
func (b *background) do(ctx context.Context, log *rarelog.Log, run func(context.Context)) {
	b.mu.Lock()
	b.left++
	b.mu.Unlock()
	go func() {
		returned := false
		defer func() {
			wire.Caught(returned, recover()).Log(log)
			b.done()
		}()
		run(context.WithoutCancel(ctx))
		returned = true
	}()
}

// size is how many are on their way.
func (b *background) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left
}

func (b *background) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left--; b.left == 0 && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
}
