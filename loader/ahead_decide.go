package loader

import (
	"cmp"
	"context"
	"hash/maphash"
	"time"
)

// clock returns the time since the Ahead was made. All ages are measured with this monotonic clock.
func (a *Ahead) clock() time.Duration { return time.Since(a.start) }

func (a *Ahead) shard(subject string) *aheadShard {
	return &a.shards[maphash.String(a.seed, subject)%aheadShards]
}

// decide answers in this process if it may, and otherwise asks Redis.
func (a *Ahead) decide(ctx context.Context, subject string, q question) (d Decision, err error) {
	if q.permits < 1 {
		return Decision{}, errNoPermits(a.Name(), "", q.permits)
	}
	shard := a.shard(subject)
	d, here := a.decideHere(shard, subject, q.permits)
	if !here {
		var asked bool
		if d, asked, err = a.waitOrAsk(ctx, shard, subject, q); asked {
			return d, err // the observer knows
		}
	}
	if seen := a.ring.watch(subject, q); seen != nil {
		seen.begin(ctx)
		seen.setDecision(d)
		seen.end(err)
	}
	return d, err
}

// decideHere decides if the last answer says enough.
func (a *Ahead) decideHere(shard *aheadShard, subject string, n int64) (d Decision, here bool) {
	now := a.clock()
	shard.mu.Lock()
	defer shard.mu.Unlock()
	s := shard.subjects[subject]
	if s == nil || shard.closed {
		return d, false
	}
	if d, here = s.denies(n, now); here {
		d.CountsFor = a.counts
		return d, true
	}
	before := s.unsent
	if !s.grant(n, a.most) {
		return d, false
	}
	if before == 0 {
		s.oldest = now
		a.queue.add(a, s, now)
	}
	if half := (a.most + 1) / 2; before < half && s.unsent >= half {
		a.queue.hurry(a, s)
	}
	return Decision{
		Granted: true, Permits: n, Ahead: true, Remaining: max(s.remaining-s.unreported(), 0),
		ResetAfter: a.counts, CountsFor: a.counts, Limit: s.last.Limit,
		Now: s.last.Now.Add((now - s.asked).Truncate(time.Microsecond)),
	}, true
}

// waitOrAsk asks Redis, or waits for what is on its way to it and decides then.
func (a *Ahead) waitOrAsk(
	ctx context.Context, shard *aheadShard, subject string, q question,
) (d Decision, asked bool, err error) {
	key, err := a.ring.key(subject)
	if err != nil || q.permits > smallestLimit(a.ring.core) {
		d, err = a.ring.decide(ctx, subject, q)
		return d, true, err
	}
	ctxEnded := ctx.Err() != nil // then no policy answers
	bounded, cancel := a.ring.limits.withTimeout(ctx, a.ring.timeout())
	defer cancel()
	for {
		s, other := a.board(shard, subject, &q)
		switch {
		case other == nil && s == nil:
			d, err = a.ring.decide(ctx, subject, q)
			return d, true, err
		case other == nil:
			d, err = a.ask(ctx, s, q)
			return d, true, err
		}
		if err = other.wait(bounded); err != nil {
			if !ctxEnded {
				d, err = a.ring.fallBack(ctx, key, q, err)
			}
			return d, false, err
		}
		if d, here := a.decideHere(shard, subject, q.permits); here {
			return d, false, nil
		}
	}
}

// board puts what is unsent about a subject into a question. It returns the flight to wait for in its place, if there
// is one. It returns nothing if there is no room for the subject, and after Close.
func (a *Ahead) board(shard *aheadShard, subject string, q *question) (*aheadSubject, *flight) {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	s := shard.subjects[subject]
	if s == nil && !shard.closed {
		s = shard.add(subject)
	}
	switch {
	case s == nil, shard.closed && s.unreported() == 0:
		return nil, nil
	case s.flight != nil:
		return nil, s.flight
	}
	q.reported = s.take(a.clock())
	return s, nil
}

// ask asks Redis a question that has boarded.
func (a *Ahead) ask(ctx context.Context, s *aheadSubject, q question) (Decision, error) {
	r := a.ring.request(s.subject, q)
	r.observation = a.ring.watch(s.subject, q)
	r.observation.setAge(s.flight.age())
	r.call.maxGroup = 0 // a shared answer does not say what the other callers of its command have left
	defer a.land(ctx, s, &r)
	return r.do(ctx)
}

// land ends a flight with what became of its call, and wakes the callers who wait. An observer or a hook may have
// panicked.
func (a *Ahead) land(ctx context.Context, s *aheadSubject, r *request) {
	shard := a.shard(s.subject)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	f := s.flight
	defer close(f.done)
	if r.call.ended && r.call.err == nil {
		s.answered(r.limiter.decisionOf(&r.call), r.question.permits)
		if f.overdue && s.unsent > 0 {
			a.queue.hurry(a, s)
		}
		return
	}
	if s.lost(); s.unsent > 0 { // Redis may be down: there is time
		a.queue.add(a, s, a.clock())
	}
	if ctx.Err() == nil {
		f.err = cmp.Or(r.call.err, r.err)
	}
}

// wait waits for the end of a flight, or of the context.
func (f *flight) wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return failed(&sliceRingReportV1, ctx.Err())
	}
}
