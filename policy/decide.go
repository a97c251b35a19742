package policy

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-redis/sluice/loader"
)

// Decision is the answer of the policies that match a call.
type Decision struct {
	// Decision is that of the policy that decided: of a denial the one with the longest Wait, of a grant the one with the
	// fewest permits remaining. If no policy matched, it is Granted and nothing else.
	loader.Decision

	// Policy is the name of that policy; "" if none matched.
	Policy string

	// Refused is true if Policy denied because the key is empty, and the file says `empty: refuse`. Nothing was asked.
	Refused bool

	// Policies is the decisions of all policies that were asked, those in shadow last, otherwise in the file's order. If
	// several were asked together and one denied, only those that denied are in it.
	Policies []PolicyDecision

	call    *Call
	charges []charged
}

// PolicyDecision is the decision of one policy.
type PolicyDecision struct {
	loader.Decision
	Policy  string
	Subject string
	Shadow  bool  // it was not enforced
	Err     error // why a policy in shadow has no decision
}

// charged is what a policy was charged, for Finish.
type charged struct {
	Charge
	decision loader.Decision
}

// Decide asks the policies that match, all or none, and charges them for one call. Use it where there is no HTTP and no
// gRPC: in a worker, for messages. It returns an error if there is no decision: an *AttributeError, or what a limiter
// returns that fails closed. If a policy has a `count`, call Finish when the result is known.
//
// Cost: a microsecond for each expression, and one round trip; another one if policies are in shadow.
func (p *Policies) Decide(ctx context.Context, a Attributes) (Decision, error) {
	call := p.Begin(a)
	d, err := call.decide(ctx)
	if p.observe != nil {
		p.observe(ctx, d, err)
	}
	return d, err
}

func (c *Call) decide(ctx context.Context) (Decision, error) {
	if c.err != nil {
		return Decision{}, c.err
	}
	if _, refused := c.refused(); refused {
		return c.decision(false, nil), nil
	}
	all := Decision{call: c}
	granted, err := all.enforce(ctx, c.enforced)
	if err != nil {
		return Decision{}, err
	}
	if granted {
		all.try(ctx, c.shadow)
	}
	d := c.decision(granted, all.Policies)
	d.call, d.charges = c, all.charges
	return d, nil
}

// enforce asks the policies that may deny.
func (d *Decision) enforce(ctx context.Context, charges []Charge) (granted bool, err error) {
	switch len(charges) {
	case 0:
		return true, nil
	case 1:
		one, err := charges[0].Limiter.AllowN(ctx, charges[0].Subject, charges[0].Cost)
		if err != nil && !errors.Is(err, loader.ErrExceedsLimit) {
			return false, fmt.Errorf("policy: %s: %w", charges[0].Name, err)
		}
		d.add(charges[0], one, err)
		return one.Granted, nil
	}
	all := d.call.policies.limits.All()
	for _, c := range charges {
		all.AllowN(c.Limiter, c.Subject, c.Cost)
	}
	together, err := all.Do(ctx)
	if err != nil && len(together.Denied) == 0 {
		return false, fmt.Errorf("policy: %w", err)
	}
	for i, part := range together.Parts {
		d.add(charges[i], part.Decision, nil)
	}
	d.addDenied(charges, together.Denied)
	return together.Granted, nil
}

// addDenied adds the denials in the file's order.
func (d *Decision) addDenied(charges []Charge, denied []loader.Part) {
	for _, c := range charges {
		for _, part := range denied {
			if part.Limiter == c.Name {
				d.add(c, part.Decision, nil)
			}
		}
	}
}

// try asks the policies that only report, each by itself.
func (d *Decision) try(ctx context.Context, charges []Charge) {
	if len(charges) == 0 {
		return
	}
	batch := d.call.policies.limits.Batch()
	results := make([]*loader.Result, len(charges))
	for i, c := range charges {
		results[i] = batch.AllowN(c.Limiter, c.Subject, c.Cost)
	}
	_, _ = batch.Do(ctx) // the results have the errors
	for i, c := range charges {
		d.add(c, results[i].Decision, results[i].Err)
	}
}

// add adds the decision of one policy. More permits than could ever be granted are a denial that waiting does not end.
func (d *Decision) add(c Charge, one loader.Decision, err error) {
	if errors.Is(err, loader.ErrExceedsLimit) {
		one.Wait, err = loader.Never, nil
	}
	d.Policies = append(d.Policies, PolicyDecision{
		Decision: one, Policy: c.Name, Subject: c.Subject, Shadow: c.Mode == Shadow, Err: err,
	})
	if c.count != nil && one.Granted && one.Key != "" {
		d.charges = append(d.charges, charged{c, one})
	}
}

// choose sets the decision of the policy that decided, and marks it if any limiter's policy for failures did.
func (d *Decision) choose() {
	decided := -1
	for i, one := range d.Policies {
		switch {
		case one.Shadow || one.Granted != d.Granted:
		case decided < 0, d.Granted && one.Remaining < d.Policies[decided].Remaining,
			!d.Granted && one.Wait > d.Policies[decided].Wait:
			decided = i
		}
	}
	if decided < 0 {
		return
	}
	d.Decision, d.Policy = d.Policies[decided].Decision, d.Policies[decided].Policy
	for _, one := range d.Policies {
		if one.Degraded && !one.Shadow && !d.Degraded {
			d.Degraded, d.Cause = true, one.Cause
		}
	}
}

// Finish says how a call that was granted has ended, as an HTTP status, and gives back what the `count` of a policy
// does not charge. Without it everything stays charged. It does nothing for a denial. Do not call it twice. Give it
// context.WithoutCancel of a request's context.
//
// Cost: a round trip for each policy that gives back.
func (d Decision) Finish(ctx context.Context, status int) error {
	var errs []error
	for _, c := range d.charges {
		limiter, ok := c.Limiter.(loader.Returner)
		if !ok || !d.Granted || d.call.Counts(c.Charge)(status) {
			continue
		}
		if _, err := limiter.GiveBack(ctx, c.Subject, c.decision, c.decision.Permits); err != nil {
			errs = append(errs, fmt.Errorf("policy: %s: %w", c.Name, err))
		}
	}
	return errors.Join(errs...)
}
