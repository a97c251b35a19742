package grpclimit

import (
	"errors"

	"github.com/sluice-redis/sluice/loader"
)

// ask is a charge with its subject.
type ask struct {
	Charge
	subject string
}

// asks returns what limiters are asked about a call: those that are enforced, and those in shadow.
func (a *admission) asks() (enforced, shadow []ask, refused *refusal) {
	charges, refused := a.chargesOf(a.call)
	if refused != nil {
		return nil, nil, refused
	}
	if err := a.checkCall(charges); err != nil {
		return nil, nil, misconfigured(err)
	}
	for _, c := range charges {
		subject, choice := c.Key.Subject(a.call)
		switch {
		case subject == "" && (choice == SkipEmpty || c.Shadow):
		case subject == "":
			return nil, nil, noKey()
		case c.Shadow:
			shadow = append(shadow, ask{c, subject})
		default:
			enforced = append(enforced, ask{c, subject})
		}
	}
	return enforced, shadow, nil
}

// chargesOf returns the charges of a call, with what the options say about them.
func (i *Interceptor) chargesOf(call *Call) ([]Charge, *refusal) {
	switch {
	case i.choose != nil:
		return i.chosen(call)
	case i.options.limiter == nil && i.options.cost == nil:
		return i.charges, nil
	}
	charge := i.charges[0]
	if i.options.limiter != nil {
		if charge.Limiter = i.options.limiter(call); charge.Limiter == nil {
			return nil, nil
		}
	}
	if i.options.cost != nil {
		if charge.N = i.options.cost(call); charge.N == 0 {
			return nil, nil
		}
	}
	return []Charge{charge}, nil
}

// chosen returns the charges that the function of PerCall chooses.
func (i *Interceptor) chosen(call *Call) ([]Charge, *refusal) {
	chosen, err := i.choose(call)
	if err != nil {
		return nil, chooseFailure(call.ctx, err)
	}
	charges := append([]Charge(nil), chosen...) // the function may keep its own
	for n := range charges {
		i.options.complete(&charges[n])
	}
	return charges, nil
}

// enforce asks limiters, which all grant or none is charged. On a client it waits.
func (a *admission) enforce(asks []ask) *refusal {
	switch {
	case a.call.outgoing:
		return a.wait(asks)
	case len(asks) == 1:
		return a.enforceOne(asks[0])
	}
	d, err := a.decideAll(asks)
	for n, part := range d.Parts {
		a.granted(asks[n], part.Decision)
		a.decided(asks[n].decision(part.Decision, nil))
	}
	switch {
	case len(d.Denied) > 0:
		return a.denied(asks, d, err)
	case err != nil:
		return failure(a.call.ctx, err)
	}
	return nil
}

// denied is the refusal by the limiters that denied; err is why, if the call costs more than their limits.
func (a *admission) denied(asks []ask, d loader.AllDecision, err error) *refusal {
	denied := make([]Decision, len(d.Denied))
	for n, part := range d.Denied {
		denied[n] = asks[part.Index].decision(part.Decision, nil)
		a.decided(denied[n])
	}
	if !errors.Is(err, loader.ErrExceedsLimit) {
		err = nil // of others
	}
	return denial(denied, d.Wait, err)
}

// enforceOne asks one limiter, of which it needs no more than the interface.
func (a *admission) enforceOne(one ask) *refusal {
	d, err := one.Limiter.AllowN(a.call.ctx, one.subject, one.permits())
	if err != nil && !errors.Is(err, loader.ErrExceedsLimit) {
		return failure(a.call.ctx, err)
	}
	told := one.decision(d, err)
	a.decided(told)
	if !told.Granted {
		return denial([]Decision{told}, told.Wait, err)
	}
	a.granted(one, d)
	return nil
}

// decideAll asks several limiters together.
func (a *admission) decideAll(asks []ask) (loader.AllDecision, error) {
	all := a.limits.All()
	for _, one := range asks {
		all.AllowN(one.Limiter, one.subject, one.permits())
	}
	return all.Do(a.call.ctx)
}

// decision is the answer as the observer is told of it. A cost above the limit is a denial that no wait ends.
func (a ask) decision(d loader.Decision, err error) Decision {
	if errors.Is(err, loader.ErrExceedsLimit) {
		d.Wait, err = loader.Never, nil
	}
	return Decision{Decision: d, Policy: a.name(), Subject: a.subject, Shadow: a.Shadow, Err: err}
}

// tryOut asks limiters that deny nothing, each by itself.
func (a *admission) tryOut(asks []ask) {
	if len(asks) == 0 {
		return
	}
	for n, result := range a.decideEach(asks) {
		a.granted(asks[n], result.Decision)
		a.decided(asks[n].decision(result.Decision, result.Err))
	}
}

// decideEach asks limiters in one round trip.
func (a *admission) decideEach(asks []ask) []*loader.Result {
	if len(asks) == 1 {
		d, err := asks[0].Limiter.AllowN(a.call.ctx, asks[0].subject, asks[0].permits())
		return []*loader.Result{{Decision: d, Err: err}}
	}
	batch := a.limits.Batch()
	results := make([]*loader.Result, len(asks))
	for n, one := range asks {
		results[n] = batch.AllowN(one.Limiter, one.subject, one.permits())
	}
	_, _ = batch.Do(a.call.ctx) // each result has its own error
	return results
}
