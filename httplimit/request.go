package httplimit

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/sluice-redis/sluice/loader"
)

// request is one request on its way through a Middleware. Its steps are:
//
//	decide   plan which charges it has, ask the limiters that are enforced, then those in shadow, then take slots
//	call     call the handler, if all have granted, and give back what does not count
//	refuse   answer in the place of the handler
type request struct {
	*Middleware
	w    http.ResponseWriter
	r    *http.Request
	ctx  context.Context // of the decisions
	done func()          // nil, or hands to the original of r what the handler has added to it

	asked    []asked // those that are enforced first
	enforced int     // how many these are
	slots    held
	result   Result
}

// asked is a charge with its subject, and what its limiter has answered.
type asked struct {
	Charge
	subject  string
	answered bool
	decision loader.Decision
	err      error
}

// answer takes the answer of a limiter.
func (a *asked) answer(d loader.Decision, err error) { a.decision, a.err, a.answered = d, err, true }

func (q *request) serve(next http.Handler) {
	defer func() { q.slots.release() }() // those that it has then
	q.decide()
	q.setHeaders()
	for _, observe := range q.options.observe {
		observe(q.r, q.result)
	}
	if q.result.Outcome == Allowed {
		q.call(next)
		return
	}
	q.refuse(q.w, q.r, q.result)
}

// refuse writes a refusal as the option Refuse says.
func (m *Middleware) refuse(w http.ResponseWriter, r *http.Request, result Result) {
	if m.options.refuse != nil {
		m.options.refuse(w, r, result)
		return
	}
	WriteProblem(w, r, result)
}

// decide makes the result. What was charged before a refusal is given back.
func (q *request) decide() {
	q.ctx = undisturbed{q.r.Context()}
	if q.plan(); q.goesOn() {
		q.askEnforced()
	}
	if q.goesOn() {
		q.askShadowed()
	}
	if q.goesOn() {
		q.takeSlots()
	}
	q.result.Status = q.result.Outcome.status()
	if !q.goesOn() {
		q.giveBack(func(Charge) bool { return true })
	}
	q.collect()
}

// undisturbed is the context of a request, with its deadline and values, but does not end if the client leaves. What is
// charged is known then, and can be given back.
type undisturbed struct{ context.Context }

func (undisturbed) Done() <-chan struct{} { return nil }
func (undisturbed) Err() error            { return nil }

// goesOn reports whether nothing refuses the request so far.
func (q *request) goesOn() bool { return q.result.Outcome == Allowed }

// plan finds the charges of the request and their subjects.
func (q *request) plan() {
	charges, err := q.chargesOf(q.r)
	if err != nil {
		q.failed(err)
		return
	}
	q.asked = make([]asked, 0, len(charges))
	for _, shadow := range []bool{false, true} {
		for i := range charges {
			if c := &charges[i]; c.Shadow == shadow {
				q.add(c)
			}
		}
		if !shadow {
			q.enforced = len(q.asked)
		}
	}
}

// add adds a charge, if the request has a subject for it.
func (q *request) add(c *Charge) {
	switch subject, choice := c.Key.Subject(q.r); {
	case choice == ShareEmpty:
		q.asked = append(q.asked, asked{Charge: *c, subject: subject})
	case choice == RefuseEmpty && !c.Shadow:
		q.result.Outcome = NoKey
	}
}

// chargesOf returns the charges of a request.
func (m *Middleware) chargesOf(r *http.Request) ([]Charge, error) {
	if m.err != nil {
		return nil, asConfigError(m.err)
	}
	if m.choose == nil {
		charges, err := m.options.adapt(m.charges, r)
		return charges, asConfigError(err)
	}
	chosen, err := m.choose(r)
	if err != nil {
		return nil, err
	}
	charges := slices.Clone(chosen) // the function may return the same ones again
	for i := range charges {
		m.options.complete(&charges[i])
		if err := charges[i].checkUse(); err != nil {
			return nil, asConfigError(err)
		}
	}
	return charges, nil
}

// configError is an error that Check returns, or would return for the charges of a request.
type configError struct{ error }

func (e *configError) Unwrap() error { return e.error }

func asConfigError(err error) error {
	if err == nil {
		return nil
	}
	return &configError{err}
}

// isMisconfigured reports whether a request is refused whatever Redis says.
func isMisconfigured(err error) bool {
	_, config := errors.AsType[*configError](err)
	_, argument := errors.AsType[*loader.ArgumentError](err)
	return config || argument || errors.Is(err, errors.ErrUnsupported)
}

