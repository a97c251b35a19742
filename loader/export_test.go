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

// SharedRequests is how many requests are in the queues of shared round trips.
func (l *Loader) SharedRequests() int {
	callers, _ := l.client.Waiting()
	return callers
}

// SharedQueues is how many nodes have a queue.
func (l *Loader) SharedQueues() int {
	_, queues := l.client.Waiting()
	return queues
}

// Queued returns how many reports wait, and whether a goroutine waits with them.
func (a *Ahead) Queued() (subjects int, running bool) {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	return len(a.queue.urgent) + len(a.queue.waiting), a.queue.running
}
