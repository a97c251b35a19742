package policy

import (
	"slices"
	"strings"

	"github.com/sluice-redis/sluice/loader"
)

// Limiter returns the limiter that decides a match: its name is the policy's. Use it to decide by hand, as a tool does;
// Policies makes the limiters once and asks several of them together. Cost: nothing is sent.
func (m Match) Limiter(limits *loader.Loader) loader.Limiter {
	_, with := m.Policy.newLimiters(limits)
	return with(m.Rates)
}

// BanLimiter returns the limiter of the policy's refusals, by the name BanName; nil without a ban. Use it to decide by
// hand, as a tool does. Cost: nothing is sent.
func (p *Policy) BanLimiter(limits *loader.Loader) loader.Limiter {
	if p.Ban.Permits == 0 {
		return nil
	}
	return limits.ListLog(p.BanName(), p.Ban, p.options()...)
}

// BanName is the name of the limiter of refusals, in Redis, in headers and in bodies: of a limit `login`, "login-ban".
func (p *Policy) BanName() string { return p.Limit() + "-ban" }

// Limit is the name of the limit in the file: of the policies "api" and "api-month", "api".
func (p *Policy) Limit() string {
	if p.Period == "" {
		return p.Name
	}
	return strings.TrimSuffix(p.Name, "-"+p.Period)
}

// options returns what limiters do while Redis does not decide.
func (p *Policy) options() (opts []loader.LimiterOption) {
	switch {
	case p.Fail.Open:
		opts = append(opts, loader.FailOpen())
	case p.Fail.Local > 0:
		opts = append(opts, loader.FailLocal(p.Fail.Local))
	}
	return opts
}

// Enforced returns the rates that Redis enforces where the file has these: lower ones if the policy is strictly ahead
// of Redis. Use it to show or to check what a subject may do. Cost: nothing is sent.
func (p *Policy) Enforced(rates []loader.Limit) []loader.Limit {
	if enforced, err := p.Ahead.Enforced(rates); err == nil {
		return enforced
	}
	return rates // none of them is granted ahead
}

// enforced returns what Redis enforces of rates as the file has them.
func (p *Policy) enforced(rates []rate) (enforced []rate) {
	_, windows := ofPeriod(rates, "")
	for _, limit := range p.Enforced(windows) {
		enforced = append(enforced, rate{Limit: limit})
	}
	return append(enforced, slices.DeleteFunc(slices.Clone(rates), func(r rate) bool { return r.period == "" })...)
}

// limiters returns the maker of the policy's limiters for the rates of its plans, which share their state: a subject
// whose plan changes keeps what it was granted.
func (p *Policy) limiters(limits *loader.Loader) func(rates []loader.Limit) loader.Limiter {
	opts := p.options()
	first := p.all()[0].Limit
	switch p.Script {
	case zsetLog:
		limiter := limits.ZSetLog(p.Name, first, opts...)
		return func(rates []loader.Limit) loader.Limiter { return limiter.With(rates[0]) }
	case gcra:
		limiter := limits.GCRA(p.Name, first, opts...)
		return func(rates []loader.Limit) loader.Limiter { return limiter.With(rates[0]) }
	case quota:
		limiter := limits.Quota(p.Name, first.Permits, p.Calendar(), opts...)
		return func(rates []loader.Limit) loader.Limiter { return limiter.With(rates[0].Permits, p.Calendar()) }
	case sliceRing:
		limiter := limits.SliceRing(p.Name, []loader.Limit{first}, opts...)
		return func(rates []loader.Limit) loader.Limiter { return limiter.With(rates...) }
	}
	limiter := limits.ListLog(p.Name, first, opts...)
	return func(rates []loader.Limit) loader.Limiter { return limiter.With(rates[0]) }
}
