package policy

import (
	"context"
	"errors"
	"net/http"

	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/policy/internal/door"
)

// call is a call with the policies that match.
type call struct {
	policies   *Policies
	attributes Attributes
	matches    []Limited
	failed     []PolicyDecision // policies in shadow that could not be applied
	err        error            // why an enforced one could not be
}

// Limited is a match with the limiter of its plan, which decides it. It is for the commands of this project: see Find.
type Limited struct {
	Match   Match
	Limiter loader.Limiter
}

// Find returns the policies that match, in the file's order, to ask their limiters together with others. Its error
// joins an *AttributeError for each policy that is enforced and could not be applied. It is for the commands of this
// project, without a promise of compatibility. Cost: a microsecond for each expression, nothing is sent.
func (p *Policies) Find(a Attributes) ([]Limited, error) {
	c := p.begin(p.current.Load(), a)
	return c.matches, c.err
}

// Begin finds the policies that match a request, of which the application knows these values. It is for package
// policygrpc: what it returns is internal.
func (p *Policies) Begin(r *http.Request, values map[string]string) *door.Call {
	s := p.current.Load() // for the whole request, also if the file changes meanwhile
	a := s.attributes(r)
	a.Values = values
	c := p.begin(s, a)
	asks := make([]door.Ask, len(c.matches))
	for i, l := range c.matches {
		m := l.Match
		asks[i] = door.Ask{Limiter: l.Limiter, N: m.Cost, Key: m.Key, Name: m.Policy.Name,
			Shadow: m.Policy.Mode == Shadow, CountIf: c.counts(m)}
	}
	return &door.Call{Asks: asks, Err: c.err, End: c.end}
}

func (p *Policies) begin(s *set, a Attributes) *call {
	c := &call{policies: p, attributes: a}
	v := newValues(a)
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

// counts returns the condition by which a match counts, as a function of the status of the response. It is nil if the
// match always counts.
func (c *call) counts(m Match) func(status int) bool {
	if m.Policy.count == nil {
		return nil
	}
	ended := c.attributes
	if ended.Request != nil && m.Policy.count.uses("request.header") {
		request := *ended.Request
		request.Header = http.Header(request.Header).Clone() // the handler may change it
		ended.Request = &request
	}
	return func(status int) bool {
		ended := ended
		ended.Status = status
		counts, err := m.Policy.Counts(ended)
		return counts || err != nil
	}
}

// end tells the observers what was decided.
func (c *call) end(ctx context.Context, result admit.Result) {
	if len(c.policies.observers) > 0 {
		c.policies.observed(ctx, c.decision(result), result.Err)
	}
}

func (c *call) decision(result admit.Result) Decision {
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
func (c *call) refused() (name string, refused bool) {
	for _, l := range c.matches {
		if l.Match.Refused {
			return l.Match.Policy.Name, true
		}
	}
	return "", false
}
