package loader

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxReports is how many subjects are reported in one round trip.
const maxReports = 4096

// reportQueue is the subjects that have something to report: those of each shard in a heap, the one that is due first
// at its top. A goroutine reports them, while there are any.
type reportQueue struct {
	length  atomic.Int64
	running atomic.Bool
	closed  atomic.Bool
	until   atomic.Int64  // when the goroutine looks again, by the clock of the Ahead
	wake    chan struct{} // receives a value when it should look at once
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

// queueUp queues a subject of a locked shard: it is due Every after the oldest grant, or at once if half of what may be
// ahead is used; after a report that was lost, not before Every has passed again.
func (a *Ahead) queueUp(shard *aheadShard, s *aheadSubject) {
	due := s.oldest + a.every
	if s.unsent >= (a.most+1)/2 {
		due = s.oldest
	}
	s.due = max(due, s.retry)
	if s.place > 0 {
		heap.Fix(&shard.waiting, s.place-1)
	} else {
		heap.Push(&shard.waiting, s)
		a.queue.length.Add(1)
	}
	switch q := &a.queue; {
	case !q.closed.Load() && q.running.CompareAndSwap(false, true):
		go a.reportUntilIdle()
	case s.due < time.Duration(q.until.Load()):
		q.wakeUp()
	}
}

// unqueue takes a subject of a locked shard out of the queue.
func (a *Ahead) unqueue(shard *aheadShard, s *aheadSubject) {
	if s.place == 0 {
		return
	}
	heap.Remove(&shard.waiting, s.place-1)
	if a.queue.length.Add(-1) == 0 {
		a.queue.wakeUp()
	}
}

func (q *reportQueue) wakeUp() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *reportQueue) close() {
	q.closed.Store(true)
	q.wakeUp()
}

// takeDue takes subjects that are due, and returns when the next one is.
func (a *Ahead) takeDue(now time.Duration) (due []*aheadSubject, next time.Duration) {
	next = math.MaxInt64
	for i := range a.shards {
		shard := &a.shards[i]
		shard.mu.Lock()
		for len(shard.waiting) > 0 && shard.waiting[0].due <= now && len(due) < maxReports {
			due = append(due, heap.Pop(&shard.waiting).(*aheadSubject))
		}
		if len(shard.waiting) > 0 {
			next = min(next, shard.waiting[0].due)
		}
		shard.mu.Unlock()
	}
	a.queue.length.Add(-int64(len(due)))
	return due, next
}

// reportUntilIdle reports what is due, until there is nothing left to report.
func (a *Ahead) reportUntilIdle() {
	q := &a.queue
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		q.until.Store(math.MaxInt64) // what is queued from here on wakes it
		due, next := a.takeDue(a.clock())
		switch {
		case len(due) > 0:
			a.reportDue(due)
			continue
		case q.closed.Load():
			return
		case q.length.Load() == 0:
			if q.running.Store(false); q.length.Load() == 0 || !q.running.CompareAndSwap(false, true) {
				return
			}
			continue
		}
		q.until.Store(int64(next))
		timer.Reset(next - a.clock())
		select {
		case <-timer.C:
		case <-q.wake:
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
	a.unqueue(shard, s)
	s.retry = now + a.every // unless it is answered
	e = &entry{report: unreported, request: a.ring.request(s.subject, q)}
	s.flight.request = &e.request
	e.observation = a.ring.watch(s.subject, q)
	e.observation.setReport(&e.request, s.flight.age())
	return e, false
}
