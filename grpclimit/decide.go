package grpclimit

import (
	"context"

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
	if err := i.checkTogether(charges); err != nil {
		return nil, misconfigured(err)
	}
	return charges, nil
}

// enforce asks limiters, which all grant or none is charged. On a client it waits.
func (a *admission) enforce(asks []ask) *refusal {
	ctx := a.call.ctx
	if a.call.outgoing {
		return a.wait(ctx, asks)
	}
	d, err := a.decide(ctx, asks)
	for n, part := range d.Parts {
		a.granted = append(a.granted, grant{asks[n], part.Decision})
		a.decided(&Decision{Decision: part.Decision, Policy: asks[n].name(), Subject: part.Subject}, nil)
	}
	for _, part := range d.Denied {
		a.decided(&Decision{Decision: part.Decision, Policy: policyOf(part, asks), Subject: part.Subject}, nil)
	}
	switch {
	case len(d.Denied) > 0:
		return denial(a.result.Decisions, d.Wait, nil)
	case err != nil:
		return failure(ctx, err)
	}
	return nil
}

// decide asks one limiter, of which it needs no more than the interface, or several together.
func (i *Interceptor) decide(ctx context.Context, asks []ask) (d loader.AllDecision, err error) {
	if len(asks) > 1 {
		all := i.limits.All()
		for _, a := range asks {
			all.AllowN(a.Limiter, a.subject, a.permits())
		}
		return all.Do(ctx)
	}
	one := asks[0]
	d.Decision, err = one.Limiter.AllowN(ctx, one.subject, one.permits())
	part := []loader.Part{{Limiter: nameOf(one.Limiter), Subject: one.subject, Decision: d.Decision}}
	switch {
	case err != nil:
	case d.Granted:
		d.Parts = part
	default:
		d.Denied = part
	}
	return d, err
}

// policyOf returns the name of the limit that denied.
func policyOf(denied loader.Part, asks []ask) string {
	for _, a := range asks {
		if a.subject == denied.Subject && nameOf(a.Limiter) == denied.Limiter {
			return a.name()
		}
	}
	return denied.Limiter
}

// tryOut asks limiters that deny nothing, each by itself.
func (a *admission) tryOut(asks []ask) {
	if len(asks) == 0 {
		return
	}
	for n, result := range a.decideEach(a.call.ctx, asks) {
		if result.Decision.Granted {
			a.granted = append(a.granted, grant{asks[n], result.Decision})
		}
		d := Decision{Decision: result.Decision, Policy: asks[n].name(), Subject: asks[n].subject, Shadow: true}
		a.decided(&d, result.Err)
	}
}

// decideEach asks limiters in one round trip.
func (i *Interceptor) decideEach(ctx context.Context, asks []ask) []*loader.Result {
	if len(asks) == 1 {
		d, err := asks[0].Limiter.AllowN(ctx, asks[0].subject, asks[0].permits())
		return []*loader.Result{{Decision: d, Err: err}}
	}
	batch := i.limits.Batch()
	results := make([]*loader.Result, len(asks))
	for n, a := range asks {
		results[n] = batch.AllowN(a.Limiter, a.subject, a.permits())
	}
	_, _ = batch.Do(ctx) // each result has its own error
	return results
}
