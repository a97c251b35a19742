package loader

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"
)

// crowds are those of one client: of callers who ask the same at the same time.
type crowds struct {
	mu sync.Mutex
	of map[same]*crowd // those with a call under way
}

// same is what a crowd asks for, under the same limit.
type same struct {
	key     string
	permits int64
}

// crowd is of callers who ask the same. One call at a time is under way for it; those who come in the meantime wait
// for the next, in which one command asks for the permits of many. They get the answers that they would have got
// one by one at the moment at which Redis ran it.
type crowd struct {
	same
	call call  // of any one of them
	most int64 // how many of them one command may ask for

	waiting []*asker // for whom no call is under way, in the order in which they came
	room    int64    // how many Redis could have granted when it answered last
	reach   int64    // how many more than that are tried
}

// asker is one who waits in a crowd.
type asker struct {
	ctx  context.Context
	sent bool // a command that is under way asks for its permits
	gone bool // it does not wait any more
	got  chan answer
}

// answer is what an asker gets, and the call that brought it.
type answer struct {
	decision Decision
	err      error
	by       *call
}

// askWithOthers asks Redis, in one command with those who ask the same. What may book or has an id goes by itself.
func (c core) askWithOthers(ctx context.Context, asked call, q question) (Decision, error) {
	s := c.limits.sharing
	if s == nil || q.permits == 0 || q.maxWait > 0 || c.kind.ids {
		return asked.decide(ctx)
	}
	ctx, cancel := c.limits.bounded(ctx)
	defer cancel()
	crowd, a := s.crowds.enter(ctx, asked, q.permits, c.kind.capacity(c))
	switch {
	case crowd == nil:
		return asked.decide(ctx)
	case a != nil:
		return s.crowds.wait(a, asked)
	}
	d, err := asked.decide(ctx)
	s.crowds.landed(crowd, d)
	return d, err
}

// enter has a caller wait in its crowd. The first one does not wait but asks by itself, and so does, without a
// crowd, one who asks under another limit than those who are there.
func (s *crowds) enter(ctx context.Context, asked call, permits, capacity int64) (*crowd, *asker) {
	what := same{asked.key(), permits}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of[what]
	switch {
	case c == nil:
		c = &crowd{same: what, call: asked, most: max(min(capacity, asked.mostPermits())/permits, 1)}
		s.of[what] = c
		return c, nil
	case !slices.Equal(c.call.words, asked.words):
		return nil, nil
	}
	a := &asker{ctx: ctx, got: make(chan answer, 1)}
	c.waiting = append(c.waiting, a)
	return c, a
}

// wait returns the answer, or the context's error as soon as the context ends.
func (s *crowds) wait(a *asker, asked call) (Decision, error) {
	var got answer
	select {
	case got = <-a.got:
	case <-a.ctx.Done():
		got = s.leave(a, asked)
	}
	asked.seen.asked(got.by)
	return got.decision, got.err
}

// leave is the answer of one who waits no longer.
func (s *crowds) leave(a *asker, asked call) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case got := <-a.got: // just in time
		return got
	default:
	}
	a.gone = true
	if a.sent {
		asked.sent, asked.lost = 1, a.ctx.Err()
	}
	err := asked.unknown(a.ctx.Err())
	asked.limits.journal.failed(a.ctx, asked.script, err)
	return answer{err: err, by: &asked}
}

// landed is called by the first of a crowd with its answer.
func (s *crowds) landed(c *crowd, d Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.room = d.Remaining / c.permits
	if len(c.waiting) > 0 {
		go s.carry(c)
		return
	}
	delete(s.of, c.same)
}

// carry asks for those who wait for as long as there are any. Whoever is about to ask may come along: those whom the
// last call has answered most of all.
func (s *crowds) carry(c *crowd) {
	for {
		runtime.Gosched()
		aboard, sizes := s.depart(c)
		if len(aboard) == 0 {
			return
		}
		s.land(c, aboard, sizes, c.ask(aboard, sizes))
	}
}

