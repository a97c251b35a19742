package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"go.yaml.in/yaml/v4"

	"github.com/sluice-redis/sluice/policy/internal/yamlfile"
)

var limiterName = regexp.MustCompile(`^[A-Za-z0-9._/-]{1,128}$`)

// policy reads one limit, which may be several policies: see split.
func (r *reader) policy(key, n *yaml.Node) []*Policy {
	if !limiterName.MatchString(key.Value) {
		r.Fail(key, fmt.Sprintf("limit %q", key.Value), "a name of letters, digits, dot, underscore, dash and slash")
	}
	if !r.IsMapping(n, "limit "+key.Value) {
		return nil
	}
	words := r.Mapping(n, policyWords)
	p := &Policy{Name: key.Value, Line: key.Line, Column: key.Column, Zone: r.zone(words["zone"], r.fileZone)}
	rules := r.compiler.rules
	p.When, p.when = r.expression(words["when"], "when", rules, cel.BoolType)
	r.by(p, key, words)
	p.Plan, p.plan = r.expression(words["plan"], "plan", rules, cel.StringType)
	before := len(r.Mistakes)
	r.rates(p, key, words)
	ratesKnown := len(r.Mistakes) == before
	r.cost(p, words["cost"])
	r.count(p, words["count"])
	r.ban(p, words["ban"])
	r.delay(p, words["delay"])
	r.modes(p, words)
	r.ahead(p, words["ahead"], ratesKnown)
	r.script(p, key, words["script"], ratesKnown)
	r.overrides(p, words["overrides"], ratesKnown)
	r.about(p, key)
	parts := p.split()
	byCalendar := func(p *Policy) bool { return p.Period != "" }
	if words["zone"] != nil && ratesKnown && !slices.ContainsFunc(parts, byCalendar) {
		r.Fail(words["zone"], "zone without a rate by calendar", "a rate such as 5000/month beside it, or no zone")
	}
	return parts
}

// about finds out whether a limit is about requests or descriptors.
func (r *reader) about(p *Policy, key *yaml.Node) {
	for _, e := range append(slices.Clone(p.by), p.when, p.plan, p.cost) {
		p.asksRequest = p.asksRequest || e.uses("request.")
		for _, v := range descriptorVariables {
			p.asksDescriptor = p.asksDescriptor || e.uses(v.name)
		}
	}
	switch {
	case p.asksRequest && p.asksDescriptor:
		r.Fail(key, fmt.Sprintf("limit %s asks about a request and a descriptor", p.Name), "two limits: one for each")
	case p.Before && !p.asksDescriptor:
		r.Fail(key, fmt.Sprintf("limit %s has cost: before, and is about no descriptor", p.Name), "another cost, or none")
	}
}

// by reads what a limit is counted by.
func (r *reader) by(p *Policy, key *yaml.Node, words map[string]*yaml.Node) {
	p.Empty = Empty(r.choice(words["empty"], "empty", string(RefuseEmpty), string(SkipEmpty), string(ShareEmpty)))
	by := words["by"]
	if by == nil {
		r.Fail(key, fmt.Sprintf("limit %s has no by", key.Value), `by: what is counted, as in by: request.ip, `+
			`or by: '"all"' for one limit for everybody`)
		return
	}
	items, ok := r.Items(by, "by")
	mayBeEmpty := true
	if len(items) == 0 && ok {
		r.Fail(by, "by is empty", "what is counted, as in by: request.ip")
	}
	for _, item := range items {
		text, e := r.expression(item, "by", r.compiler.rules, cel.StringType)
		p.By = append(p.By, text)
		if e != nil {
			p.by = append(p.by, e)
		}
		mayBeEmpty = mayBeEmpty && e != nil && e.mayEmpty
	}
	if mayBeEmpty && p.Empty == "" && len(p.by) > 0 {
		r.Fail(by, "by may be empty: the client may leave it out", "empty: refuse, skip or shared beside it")
	}
}

