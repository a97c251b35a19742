package loader

import (
	"cmp"
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxReports is how many subjects are reported in one round trip.
const maxReports = 4096

// reportQueue is the subjects that have something to report, the one that is due first at the top of a heap. A
// goroutine reports them, while there are any.
type reportQueue struct {
	mu      sync.Mutex
	waiting dueSubjects
	running bool
	closed  bool
	wake    chan struct{} // receives a value when the first subject may be due earlier, and when the queue is closed
}

// dueSubjects is a heap for container/heap.
type dueSubjects []*aheadSubject

func (h dueSubjects) Len() int           { return len(h) }
func (h dueSubjects) Less(i, j int) bool { return h[i].due < h[j].due }
func (h dueSubjects) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].place, h[j].place = i+1, j+1 }
func (h *dueSubjects) Push(s any) {
	*h = append(*h, s.(*aheadSubject))
	(*h)[len(*h)-1].place = len(*h)
}
func (h *dueSubjects) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last], *h, s.place = nil, (*h)[:last], 0
	return s
}

// put queues a subject whose shard is locked: Every after the oldest grant, or at once if half of what may be ahead is
// used; after a report that was lost, not before Every has passed again.
func (q *reportQueue) put(a *Ahead, s *aheadSubject) {
	due := s.oldest + a.every
	if s.unsent >= (a.most+1)/2 {
		due = s.oldest
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	s.due = max(due, s.retry)
	if s.place > 0 {
		heap.Fix(&q.waiting, s.place-1)
	} else {
		heap.Push(&q.waiting, s)
	}
	if !q.running && !q.closed {
		q.running = true
		go a.reportUntilIdle()
	}
	if s.place == 1 {
		q.wakeUp()
	}
}

// remove takes a subject out of the queue. Its shard is locked.
func (q *reportQueue) remove(s *aheadSubject) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.place > 0 {
		heap.Remove(&q.waiting, s.place-1)
	}
	if len(q.waiting) == 0 {
		q.wakeUp()
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
	q.closed = true
	q.wakeUp()
}

// next takes the subjects that are due, or returns the time until one is. more is false if there is nothing to report.
func (q *reportQueue) next(now time.Duration) (due []*aheadSubject, wait time.Duration, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) > 0 && len(due) < maxReports {
		if wait = q.waiting[0].due - now; wait > 0 {
			break
		}
		due = append(due, heap.Pop(&q.waiting).(*aheadSubject))
	}
	q.running = !q.closed && (len(due) > 0 || len(q.waiting) > 0)
	return due, wait, q.running
}

// reportUntilIdle reports what is due, until there is nothing left to report.
func (a *Ahead) reportUntilIdle() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due, wait, more := a.queue.next(a.clock())
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

// reportDue reports subjects of the queue, those of each node by themselves: one that does not answer delays no other.
// A panic of a hook or an observer is logged.
func (a *Ahead) reportDue(due []*aheadSubject) {
	nodes := map[*redis.Client][]*aheadSubject{}
	for _, s := range due {
		node := (*redis.Client)(nil)
		if _, single := a.ring.limits.nodes.(singleClient); !single {
			key, _ := a.ring.key(s.subject)                           // it is one
			node, _ = a.ring.limits.nodeOf(context.Background(), key) // without one, the report says why
		}
		nodes[node] = append(nodes[node], s)
	}
	var all sync.WaitGroup
	for _, subjects := range nodes {
		all.Go(func() {
			returned := false
			defer func() { a.ring.limits.eventLog.panicked(caught(returned, recover())) }()
			_, _ = a.report(context.Background(), subjects) // what is lost is in the queue again
			returned = true
		})
	}
	all.Wait()
}

// report tells Redis of what is unsent about subjects. It returns the first error, and whether all were reported that
// had something to report: about some, something else may be on its way.
func (a *Ahead) report(ctx context.Context, subjects []*aheadSubject) (all bool, err error) {
	reports := make([]*entry, 0, len(subjects))
	taken := make([]*aheadSubject, 0, len(subjects))
	defer func() {
		for _, s := range taken {
			a.land(s)
		}
	}()
	all = true
	for _, s := range subjects {
		if e, busy := a.newReport(s); e != nil {
			reports, taken = append(reports, e), append(taken, s)
		} else if busy {
			all = false
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
	return all && err == nil, err
}

// newReport takes what is unsent about a subject. It returns nil if there is nothing, or if something else is on its
// way.
func (a *Ahead) newReport(s *aheadSubject) (e *entry, busy bool) {
	shard := a.shard(s.subject)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if s.unsent == 0 || s.flight != nil {
		return nil, s.flight != nil
	}
	now := a.clock()
	q := question{method: report, reported: s.take(now)}
	a.queue.remove(s)
	s.retry = now + a.every // unless it is answered
	e = &entry{report: unreported, request: a.ring.request(s.subject, q)}
	s.flight.request = &e.request
	e.observation = a.ring.watch(s.subject, q)
	e.observation.setReport(&e.request, s.flight.age())
	return e, false
}