// depart takes those who wait along, and returns for how many of them each command asks.
func (s *crowds) depart(c *crowd) (aboard []*asker, sizes []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	aboard = slices.DeleteFunc(c.waiting, func(a *asker) bool { return a.gone })
	c.waiting = nil
	if len(aboard) == 0 {
		delete(s.of, c.same)
		return nil, nil
	}
	sizes = c.split(int64(len(aboard)))
	sent := aboard
	for _, size := range sizes {
		for _, a := range sent[:size] {
			a.sent = true
		}
		sent = sent[size:]
	}
	return aboard, sizes
}

// split is for how many of k askers each command asks: as many as there was room for; where those are not all, a few
// more, by halves, of which Redis grants as many as it can; and one by itself, whose denial is that of all who are left.
func (c *crowd) split(k int64) (sizes []int64) {
	take := func(size int64) {
		if size > 0 {
			sizes = append(sizes, size)
			k -= size
		}
	}
	for room := min(c.room, k); room > 0; room -= c.most {
		take(min(room, c.most))
	}
	for half := min(c.reach+1, c.most*2) / 2; half > 0; half /= 2 {
		take(min(half, k-1))
	}
	take(min(1, k))
	return sizes
}

// ask sends the commands, and returns what became of each.
func (c *crowd) ask(aboard []*asker, sizes []int64) []*entry {
	ctx, cancel := untilTheLast(aboard)
	defer cancel()
	l := c.call.limits
	entries := make([]*entry, len(sizes))
	for i, size := range sizes {
		entries[i] = &entry{call: c.call.asking(size * c.permits), open: true, report: unreported}
	}
	l.settle(ctx, entries, func(cmds []*command) error { return l.sharing.send(ctx, c.key, cmds...) })
	for _, e := range entries {
		e.tell(ctx)
	}
	return entries
}

// land gives the answers. Those who have none yet go along with the next call, first.
func (s *crowds) land(c *crowd, aboard []*asker, sizes []int64, entries []*entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left, last := aboard, (*entry)(nil)
	for i, e := range entries {
		size := sizes[i]
		switch {
		case e.Err == nil && e.Granted:
			c.grant(left[:size], e)
			left = left[size:]
		case e.Err == nil:
			c.room = e.Remaining / c.permits
			if size == 1 { // then of one more as well
				last = e
			}
		case size > 1 && errors.Is(e.Err, ErrExceedsLimit): // a lower one is stored than we were told
			c.room = 0
		default:
			tell(left[:size], e)
			left, last = left[size:], cmp.Or(last, e)
		}
	}
	c.learn(int64(len(aboard)-len(left)), len(left) > 0 && entries[len(entries)-1].Granted)
	if last != nil {
		tell(left, last)
		return
	}
	for _, a := range left {
		a.sent = false
	}
	c.waiting = append(left, c.waiting...)
}

// tell gives each of the askers the same answer.
func tell(askers []*asker, e *entry) {
	for _, a := range askers {
		a.got <- answer{e.Decision, e.Err, &e.call}
	}
}

// grant gives each of the askers what a command has brought for all of them.
func (c *crowd) grant(askers []*asker, e *entry) {
	c.room = e.Remaining / c.permits
	got := answer{decision: e.Decision, by: &e.call}
	got.decision.Remaining += c.permits * int64(len(askers))
	for _, a := range askers {
		got.decision.Remaining -= c.permits
		a.got <- got
	}
}

// learn sets how far to reach next time, after so many were granted: further where all were, and no further than
// would have done.
func (c *crowd) learn(granted int64, all bool) {
	if all {
		c.reach = 2*c.reach + 1
		return
	}
	for c.reach > 0 && c.reach/2 >= granted {
		c.reach /= 2
	}
}

// untilTheLast is a context that ends with the last of the askers' deadlines.
func untilTheLast(askers []*asker) (context.Context, context.CancelFunc) {
	var last time.Time
	for _, a := range askers {
		deadline, bounded := a.ctx.Deadline()
		if !bounded {
			return context.Background(), func() {}
		}
		if deadline.After(last) {
			last = deadline
		}
	}
	return context.WithDeadline(context.Background(), last)
}

// asking is the call for other permits than these.
func (c call) asking(permits int64) call {
	c.words = slices.Clone(c.words)
	c.words[c.permitsAt] = permits
	return c
}

// mostPermits is how many permits the script takes at once.
func (c *call) mostPermits() int64 {
	return c.script.Args[c.permitsAt-firstKey-c.keyCount()].Max
}
