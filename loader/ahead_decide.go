package loader

import (
	"context"
	"time"

	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// decide answers in this process if it may, and otherwise asks Redis. It tells the observer.
func (a *Ahead) decide(ctx context.Context, subject string, q question) (Decision, error) {
	observed := a.ring.watch(subject, q)
	ctx = observed.begin(ctx)
	defer observed.abort()
	d, err := a.answer(ctx, subject, q, observed)
	observed.setDecision(d)
	observed.end(err)
	return d, err
}

// answer is decide without telling the observer of the beginning and the end.
func (a *Ahead) answer(ctx context.Context, subject string, q question, observed *observation) (Decision, error) {
	switch {
	case a.most == 0: // the zero Ahead
		return a.ask(ctx, subject, q, observed, nil)
	case q.permits < 1:
		return Decision{}, errNoPermits(a.ring.limiterName(), "", q.permits)
	case ctx.Err() != nil:
		return Decision{}, failed(wire.NameOf(&sliceRingV1), ctx.Err())
	}
	shard := a.shard(subject)
	if d, here := a.decideHere(shard, subject, q.permits); here {
		return d, nil
	}
	key, err := a.ring.key(subject)
	if err != nil || q.permits > smallestLimit(a.ring.core) {
		return a.ask(ctx, subject, q, observed, nil)
	}
	bounded, cancel := a.ring.loader.client.WithTimeout(ctx, a.ring.timeout)
	defer cancel()
	s, other := a.attachUnsent(shard, subject, &q)
	if other != nil { // the answer to it may say enough
		if err := other.wait(bounded); err != nil {
			return a.ring.fallBack(ctx, key, q, failed(wire.NameOf(&sliceRingV1), err))
		}
		if d, here := a.decideHere(shard, subject, q.permits); here {
			return d, nil
		}
		s, _ = a.attachUnsent(shard, subject, &q)
	}
	if s != nil {
		defer a.endFlight(s)
	}
	return a.ask(bounded, subject, q, observed, s)
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
	before := s.Unsent
	if !s.Grant(n, a.most) {
		return d, false
	}
	if before == 0 {
		s.oldest = now
	}
	if half := (a.most + 1) / 2; before == 0 || before < half && s.Unsent >= half {
		a.queueUp(s)
	}
	return Decision{
		Granted: true, Permits: n, Ahead: true, Remaining: max(s.Remaining-s.Unreported(), 0),
		ResetAfter: a.counts, CountsFor: a.counts, Limit: s.last.Limit,
		Now: s.last.Now.Add((now - s.asked).Truncate(time.Microsecond)),
	}, true
}

// attachUnsent puts what is unsent about a subject into a question, and begins a flight. If one is on its way, it returns
// that instead. It returns nothing if there is no room for the subject, and after Close if nothing is unsent.
func (a *Ahead) attachUnsent(shard *aheadShard, subject string, q *question) (*aheadSubject, *flight) {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	s := shard.subjects[subject]
	if s == nil && !shard.closed {
		s = shard.add(subject)
	}
	switch {
	case s == nil, shard.closed && s.Unreported() == 0:
		return nil, nil
	case s.flight != nil:
		return nil, s.flight
	}
	q.reported = s.beginFlight(a.clock())
	return s, nil
}

// ask asks Redis. If s is not nil, its flight gets the answer.
func (a *Ahead) ask(
	ctx context.Context, subject string, q question, observed *observation, s *aheadSubject,
) (Decision, error) {
	r := a.ring.request(subject, q)
	r.observation, r.inWait = observed, true
	if s != nil {
		s.flight.request = &r
		observed.setReport(q.reported, s.flight.age())
		if r.call != nil {
			r.call.MaxGroup = 0 // a shared answer does not say what the other callers of its command have left
		}
	}
	return r.do(ctx)
}
