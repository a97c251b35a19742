package admit

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// Request is what is asked about a request. O is the type of its result: a status.
type Request[O any] struct {
	Limits  *loader.Loader // of several Asks
	Asks    []Ask[O]
	Budgets []Estimate
	Slots   []Hold
	Shadow  bool // nothing refuses it
	Wait    bool // wait for slots and permits
}

// Ask asks a limiter for N permits about a subject.
type Ask[O any] struct {
	Limiter loader.Limiter
	Subject string
	N       int64
	Name    string       // for Decision.Policy
	CountIf func(O) bool // nil: it always counts
	Shadow  bool
}

// Estimate asks a budget for a reservation.
type Estimate struct {
	Budget  loader.Budget
	Subject string
	N       int64
}

// Hold asks a concurrency limiter for a slot.
type Hold struct {
	Limiter loader.Concurrency
	Subject string
}

// Admission is the way of one request: Decide, then Finish if it went on, and Release in any case.
type Admission[O any] struct {
	Result
	request  Request[O]
	ctx      context.Context
	asked    []asked[O] // those that are enforced first
	enforced int        // how many these are
	others   []Decision // of budgets and slots

	mu       sync.Mutex // of what Release ends: a stream may end in several ways at once
	reserved []reservation
	slots    []*loader.Slot
}

// asked is what a limiter is asked about one subject, and its answer.
type asked[O any] struct {
	Ask[O]
	more     []Ask[O] // further charges, whose N is in that of Ask
	first    int64    // N without them
	answered bool
	decision loader.Decision
	err      error
}

func (q *asked[O]) answer(d loader.Decision, err error) {
	if errors.Is(err, loader.ErrExceedsLimit) {
		d.Wait = loader.Never
	}
	q.decision, q.err, q.answered = d, err, true
}

// Context is the context of a request that goes on. It ends if a slot is lost.
func (a *Admission[O]) Context() context.Context { return a.ctx }

// Decide asks about a request. What was charged before a refusal is given back.
func (a *Admission[O]) Decide(ctx context.Context, q Request[O]) {
	a.ctx, a.request = ctx, q
	a.asked = make([]asked[O], 0, len(q.Asks))
	a.add(false)
	a.enforced = len(a.asked)
	a.add(true)
	if q.Wait {
		a.run(a.takeSlots, a.reserve, a.wait, a.askShadowed)
	} else {
		a.run(a.askEnforced, a.reserve, a.askShadowed, a.takeSlots)
	}
	if a.Outcome != Allowed {
		_ = a.giveBack(context.WithoutCancel(ctx), func(Ask[O]) bool { return true })
		a.settle(func() (int64, bool) { return 0, true })
	}
	a.collect()
}

func (a *Admission[O]) run(steps ...func()) {
	for _, step := range steps {
		if a.Outcome == Allowed {
			step()
		}
	}
}

// add adds the charges that are in shadow, or those that are not, as one for each limiter and subject.
func (a *Admission[O]) add(shadow bool) {
	from := len(a.asked)
	for _, ask := range a.request.Asks {
		if ask.Shadow != shadow {
			continue
		}
		if i := slices.IndexFunc(a.asked[from:], ask.sameAs); i >= 0 {
			q := &a.asked[from+i]
			q.N, q.more = q.N+ask.N, append(q.more, ask)
			continue
		}
		a.asked = append(a.asked, asked[O]{Ask: ask, first: ask.N})
	}
}

// sameAs reports whether q asks the same limiter about the same subject.
func (ask Ask[O]) sameAs(q asked[O]) bool {
	return ask.Subject == q.Subject && ask.N > 0 && q.N > 0 && reflect.DeepEqual(ask.Limiter, q.Limiter)
}

// kept is a context with the deadline and values of another one, that does not end if the caller leaves. What is
// charged is known then, and can be given back.
type kept struct{ context.Context }

