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

// check asks every row about every server that an event happened to until it grants. It fails those that take too long
// since a time, and returns how long the slowest took.
func (a *attack) check(e *event, rule string, since time.Time, within time.Duration) (slowest time.Duration) {
	a.t.Helper()
	var probes sync.WaitGroup
	var mu sync.Mutex
	for _, r := range a.rows {
		for server := range r.site.servers {
			if e.hits(r.site, server) {
				probes.Go(func() {
					took := a.probe(r, server, e, rule, since, within)
					mu.Lock()
					defer mu.Unlock()
					slowest = max(slowest, took)
				})
			}
		}
	}
	if !endsWithin(3*tooLong, probes.Wait) {
		a.stuck()
	}
	return slowest
}

// probe asks the ledger of one row until it grants and judges how long that took.
func (a *attack) probe(r *row, server int, e *event, rule string, since time.Time, within time.Duration) time.Duration {
	time.Sleep(rand.N(arrival))
	w := &worker{row: r, attack: a, random: rand.New(rand.NewPCG(rand.Uint64(), 0))}
	about := question{ledger: true, alone: true, server: server, permits: 1, cancel: never}
	if r.mode.how == waiting {
		about.deadline = tooLong
	}
	c, before := w.call(about), ""
	for !c.served() && time.Since(since) < tooLong {
		before = c.outcome()
		time.Sleep(retryAfter)
		c = w.call(about)
	}
	took := time.Since(since)
	if !a.pulse.judges(r.mode.patience(), since) {
		return took // this machine may be too slow for it
	}
	r.judged.add(e.name, 1)
	if took > within+a.pulse.allowance(since) {
		a.failed(rule, r, fmt.Sprintf("back after %v, not within %v; before: %v", round(took), within, before))
	}
	return took
}

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