// cost reads how many permits a call takes.
func (r *reader) cost(p *Policy, n *yaml.Node) {
	p.fixedCost = 1
	if p.Before = n != nil && n.Value == "before"; p.Before {
		return
	}
	p.Cost, p.cost = r.expression(n, "cost", r.compiler.rules, cel.IntType)
	if p.cost == nil {
		return
	}
	cost, ok := number(p.cost.checked)
	if !ok {
		return
	}
	p.cost, p.fixedCost = nil, int64(cost)
	if cost < 1 {
		r.Fail(n, fmt.Sprintf("cost %d", cost), "at least 1")
	}
	for _, rate := range p.all() {
		if rate.Permits > 0 && int64(cost) > rate.Permits {
			r.Fail(n, fmt.Sprintf("cost %d can never be granted", cost), "at most the permits of every rate: "+rate.show())
			return
		}
	}
}

// count reads which calls are charged.
func (r *reader) count(p *Policy, n *yaml.Node) {
	if r.forService && n != nil {
		r.Fail(n, "count: sluiced never sees the application's answer", "no count: the application asks at /json, with "+
			"hits_addend 0 before it tries a password, say, and with 1 after a wrong one")
		return
	}
	p.Count, p.count = r.expression(n, "count", r.compiler.counts, cel.BoolType)
	if p.count != nil && !p.count.uses(nameStatus) {
		r.Fail(n, "count does not ask for "+nameStatus,
			nameStatus+" >= 400, say; what is known before the response belongs into when")
	}
}

// ban reads for how many refusals, and how long, a subject is banned.
func (r *reader) ban(p *Policy, n *yaml.Node) {
	if n == nil {
		return
	}
	rate, ok := r.rate(n, 1)
	if ok && (rate.period != "" || rate.Permits > maxListLog) {
		r.Fail(n, "ban "+rate.show(), "refusals and a window, as in 5/1h; at most 1000000")
	}
	p.Ban = rate.Limit
}

// delay reads how long a request is held.
func (r *reader) delay(p *Policy, n *yaml.Node) {
	if n == nil {
		return
	}
	text, ok := r.Scalar(n, "delay")
	d, err := parseWindow(text)
	if ok && (err != nil || d < minWindow || d > time.Minute || d%time.Microsecond != 0) {
		r.Fail(n, fmt.Sprintf("delay %q", text), "1ms to 1m, as in 2s")
	}
	p.Delay = d
}

func (r *reader) modes(p *Policy, words map[string]*yaml.Node) {
	p.Mode = Mode(r.choice(words["mode"], "mode", string(Enforce), string(Shadow)))
	if p.Mode == "" {
		p.Mode = Enforce
	}
	n := words["fail"]
	if n == nil {
		return
	}
	text, ok := r.Scalar(n, "fail")
	switch share, isLocal := strings.CutPrefix(text, "local "); {
	case !ok || text == "closed":
	case text == "open":
		p.Fail.Open = true
	case isLocal:
		r.share(p, n, strings.TrimSpace(share))
	default:
		r.Fail(n, fmt.Sprintf("fail %q", text), "closed, open or a share such as local 1/8"+
			yamlfile.DidYouMean(text, "closed", "open"))
	}
}

// share reads the share of the rate that one process allows while Redis does not decide.
func (r *reader) share(p *Policy, n *yaml.Node, text string) {
	part, of, isFraction := strings.Cut(text, "/")
	share, err := strconv.ParseFloat(part, 64)
	if isFraction && err == nil {
		var divisor float64
		divisor, err = strconv.ParseFloat(of, 64)
		share /= divisor
	}
	if p.Fail.Local = share; err != nil || !(share > 0 && share <= 1) {
		r.Fail(n, fmt.Sprintf("share %q", text), "more than 0 and at most 1, as in local 1/8")
	}
}
