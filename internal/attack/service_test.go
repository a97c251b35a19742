//go:build unix

package attack

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// inquiry asks every row about every server that an event happened to until it grants.
type inquiry struct {
	*attack
	event  *event
	rule   string
	since  time.Time
	within time.Duration // how long after that a row may take

	probes  sync.WaitGroup
	slowest time.Duration // what one took; guarded by mu
}

func (q *inquiry) start() {
	for _, r := range q.rows {
		for server := range r.site.servers {
			if q.event.hits(r.site, server) {
				q.probes.Go(func() { q.ask(r, server) })
			}
		}
	}
}

// await waits until all have granted, and reports false if they have not after so long.
func (q *inquiry) await(patience time.Duration) bool {
	done := make(chan struct{})
	go func() {
		q.probes.Wait()
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
func (q *inquiry) ask(r *row, server int) {
	err := q.askUntilGranted(r, server)
	took := time.Since(q.since)
	if took > q.within+q.pulse.allowance(q.since) {
		q.failed(q.rule, r, fmt.Sprintf("back after %v, not within %v; before: %v", round(took), q.within, err))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.slowest = max(q.slowest, took)
	if q.rule == "service" {
		key := recoveryKey{q.event.index, r}
		q.recoveries[key] = max(q.recoveries[key], took)
	}
}

// askUntilGranted asks a row's spare limiter until it grants, or for too long, and returns what it answered before.
func (q *inquiry) askUntilGranted(r *row, server int) (before error) {
	for {
		got := q.askOnce(r, server)
		granted := got.err == nil && (got.decided.Granted && !got.decided.Degraded || r.mode.how == waiting)
		if granted || time.Since(q.since) > tooLong {
			return before
		}
		if before = got.err; before == nil {
			before = fmt.Errorf("%+v", got.decided)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// askOnce asks a row's spare limiter, as a caller does who sets no deadline unless he waits.
func (q *inquiry) askOnce(r *row, server int) answer {
	ctx := context.Background()
	if r.mode.how == waiting {
		deadline, cancel := context.WithTimeout(ctx, tooLong)
		defer cancel()
		ctx = deadline
	}
	answers := []answer{{server: server, permits: 1}}
	subject := func(server int) string { return r.ledgerSubject(server, q.generation) }
	r.mode.how.ask(ctx, r.limits, r.spare, subject, allow, answers)
	return answers[0]
}
