package admit

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/sluice-redis/sluice/admission"
	"github.com/sluice-redis/sluice/internal/clientaddr"
	"github.com/sluice-redis/sluice/loader"
)

// The answer of the engine. All doors give this one.
type (
	Decision = admission.Decision
	Result   = admission.Result
)

// Request is one request on its way: what it is charged, and what becomes of it. Decide comes first, Finish if the
// request went on, and Release in any case.
type Request struct {
	Result

	Limits  *loader.Loader // of several Charges
	Charges []Charge
	Budgets []Estimate
	Slots   []Hold
	Shadow  bool // nothing refuses it
	Refused bool // the limiters are asked, and it is refused whatever they say
	Wait    bool // wait for slots and permits
	Held    *Held

	ctx       context.Context
	resources []Decision // of budgets and slots
	enforced  []*Charge  // are asked together
	shadow    []*Charge
	beside    []*Charge // are asked by themselves
	bans      []*ban
	buffer    [2]*Charge
	counts    bool // a charge counts by the request's result
	delays    bool // a limiter that may deny lets the request wait

	mu       sync.Mutex // of what Release ends: a stream may end in several ways at once
	reserved []*loader.Reserved
	slots    []*loader.Slot
}

// Context is the context of a request that goes on. It ends if a slot is lost.
func (q *Request) Context() context.Context { return q.ctx }

// Decide asks about the request. What was charged before a refusal is given back.
func (q *Request) Decide(ctx context.Context) {
	q.ctx = ctx
	q.prepare()
	switch {
	case len(q.bans) > 0:
		q.askUnlessBanned()
	case len(q.beside) > 0:
		q.askAndJudge()
	case q.Outcome == admission.Allowed:
		q.ask()
	}
	if q.Refused && q.Outcome != admission.Denied {
		q.Err = nil
		q.deny(q.longestWait(false))
	}
	if q.Outcome != admission.Allowed {
		q.withdraw()
	}
	if len(q.bans) > 0 {
		q.showBans()
	}
	q.collect()
}

// askAndJudge asks the limiters that are asked by themselves, and the others at the same time.
func (q *Request) askAndJudge() {
	beside := q.askBeside()
	if q.Outcome == admission.Allowed {
		q.ask()
	}
	beside.Wait()
	q.judgeBeside()
}

// prepare sorts the charges by how they are asked, and refuses a request with one that cannot be.
func (q *Request) prepare() {
	q.enforced, q.shadow = q.buffer[0:0:1], q.buffer[1:1:2] // most requests have one
	for i := range q.Charges {
		c := &q.Charges[i]
		c.sum = c.N
		switch {
		case c.Err != nil && c.Shadow:
		case c.Err != nil:
			q.fail(c.Err)
		case c.Kind != Take || c.Quota:
			q.beside = append(q.beside, c)
		case c.Shadow:
			if len(q.shadow) == 0 || !sumUp(q.shadow, c) {
				q.shadow = append(q.shadow, c)
			}
		default:
			q.delays = q.delays || c.Delay > 0
			if len(q.enforced) == 0 || !sumUp(q.enforced, c) {
				q.enforced = append(q.enforced, c)
			}
		}
		if c.Ban != nil && c.Err == nil {
			q.addBan(c)
		}
		q.counts = q.counts || c.CountIf != nil
	}
}

// sumUp adds a charge to the sum of the one about the same limiter and subject, if there is one.
func sumUp(charges []*Charge, c *Charge) bool {
	for _, first := range charges {
		if first.isSame(c) {
			first.sum, c.in = Sum(first.sum, c.N), first
			return true
		}
	}
	return false
}

// Sum adds numbers of permits. One that is too large stays so.
func Sum(a, b int64) int64 { return a + min(b, math.MaxInt64-a) }

// ask asks the limiters one step after another, until one refuses.
func (q *Request) ask() {
	if q.Wait {
		q.takeSlots()
	} else if q.delays {
		q.askDelayed()
	} else if len(q.enforced) > 0 {
		q.askEnforced()
	}
	if len(q.Budgets) > 0 && q.Outcome == admission.Allowed {
		q.reserve()
	}
	if q.Wait && q.Outcome == admission.Allowed {
		q.wait()
	}
	if len(q.shadow) > 0 && q.Outcome == admission.Allowed {
		q.askShadowed()
	}
	if !q.Wait && len(q.Slots) > 0 {
		q.takeSlots()
	}
}

// askEnforced asks the limiters that may deny. If the caller has left, it asks nobody.
func (q *Request) askEnforced() {
	if q.isGone() {
		return
	}
	if len(q.enforced) == 1 {
		c := q.enforced[0]
		c.answer(c.Limiter.AllowN(lasting(q.ctx), c.Subject, c.sum))
		q.judge(c.Decision, c.Err)
	} else {
		q.judge(q.askAll(lasting(q.ctx)))
	}
	q.isGone()
}

// lasting returns a context with the deadline and values of ctx that does not end if the caller leaves. What is charged
// is known then, and can be given back.
func lasting(ctx context.Context) context.Context {
	if _, ok := ctx.Deadline(); ok {
		return untilDeadline{ctx}
	}
	return context.WithoutCancel(ctx)
}

type untilDeadline struct{ context.Context }

func (untilDeadline) Done() <-chan struct{} { return nil }
func (untilDeadline) Err() error            { return nil }

// answer notes what a limiter has answered. More permits than the limit are a denial that no wait ends.
func (c *Charge) answer(d loader.Decision, err error) {
	exceeds := errors.Is(err, loader.ErrExceedsLimit)
	if exceeds {
		d.Wait = loader.Never
	}
	c.Decision, c.charged, c.Err, c.Answered = d, d, err, true
	c.Denied = !d.Granted && (err == nil || exceeds)
}

