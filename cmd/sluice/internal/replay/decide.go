package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/policy"
)

// Verdict is what became of a policy's part in a request.
type Verdict uint8

const (
	Granted   Verdict = iota // and charged
	Free                     // granted, and given back: the response does not count
	Denied                   // by this policy
	Refused                  // by this policy, because its key is empty
	Withdrawn                // granted, and given back: another policy denied
	Failed                   // no decision
)

// job is what has to be decided together: the policies of a request that are enforced, all or none, or one that is in
// shadow mode.
type job struct {
	at      int64 // microseconds since 1970
	line    int64
	matches []policy.Match
	free    uint64 // bit i: the response of the request is not charged by match i
}

// maxPolicies is how many matches a job can have.
const maxPolicies = 64

// decider decides jobs in their order, with the rates of the policy file times a factor.
type decider struct {
	*server
	factor   float64
	limiters map[planOf]made
	failure  error // the first one, with its line
}

// planOf is what a limiter is made for.
type planOf struct {
	policy *policy.Policy
	plan   string
}

// made is a limiter, and its smallest rate.
type made struct {
	loader.Limiter
	smallest int64
}

func newDecider(factor float64) (*decider, error) {
	s, err := newServer()
	if err != nil {
		return nil, err
	}
	return &decider{server: s, factor: factor, limiters: map[planOf]made{}}, nil
}

// limiter returns the limiter of a match, with its rates times the factor.
func (d *decider) limiter(m policy.Match) made {
	of := planOf{m.Policy, m.Plan}
	if l, ok := d.limiters[of]; ok {
		return l
	}
	m.Rates = scaled(m.Rates, d.factor)
	l := made{Limiter: m.Limiter(d.limits), smallest: m.Rates[0].Permits}
	for _, rate := range m.Rates {
		l.smallest = min(l.smallest, rate.Permits)
	}
	d.limiters[of] = l
	return l
}

// scaled returns the rates with their permits times the factor, rounded down, and at least 1 unless there were none.
func scaled(rates []loader.Limit, factor float64) []loader.Limit {
	all := make([]loader.Limit, len(rates))
	for i, rate := range rates {
		all[i] = rate
		if rate.Permits > 0 {
			all[i].Permits = max(int64(float64(rate.Permits)*factor), 1)
		}
	}
	return all
}

// decide decides a job at its time, and appends a verdict for each match.
func (d *decider) decide(j job, verdicts []Verdict) []Verdict {
	d.redis.SetTime(j.at)
	first := len(verdicts)
	refused := false
	for _, m := range j.matches {
		verdict := Withdrawn
		switch {
		case m.Refused:
			verdict = Refused
		case m.Cost > d.limiter(m).smallest:
			verdict = Denied // whenever it is asked
		}
		refused = refused || verdict != Withdrawn
		verdicts = append(verdicts, verdict)
	}
	if refused {
		return verdicts
	}
	decisions, err := d.ask(j.matches, verdicts[first:])
	if err != nil {
		d.fail(j, err)
		for i := range verdicts[first:] {
			verdicts[first+i] = Failed
		}
		return verdicts
	}
	for i, decision := range decisions {
		verdicts[first+i] = d.charge(j, i, decision)
	}
	return verdicts
}

// ask asks the limiters. It returns the decisions of a grant; of a denial it marks the verdicts of those that denied.
func (d *decider) ask(matches []policy.Match, verdicts []Verdict) ([]loader.Decision, error) {
	if len(matches) == 1 {
		m := matches[0]
		decision, err := d.limiter(m).AllowN(context.Background(), m.Subject, m.Cost)
		if err == nil && !decision.Granted {
			verdicts[0] = Denied
			return nil, nil
		}
		return []loader.Decision{decision}, err
	}
	all := d.limits.All()
	for _, m := range matches {
		all.AllowN(d.limiter(m).Limiter, m.Subject, m.Cost)
	}
	together, err := all.Do(context.Background())
	if err == nil && !together.Granted {
		for _, part := range together.Denied {
			mark(matches, verdicts, part)
		}
		return nil, d.limits.Flush(context.Background()) // what is given back is so at the same time
	}
	decisions := make([]loader.Decision, len(together.Parts))
	for i, part := range together.Parts {
		decisions[i] = part.Decision
	}
	return decisions, err
}

// mark notes that a part denied.
func mark(matches []policy.Match, verdicts []Verdict, part loader.Part) {
	for i, m := range matches {
		if m.Name == part.Limiter {
			verdicts[i] = Denied
		}
	}
}

// charge gives back what a grant need not pay for.
func (d *decider) charge(j job, i int, decision loader.Decision) Verdict {
	if j.free&(1<<i) == 0 {
		return Granted
	}
	m := j.matches[i]
	limiter, ok := d.limiter(m).Limiter.(loader.Returner)
	if !ok {
		d.fail(j, fmt.Errorf("%s cannot give back: %w", m.Name, errors.ErrUnsupported))
		return Failed
	}
	if _, err := limiter.GiveBack(context.Background(), m.Subject, decision, m.Cost); err != nil {
		d.fail(j, err)
		return Failed
	}
	return Free
}

func (d *decider) fail(j job, err error) {
	if d.failure == nil {
		d.failure = fmt.Errorf("line %d: %w", j.line, err)
	}
}
