//go:build unix

package soak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

const (
	workersARow = 2
	workerPause = 300 * time.Millisecond // between two calls of a worker, on average
	slack       = 750 * time.Millisecond // by which a loaded machine may be late
)

// worker calls the limiters of a row.
type worker struct {
	*row
	attack *attack
	random *rand.Rand
}

// work calls until the attack is over: now and then, and at once when a fault begins.
func (w *worker) work(ctx context.Context) {
	for {
		began := w.attack.began()
		struck := false
		select {
		case <-ctx.Done():
			return
		case <-time.After(upTo(w.random, 2*workerPause)):
		case <-began:
			struck = true
		}
		w.attack.gate.RLock()
		w.call(w.choose(struck))
		w.attack.gate.RUnlock()
	}
}

// question is one call that is about to be made.
type question struct {
	ledger   bool // of the ledger, else of the tight limiter
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
	if e := w.attack.now.Load(); e != nil && (struck || w.random.IntN(3) > 0) {
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
	w.limitTime(&q)
	return q
}

// limitTime gives a question a deadline or not.
func (w *worker) limitTime(q *question) {
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

// call makes a call, and judges it.
func (w *worker) call(q question) {
	ctx, cancel := contextOf(q)
	if q.cancel >= 0 {
		defer time.AfterFunc(q.cancel, cancel).Stop()
	}
	c := called{worker: w, question: q, event: w.attack.now.Load(), begun: time.Now()}
	last := w.attack.last.Load()
	c.answers, c.panicked = w.ask(ctx, q)
	c.ended = time.Now()
	if next := w.attack.last.Load(); next != last {
		c.event = cmp.Or(c.event, next)
	} else {
		c.calm = w.attack.calmAfter(last, c.begun)
	}
	c.judge()
	if slot := c.answers[0].slot; slot != nil {
		w.hold(slot, &c.answers[0], c.ended, cancel) // the slot's context is the call's
		return
	}
	cancel()
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
	if w.mode.how == inBatch {
		places = w.everywhere()
	}
	for _, p := range places {
		answers = append(answers, w.answer(p, q.ledger, q))
	}
	if w.mode.how == inAll { // the ledger first, so that its return begins first
		other := place{server: w.random.IntN(len(w.site.servers))}
		answers = []answer{w.answer(place{server: q.server}, true, q), w.answer(other, false, q)}
		ctx = w.watchReturns(ctx, &answers[0])
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
	if q.method == peek && w.mode.how.looks() {
		a.permits = 0
	}
	return a
}

// looks reports whether some of its calls are looks.
func (h how) looks() bool { return h != waiting && h != inAll }

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
			batch.Peek(unwrapped(a.limiter), a.subject)
		} else {
			batch.AllowN(unwrapped(a.limiter), a.subject, a.permits)
		}
	}
	results, _ := batch.Do(ctx) // each result has its error
	for i, result := range results {
		answers[i].decided, answers[i].err = result.Decision, result.Err
	}
}

// called is a call that has ended.
type called struct {
	*worker
	question
	event        *event // that happened while it was under way; nil: none
	calm         bool   // no fault could be felt at any time
	begun, ended time.Time
	answers      []answer
	panicked     any
}

// judge writes down what the call brought and fails it if that was wrong.
func (c *called) judge() {
	c.attack.calls.Add(1)
	if took, bound := c.ended.Sub(c.begun), c.bound(c.question); took > bound+slack+c.attack.pulse.allowance(c.begun) {
		c.fail("bound", fmt.Sprintf("a call took %v, its bound is %v: %v", round(took), round(bound), c.outcome()))
	}
	met := false
	for i := range c.answers {
		met = met || c.hit(&c.answers[i])
		c.write(&c.answers[i])
		c.judgeError(&c.answers[i])
	}
	if met {
		c.met[c.event.index].Add(1)
	}
	if c.panicked != nil {
		c.judgePanic()
	}
}

func (c *called) fail(rule, text string) { c.attack.failed(rule, c.row, text) }

// outcome is what the call ended with, for reports.
func (c *called) outcome() string {
	if c.panicked != nil {
		return fmt.Sprintf("a panic, %v", c.panicked)
	}
	if err := c.answers[0].err; err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%+v", c.answers[0].decided)
}