func (kept) Done() <-chan struct{} { return nil }
func (kept) Err() error            { return nil }

// askEnforced asks the limiters that may deny. If the caller has left, it asks nobody.
func (a *Admission[O]) askEnforced() {
	switch enforced := a.asked[:a.enforced]; {
	case len(enforced) == 0 || a.gone():
		return
	case len(enforced) == 1:
		q := &enforced[0]
		q.answer(q.Limiter.AllowN(kept{a.ctx}, q.Subject, q.N))
		a.judge(q.decision, q.err)
	default:
		a.judge(a.askAll(kept{a.ctx}))
	}
	a.gone()
}

// askAll asks the limiters that may deny, all or none.
func (a *Admission[O]) askAll(ctx context.Context) (loader.Decision, error) {
	all, enforced := a.request.Limits.All(), a.asked[:a.enforced]
	for i := range enforced {
		enforced[i].answered = false // of an earlier round
		limiter, err := returner(enforced[i].Limiter)
		if err != nil {
			return loader.Decision{}, err
		}
		all.AllowN(limiter, enforced[i].Subject, enforced[i].N)
	}
	d, err := all.Do(ctx)
	if !errors.Is(err, loader.ErrExceedsLimit) && len(d.Denied) > 0 {
		err = nil // a denial is one, whatever else failed
	}
	for _, part := range append(d.Parts, d.Denied...) {
		enforced[part.Index].answer(part.Decision, err)
	}
	return d.Decision, err
}

// askShadowed asks the limiters that may not deny, each by itself.
func (a *Admission[O]) askShadowed() {
	shadowed := a.asked[a.enforced:]
	if len(shadowed) == 1 {
		q := &shadowed[0]
		q.answer(q.Limiter.AllowN(kept{a.ctx}, q.Subject, q.N))
		return
	}
	if len(shadowed) == 0 {
		return
	}
	batch := a.request.Limits.Batch()
	results := make([]*loader.Result, len(shadowed))
	for i := range shadowed {
		results[i] = batch.AllowN(shadowed[i].Limiter, shadowed[i].Subject, shadowed[i].N)
	}
	_, _ = batch.Do(kept{a.ctx}) // the results have the errors
	for i, result := range results {
		shadowed[i].answer(result.Decision, result.Err)
	}
}

// slotRetry is the time to wait of a request that got no slot: nobody knows when one comes free.
const slotRetry = time.Second

// takeSlots takes the slots of a request.
func (a *Admission[O]) takeSlots() {
	for _, hold := range a.request.Slots {
		if a.takeSlot(hold); a.Outcome != Allowed {
			return
		}
	}
}

func (a *Admission[O]) takeSlot(hold Hold) {
	if a.request.Wait && !a.request.Shadow {
		a.waitForSlot(hold)
		return
	}
	slot, d, err := hold.Limiter.TryAcquire(a.ctx, hold.Subject)
	a.note(Decision{Decision: d, Policy: NameOf(hold.Limiter), Subject: hold.Subject, Slot: true, Err: err})
	if slot != nil {
		a.hold(slot)
		return
	}
	if d.Wait != loader.Never {
		d.Wait = slotRetry
	}
	a.judge(d, err)
}

func (a *Admission[O]) hold(slot *loader.Slot) {
	a.slots = append(a.slots, slot)
	a.ctx = slot.Context()
}

// note adds the decision of a budget or for a slot.
func (a *Admission[O]) note(d Decision) {
	d.Shadow = a.request.Shadow
	a.others = append(a.others, d)
}

// judge refuses a request that is denied, or about which there is no decision.
func (a *Admission[O]) judge(d loader.Decision, err error) {
	switch {
	case a.request.Shadow: // the decision has the error
	case err != nil:
		a.fail(err)
	case !d.Granted:
		if a.Outcome = Denied; d.Wait != loader.Never {
			a.RetryAfter = d.Wait
		}
	}
}

