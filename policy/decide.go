package policy

import (
	"cmp"
	"context"
	"fmt"

	"github.com/sluice-redis/sluice/admission"
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

	// Refused is true if Policy denied because the key is empty, and the file says `empty: refuse`, or because of what the
	// client sent: see AttributeError.Client. Nothing was asked.
	Refused bool

	// Policies is the decisions of all policies that were asked, those in shadow last, otherwise in the file's order.
	// If several were asked together and one denied, only the denials are in it.
	Policies []PolicyDecision

	request *admit.Request // for Finish
}

// PolicyDecision is the decision of one policy. Its Err is why a policy in shadow has no decision, or
// loader.ErrExceedsLimit if one denied because of the cost.
type PolicyDecision = admission.Decision

// Decide asks the policies that match, all or none, and charges them for one call. Use it where there is no HTTP and no
// gRPC: in a worker, for messages. It returns an error if there is no decision: an *AttributeError, or what a limiter
// returns that fails closed. If a policy has a `count`, call Finish when the result is known.
//
// Cost: a microsecond for each expression, and one round trip; another one if policies are in shadow.
func (p *Policies) Decide(ctx context.Context, a Attributes) (Decision, error) {
	d, err := p.decide(ctx, a)
	p.observed(ctx, d, err)
	return d, err
}

func (p *Policies) decide(ctx context.Context, a Attributes) (Decision, error) {
	found, err := p.find(p.current.Load(), a)
	if err != nil {
		return Decision{}, err
	}
	q := &admit.Request{Limits: p.limits, Charges: make([]admit.Charge, len(found))}
	for i, l := range found {
		m := &l.Match
		if m.Refused {
			return decisionOf(admission.Result{Outcome: admission.NoKey, Missing: m.Policy.Name}), nil
		}
		q.Charges[i] = admit.Charge{Limiter: l.Limiter, N: m.Cost, Subject: m.Subject, Name: m.Policy.Name,
			Shadow: m.Policy.Mode == Shadow, Ban: l.Ban,
			Delay: m.Policy.Delay, Err: l.err}
		if m.Policy.count != nil && l.err == nil {
			q.Charges[i].CountIf = a.counts(m.Policy)
		}
	}
	q.Decide(ctx)
	switch q.Outcome {
	case admission.Allowed, admission.Denied:
		d := decisionOf(q.Result)
		d.request = q
		return d, nil
	case admission.CallerGone:
		return Decision{}, cmp.Or(q.Err, context.Canceled)
	}
	if len(found) == 1 {
		return Decision{}, fmt.Errorf("policy: %s: %w", found[0].Match.Policy.Name, q.Err)
	}
	return Decision{}, fmt.Errorf("policy: %w", q.Err)
}

// decisionOf is a result as this package tells it.
func decisionOf(r admission.Result) Decision {
	decided := r.Decided()
	d := Decision{Decision: decided.Decision, Policy: decided.Policy, Policies: r.Decisions}
	d.Granted, d.Degraded, d.Cause = r.Outcome == admission.Allowed, r.Degraded, r.Cause
	if r.Outcome == admission.NoKey && r.Missing != "" {
		d.Policy, d.Refused = r.Missing, true
	}
	return d
}

// Finish says how a call that was granted has ended, as an HTTP status, and gives back what the `count` of a policy
// does not charge, also if ctx has ended. Without it everything stays charged. It does nothing for a denial.
//
// Cost: a round trip for each policy that gives back.
func (d Decision) Finish(ctx context.Context, status int) error {
	if d.request == nil {
		return nil
	}
	return d.request.Finish(ctx, status)
}
