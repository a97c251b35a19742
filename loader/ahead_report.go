package loader

import (
	"cmp"
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// maxReports is how many subjects are reported in one round trip.
const maxReports = 4096

// queueUp queues a subject: it is due Every after the oldest grant, or at once if half of what may be ahead is used;
// after a report that was lost, not before Every has passed again.
func (a *Ahead) queueUp(s *aheadSubject) {
	if s.flight != nil {
		return // its landing does
	}
	urgent := s.Unsent >= (a.most+1)/2 && s.retry == 0
	if s.due = max(s.oldest+a.every, s.retry); urgent {
		s.due = s.oldest
	}
	q := &a.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	if urgent {
		q.urgent = append(q.urgent, dueReport{s, s.due})
		q.wakeUp()
	} else {
		q.waiting = append(q.waiting, dueReport{s, s.due})
	}
	if !q.running {
		q.running = true
		go a.reportUntilIdle()
	}
}

func (q *reportQueue) wakeUp() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *reportQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.urgent, q.waiting = true, nil, nil
	q.wakeUp()
}

// take takes subjects that are due, and returns when the next one is. It reports idle if there are none.
func (q *reportQueue) take(now time.Duration) (due []*aheadSubject, next time.Duration, idle bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, queue := range []*[]dueReport{&q.urgent, &q.waiting} {
		for len(*queue) > 0 && (*queue)[0].at <= now && len(due) < maxReports {
			due = append(due, (*queue)[0].aheadSubject)
			(*queue)[0] = dueReport{}
			*queue = (*queue)[1:]
		}
	}
	switch {
	case len(due) > 0:
	case len(q.waiting) > 0:
		next = q.waiting[0].at
	default:
		q.running, idle = false, true
	}
	return due, next, idle
}

// reportUntilIdle reports what is due, until there is nothing left to report.
func (a *Ahead) reportUntilIdle() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := a.clock()
		due, next, idle := a.queue.take(now)
		switch {
		case idle:
			return
		case len(due) > 0:
			a.reportDue(due, now)
			continue
		}
		timer.Reset(next - now)
		select {
		case <-timer.C:
		case <-a.queue.wake:
		}
	}
}

// reportDue reports subjects of the queue, those of each node by themselves: one that does not answer delays the others
// by Every. A panic of a hook or an observer is logged.
func (a *Ahead) reportDue(due []*aheadSubject, now time.Duration) {
	nodes := map[*redis.Client][]*aheadSubject{}
	for _, s := range due {
		key, _ := a.ring.key(s.subject)                                   // it is one
		node, _ := a.ring.loader.client.NodeOf(context.Background(), key) // without one, the report says why
		nodes[node] = append(nodes[node], s)
	}
	ended := make(chan struct{}, len(nodes))
	for _, subjects := range nodes {
		go func() {
			returned := false
			defer func() {
				wire.Caught(returned, recover()).Log(a.ring.loader.log)
				ended <- struct{}{}
			}()
			_, _ = a.report(context.Background(), subjects, now) // what is lost is in the queue again
			returned = true
		}()
	}
	patience := time.NewTimer(a.every)
	defer patience.Stop()
	for range nodes {
		select {
		case <-ended:
		case <-patience.C:
			return
		}
	}
}

// report tells Redis of what is unsent about subjects that are due. It returns the first error, and the subjects about
// which something else is on its way.
func (a *Ahead) report(
	ctx context.Context, subjects []*aheadSubject, now time.Duration,
) (busy map[*aheadSubject]*flight, err error) {
	reports := make([]*entry, 0, len(subjects))
	busy = map[*aheadSubject]*flight{}
	for _, s := range subjects {
		if e, other := a.newReport(s, now); e != nil {
			reports = append(reports, e)
			defer a.endFlight(s)
		} else if other != nil {
			busy[s] = other
		}
	}
	a.ring.loader.do(ctx, reports, false)
	for _, e := range reports {
		err = cmp.Or(err, e.err)
	}
	return busy, err
}

// newReport takes what is unsent about a subject. It returns nil if there is nothing, or if it is due later, and what
// is on its way.
func (a *Ahead) newReport(s *aheadSubject, now time.Duration) (*entry, *flight) {
	shard := a.shard(s.subject)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if s.Unsent == 0 || s.flight != nil || s.due > now {
		return nil, s.flight
	}
	sent := a.clock()
	q := question{method: report, reported: s.beginFlight(sent)}
	s.retry = sent + a.every // unless it is answered
	e := &entry{request: a.ring.request(s.subject, q)}
	e.noFallback = true
	s.flight.request = &e.request
	e.observation = a.ring.watch(s.subject, q)
	e.observation.setReport(q.reported, s.flight.age())
	return e, nil
}

// endFlight ends a flight with what became of its request, and wakes the callers who wait. An observer or a hook may have
// panicked.
func (a *Ahead) endFlight(s *aheadSubject) {
	shard := a.shard(s.subject)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	f := s.flight
	defer close(f.done)
	r := f.request
	if r != nil && r.answer.Reply != nil {
		s.answered(r.limiter.decisionOf(r.call, r.answer), r.question.permits)
	} else {
		s.oldest = f.oldest
		s.Lost()
	}
	if s.flight = nil; s.Unsent > 0 {
		a.queueUp(s)
	}
}
