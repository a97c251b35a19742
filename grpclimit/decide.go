package grpclimit

import (
	"errors"
	"slices"

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
	var denied []Decision
	for _, part := range d.Denied {
		denied = append(denied, askOf(part, asks).decision(part.Decision, nil))
		a.decided(denied[len(denied)-1])
	}
	switch {
	case len(denied) > 0:
		return denial(denied, d.Wait, nil)
	case err != nil:
		return a.undecided(asks, err)
	}
	return nil
}

// enforceOne asks one limiter, of which it needs no more than the interface.
func (a *admission) enforceOne(one ask) *refusal {
	d, err := one.Limiter.AllowN(a.call.ctx, one.subject, one.permits())
	if err != nil {
		return a.undecided([]ask{one}, err)
	}
	a.decided(one.decision(d, nil))
	if !d.Granted {
		return denial([]Decision{one.decision(d, nil)}, d.Wait, nil)
	}
	a.granted(one, d)
	return nil
}

// undecided is the refusal after an error of limiters. A cost above limits is a denial by these, which no wait ends.
func (a *admission) undecided(asks []ask, err error) *refusal {
	if a.call.ctx.Err() != nil || !errors.Is(err, loader.ErrExceedsLimit) {
		return failure(a.call.ctx, err)
	}
	var denied []Decision
	for _, one := range asks {
		if len(asks) == 1 || a.exceeds(one) {
			d := one.decision(loader.Decision{Wait: loader.Never}, nil)
			a.decided(d)
			denied = append(denied, d)
		}
	}
	return denial(denied, loader.Never, err)
}

// exceeds reports whether a charge is more than its limit. Nothing is sent.
func (a *admission) exceeds(one ask) bool {
	all := a.limits.All()
	all.AllowN(one.Limiter, one.subject, one.permits())
	return errors.Is(all.Check(), loader.ErrExceedsLimit)
}

// decideAll asks several limiters together.
func (a *admission) decideAll(asks []ask) (loader.AllDecision, error) {
	all := a.limits.All()
	for _, one := range asks {
		all.AllowN(one.Limiter, one.subject, one.permits())
	}
	return all.Do(a.call.ctx)
}

// askOf returns the ask that a part of the answer belongs to.
func askOf(part loader.Part, asks []ask) ask {
	i := slices.IndexFunc(asks, func(a ask) bool {
		return a.subject == part.Subject && nameOf(a.Limiter) == part.Limiter
	})
	return asks[max(i, 0)]
}

// decision is the answer as the observer is told of it.
func (a ask) decision(d loader.Decision, err error) Decision {
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