func (c *called) judgePanic() {
	raised, _ := c.panicked.(error)
	p, ours := errors.AsType[planted](raised)
	if !ours {
		c.fail("panic", fmt.Sprintf("a panic that no hook raised: %v", c.panicked))
		return
	}
	if c.event == nil {
		c.fail("panic", "a panic that came when the hooks had stopped: "+p.where)
	}
	c.attack.raised.Add(1)
}

// write enters an answer into the books of its server.
func (c *called) write(a *answer) {
	b := c.book(a.place)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case a.permits == 0, a.slot != nil:
	case c.panicked != nil, errors.Is(a.err, loader.ErrOutcomeUnknown), a.decided.Degraded, a.unsure:
		b.unknown += a.permits
	case a.err != nil && c.script.slots: // one of the calls of an Acquire may have taken one
		b.unknown++
	case c.mode.returns() && a.ledger && !a.decided.Granted && (a.err != nil || c.mode.how == inAll):
		b.refused += a.permits
	case a.err != nil && !a.decided.Granted:
	case c.mode.how == waiting:
		b.grant(c, a, false)
	case a.decided.Granted:
		b.grant(c, a, !c.script.repeats)
	}
}

// grant records a grant. Its time is that of the reply, or else lies within the call.
func (b *book) grant(c *called, a *answer, exact bool) {
	switch at := a.decided.Now.Add(a.decided.Wait); {
	case a.ledger:
		b.granted += a.permits
	case exact:
		b.spent.Add(Spent{From: at, To: at, Permits: a.permits})
	case c.mode.how == waiting:
		b.spent.Add(Spent{From: c.begun.Round(0), To: c.ended.Round(0), Permits: a.permits})
	default:
		b.spent.Add(Spent{From: c.begun.Round(0), To: at, Permits: a.permits})
	}
}

// judgeError fails the call for an error that nothing excuses.
func (c *called) judgeError(a *answer) {
	if a.err == nil {
		return
	}
	_, denied := errors.AsType[*loader.WaitError](a.err)
	switch kind := KindOf(a.err); {
	case c.slotTooLate(a):
		return
	case c.panicked != nil:
	case denied && c.mode.how == waiting:
		c.judgeWait(a)
		return
	case errors.Is(a.err, context.Canceled) && c.cancel >= 0:
		return
	case kind == Unexpected:
		c.fail("error", a.err.Error())
	}
	if c.mode.how == waiting && KindOf(a.err) != "OOM" { // it was answered
		c.judgeWait(a)
	}
	bound, since := min(c.bound(c.question), c.mode.patience()), c.begun.Add(-backWithin)
	if errors.Is(a.err, loader.ErrBreakerOpen) { // by calls that began before
		since = since.Add(-2 * defaultBound)
	}
	if bound < leastBound || !c.attack.pulse.judges(bound, since) {
		return // this machine may be too slow for it
	}
	if c.calm {
		c.fail("calm", "an error while all was well: "+a.err.Error())
	} else if c.event != nil && !c.event.inside && !c.hit(a) && c.begun.After(c.event.begun) {
		c.fail("neighbour", "an error about a server that is well: "+a.err.Error())
	}
}

// hit reports whether what happened while the call was under way happened to a server that it needs.
func (c *called) hit(a *answer) bool {
	if c.event == nil {
		return false
	}
	if c.mode.how != inAll {
		return c.event.hits(c.site, a.server)
	}
	return slices.ContainsFunc(c.answers, func(a answer) bool { return c.event.hits(c.site, a.server) })
}

// slotTooLate reports whether a call was granted a slot in a reply that took longer than a lease. That it took so long
// is judged by its bound.
func (c *called) slotTooLate(a *answer) bool {
	_, lost := errors.AsType[*loader.SlotLostError](a.err)
	return lost && c.ended.Sub(c.begun) > slotTTL*99/100
}

// leastBound is the least time in which a call has to be answered when all is well.
const leastBound = 100 * time.Millisecond

// judgeWait fails a Wait that gave up while it had time left, though no permits may have been lost.
func (c *called) judgeWait(a *answer) {
	left := c.deadline - c.ended.Sub(c.begun)
	late := slack + c.attack.pulse.allowance(c.begun)
	if !c.ledger || c.cancel >= 0 || errors.Is(a.err, loader.ErrOutcomeUnknown) || left < late {
		return
	}
	c.fail("Wait", fmt.Sprintf("gave up %v before its deadline: %v", round(left), a.err))
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
