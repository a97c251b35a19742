//go:build unix

package soak

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

const workersARow = 2

// worker calls the limiters of a row.
type worker struct {
	*row
	attack *attack
	random *rand.Rand
}

// work calls once: after a pause, or at once when a fault begins.
func (w *worker) work(ctx context.Context) {
	struck := false
	select {
	case <-ctx.Done():
		return
	case <-time.After(upTo(w.random, 2*w.attack.pause)):
	case <-*w.attack.starts.Load():
		struck = true
	}
	w.attack.gate.RLock()
	defer w.attack.gate.RUnlock()
	w.call(w.choose(struck))
}

// question is one call that is about to be made.
type question struct {
	ledger   bool // of the ledger, else of the tight limiter
	alone    bool // about one server only, whatever the mode, and about subjects that are not audited
	server   int  // whose subject is asked about; a Batch asks about one of each
	method   method
	permits  int64
	deadline time.Duration // 0: none
	cancel   time.Duration // the caller gives up after that; never: it does not
}

type method int

const (
	allow method = iota
	peek
	reserve
)

// never is the cancel of callers that do not give up.
const never = -1

// choose makes up a question. One that a fault has struck asks the server that it happens to, and so do most others
// while it lasts.
func (w *worker) choose(struck bool) question {
	q := question{ledger: w.random.IntN(5) < 3, permits: 1, cancel: never, server: w.random.IntN(len(w.site.servers))}
	if e := w.attack.now(); e != nil && (struck || w.random.IntN(3) > 0) {
		for !e.hits(w.site, q.server) {
			q.server = w.random.IntN(len(w.site.servers))
		}
	}
	switch w.random.IntN(8) {
	case 0:
		q.method = peek
	case 1:
		q.method = reserve
	case 2, 3:
		q.permits = 2
	}
	switch {
	case w.mode.how == waiting && q.ledger:
		q.deadline = 3 * time.Second
	case w.mode.how == waiting:
		q.deadline = 100*time.Millisecond + upTo(w.random, time.Second)
	case w.random.IntN(2) == 0:
		q.deadline = 20*time.Millisecond + upTo(w.random, time.Second)
	}
	if w.attack.cancelling.Load() {
		q.cancel = upTo(w.random, 3*time.Millisecond)
	}
	return q
}

// bound is how long the call may take.
func (w *worker) bound(q question) time.Duration {
	bound := w.mode.bound
	if q.deadline > 0 && (bound == 0 || q.deadline < bound) {
		bound = q.deadline
	}
	if q.cancel >= 0 && !w.client.contexts { // else it is noticed at the reply, or at the bound
		bound = min(bound, q.cancel)
	}
	return bound
}

// answer is what a call brought about one subject.
type answer struct {
	place
	ledger  bool // of the ledger
	limiter loader.Limiter
	subject string
	permits int64 // asked for, and not given back
	decided loader.Decision
	slot    *loader.Slot
	err     error
	unsure  bool // whether all was given back that was to be
}

// call makes a call, judges it and returns it.
func (w *worker) call(q question) *called {
	last := w.attack.last.Load()
	// An event that begins between the two is noticed below. begun is before the deadline is set.
	c := &called{worker: w, question: q, event: w.attack.now(), begun: time.Now()}
	ctx, cancel := contextOf(q)
	if q.cancel >= 0 {
		defer time.AfterFunc(q.cancel, cancel).Stop()
	}
	c.answers, c.panicked = w.ask(ctx, q)
	c.ended = time.Now()
	if next := w.attack.last.Load(); next != last {
		c.event = cmp.Or(c.event, next)
	} else {
		c.calm = w.attack.calmAfter(last, c.begun)
	}
	c.judge()
	if slot := c.answers[0].slot; slot != nil && !q.alone {
		w.hold(slot, &c.answers[0], c.ended, cancel) // the slot's context is the call's
		return c
	}
	w.release(c.answers[0].slot)
	cancel()
	return c
}

// contextOf makes the context of a call.
func contextOf(q question) (context.Context, context.CancelFunc) {
	switch {
	case q.deadline > 0:
		return context.WithTimeout(context.Background(), q.deadline)
	case q.cancel >= 0:
		return context.WithCancel(context.Background())
	}
	return context.Background(), func() {} // one that can never end
}

// ask asks in the way of the mode, and recovers a panic as net/http does.
func (w *worker) ask(ctx context.Context, q question) (answers []answer, panicked any) {
	places := w.places(q.server)
	if w.mode.how == inBatch && !q.alone {
		places = w.everywhere()
	}
	for _, p := range places {
		answers = append(answers, w.answer(p, q.ledger, q))
	}
	if w.mode.how == inAll && !q.alone {
		other := place{server: w.random.IntN(len(w.site.servers))}
		answers = []answer{w.answer(place{server: q.server}, true, q), w.answer(other, false, q)}
	}
	defer func() { panicked = recover() }()
	w.mode.how.ask(ctx, w.limits, q.method, answers)
	return answers, nil
}

// answer makes the answer for a question about a place.
func (w *worker) answer(p place, ledger bool, q question) answer {
	a := answer{place: p, ledger: ledger, permits: q.permits, limiter: w.tight, subject: w.tightSubject(p)}
	if ledger {
		a.limiter, a.subject = w.ledger, w.ledgerSubject(p, w.attack.generation)
	}
	if q.alone {
		a.subject = w.ledgerSubject(p, w.attack.generation+farAhead)
	}
	if q.method == peek && w.mode.how != waiting && w.mode.how != inAll {
		a.permits = 0
	}
	return a
}

// ask fills in the answers.
func (h how) ask(ctx context.Context, l *limits, m method, answers []answer) {
	a := &answers[0]
	booker, books := a.limiter.(loader.Reserver)
	concurrency, slots := a.limiter.(slotLimiter)
	switch {
	case h == inBatch, h == inMany:
		askTogether(ctx, l, answers)
	case h == inAll:
		askAll(ctx, l, answers)
	case a.permits == 0:
		a.decided, a.err = a.limiter.Peek(ctx, a.subject)
	case slots:
		concurrency.ask(ctx, h, a)
	case h == waiting:
		a.err = a.limiter.WaitN(ctx, a.subject, a.permits)
	case h == givingBack:
		a.giveBack(ctx)
	case m == reserve && books:
		var r *loader.Reservation
		if r, a.err = booker.ReserveN(ctx, a.subject, a.permits); a.err == nil {
			a.decided = r.Decision()
		}
	default:
		a.decided, a.err = a.limiter.AllowN(ctx, a.subject, a.permits)
	}
}

func askTogether(ctx context.Context, l *limits, answers []answer) {
	batch := l.Batch()
	for _, a := range answers {
		if a.permits == 0 {
			batch.Peek(a.limiter, a.subject)
		} else {
			batch.AllowN(a.limiter, a.subject, a.permits)
		}
	}
	results, _ := batch.Do(ctx) // each result has its error
	for i, result := range results {
		answers[i].decided, answers[i].err = result.Decision, result.Err
	}
}
