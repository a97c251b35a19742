//go:build unix

package soak

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// retryAfter is how long a caller waits who was not granted anything.
	retryAfter = 50 * time.Millisecond

	// arrival is how long it takes until all callers are there: at once they would be too many for a small machine.
	arrival = 100 * time.Millisecond
)

// check asks every row about every server that an event happened to until it grants.
type check struct {
	*attack
	event  *event
	rule   string
	since  time.Time
	within time.Duration // how long after that a row may take

	probes  sync.WaitGroup
	slowest time.Duration // what one took; guarded by mu
}

func (q *check) start() {
	for _, r := range q.rows {
		for server := range r.site.servers {
			if q.event.hits(r.site, server) {
				q.probes.Go(func() { q.ask(r, server) })
			}
		}
	}
}

// await waits until all have granted, and reports false if they have not after so long.
func (q *check) await(patience time.Duration) bool { return endsWithin(patience, q.probes.Wait) }

// endsWithin reports whether something ends within a time.
func endsWithin(patience time.Duration, do func()) bool {
	done := make(chan struct{})
	go func() {
		do()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(patience):
		return false
	}
}

// ask asks the ledger of one row until it grants and judges how long that took.
func (q *check) ask(r *row, server int) {
	time.Sleep(rand.N(arrival))
	w := &worker{row: r, attack: q.attack, random: rand.New(rand.NewPCG(rand.Uint64(), 0))}
	about := question{ledger: true, alone: true, server: server, permits: 1, cancel: never}
	if r.mode.how == waiting {
		about.deadline = tooLong
	}
	c, before := w.call(about), ""
	for !c.served() && time.Since(q.since) < tooLong {
		before = c.outcome()
		time.Sleep(retryAfter)
		c = w.call(about)
	}
	took := time.Since(q.since)
	q.mu.Lock()
	q.slowest = max(q.slowest, took)
	q.mu.Unlock()
	if !q.pulse.judges(r.mode.patience(), q.since) {
		return // this machine may be too slow for it
	}
	r.judged[q.event.index].Add(1)
	if took > q.within+q.pulse.allowance(q.since) {
		q.failed(q.rule, r, fmt.Sprintf("back after %v, not within %v; before: %v", round(took), q.within, before))
	}
}

// worst is how long a row took at worst.
func (q *check) worst() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.slowest
}