// fail refuses a request about which there is no decision.
func (a *Admission[O]) fail(err error) {
	switch {
	case a.request.Shadow:
		a.Err = err
	case errors.Is(err, loader.ErrExceedsLimit):
		a.Outcome, a.Err = Denied, err
	case isMisconfigured(err):
		a.Outcome, a.Err = Misconfigured, err
	case !a.gone():
		a.Outcome, a.Err = Undecided, err
	}
}

// gone refuses a request whose caller has left or whose deadline has passed, and reports whether it did.
func (a *Admission[O]) gone() bool {
	err := a.ctx.Err()
	if deadline, ok := a.ctx.Deadline(); err == nil && ok && !time.Now().Before(deadline) {
		err = context.DeadlineExceeded
	}
	if err == nil || a.request.Shadow {
		return false
	}
	if _, lost := errors.AsType[*loader.SlotLostError](context.Cause(a.ctx)); lost {
		a.Outcome, a.Err = Undecided, context.Cause(a.ctx)
		return true
	}
	if a.Outcome = CallerGone; err == context.DeadlineExceeded {
		a.Err = err
	}
	return true
}

// collect puts the answers into the result.
func (a *Admission[O]) collect() {
	if n := len(a.asked) + len(a.others); n > 0 {
		a.Decisions = make([]Decision, 0, n)
	}
	for i := range a.asked {
		if q := &a.asked[i]; q.answered {
			a.Decisions = append(a.Decisions, Decision{
				Decision: q.decision, Policy: q.Name, Subject: q.Subject, Shadow: q.Shadow, Err: q.err,
			})
		}
	}
	a.Decisions = append(a.Decisions, a.others...)
	for i := range a.Decisions {
		if d := &a.Decisions[i]; d.Degraded && !d.Shadow && !a.Degraded {
			a.Degraded, a.Cause = true, d.Cause
		}
	}
}

// Finish gives back the charges that do not count by the result of the request; ctx does not end with its caller. The
// loader's observer is told of errors too.
func (a *Admission[O]) Finish(ctx context.Context, outcome O) error {
	return a.giveBack(ctx, func(ask Ask[O]) bool { return ask.CountIf != nil && !ask.CountIf(outcome) })
}

// giveBack gives back the charges that a function chooses, where the limiter can.
func (a *Admission[O]) giveBack(ctx context.Context, chosen func(Ask[O]) bool) error {
	var errs []error
	for i := range a.asked {
		q, n := &a.asked[i], int64(0)
		limiter, ok := q.Limiter.(loader.Returner)
		if !ok || !q.decision.Granted {
			continue
		}
		if chosen(q.Ask) {
			n += q.first
		}
		for _, ask := range q.more {
			if chosen(ask) {
				n += ask.N
			}
		}
		if n > 0 {
			_, err := limiter.GiveBack(ctx, q.Subject, q.decision, n)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Holds reports whether the request holds slots.
func (a *Admission[O]) Holds() bool { return len(a.slots) > 0 }

// Counts reports whether any charge has a CountIf.
func (a *Admission[O]) Counts() bool {
	return slices.ContainsFunc(a.request.Asks, func(ask Ask[O]) bool { return ask.CountIf != nil })
}

// Release releases the slots and settles the budgets. It may be called several times, also by a request that was
// refused. What fails goes on in the background.
func (a *Admission[O]) Release() {
	a.settle(a.said)
	a.TakeOver()()
}

// TakeOver returns the release of the slots, which then outlive the request.
func (a *Admission[O]) TakeOver() (release func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	slots := a.slots
	a.slots = nil
	return func() {
		for _, slot := range slots {
			_ = slot.Release() // it tries again in the background
		}
	}
}

// NameOf returns the name of a limiter, "default" if it is empty.
func NameOf(limiter interface{ Name() string }) string { return cmp.Or(limiter.Name(), "default") }
