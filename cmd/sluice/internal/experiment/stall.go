package experiment

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// stallTick is how often the watch checks that the machine is running.
	stallTick = 10 * time.Millisecond
	// minStall is the shortest pause that counts as a stall. Shorter ones are normal scheduling delays.
	minStall = 100 * time.Millisecond
)

// stallWatch adds up how long the machine stopped, so that limiters are not blamed for it.
type stallWatch struct{ total atomic.Int64 }

// run watches until ctx ends.
func (w *stallWatch) run(ctx context.Context) {
	last := time.Now()
	for sleep(ctx, stallTick) {
		now := time.Now()
		if gap := now.Sub(last) - stallTick; gap >= minStall {
			w.total.Add(int64(gap))
		}
		last = now
	}
}

func (w *stallWatch) sum() time.Duration { return time.Duration(w.total.Load()) }
