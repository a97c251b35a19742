package loader

import (
	"context"

	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// Flush waits until everything is given back that is given back in the background: the permits of an All that was
// refused and of a Wait that ended early, a slot whose Release failed, a slot that nobody got because the reply was
// lost or late, and what a Reserved could not settle. Use it when the program ends, and in tests. Give ctx a deadline:
// while Redis is down, a slot is tried again for its ttl, and a cost for the time of SettleWithin. It returns the
// context's error if the context ends before; then the rest may stay charged, a slot until its lease ends. Returns that
// fail are not reported here: see Observe. Cost: nothing is sent.
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
	ctx = wire.NotNil(ctx)
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
