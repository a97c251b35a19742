package policy

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/sluice-redis/sluice/loader"
)

// Call is a call with the policies that match. Begin makes it, for those who write the middleware of another protocol:
// ask for its Charges all or none, and then tell End. Everybody else uses Middleware, package policygrpc or Decide.
type Call struct {
	policies   *Policies
	attributes *Attributes
	enforced   []Charge
	shadow     []Charge
	failed     []PolicyDecision // policies in shadow that could not be applied
	err        error            // why an enforced one could not be
}

// Charge is what a call costs one policy.
type Charge struct {
	Match
	Limiter loader.Limiter // that of the plan
}

// Begin finds the policies that match a call. Cost: a microsecond for each expression, nothing is sent.
func (p *Policies) Begin(a Attributes) *Call { return p.begin(p.current.Load(), a) }

func (p *Policies) begin(s *set, a Attributes) *Call {
	c := &Call{policies: p, attributes: &a}
	v := newValues(&a)
	for i, policy := range s.file.Policies {
		m, ok, err := policy.match(v)
		if err != nil {
			p.complain(err)
		}
		switch {
		case err != nil && policy.Mode == Shadow:
			c.failed = append(c.failed, PolicyDecision{Policy: policy.Name, Shadow: true, Err: err})
		case err != nil:
			c.err = errors.Join(c.err, err)
		case !ok || m.Refused && policy.Mode == Shadow:
		case policy.Mode == Shadow:
			c.shadow = append(c.shadow, Charge{m, s.limiters[i][m.plan]})
		default:
			c.enforced = append(c.enforced, Charge{m, s.limiters[i][m.plan]})
		}
	}
	return c
}

// Charges returns what to ask: those that are enforced in the file's order, then those in shadow. Its error joins an
// *AttributeError for each policy that could not be applied; the call is then to be refused.
func (c *Call) Charges() ([]Charge, error) { return slices.Concat(c.enforced, c.shadow), c.err }

// Counts returns the condition by which a charge counts, as a function of the status of the response. It is nil if the
// charge always counts.
func (c *Call) Counts(charge Charge) func(status int) bool {
	if charge.count == nil {
		return nil
	}
	ended := *c.attributes
	if ended.Request != nil && charge.count.uses("request.header") {
		request := *ended.Request
		request.Header = http.Header(request.Header).Clone() // the handler may change it
		ended.Request = &request
	}
	return func(status int) bool {
		ended := ended
		ended.Status = status
		counts, err := charge.Policy.Counts(&ended)
		return counts || err != nil
	}
}

// End tells the observer what was decided: whether the call goes on, the decisions of the policies that were asked, and
// why there is no decision, if so.
func (c *Call) End(ctx context.Context, granted bool, decisions []PolicyDecision, err error) {
	if c.policies.observe != nil {
		c.policies.observe(ctx, c.decision(granted, decisions), err)
	}
}

func (c *Call) decision(granted bool, decisions []PolicyDecision) Decision {
	d := Decision{Policies: decisions}
	if d.Granted = granted; granted {
		d.Policies = append(d.Policies, c.failed...)
	}
	d.choose()
	if d.Policy == "" && !granted && c.err == nil {
		d.Policy, d.Refused = c.refused()
	}
	return d
}

// refused returns the policy that refuses an empty key.
func (c *Call) refused() (name string, refused bool) {
	for _, charge := range c.enforced {
		if charge.Refused {
			return charge.Name, true
		}
	}
	return "", false
}
