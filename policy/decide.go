package policy

import (
	"cmp"
	"context"
	"fmt"

	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/loader"
)

// Decision is the answer of the policies that match a call.
type Decision struct {
	// Decision of the policy that decided: of several denials the one with the longest Wait, of grants the one with
	// the fewest permits remaining. If no policy matched, it is Granted and nothing else.
	loader.Decision

	// Policy is the name of that policy; "" if none matched.
	Policy string

	// Refused is true if Policy denied because the key is empty, and the file says `empty: refuse`. Nothing was asked.
	Refused bool

	// Policies is the decisions of all policies that were asked, those in shadow last, otherwise in the file's order.
	// If several were asked together and one denied, only the denials are in it.
	Policies []PolicyDecision

	admission *admit.Admission[int] // for Finish
}

// PolicyDecision is the decision of one policy. It has the fields of loader.Decision, and:
//
//	Policy   string
//	Subject  string
//	Shadow   bool    it was not enforced
//	Err      error   why a policy in shadow has no decision; loader.ErrExceedsLimit if one denied because of the cost
//
// Denies() reports whether the policy denied: not if it could not be applied.
type PolicyDecision = admit.Decision

// Decide asks the policies that match, all or none, and charges them for one call. Use it where there is no HTTP and no
// gRPC: in a worker, for messages. It returns an error if there is no decision: an *AttributeError, or what a limiter
// returns that fails closed. If a policy has a `count`, call Finish when the result is known.
//
// Cost: a microsecond for each expression, and one round trip; another one if policies are in shadow.
func (p *Policies) Decide(ctx context.Context, a Attributes) (Decision, error) {
	c := p.begin(p.current.Load(), a)
	d, err := c.decide(ctx)
	p.observed(ctx, d, err)
	return d, err
}

func (c *call) decide(ctx context.Context) (Decision, error) {
	if c.err != nil {
		return Decision{}, c.err
	}
	if _, refused := c.refused(); refused {
		return c.decision(admit.Result{Outcome: admit.NoKey}), nil
	}
	request := admit.Request[int]{Limits: c.policies.limits}
	for _, l := range c.matches {
		m := l.Match
		request.Asks = append(request.Asks, admit.Ask[int]{
			Limiter: l.Limiter, Subject: m.Subject, N: m.Cost, Name: m.Policy.Name, CountIf: c.counts(m),
			Shadow: m.Policy.Mode == Shadow,
		})
	}
	var admission admit.Admission[int]
	admission.Decide(ctx, request)
	switch admission.Outcome {
	case admit.Allowed, admit.Denied:
		d := c.decision(admission.Result)
		d.admission = &admission
		return d, nil
	case admit.CallerGone:
		return Decision{}, cmp.Or(admission.Err, context.Canceled)
	}
	if len(c.matches) == 1 {
		return Decision{}, fmt.Errorf("policy: %s: %w", c.matches[0].Match.Policy.Name, admission.Err)
	}
	return Decision{}, fmt.Errorf("policy: %w", admission.Err)
}

// Finish says how a call that was granted has ended, as an HTTP status, and gives back what the `count` of a policy
// does not charge. Without it everything stays charged. It does nothing for a denial. Give it context.WithoutCancel of
// a request's context.
//
// Cost: a round trip for each policy that gives back.
func (d Decision) Finish(ctx context.Context, status int) error {
	if d.admission == nil {
		return nil
	}
	return d.admission.Finish(ctx, status)
}
