package loader

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// maxReports is how many subjects are reported in one round trip.
const maxReports = 512

// reportQueue is the subjects that have something to report. A goroutine reports them, while there are any.
type reportQueue struct {
	mu      sync.Mutex
	waiting []queuedSubject // each is due Every later, so that they are in the order in which they are due
	hurried []queuedSubject
	running bool
	closed  bool
	wake    chan struct{} // receives a value when a subject is hurried, and when the queue is closed
}

// queuedSubject is a subject in the queue. It is out of date if the subject was reported since, and queued again.
type queuedSubject struct {
	*aheadSubject
	since time.Duration
}

// add adds a subject that is due in Every. Its shard is locked.
func (q *reportQueue) add(a *Ahead, s *aheadSubject, now time.Duration) {
	s.queued = now
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, queuedSubject{s, now})
	q.start(a)
}

// hurry makes a subject due at once. Its shard is locked.
func (q *reportQueue) hurry(a *Ahead, s *aheadSubject) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hurried = append(q.hurried, queuedSubject{s, s.queued})
	q.start(a)
	q.wakeUp()
}

func (q *reportQueue) wakeUp() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *reportQueue) start(a *Ahead) {
	if !q.running && !q.closed {
		q.running = true
		go a.reportUntilIdle()
	}
}

func (q *reportQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wakeUp()
}

// next takes the subjects that are due, or returns the time until one is. more is false if there is nothing to report.
func (q *reportQueue) next(now, every time.Duration) (due []queuedSubject, wait time.Duration, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.hurried), maxReports)
	due = append(due, q.hurried[:n]...)
	q.hurried = q.hurried[n:]
	for len(q.waiting) > 0 && len(due) < maxReports {
		if wait = q.waiting[0].since + every - now; wait > 0 {
			break
		}
		due, q.waiting = append(due, q.waiting[0]), q.waiting[1:]
	}
	q.running = !q.closed && (len(due) > 0 || len(q.waiting) > 0)
	return due, wait, q.running
}

// reportUntilIdle reports what is due, until there is nothing left to report.
func (a *Ahead) reportUntilIdle() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due, wait, more := a.queue.next(a.clock(), a.every)
		switch {
		case !more:
			return
		case len(due) > 0:
			a.reportDue(due)
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-a.queue.wake:
		}
	}
}

// reportDue reports subjects of the queue. A panic of a hook or an observer is logged.
func (a *Ahead) reportDue(due []queuedSubject) {
	returned := false
	defer func() { a.ring.limits.eventLog.panicked(caught(returned, recover())) }()
	subjects := make([]*aheadSubject, 0, len(due))
	for _, queued := range due {
		if a.isDue(queued) {
			subjects = append(subjects, queued.aheadSubject)
		}
	}
	_ = a.report(context.Background(), subjects) // what is lost is in the queue again
	returned = true
}

// isDue reports whether a subject has something to report that was queued when this was. What is on its way goes first.
func (a *Ahead) isDue(queued queuedSubject) bool {
	shard := a.shard(queued.subject)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	s := queued.aheadSubject
	if s.unsent == 0 || s.queued != queued.since {
		return false
	}
	if s.flight != nil {
		s.flight.overdue = true
		return false
	}
	return true
}

// report tells Redis of what is unsent about subjects. It returns the first error.
func (a *Ahead) report(ctx context.Context, subjects []*aheadSubject) (err error) {
	reports := make([]*entry, 0, len(subjects))
	taken := make([]*aheadSubject, 0, len(subjects))
	defer func() {
		for i, e := range reports {
			a.land(ctx, taken[i], &e.request)
		}
	}()
	for _, s := range subjects {
		if e := a.newReport(s); e != nil {
			reports, taken = append(reports, e), append(taken, s)
		}
	}
	l := a.ring.limits
	bounded, cancel := l.withTimeout(ctx, l.timeoutOf(reports))
	defer cancel()
	for _, e := range reports {
		e.start(ctx)
		defer e.abort()
		e.ctxEnded = true // no policy answers a report
	}
	l.runTogether(bounded, reports)
	for _, e := range reports {
		e.finish(ctx)
		err = cmp.Or(err, e.err)
	}
	return err
}

// newReport takes what is unsent about a subject, nil if there is nothing.
func (a *Ahead) newReport(s *aheadSubject) *entry {
	shard := a.shard(s.subject)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if s.unsent == 0 || s.flight != nil {
		return nil
	}
	q := question{method: report, reported: s.take(a.clock())}
	e := &entry{report: unreported, request: a.ring.request(s.subject, q)}
	e.observation = a.ring.watch(s.subject, q)
	e.observation.setAge(s.flight.age())
	return e
}
