package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
	Withdrawn                // not asked, or granted and given back: another policy denied
	Failed                   // no decision
)

// decider decides requests in their order.
type decider struct {
	*Server
	rates    map[Rated][]loader.Limit // in place of the file's
	limiters map[limiterOf]made
	now      time.Time // in the log
	failure  error     // the first one, with its line
}

// limiterOf is what a limiter belongs to: rates of the file, or an override.
type limiterOf struct {
	Rated
	override *policy.Override
}

// made is a limiter, and its smallest rate.
type made struct {
	loader.Limiter
	smallest int64
}

func newDecider(rates map[Rated][]loader.Limit) (*decider, error) {
	s, err := NewServer()
	if err != nil {
		return nil, err
	}
	return &decider{Server: s, rates: rates, limiters: map[limiterOf]made{}}, nil
}

// limiter returns the limiter of a match.
func (d *decider) limiter(m policy.Match) made {
	of := limiterOf{Rated{m.Policy.Name, m.Plan}, m.Override}
	if l, ok := d.limiters[of]; ok {
		return l.at(m.Policy, d.now)
	}
	if rates := d.rates[of.Rated]; rates != nil && m.Override == nil {
		m.Rates = rates
	}
	enforced := m.Policy.Enforced(m.Rates)
	l := made{Limiter: m.Limiter(d.limits), smallest: enforced[0].Permits}
	for _, rate := range enforced {
		l.smallest = min(l.smallest, rate.Permits)
	}
	d.limiters[of] = l
	return l.at(m.Policy, d.now)
}

// at is the limiter at a time of the log: its quota counts in the period of that time.
func (l made) at(p *policy.Policy, now time.Time) made {
	if q, ok := l.Limiter.(loader.Quota); ok {
		l.Limiter = q.With(l.smallest, loader.Between(p.Calendar()(now)))
	}
	return l
}

// decide decides a request at its time, and returns a verdict for each match: the enforced policies all or none, then,
// if they grant, each policy in shadow mode by itself. So does package policy.
func (d *decider) decide(r request, verdicts []Verdict) []Verdict {
	d.now = time.UnixMicro(r.at)
	d.redis.SetTime(r.at)
	for range r.matches {
		verdicts = append(verdicts, Withdrawn)
	}
	if !d.enforce(r, verdicts) {
		return verdicts
	}
	for i, m := range r.matches {
		if m.Policy.Mode == policy.Shadow {
			d.askAll(r, []int{i}, verdicts)
		}
	}
	return verdicts
}

// enforce asks the policies that may deny, and reports whether the request goes on.
func (d *decider) enforce(r request, verdicts []Verdict) bool {
	var enforced []int
	for i, m := range r.matches {
		if m.Policy.Mode == policy.Shadow {
			continue
		}
		if enforced = append(enforced, i); m.Refused {
			verdicts[i] = Refused
			return false
		}
	}
	return len(enforced) == 0 || d.askAll(r, enforced, verdicts)
}

// askAll asks the limiters of some matches, all or none, and sets their verdicts.
func (d *decider) askAll(r request, of []int, verdicts []Verdict) (granted bool) {
	if d.isBanned(r, of, verdicts) {
		return false
	}
	defer func() { d.chargeRefusals(r, of, verdicts) }()
	never := false
	for _, i := range of {
		if m := r.matches[i]; m.Cost > d.limiter(m).smallest {
			verdicts[i], never = Denied, true // whenever it is asked
		}
	}
	if never {
		return false
	}
	decisions, err := d.ask(r, of, verdicts)
	for n, i := range of {
		switch {
		case err != nil:
			d.fail(r, err)
			verdicts[i] = Failed
		case decisions != nil:
			verdicts[i] = d.charge(r, i, decisions[n])
		}
	}
	return decisions != nil && err == nil
}

// isBanned reports whether the subject of a match is banned, and sets its verdict.
func (d *decider) isBanned(r request, of []int, verdicts []Verdict) (banned bool) {
	for _, i := range of {
		ban := r.matches[i].Policy.BanLimiter(d.limits)
		if ban == nil {
			continue
		}
		decision, err := ban.Peek(context.Background(), r.matches[i].Subject)
		if err != nil {
			d.fail(r, err)
		} else if decision.Remaining == 0 {
			verdicts[i], banned = Denied, true
		}
	}
	return banned
}

// chargeRefusals charges those who were refused to the limiters of refusals, once for all rates of a limit.
func (d *decider) chargeRefusals(r request, of []int, verdicts []Verdict) {
	charged := map[[2]string]bool{}
	for _, i := range of {
		ban := r.matches[i].Policy.BanLimiter(d.limits)
		if ban == nil || verdicts[i] != Denied || charged[[2]string{ban.Name(), r.matches[i].Subject}] {
			continue
		}
		charged[[2]string{ban.Name(), r.matches[i].Subject}] = true
		if _, err := ban.AllowN(context.Background(), r.matches[i].Subject, 1); err != nil {
			d.fail(r, err)
		}
	}
}

// ask asks the limiters. It returns the decisions of a grant; of a denial it sets the verdicts of those that denied.
func (d *decider) ask(r request, of []int, verdicts []Verdict) ([]loader.Decision, error) {
	if len(of) == 1 {
		m := r.matches[of[0]]
		decision, err := d.limiter(m).AllowN(context.Background(), m.Subject, m.Cost)
		if err == nil && !decision.Granted {
			verdicts[of[0]] = Denied
			return nil, nil
		}
		return []loader.Decision{decision}, err
	}
	all := d.limits.All()
	for _, i := range of {
		m := r.matches[i]
		limiter, err := d.returner(m)
		if err != nil {
			return nil, err
		}
		all.AllowN(limiter, m.Subject, m.Cost)
	}
	together, err := all.Do(context.Background())
	if err == nil && !together.Granted {
		for _, part := range together.Denied {
			i := slices.IndexFunc(r.matches, func(m policy.Match) bool { return m.Policy.Name == part.Limiter })
			verdicts[i] = Denied
		}
		return nil, d.limits.Flush(context.Background()) // what is given back is so at the same time
	}
	decisions := make([]loader.Decision, len(together.Parts))
	for i, part := range together.Parts {
		decisions[i] = part.Decision
	}
	return decisions, err
}

func (d *decider) returner(m policy.Match) (loader.Returner, error) {
	if limiter, ok := d.limiter(m).Limiter.(loader.Returner); ok {
		return limiter, nil
	}
	return nil, fmt.Errorf("%s cannot give back: %w", m.Policy.Name, errors.ErrUnsupported)
}

// charge gives back what a grant need not pay for.
func (d *decider) charge(r request, i int, decision loader.Decision) Verdict {
	if !r.free.has(i) {
		return Granted
	}
	m := r.matches[i]
	limiter, err := d.returner(m)
	if err == nil {
		_, err = limiter.GiveBack(context.Background(), m.Subject, decision, m.Cost)
	}
	if err != nil {
		d.fail(r, err)
		return Failed
	}
	return Free
}

func (d *decider) fail(r request, err error) {
	if d.failure == nil {
		d.failure = fmt.Errorf("line %d: %w", r.line, err)
	}
}
