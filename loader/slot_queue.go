package loader

import (
	"container/list"
	"sync"
	"time"
)

// slotQueues are the callers of Acquire in this process: a *subjectQueues for each key.
type slotQueues struct{ byKey sync.Map }

// subjectQueues are the queues of one key. Callers of one key do not delay callers of another.
type subjectQueues struct {
	all *slotQueues
	key string

	mu      sync.Mutex
	byLimit map[int64]*slotQueue
	removed bool // from all, because no one waits
}

// slotQueue is the callers who wait for a slot of one subject under one limit, in the order of asking. Only the first
// one asks Redis, so that callers in one process do not compete. Callers under another limit have a queue of their own:
// one may be granted a slot while the other is not.
//
// A slot that is released in this process goes to its first caller, who asks at once. A process that holds most of the
// slots would so keep them for as long as it has callers. So once another process has been faster, every fourth
// released slot is left to the other processes, until none wants them: see yieldNext.
type slotQueue struct {
	subject *subjectQueues
	limit   int64
	places  list.List     // of *place
	round   chan struct{} // closed when a question fails: then all ask, side by side
	free    int           // slots released in this process about which nobody has asked yet
	pollAt  time.Time     // when the first caller asks, if no slot is released before

	yieldEvery int       // one of so many released slots is left to other processes; 0: none
	keptSince  int       // slots released since the last one that was left
	yieldUntil time.Time // when the first caller asks about the one that was left; zero: none was left
}

// reason is why a caller asks.
type reason int

const (
	noReason reason = iota
	release         // a slot was released in this process
	poll            // it is time to ask again, or there are more slots
	yielded         // a slot was left to other processes for long enough
)

// minPoll is the shortest pause before the first caller in a queue asks again.
const minPoll = 20 * time.Millisecond

// How slots are left to other processes.
const (
	minYieldEvery = 4
	maxYieldEvery = 64
	yieldFor      = minPoll // so that a process whose first caller has waited for a second surely asks meanwhile
)

// place is one caller's place in a queue.
type place struct {
	queue *slotQueue
	entry *list.Element
	wake  chan struct{} // has a value when turn returns something new
	round chan struct{} // the queue's when its caller last had a turn
}

// join adds a place at the end of a queue. If it is the only one, its caller has to ask.
func (qs *slotQueues) join(key string, limit int64) *place {
	for {
		stored, _ := qs.byKey.LoadOrStore(key, &subjectQueues{all: qs, key: key, byLimit: map[int64]*slotQueue{}})
		if p := stored.(*subjectQueues).join(limit); p != nil {
			return p
		}
	}
}

// join is slotQueues.join. It returns nil if the queues have been removed.
func (s *subjectQueues) join(limit int64) *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.removed {
		return nil
	}
	q := s.byLimit[limit]
	if q == nil {
		q = &slotQueue{subject: s, limit: limit, pollAt: time.Now(), round: make(chan struct{})}
		s.byLimit[limit] = q
	}
	p := &place{queue: q, wake: make(chan struct{}, 1), round: q.round}
	p.entry = q.places.PushBack(p)
	return p
}

// released lets the first of each queue of a key ask, because a slot is free. If it is asking already, it asks again.
func (qs *slotQueues) released(key string) {
	stored, ok := qs.byKey.Load(key)
	if !ok {
		return
	}
	s := stored.(*subjectQueues)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.byLimit {
		if !q.yieldNext() {
			q.free++
		}
		q.first().notify()
	}
}

// yieldNext reports whether a slot that was released is left to other processes, one at a time. The first caller then
// asks soon, but later than those who have waited for long elsewhere. That stands whatever is answered until then: a
// question that is on its way may have been answered before the slot was released.
func (q *slotQueue) yieldNext() bool {
	if q.yieldEvery == 0 || !q.yieldUntil.IsZero() {
		return false
	}
	if q.keptSince++; q.keptSince < q.yieldEvery {
		return false
	}
	q.keptSince, q.yieldUntil = 0, time.Now().Add(yieldFor)
	return true
}

// answered notes whether a slot was granted. Where a slot was denied that was released in this process, or left to
// others, another process has taken it.
func (q *slotQueue) answered(why reason, granted bool) {
	switch {
	case !granted && why != poll:
		q.yieldEvery = minYieldEvery
	case why == yielded:
		if q.yieldEvery *= 2; q.yieldEvery > maxYieldEvery {
			q.yieldEvery = 0
		}
	}
}

// remove removes an empty queue.
func (q *slotQueue) remove() {
	if delete(q.subject.byLimit, q.limit); len(q.subject.byLimit) == 0 {
		q.subject.removed = true
		q.subject.all.byKey.Delete(q.subject.key)
	}
}

func (q *slotQueue) first() *place { return q.places.Front().Value.(*place) }

// notify wakes the caller, who has a new turn.
func (p *place) notify() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// turn returns why the caller has to ask now, or how long it may wait until it has to. A release after this call is not
// lost: the caller will have to ask again.
func (p *place) turn() (why reason, pause time.Duration) {
	p.queue.subject.mu.Lock()
	defer p.queue.subject.mu.Unlock()
	q := p.queue
	why, pause = q.next()
	switch {
	case p.round != q.round:
		p.round = q.round
		return poll, 0
	case q.first() != p:
		return noReason, Never
	case q.free > 0:
		q.free--
		return release, 0
	case pause > 0:
		return noReason, pause
	case why == yielded:
		q.yieldUntil = time.Time{}
	}
	return why, 0
}

// next returns why and in what time the first caller asks, if no slot is released before.
func (q *slotQueue) next() (reason, time.Duration) {
	if !q.yieldUntil.IsZero() {
		return yielded, time.Until(q.yieldUntil)
	}
	return poll, time.Until(q.pollAt)
}

// pollIn notes a failure, and when to ask again.
func (p *place) pollIn(pause time.Duration) {
	p.queue.subject.mu.Lock()
	defer p.queue.subject.mu.Unlock()
	p.queue.pollAt = time.Now().Add(pause)
}

// denied notes a denial, and when to ask again.
func (p *place) denied(why reason, pause time.Duration) {
	p.queue.subject.mu.Lock()
	defer p.queue.subject.mu.Unlock()
	p.queue.answered(why, false)
	p.queue.pollAt = time.Now().Add(pause)
}

// granted notes a grant. If there are more slots, the next caller has to ask: but not where one was released in this
// process and another one is free, because that may be meant for another process. A slot that was released while the
// question was on its way may be the granted one, or another one that is free: so the next caller asks too.
func (p *place) granted(why reason, more bool, pause time.Duration) {
	p.queue.subject.mu.Lock()
	defer p.queue.subject.mu.Unlock()
	q := p.queue
	q.answered(why, true)
	if why == release {
		return
	}
	if q.pollAt = time.Now(); !more && q.free == 0 {
		q.pollAt = q.pollAt.Add(pause)
	}
	q.free = max(q.free-1, 0)
}

// leave removes the place from its queue. The next one becomes the first. failed says that Redis did not answer: then
// all ask, so that each gets its own answer at once, not one after the other. All are told once for each round.
func (p *place) leave(failed bool) {
	q := p.queue
	q.subject.mu.Lock()
	defer q.subject.mu.Unlock()
	wasFirst := q.first() == p
	q.places.Remove(p.entry)
	switch {
	case q.places.Len() == 0:
		q.remove()
	case failed && p.round == q.round:
		close(q.round)
		q.round = make(chan struct{})
	case wasFirst:
		q.first().notify()
	}
}
