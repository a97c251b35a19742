//go:build unix

package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// retryAfter is how long a caller waits who was not granted anything.
const retryAfter = 50 * time.Millisecond

// gather is how long it takes until all callers are there: at once they would be too many for a small machine.
const gather = 100 * time.Millisecond

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

// ask asks one row until it grants and notes how long that took.
func (q *check) ask(r *row, server int) {
	time.Sleep(rand.N(gather))
	err := q.askUntilGranted(r, server)
	took := time.Since(q.since)
	q.mu.Lock()
	q.slowest = max(q.slowest, took)
	q.mu.Unlock()
	if !q.pulse.judges(r.mode.patience(), q.since) {
		return // this machine may be too slow for it
	}
	r.judged[q.event.index].Add(1)
	if took > q.within+q.pulse.allowance(q.since) {
		q.failed(q.rule, r, fmt.Sprintf("back after %v, not within %v; before: %v", round(took), q.within, err))
	}
}

// String says how long what was asked while the fault lasted took at worst; nothing if nothing was.
func (q *check) String() string {
	if q.rule != "reconnect" || q.slowest == 0 {
		return ""
	}
	return fmt.Sprintf(" (while it lasted, %v after its begin)", round(q.slowest))
}

// askUntilGranted asks a row's spare limiter until it grants, or for too long, and returns what it answered before.
func (q *check) askUntilGranted(r *row, server int) (before error) {
	for {
		got := q.askOnce(r, server)
		_ = got.slot.Release()
		granted := got.err == nil && (got.decided.Granted && !got.decided.Degraded || r.mode.how == waiting)
		if granted || time.Since(q.since) > tooLong {
			return before
		}
		if before = got.err; before == nil {
			before = fmt.Errorf("%+v", got.decided)
		}
		time.Sleep(retryAfter)
	}
}

// askOnce asks a row's spare limiter, as a caller does who sets no deadline unless he waits.
func (q *check) askOnce(r *row, server int) answer {
	ctx := context.Background()
	if r.mode.how == waiting {
		deadline, cancel := context.WithTimeout(ctx, tooLong)
		defer cancel()
		ctx = deadline
	}
	var answers []answer
	for _, p := range r.places(server) {
		answers = append(answers, answer{place: p, permits: 1, limiter: r.spare, subject: r.ledgerSubject(p, q.generation)})
	}
	r.mode.how.ask(ctx, r.limits, allow, answers)
	return answers[0]
}
