package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"go.yaml.in/yaml/v4"

	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/policy/internal/yamlfile"
)

var (
	fileWords   = []string{"limits", "attributes", "proxies"}
	policyWords = []string{
		"when", "by", "empty", "rates", "plan", "plans", "script", "cost", "count", "mode", "fail", "ahead",
		"overrides",
	}
)

// Parse reads a policy file. The name is used in errors only, which are Mistakes. The same bytes always give the same
// policies, or the same mistakes. Cost: up to a millisecond for each expression; of more than 1000 mistakes the rest of
// the file is not looked at.
func Parse(name string, src []byte) (*File, error) {
	r := &reader{Reader: yamlfile.New(name, src, "limits")}
	r.Hint = func(word string) string {
		if isRate(word) {
			return wantBrackets
		}
		return ""
	}
	root := r.Document(src)
	if root == nil {
		return nil, r.Mistakes
	}
	f := r.file(name, root)
	if len(r.Mistakes) > 0 {
		return nil, r.Mistakes.Sorted()
	}
	return f, nil
}

// reader reads one file.
type reader struct {
	*yamlfile.Reader
	compiler *compiler
}

func (r *reader) file(name string, root *yaml.Node) *File {
	if !r.IsMapping(root, "the file") {
		return nil
	}
	words := r.Mapping(root, fileWords)
	f := &File{name: name, Attributes: r.attributes(words["attributes"]), Proxies: r.proxies(words["proxies"])}
	f.address = addressBehind(f.Proxies)
	var err error
	if r.compiler, err = newCompiler(f.Attributes); err != nil {
		r.Fail(root, err.Error(), "other names of attributes")
		return f
	}
	f.ofApplication = r.compiler.ofApplication
	limits := words["limits"]
	if limits == nil {
		r.Fail(root, "no limits", "limits: with at least one limit")
		return f
	}
	f.Policies = r.policies(limits)
	r.checkTogether(f.Policies)
	r.checkNames(f.Policies)
	return f
}

// policies reads the limits.
func (r *reader) policies(n *yaml.Node) (policies []*Policy) {
	if !r.IsMapping(n, "limits") {
		return nil
	}
	if len(n.Content) == 0 {
		r.Fail(n, "no limits", "at least one limit")
	}
	for _, e := range r.Entries(n, "limit") {
		if p := r.policy(e.Key, e.Value); p != nil {
			policies = append(policies, p)
		}
	}
	return policies
}

// checkNames refuses names that headers give to a window of another limit.
func (r *reader) checkNames(policies []*Policy) {
	windows := map[string]string{}
	for _, p := range policies {
		for _, name := range p.windowNames() {
			windows[name] = p.Name
		}
	}
	for _, p := range policies {
		if other := windows[p.Name]; other != "" {
			r.FailAt(p.Line, p.Column, fmt.Sprintf("headers use the name %q for a window of %s", p.Name, other), "another name")
		}
	}
}

// windowNames is the names of windows in headers: "api-1m" and "api-1h". A single window has the name of the limit.
func (p *Policy) windowNames() (names []string) {
	for _, plan := range append([]Plan{{Rates: p.Rates}}, p.Plans...) {
		if len(plan.Rates) < 2 {
			continue
		}
		for _, rate := range plan.Rates {
			names = append(names, p.Name+"-"+showWindow(rate.Window))
		}
	}
	return names
}

