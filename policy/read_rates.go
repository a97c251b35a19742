package policy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/sluice-redis/sluice/loader"
)

// rates reads the rates or the plans.
func (r *reader) rates(p *Policy, key *yaml.Node, words map[string]*yaml.Node) {
	rates, plan, plans := words["rates"], words["plan"], words["plans"]
	switch {
	case rates != nil && plans != nil:
		r.Fail(plans, "rates and plans in one limit", "one of them; the rates of all others are plans: {default: ..}")
		r.rateList(rates, "rates", 1)
		r.plans(p, plan, plans)
	case rates != nil && plan != nil:
		r.Fail(plan, "plan without plans", "plans: {NAME: [3/1m]}, or no plan")
		r.rateList(rates, "rates", 1)
	case rates != nil:
		p.rates = r.rateList(rates, "rates", 1)
	case plan == nil && plans != nil:
		r.Fail(plans, "plans without plan", "plan: which of them, as in plan: user.plan")
	case plan != nil && plans == nil:
		r.Fail(plan, "a plan without a limit: no plans", "plans: {NAME: [3/1m]}")
	case plans == nil:
		r.Fail(key, fmt.Sprintf("limit %s has no rates", key.Value), "rates: [3/1m], or plan and plans")
	default:
		r.plans(p, plan, plans)
	}
}

func (r *reader) plans(p *Policy, plan, plans *yaml.Node) {
	if !r.IsMapping(plans, "plans") {
		return
	}
	var names []string
	for _, e := range r.Entries(plans, "plan") {
		names = append(names, e.Key.Value)
		p.Plans = append(p.Plans, Plan{Name: e.Key.Value, rates: r.rateList(e.Value, "plan "+e.Key.Value, 0)})
	}
	if len(plans.Content) == 0 {
		r.Fail(plans, "no plans", "plans: {NAME: [3/1m]}")
	}
	if p.plan == nil || slices.Contains(names, DefaultPlan) {
		return
	}
	constants, known := results(p.plan.checked)
	if r.forService && p.plan.uses("request.") && !known {
		r.Fail(plan, "a plan that the client names, and may not be there", "a plan default beside the others")
	}
	for _, result := range constants {
		if !slices.Contains(names, result) {
			r.Fail(plan, fmt.Sprintf("a plan without a limit: %q", result), "one of plans: "+strings.Join(names, ", "))
		}
	}
}

// rateList reads rates, each of at least so many permits and of use beside the others.
func (r *reader) rateList(n *yaml.Node, what string, least int64) []rate {
	rates, items := r.rateItems(n, what, least)
	if at, conflict := conflict(rates); conflict != "" && len(rates) == len(items) {
		r.Fail(items[at], conflict, "another rate, or none")
	}
	return rates
}

func (r *reader) rateItems(n *yaml.Node, what string, least int64) (rates []rate, items []*yaml.Node) {
	items, ok := r.Items(n, what)
	switch {
	case !ok:
	case len(items) == 0 && isRate(strings.TrimPrefix(what, "plan ")):
		r.Fail(n, what, wantBrackets)
	case len(items) == 0 && strings.HasPrefix(what, "plan "):
		r.Fail(n, "a plan without a limit: "+what[len("plan "):], "[60/1m]; [0/1m] for a plan that allows nothing")
	case len(items) == 0:
		r.Fail(n, "no rates", "one or more, as in [3/1m, 20/24h]")
	case len(items) > maxRates:
		r.Fail(n, fmt.Sprintf("%d rates", len(items)), "at most 8")
	}
	for _, item := range items {
		if rate, ok := r.rate(item, least); ok {
			rates = append(rates, rate)
		}
	}
	return rates, items
}

func (r *reader) rate(n *yaml.Node, least int64) (of rate, ok bool) {
	text, ok := r.Scalar(n, "rate")
	if !ok {
		return of, false
	}
	of, what, want := parseRate(text)
	if list := bracketed(text); list != "" {
		want = list
	}
	if what == "" && of.Permits < least {
		what, want = fmt.Sprintf("rate %q allows nothing", text), "at least 1 permit; 0 is for plans"
	}
	most := int64(maxPermits)
	if of.period != "" {
		most = maxQuota
	}
	if what == "" && of.Permits > most {
		what, want = fmt.Sprintf("rate %q", text), fmt.Sprintf("at most %d permits", most)
	}
	if what != "" {
		r.Fail(n, what, want)
	}
	return of, what == ""
}

// ahead reads how far a process may be ahead of Redis: {processes: 20, error: 5%, strict: true}.
func (r *reader) ahead(p *Policy, n *yaml.Node, ratesKnown bool) {
	if n == nil || !r.IsMapping(n, "ahead") {
		return
	}
	words := r.Mapping(n, []string{"processes", "error", "strict"})
	text := func(word string) string {
		if words[word] == nil {
			return ""
		}
		text, _ := r.Scalar(words[word], word)
		return text
	}
	percent, isPercent := strings.CutSuffix(text("error"), "%")
	processes, err := strconv.Atoi(text("processes"))
	share, errOfShare := strconv.ParseFloat(percent, 64)
	if err != nil || errOfShare != nil || !isPercent || processes < 1 || !(share > 0 && share <= 100) {
		r.Fail(n, "ahead", "{processes: 20, error: 5%}: how many there are, and how far above a limit they may go")
		return
	}
	p.Ahead = loader.AheadOptions{Processes: processes, Error: share / 100, Strict: text("strict") == "true"}
	if !slices.Contains([]string{"", "true", "false"}, text("strict")) {
		r.Fail(words["strict"], fmt.Sprintf("strict %q", text("strict")), "true or false")
	}
	if p.count != nil {
		r.Fail(n, "ahead beside count", "one of them: what was granted ahead of Redis cannot be given back")
	}
	for _, plan := range p.plans() {
		switch _, rates := ofPeriod(plan.rates, ""); {
		case len(rates) < len(plan.rates):
			r.Fail(n, "ahead beside a rate by calendar", "one of them, or two limits: Redis decides each call of a period")
			return
		case slices.ContainsFunc(rates, func(rate loader.Limit) bool { return rate.Permits == 0 }):
		case ratesKnown && !r.aheadOf(p, n, rates):
			return
		}
	}
}

// aheadOf checks how far a process may be ahead of the rates of a plan.
func (r *reader) aheadOf(p *Policy, n *yaml.Node, rates []loader.Limit) bool {
	enforced, err := p.Ahead.Enforced(rates)
	if wrong, ok := errors.AsType[*loader.ArgumentError](err); ok {
		r.Fail(n, wrong.Argument+" "+wrong.Value, wrong.Want)
		return false
	}
	for i, limit := range enforced {
		if p.fixedCost > limit.Permits && p.fixedCost <= rates[i].Permits {
			what := fmt.Sprintf("cost %d can never be granted: strict leaves %s of %s", p.fixedCost,
				rate{Limit: limit}.show(), rate{Limit: rates[i]}.show())
			r.Fail(n, what, "at least the cost: a smaller error")
			return false
		}
	}
	return true
}