// askEnforced asks the limiters that may deny. If the client has left, the request is refused without asking.
func (q *request) askEnforced() {
	switch enforced := q.asked[:q.enforced]; {
	case len(enforced) == 0 || q.clientLeft():
		return
	case len(enforced) == 1:
		q.askOne(&enforced[0])
	default:
		q.askAll(enforced)
	}
	q.clientLeft()
}

// clientLeft reports whether the client has left. A request that goes on is refused then.
func (q *request) clientLeft() bool {
	left := errors.Is(q.r.Context().Err(), context.Canceled)
	if left && q.goesOn() {
		q.result.Outcome = ClientGone
	}
	return left
}

func (q *request) askOne(a *asked) {
	a.answer(a.Limiter.AllowN(q.ctx, a.subject, a.permits()))
	switch {
	case a.err != nil:
		q.failed(a.err)
	case !a.decision.Granted:
		q.deny(a.decision)
	}
}

// askAll asks several limiters, all or none.
func (q *request) askAll(enforced []asked) {
	all := q.limits.All()
	for i := range enforced {
		all.AllowN(enforced[i].Limiter, enforced[i].subject, enforced[i].permits())
	}
	d, err := all.Do(q.ctx)
	switch {
	case d.Granted:
		for i := range d.Parts {
			enforced[i].answer(d.Parts[i].Decision, nil)
		}
	case errors.Is(err, loader.ErrExceedsLimit):
		takeDenied(enforced, d.Denied, err)
		q.failed(err)
	case len(d.Denied) > 0:
		takeDenied(enforced, d.Denied, nil)
		q.deny(d.Decision)
	default:
		q.failed(err)
	}
}

// takeDenied answers the charges that were denied; err is why, if they cost more than their limits.
func takeDenied(enforced []asked, parts []loader.Part, err error) {
	for _, part := range parts {
		enforced[part.Index].answer(part.Decision, err)
	}
}

// askShadowed asks the limiters that may not deny, each by itself.
func (q *request) askShadowed() {
	shadowed := q.asked[q.enforced:]
	switch len(shadowed) {
	case 0:
		return
	case 1:
		a := &shadowed[0]
		a.answer(a.Limiter.AllowN(q.ctx, a.subject, a.permits()))
		return
	}
	batch := q.limits.Batch()
	results := make([]*loader.Result, len(shadowed))
	for i := range shadowed {
		results[i] = batch.AllowN(shadowed[i].Limiter, shadowed[i].subject, shadowed[i].permits())
	}
	_, _ = batch.Do(q.ctx) // the results have the errors
	for i, result := range results {
		shadowed[i].answer(result.Decision, result.Err)
	}
}

// deny refuses the request because of a denial.
func (q *request) deny(d loader.Decision) {
	q.result.Outcome = Denied
	if d.Wait != loader.Never {
		q.result.RetryAfter = seconds(d.Wait + q.options.jitterTime())
	}
}

// failed refuses the request because there is no decision.
func (q *request) failed(err error) {
	q.result.Err = err
	switch {
	case q.options.shadow && q.Middleware.err == nil: // it never refuses
	case errors.Is(err, loader.ErrExceedsLimit):
		q.result.Outcome = Denied // and no time to wait for
	case isMisconfigured(err):
		q.result.Outcome = Misconfigured
		q.complain(err)
	case errors.Is(q.r.Context().Err(), context.Canceled):
		q.result.Outcome, q.result.Err = ClientGone, nil
	default:
		q.result.Outcome = Undecided
	}
}

// collect puts the answers into the result, before those of the slots.
func (q *request) collect() {
	slots := q.result.Decisions
	q.result.Decisions = make([]Decision, 0, len(q.asked)+len(slots))
	for i := range q.asked {
		if a := &q.asked[i]; a.answered {
			q.result.Decisions = append(q.result.Decisions, Decision{
				Decision: a.decision, Policy: a.policy(), Subject: a.subject, Shadow: a.Shadow, Err: a.err,
			})
		}
	}
	q.result.Decisions = append(q.result.Decisions, slots...)
	for i := range q.result.Decisions {
		if d := &q.result.Decisions[i]; d.Degraded && !q.result.Degraded {
			q.result.Degraded, q.result.Cause = true, d.Cause
		}
	}
}

// giveBack gives back the charges that a function chooses, where the limiter can.
func (q *request) giveBack(chosen func(Charge) bool) {
	ctx := context.WithoutCancel(q.r.Context())
	for i := range q.asked {
		a := &q.asked[i]
		limiter, ok := a.Limiter.(loader.Returner)
		if ok && a.decision.Granted && chosen(a.Charge) {
			_, _ = limiter.GiveBack(ctx, a.subject, a.decision, a.decision.Permits) // the loader's observer is told
		}
	}
}