var attributeName = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)?$`)

// reserved is the words that CEL does not allow as names.
var reserved = strings.Fields("as break const continue else false for function if import in let loop package " +
	"namespace null return true var void while request response " +
	"domain descriptor keys hits")

func (r *reader) attributes(n *yaml.Node) (names []string) {
	items, _ := r.Items(n, "attributes")
	for _, item := range items {
		name, ok := r.Scalar(item, "attribute")
		switch first, _, _ := strings.Cut(name, "."); {
		case !ok:
		case !attributeName.MatchString(name):
			r.Fail(item, fmt.Sprintf("attribute %q", name), "a name such as email or user.email: lower case, at most one dot")
		case slices.Contains(reserved, first):
			r.Fail(item, fmt.Sprintf("attribute %q", name), "another name: this one has a meaning already")
		case slices.Contains(names, name) || slices.Contains(userNames, name):
			r.Fail(item, fmt.Sprintf("attribute %q is known already", name), "each name once, without "+
				strings.Join(userNames, " and "))
		default:
			names = append(names, name)
		}
	}
	return names
}

func (r *reader) proxies(n *yaml.Node) (proxies []string) {
	items, _ := r.Items(n, "proxies")
	for _, item := range items {
		text, ok := r.Scalar(item, "proxy")
		if !ok {
			continue
		}
		if text != "unix" && !isNetwork(text) {
			r.Fail(item, fmt.Sprintf("proxy %q", text), "an address, a network such as 10.0.0.0/8, or unix")
			continue
		}
		proxies = append(proxies, text)
	}
	return proxies
}

func isNetwork(text string) bool {
	address, err := netip.ParseAddr(text)
	if err == nil {
		return address.Zone() == ""
	}
	_, err = netip.ParsePrefix(text)
	return err == nil
}

var limiterName = regexp.MustCompile(`^[A-Za-z0-9._/-]{1,128}$`)

// policy reads one limit.
func (r *reader) policy(key, n *yaml.Node) *Policy {
	if !limiterName.MatchString(key.Value) {
		r.Fail(key, fmt.Sprintf("limit %q", key.Value), "a name of letters, digits, dot, underscore, dash and slash")
	}
	if !r.IsMapping(n, "limit "+key.Value) {
		return nil
	}
	words := r.Mapping(n, policyWords)
	p := &Policy{Name: key.Value, Line: key.Line, Column: key.Column}
	rules := r.compiler.rules
	p.When, p.when = r.expression(words["when"], "when", rules, cel.BoolType)
	r.by(p, key, words)
	p.Plan, p.plan = r.expression(words["plan"], "plan", rules, cel.StringType)
	before := len(r.Mistakes)
	r.rates(p, key, words)
	ratesKnown := len(r.Mistakes) == before
	r.cost(p, words["cost"])
	r.count(p, words["count"])
	r.modes(p, words)
	r.ahead(p, words["ahead"], ratesKnown)
	r.script(p, key, words["script"], ratesKnown)
	r.overrides(p, words["overrides"], ratesKnown)
	r.about(p, key)
	return p
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
		if e != nil {
			p.By, p.by = append(p.By, text), append(p.by, e)
		}
		mayBeEmpty = mayBeEmpty && e != nil && e.mayEmpty
	}
	if mayBeEmpty && p.Empty == "" && len(p.by) > 0 {
		r.Fail(by, "by may be empty: the client may leave it out", "empty: refuse, skip or shared beside it")
	}
}

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
		p.Rates = r.rateList(rates, "rates", 1)
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
		p.Plans = append(p.Plans, Plan{Name: e.Key.Value, Rates: r.rateList(e.Value, "plan "+e.Key.Value, 0)})
	}
	if len(plans.Content) == 0 {
		r.Fail(plans, "no plans", "plans: {NAME: [3/1m]}")
	}
	if p.plan == nil || slices.Contains(names, DefaultPlan) {
		return
	}
	for _, result := range results(p.plan.checked) {
		if !slices.Contains(names, result) {
			r.Fail(plan, fmt.Sprintf("a plan without a limit: %q", result), "one of plans: "+strings.Join(names, ", "))
		}
	}
}

// rateList reads rates, each of at least so many permits and of use beside the others.
func (r *reader) rateList(n *yaml.Node, what string, least int64) []loader.Limit {
	rates, items := r.rateItems(n, what, least)
	if at, conflict := conflict(rates); conflict != "" && len(rates) == len(items) {
		r.Fail(items[at], conflict, "another rate, or none")
	}
	return rates
}

func (r *reader) rateItems(n *yaml.Node, what string, least int64) (rates []loader.Limit, items []*yaml.Node) {
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

func (r *reader) rate(n *yaml.Node, least int64) (rate loader.Limit, ok bool) {
	text, ok := r.Scalar(n, "rate")
	if !ok {
		return rate, false
	}
	rate, what, want := parseRate(text)
	if list := bracketed(text); list != "" {
		want = list
	}
	if what == "" && rate.Permits < least {
		what, want = fmt.Sprintf("rate %q allows nothing", text), "at least 1 permit; 0 is for plans"
	}
	if what == "" && rate.Permits > maxPermits {
		what, want = fmt.Sprintf("rate %q", text), "at most 1000000000 permits"
	}
	if what != "" {
		r.Fail(n, what, want)
	}
	return rate, what == ""
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
			r.Fail(n, fmt.Sprintf("cost %d can never be granted", cost), "at most the permits of every rate: "+show(rate))
			return
		}
	}
}

// count reads which calls are charged.
func (r *reader) count(p *Policy, n *yaml.Node) {
	p.Count, p.count = r.expression(n, "count", r.compiler.counts, cel.BoolType)
	if p.count != nil && !p.count.uses(nameStatus) {
		r.Fail(n, "count does not ask for "+nameStatus,
			nameStatus+" >= 400, say; what is known before the response belongs into when")
	}
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
	for _, plan := range append([]Plan{{Rates: p.Rates}}, p.Plans...) {
		allowsNothing := func(rate loader.Limit) bool { return rate.Permits == 0 }
		if len(plan.Rates) == 0 || slices.ContainsFunc(plan.Rates, allowsNothing) {
			continue
		}
		if ratesKnown && !r.aheadOf(p, n, plan.Rates) {
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
	for i, rate := range enforced {
		if p.fixedCost > rate.Permits && p.fixedCost <= rates[i].Permits {
			what := fmt.Sprintf("cost %d can never be granted: strict leaves %s of %s", p.fixedCost, show(rate), show(rates[i]))
			r.Fail(n, what, "at least the cost: a smaller error")
			return false
		}
	}
	return true
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

// choice reads a word that is one of several, "" if there is none.
func (r *reader) choice(n *yaml.Node, word string, known ...string) string {
	if n == nil {
		return ""
	}
	text, ok := r.Scalar(n, word)
	if ok && !slices.Contains(known, text) {
		what, want := yamlfile.Unknown(word, text, known)
		r.Fail(n, what, want)
	}
	return text
}

// expression reads an expression. It returns nil if there is none or it is wrong.
func (r *reader) expression(n *yaml.Node, word string, env *cel.Env, kind *cel.Type) (string, *expression) {
	if n == nil || r.Full() {
		return "", nil
	}
	text, ok := r.Scalar(n, word)
	if !ok {
		return "", nil
	}
	e, problems := r.compiler.compile(text, env, kind)
	for _, p := range problems {
		line, column := r.place(n, p)
		r.FailAt(line, column, word+": "+p.what, p.want)
	}
	return text, e
}

// place returns where in the file a problem of an expression is, or where the expression begins if it is not written
// as it is read: in quotes with escapes, or folded.
func (r *reader) place(n *yaml.Node, p problem) (line, column int) {
	texts := strings.Split(n.Value, "\n")
	line, from := n.Line, n.Column-1
	if n.Style&yaml.LiteralStyle != 0 {
		line, from = n.Line+p.line, 0
	}
	if p.line < 1 || p.line > len(texts) || line > len(r.Lines) {
		return n.Line, n.Column
	}
	rest, text := r.Rest(line, from+1), texts[p.line-1]
	if n.Style&yaml.LiteralStyle == 0 {
		rest = rest[:min(len(rest), 1+len(text))] // it may have a quote in front
	}
	before, _, found := strings.Cut(string(rest), text)
	if !found || line == n.Line && len(texts) > 1 {
		return n.Line, n.Column
	}
	return line, from + utf8.RuneCountInString(before) + p.column + 1
}