// judge refuses a request that is denied, or about which there is no decision.
func (q *Request) judge(d loader.Decision, err error) {
	switch {
	case q.Shadow: // the decision has the error
	case err != nil:
		q.fail(err)
	case !d.Granted:
		q.deny(d.Wait)
	}
}

// deny refuses a request for which permits come free after a time.
func (q *Request) deny(wait time.Duration) {
	q.Outcome, q.RetryAfter = admission.Denied, wait
	if wait == loader.Never {
		q.RetryAfter = 0
	}
}

// fail refuses a request about which there is no decision.
func (q *Request) fail(err error) {
	switch {
	case q.Shadow:
		q.Err = err
	case errors.Is(err, loader.ErrExceedsLimit):
		q.Outcome, q.Err = admission.Denied, err
	case isMisconfigured(err):
		q.Outcome, q.Err = admission.Misconfigured, err
	case !q.isGone():
		q.Outcome, q.Err = admission.Undecided, err
	}
}

// isGone refuses a request whose caller has left or whose deadline has passed, and reports whether it did.
func (q *Request) isGone() bool {
	err := q.ctx.Err()
	if deadline, ok := q.ctx.Deadline(); err == nil && ok && !time.Now().Before(deadline) {
		err = context.DeadlineExceeded
	}
	if err == nil || q.Shadow {
		return false
	}
	if _, lost := errors.AsType[*loader.SlotLostError](context.Cause(q.ctx)); lost {
		q.Outcome, q.Err = admission.Undecided, context.Cause(q.ctx)
		return true
	}
	q.Outcome = admission.CallerGone
	if err == context.DeadlineExceeded {
		q.Err = err
	}
	return true
}

// collect puts the answers into the result.
func (q *Request) collect() {
	n := len(q.resources)
	for i := range q.Charges {
		c := &q.Charges[i]
		if c.Err != nil && c.Shadow && q.Outcome == admission.Allowed { // it could not be asked
			c.Answered = true
		}
		if c.Answered {
			n++
		}
	}
	if n == 0 {
		return
	}
	q.Decisions = make([]Decision, 0, n)
	for _, shadow := range []bool{false, true} {
		for i := range q.Charges {
			if c := &q.Charges[i]; c.Answered && c.Shadow == shadow {
				q.Decisions = append(q.Decisions, Decision{
					Decision: c.Decision, Policy: c.Name, Subject: c.Subject, Shadow: c.Shadow, Err: c.Err,
				})
			}
		}
	}
	q.Decisions = append(q.Decisions, q.resources...)
	for i := range q.Decisions {
		if d := &q.Decisions[i]; d.Degraded && !d.Shadow && !q.Degraded {
			q.Degraded, q.Cause = true, d.Cause
		}
	}
}

// Finish gives back the charges that do not count by the result of the request, also if its caller has left. The
// loader's observer is told of errors too.
func (q *Request) Finish(ctx context.Context, outcome int) error {
	return q.giveBack(context.WithoutCancel(ctx), func(c *Charge) bool { return c.CountIf != nil && !c.CountIf(outcome) })
}

// withdraw gives back all that a refused request was charged. A Report stays charged.
func (q *Request) withdraw() {
	ctx := context.WithoutCancel(q.ctx)
	_ = q.giveBack(ctx, func(*Charge) bool { return true }) // the loader's observer is told
	settle(taken(&q.mu, &q.reserved), 0)
	for i := range q.Charges {
		if c := &q.Charges[i]; c.Quota && c.Decision.Granted {
			c.Answered = false // what a quota has granted does not show
		}
	}
}

// giveBack gives back the charges that a function chooses, where the limiter can.
func (q *Request) giveBack(ctx context.Context, chosen func(*Charge) bool) error {
	var errs []error
	for i := range q.Charges {
		c, n := &q.Charges[i], int64(0)
		limiter, ok := c.Limiter.(loader.Returner)
		if !ok || !c.charged.Granted || c.Kind != Take {
			continue
		}
		for j := range q.Charges {
			if part := &q.Charges[j]; (part == c || part.in == c) && chosen(part) {
				n += part.N
			}
		}
		if n > 0 {
			_, err := limiter.GiveBack(ctx, c.Subject, c.charged, n)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// IsPending reports whether anything depends on the request's end: what counts by its result, a slot, or a budget.
func (q *Request) IsPending() bool { return q.counts || len(q.slots)+len(q.reserved) > 0 }

// Counts reports whether any charge counts by the request's result.
func (q *Request) Counts() bool { return q.counts }

// Holds reports whether the request holds slots.
func (q *Request) Holds() bool { return len(q.slots) > 0 }

// Release releases the slots and settles the budgets. It may be called several times, also by a request that was
// refused. What fails goes on in the background.
func (q *Request) Release() {
	reserved, slots := taken(&q.mu, &q.reserved), taken(&q.mu, &q.slots)
	if len(reserved) > 0 {
		q.settleUsed(reserved)
	}
	if len(slots) > 0 {
		release(slots)
	}
}

// taken empties a list of what ends once.
func taken[T any](mu *sync.Mutex, list *[]T) []T {
	mu.Lock()
	defer mu.Unlock()
	all := *list
	*list = nil
	return all
}

// isMisconfigured reports whether a request is refused whatever Redis says.
func isMisconfigured(err error) bool {
	_, config := errors.AsType[*configError](err)
	_, argument := errors.AsType[*loader.ArgumentError](err)
	_, peer := errors.AsType[*clientaddr.PeerError](err)
	return config || argument || peer || errors.Is(err, errors.ErrUnsupported)
}
