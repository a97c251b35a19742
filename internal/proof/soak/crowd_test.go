//go:build unix

package soak

import (
	"context"
	"fmt"
	"sync"
)

// crowd is callers who do something again and again until they are stopped.
type crowd struct {
	cancel  context.CancelFunc
	callers sync.WaitGroup
}

// startCrowd starts n callers. What they do last ends before stop returns.
func startCrowd(n int, do func(ctx context.Context, caller int)) *crowd {
	ctx, cancel := context.WithCancel(context.Background())
	c := &crowd{cancel: cancel}
	for i := range n {
		c.callers.Go(func() {
			for ctx.Err() == nil {
				do(ctx, i)
			}
		})
	}
	return c
}

func (c *crowd) stop() {
	c.cancel()
	c.callers.Wait()
}

// tally counts what happens, by name.
type tally struct {
	mu     sync.Mutex
	counts map[string]int64
}

func (t *tally) add(what string, times int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int64{}
	}
	t.counts[what] += times
}

func (t *tally) of(what string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[what]
}

// String lists the counts by name.
func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprint(t.counts)
}
