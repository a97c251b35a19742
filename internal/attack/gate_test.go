//go:build unix

package attack

import (
	"context"
	"sync"
	"time"
)

// gate lets callers in one by one, and can be shut until those inside have left.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed: the gate is open
	inside int
}

func newGate() *gate {
	g := &gate{opened: make(chan struct{})}
	close(g.opened)
	return g
}

// enter waits until the gate is open, and reports false if the context ends first.
func (g *gate) enter(ctx context.Context) bool {
	for {
		g.mu.Lock()
		opened := g.opened
		select {
		case <-opened:
			g.inside++
			g.mu.Unlock()
			return true
		default:
		}
		g.mu.Unlock()
		select {
		case <-opened:
		case <-ctx.Done():
			return false
		}
	}
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
}

// shut lets no caller in.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
	default:
		close(g.opened)
	}
}

// await waits until all have left, and reports false if they have not after so long.
func (g *gate) await(patience time.Duration) bool {
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		g.mu.Lock()
		inside := g.inside
		g.mu.Unlock()
		if inside == 0 || time.Now().After(deadline) {
			return inside == 0
		}
	}
}
