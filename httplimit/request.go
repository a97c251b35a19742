package httplimit

import (
	"context"
	"errors"
	"net/http"

	"github.com/sluice-redis/sluice/loader"
)

// request is one request on its way through a Middleware. Its steps are:
//
//	plan     which charges it has, with their subjects
//	decide   asks the limiters: those that are enforced, then those in shadow, then for slots
//	serve    calls the handler, or refuses
//	settle   gives back what does not count
type request struct {
	*Middleware
	w http.ResponseWriter
	r *http.Request

	enforced []asked
	shadowed []asked
	held     []*loader.Slot
	result   Result
}

// asked is a charge with its subject, and what its limiter has answered.
type asked struct {
	Charge
	subject  string
	decision loader.Decision
	err      error
}

func (q *request) serve(next http.Handler) {
	q.decide()
	q.result.Status = q.result.Outcome.status()
	q.setHeaders()
	if q.options.observe != nil {
		q.options.observe(q.r, q.result)
	}
	if q.result.Outcome != Allowed {
		q.refuse()
		return
	}
	q.call(next)
}

// refuse answers in the place of the handler.
func (q *request) refuse() {
	refuse := q.options.refuse
	if refuse == nil {
		refuse = WriteProblem
	}
	refuse(q.w, q.r, q.result)
}

// decide makes the result.
func (q *request) decide() {
	if q.err != nil {
		q.fail(Misconfigured, q.err)
		return
	}
	for _, step := range []func(){q.plan, q.askEnforced, q.askShadowed, q.takeSlots} {
		if step(); q.result.Outcome != Allowed {
			break
		}
	}
	if q.result.Outcome != Allowed {
		q.giveBack(func(Charge) bool { return true })
	}
	q.collect()
}

// plan finds the charges of the request and their subjects.
func (q *request) plan() {
	charges, err := q.chargesOf(q.r)
	if err != nil {
		q.fail(Undecided, err)
		return
	}
	for _, c := range charges {
		subject, choice := c.Key.Subject(q.r)
		switch {
		case choice == SkipEmpty:
		case choice == RefuseEmpty && !c.Shadow:
			q.fail(NoKey, nil)
			return
		case choice == RefuseEmpty:
		case c.Shadow:
			q.shadowed = append(q.shadowed, asked{Charge: c, subject: subject})
		default:
			q.enforced = append(q.enforced, asked{Charge: c, subject: subject})
		}
	}
}

// chargesOf returns the charges of a request.
func (m *Middleware) chargesOf(r *http.Request) ([]Charge, error) {
	if m.choose == nil {
		return m.options.adapt(m.charges, r), nil
	}
	charges, err := m.choose(r)
	for i := range charges {
		m.options.complete(&charges[i])
		err = errors.Join(err, charges[i].check())
	}
	return charges, err
}

// askEnforced asks the limiters that may deny.
func (q *request) askEnforced() {
	switch len(q.enforced) {
	case 0:
	case 1:
		q.askOne(&q.enforced[0])
	default:
		q.askAll()
	}
}

func (q *request) askOne(a *asked) {
	if a.decision, a.err = ask(q.r.Context(), a); a.err != nil {
		q.failed(a.err)
	} else if !a.decision.Granted {
		q.deny(a.decision)
	}
}

// ask asks one limiter. More permits than could ever be granted are a denial that waiting does not end.
func ask(ctx context.Context, a *asked) (loader.Decision, error) {
	d, err := a.Limiter.AllowN(ctx, a.subject, a.permits())
	if errors.Is(err, loader.ErrExceedsLimit) {
		return loader.Decision{Wait: loader.Never}, nil
	}
	return d, err
}

// askAll asks several limiters, all or none.
func (q *request) askAll() {
	all := q.limits.All()
	for _, a := range q.enforced {
		all.AllowN(a.Limiter, a.subject, a.permits())
	}
	d, err := all.Do(q.r.Context())
	switch {
	case d.Granted:
		for i := range d.Parts {
			q.enforced[i].decision = d.Parts[i].Decision
		}
	case len(d.Denied) > 0:
		q.takeDenied(d.Denied)
		q.deny(d.Decision)
	case err != nil:
		q.failed(err)
	}
}

// takeDenied keeps the charges that were denied, with their decisions.
func (q *request) takeDenied(parts []loader.Part) {
	var denied []asked
	for _, a := range q.enforced {
		for _, part := range parts {
			if part.Subject == a.subject && part.Limiter == nameOf(a.Limiter) {
				a.decision = part.Decision
				denied = append(denied, a)
				break
			}
		}
	}
	q.enforced = denied
}

// askShadowed asks the limiters that may not deny, each by itself.
func (q *request) askShadowed() {
	switch len(q.shadowed) {
	case 0:
		return
	case 1:
		a := &q.shadowed[0]
		a.decision, a.err = ask(q.r.Context(), a)
		return
	}
	batch := q.limits.Batch()
	results := make([]*loader.Result, len(q.shadowed))
	for i, a := range q.shadowed {
		results[i] = batch.AllowN(a.Limiter, a.subject, a.permits())
	}
	_, _ = batch.Do(q.r.Context()) // the results have the errors
	for i, result := range results {
		q.shadowed[i].decision, q.shadowed[i].err = result.Decision, result.Err
	}
}

// deny makes a denial of the request.
func (q *request) deny(d loader.Decision) {
	q.result.Outcome = Denied
	if d.Wait != loader.Never {
		q.result.RetryAfter = q.retryAfter(d.Wait)
	}
}

// failed refuses a request because a limiter failed.
func (q *request) failed(err error) {
	_, wrong := errors.AsType[*loader.ArgumentError](err)
	switch {
	case errors.Is(q.r.Context().Err(), context.Canceled):
		q.fail(ClientGone, nil)
	case wrong:
		q.fail(Misconfigured, err)
	default:
		q.fail(Undecided, err)
	}
}

func (q *request) fail(outcome Outcome, err error) { q.result.Outcome, q.result.Err = outcome, err }

// collect puts the answers into the result.
func (q *request) collect() {
	for _, list := range [][]asked{q.enforced, q.shadowed} {
		for _, a := range list {
			if a.decision.Limit == (loader.Limit{}) && a.err == nil && !a.decision.Granted && a.decision.Wait == 0 {
				continue // it was not asked
			}
			q.result.Decisions = append(q.result.Decisions, Decision{
				Decision: a.decision, Policy: a.policy(), Subject: a.subject, Shadow: a.Shadow, Err: a.err,
			})
			if a.decision.Degraded && !q.result.Degraded {
				q.result.Degraded, q.result.Cause = true, a.decision.Cause
			}
		}
	}
}

// giveBack gives back the charges that a function chooses, where the limiter can.
func (q *request) giveBack(chosen func(Charge) bool) {
	ctx := context.WithoutCancel(q.r.Context())
	for _, list := range [][]asked{q.enforced, q.shadowed} {
		for _, a := range list {
			if limiter, ok := a.Limiter.(loader.Returner); ok && a.decision.Granted && chosen(a.Charge) {
				_, _ = limiter.GiveBack(ctx, a.subject, a.decision, a.decision.Permits) // the observer knows
			}
		}
	}
}
