package loader

import (
	"math"
	"testing"
)

// FewestAllocations is how many a call needs, whatever else allocates at times: the garbage collector empties pools,
// the race detector has them lose things, and clients of other tests still dial.
func FewestAllocations(call func()) float64 {
	fewest := math.Inf(1)
	for range 200 {
		fewest = min(fewest, testing.AllocsPerRun(1, call))
	}
	return fewest
}

// SharedRequests is how many requests are in the queues of ShareRoundTrips.
func (l *Loader) SharedRequests() (n int) {
	s := l.sharing
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, queue := range s.queues {
		n += len(queue.items)
	}
	for _, g := range s.groups {
		n += len(g.waiting)
	}
	return n
}

// ReachAfter is how far a group reaches after so many rounds in which all were granted that it asked for.
func ReachAfter(rounds int, max int64) int64 {
	g := &group{maxCallers: max}
	for range rounds {
		g.learn(1, true)
	}
	return g.reach
}

// Queued returns how many reports wait, and whether a goroutine waits with them.
func (a *Ahead) Queued() (subjects int, running bool) {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	return len(a.queue.urgent) + len(a.queue.waiting), a.queue.running
}
