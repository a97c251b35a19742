package experiment

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// stallTick is how often it is looked whether the machine goes on.
	stallTick = 10 * time.Millisecond
	// stallLeast is what counts as a stall: shorter ones are a worker's ordinary lateness.
	stallLeast = 100 * time.Millisecond
)

// stallWatch adds up how long the machine stood still, so that no limiter is blamed for it.
type stallWatch struct{ total atomic.Int64 }

// run watches until ctx ends.
func (w *stallWatch) run(ctx context.Context) {
	last := time.Now()
	for sleep(ctx, stallTick) {
		now := time.Now()
		if gap := now.Sub(last) - stallTick; gap >= stallLeast {
			w.total.Add(int64(gap))
		}
		last = now
	}
}

func (w *stallWatch) sum() time.Duration { return time.Duration(w.total.Load()) }
