package policy

import (
	"context"
	"errors"
	"net/http"

	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/loader"
)

// Call is a call with the policies that match. It is for package policygrpc: use Middleware, package policygrpc or
// Decide.
type Call struct {
	policies   *Policies
	attributes *Attributes
	matches    []Limited
	failed     []PolicyDecision // policies in shadow that could not be applied
	err        error            // why an enforced one could not be
}

// Limited is a match with the limiter of its plan, which decides it.
type Limited struct {
	Match
	Limiter loader.Limiter
}

// Find returns the policies that match, in the file's order. Use it to ask their limiters together with others. Its
// error joins an *AttributeError for each policy that is enforced and could not be applied. Cost: a microsecond for each
// expression, nothing is sent.
func (p *Policies) Find(a *Attributes) ([]Limited, error) {
	c := p.begin(p.current.Load(), *a)
	return c.matches, c.err
}

// Begin finds the policies that match a request, of which the application knows these values. It is for package
// policygrpc.
func (p *Policies) Begin(r *http.Request, values map[string]string) *Call {
	s := p.current.Load() // for the whole request, also if the file changes meanwhile
	a := s.attributes(r)
	a.Values = values
	return p.begin(s, a)
}

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
		case ok && (!m.Refused || policy.Mode != Shadow):
			c.matches = append(c.matches, Limited{m, s.limiters[i][m.limiter]})
		}
	}
	return c
}

// Charges returns what a call costs, for a door whose results have these statuses. It is for package policygrpc.
func Charges[R, O any](c *Call, status func(O) int) ([]admit.Charge[R, O], error) {
	charges := make([]admit.Charge[R, O], len(c.matches))
	for i, m := range c.matches {
		key := admit.KeyOf[R](m.Key...).IfEmpty(admit.ShareEmpty)
		if m.Refused {
			key = admit.KeyOf[R]("")
		}
		charges[i] = admit.Charge[R, O]{Limiter: m.Limiter, N: m.Cost, Key: key, Name: m.Name, Shadow: m.Mode == Shadow}
		if counts := c.counts(m); counts != nil {
			charges[i].CountIf = func(result O) bool { return counts(status(result)) }
		}
	}
	return charges, c.err
}

// counts returns the condition by which a match counts, as a function of the status of the response. It is nil if the
// match always counts.
func (c *Call) counts(m Limited) func(status int) bool {
	if m.count == nil {
		return nil
	}
	ended := *c.attributes
	if ended.Request != nil && m.count.uses("request.header") {
		request := *ended.Request
		request.Header = http.Header(request.Header).Clone() // the handler may change it
		ended.Request = &request
	}
	return func(status int) bool {
		ended := ended
		ended.Status = status
		counts, err := m.Counts(&ended)
		return counts || err != nil
	}
}

// End tells the observer what was decided. It is for package policygrpc.
func (c *Call) End(ctx context.Context, result admit.Result) {
	if c.policies.observe != nil {
		c.policies.observe(ctx, c.decision(result), result.Err)
	}
}

func (c *Call) decision(result admit.Result) Decision {
	decided := result.Decided()
	d := Decision{Decision: decided.Decision, Policy: decided.Policy, Policies: result.Decisions}
	if d.Granted = result.Outcome == admit.Allowed; d.Granted {
		d.Policies = append(d.Policies, c.failed...)
	}
	d.Degraded, d.Cause = result.Degraded, result.Cause
	if d.Policy == "" && !d.Granted && c.err == nil {
		d.Policy, d.Refused = c.refused()
	}
	return d
}

// refused returns the policy that refuses an empty key.
func (c *Call) refused() (name string, refused bool) {
	for _, m := range c.matches {
		if m.Refused {
			return m.Name, true
		}
	}
	return "", false
}
