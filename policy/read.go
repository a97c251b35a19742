package policy

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"go.yaml.in/yaml/v4"

	"github.com/sluice-redis/sluice/loader"
)

// maxFile is the longest file, in bytes.
const maxFile = 1 << 20

var (
	fileWords   = []string{"limits", "attributes", "proxies"}
	policyWords = []string{"when", "by", "empty", "rates", "plan", "plans", "script", "cost", "count", "mode", "fail"}
)

// Parse reads a policy file. The name is used in errors only, which are Mistakes. The same bytes always give the same
// policies, or the same mistakes. Cost: up to a millisecond for each expression; of more than 1000 mistakes the rest of
// the file is not looked at.
func Parse(name string, src []byte) (*File, error) {
	r := &reader{name: name, lines: lineBreak.Split(string(src), -1), runes: map[int][]rune{}}
	root := r.document(src)
	if root == nil {
		return nil, r.mistakes
	}
	f := r.file(root)
	if len(r.mistakes) > 0 {
		return nil, r.mistakes.sorted()
	}
	return f, nil
}

// lineBreak is what ends a line for the YAML library.
var lineBreak = regexp.MustCompile("\r\n|[\r\n\u0085\u2028\u2029]")

// reader reads one file and collects its mistakes.
type reader struct {
	name     string
	lines    []string
	runes    map[int][]rune // the characters of lines, by their numbers
	compiler *compiler
	mistakes Mistakes
}

// fail adds a mistake at a node.
func (r *reader) fail(n *yaml.Node, what, want string) { r.failAt(n.Line, n.Column, what, want) }

func (r *reader) failAt(line, column int, what, want string) {
	if r.full() {
		return
	}
	m := Mistake{File: r.name, Line: max(line, 1), Column: max(column, 1), What: short(what), Want: short(want)}
	r.mistakes = append(r.mistakes, m)
}

// full reports whether so much is wrong that the rest is not looked at.
func (r *reader) full() bool { return len(r.mistakes) >= maxMistakes }

func (r *reader) file(root *yaml.Node) *File {
	if !r.isMapping(root, "the file") {
		return nil
	}
	words := r.mapping(root, fileWords)
	f := &File{Attributes: r.attributes(words["attributes"]), Proxies: r.proxies(words["proxies"])}
	f.address = addressBehind(f.Proxies)
	var err error
	if r.compiler, err = newCompiler(f.Attributes); err != nil {
		r.fail(root, err.Error(), "other names of attributes")
		return f
	}
	f.ofApplication = r.compiler.ofApplication
	limits := words["limits"]
	if limits == nil {
		r.fail(root, "no limits", "limits: with at least one limit")
		return f
	}
	f.Policies = r.policies(limits)
	r.checkTogether(f.Policies)
	r.checkNames(f.Policies)
	return f
}

// policies reads the limits.
func (r *reader) policies(n *yaml.Node) (policies []*Policy) {
	if !r.isMapping(n, "limits") {
		return nil
	}
	if len(n.Content) == 0 {
		r.fail(n, "no limits", "at least one limit")
	}
	for _, e := range r.entries(n, "limit") {
		if p := r.policy(e.key, e.value); p != nil {
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
			r.failAt(p.Line, p.Column, fmt.Sprintf("headers use the name %q for a window of %s", p.Name, other), "another name")
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
	"namespace null return true var void while request response")

func (r *reader) attributes(n *yaml.Node) (names []string) {
	items, _ := r.items(n, "attributes")
	for _, item := range items {
		name, ok := r.scalar(item, "attribute")
		switch first, _, _ := strings.Cut(name, "."); {
		case !ok:
		case !attributeName.MatchString(name):
			r.fail(item, fmt.Sprintf("attribute %q", name), "a name such as email or user.email: lower case, at most one dot")
		case slices.Contains(reserved, first):
			r.fail(item, fmt.Sprintf("attribute %q", name), "another name: this one has a meaning already")
		case slices.Contains(names, name) || slices.Contains(userNames, name):
			r.fail(item, fmt.Sprintf("attribute %q is known already", name), "each name once, without "+
				strings.Join(userNames, " and "))
		default:
			names = append(names, name)
		}
	}
	return names
}

func (r *reader) proxies(n *yaml.Node) (proxies []string) {
	items, _ := r.items(n, "proxies")
	for _, item := range items {
		text, ok := r.scalar(item, "proxy")
		if !ok {
			continue
		}
		if text != "unix" && !isNetwork(text) {
			r.fail(item, fmt.Sprintf("proxy %q", text), "an address, a network such as 10.0.0.0/8, or unix")
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
		r.fail(key, fmt.Sprintf("limit %q", key.Value), "a name of letters, digits, dot, underscore, dash and slash")
	}
	if !r.isMapping(n, "limit "+key.Value) {
		return nil
	}
	words := r.mapping(n, policyWords)
	p := &Policy{Name: key.Value, Line: key.Line, Column: key.Column}
	rules := r.compiler.rules
	p.When, p.when = r.expression(words["when"], "when", rules, cel.BoolType)
	r.by(p, key, words)
	p.Plan, p.plan = r.expression(words["plan"], "plan", rules, cel.StringType)
	before := len(r.mistakes)
	r.rates(p, key, words)
	ratesKnown := len(r.mistakes) == before
	r.cost(p, words["cost"])
	r.count(p, words["count"])
	r.modes(p, words)
	r.script(p, key, words["script"], ratesKnown)
	p.asksRequest = slices.ContainsFunc(append(slices.Clone(p.by), p.when, p.plan, p.cost), func(e *expression) bool {
		return e.uses("request.")
	})
	return p
}

// by reads what a limit is counted by.
func (r *reader) by(p *Policy, key *yaml.Node, words map[string]*yaml.Node) {
	p.Empty = Empty(r.choice(words["empty"], "empty", string(EmptyRefuse), string(EmptySkip), string(EmptyShared)))
	by := words["by"]
	if by == nil {
		r.fail(key, fmt.Sprintf("limit %s has no by", key.Value), `by: what is counted, as in by: request.ip, `+
			`or by: '"all"' for one limit for everybody`)
		return
	}
	items, ok := r.items(by, "by")
	mayBeEmpty := true
	if len(items) == 0 && ok {
		r.fail(by, "by is empty", "what is counted, as in by: request.ip")
	}
	for _, item := range items {
		text, e := r.expression(item, "by", r.compiler.rules, cel.StringType)
		if e != nil {
			p.By, p.by = append(p.By, text), append(p.by, e)
		}
		mayBeEmpty = mayBeEmpty && e != nil && e.mayEmpty
	}
	if mayBeEmpty && p.Empty == "" && len(p.by) > 0 {
		r.fail(by, "by may be empty: the client may leave it out", "empty: refuse, skip or shared beside it")
	}
}

// rates reads the rates or the plans.
func (r *reader) rates(p *Policy, key *yaml.Node, words map[string]*yaml.Node) {
	rates, plan, plans := words["rates"], words["plan"], words["plans"]
	switch {
	case rates != nil && plans != nil:
		r.fail(plans, "rates and plans in one limit", "one of them; the rates of all others are plans: {default: ..}")
		r.rateList(rates, "rates", 1)
		r.plans(p, plan, plans)
	case rates != nil && plan != nil:
		r.fail(plan, "plan without plans", "plans: {NAME: [3/1m]}, or no plan")
		r.rateList(rates, "rates", 1)
	case rates != nil:
		p.Rates = r.rateList(rates, "rates", 1)
	case plan == nil && plans != nil:
		r.fail(plans, "plans without plan", "plan: which of them, as in plan: user.plan")
	case plan != nil && plans == nil:
		r.fail(plan, "a plan without a limit: no plans", "plans: {NAME: [3/1m]}")
	case plans == nil:
		r.fail(key, fmt.Sprintf("limit %s has no rates", key.Value), "rates: [3/1m], or plan and plans")
	default:
		r.plans(p, plan, plans)
	}
}

func (r *reader) plans(p *Policy, plan, plans *yaml.Node) {
	if !r.isMapping(plans, "plans") {
		return
	}
	var names []string
	for _, e := range r.entries(plans, "plan") {
		names = append(names, e.key.Value)
		p.Plans = append(p.Plans, Plan{Name: e.key.Value, Rates: r.rateList(e.value, "plan "+e.key.Value, 0)})
	}
	if len(plans.Content) == 0 {
		r.fail(plans, "no plans", "plans: {NAME: [3/1m]}")
	}
	if p.plan == nil || slices.Contains(names, DefaultPlan) {
		return
	}
	for _, result := range results(p.plan.checked) {
		if !slices.Contains(names, result) {
			r.fail(plan, fmt.Sprintf("a plan without a limit: %q", result), "one of plans: "+strings.Join(names, ", "))
		}
	}
}

// rateList reads rates, each of at least so many permits.
func (r *reader) rateList(n *yaml.Node, what string, least int64) (rates []loader.Limit) {
	items, ok := r.items(n, what)
	switch {
	case !ok:
	case len(items) == 0 && isRate(strings.TrimPrefix(what, "plan ")):
		r.fail(n, what, wantBrackets)
	case len(items) == 0 && strings.HasPrefix(what, "plan "):
		r.fail(n, "a plan without a limit: "+what[len("plan "):], "[60/1m]; [0/1m] for a plan that allows nothing")
	case len(items) == 0:
		r.fail(n, "no rates", "one or more, as in [3/1m, 20/24h]")
	case len(items) > maxRates:
		r.fail(n, fmt.Sprintf("%d rates", len(items)), "at most 8")
	}
	for _, item := range items {
		if rate, ok := r.rate(item, least); ok {
			rates = append(rates, rate)
		}
	}
	if at, conflict := conflict(rates); conflict != "" && len(rates) == len(items) {
		r.fail(items[at], conflict, "another rate, or none")
	}
	return rates
}

func (r *reader) rate(n *yaml.Node, least int64) (rate loader.Limit, ok bool) {
	text, ok := r.scalar(n, "rate")
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
		r.fail(n, what, want)
	}
	return rate, what == ""
}

// cost reads how many permits a call takes.
func (r *reader) cost(p *Policy, n *yaml.Node) {
	p.fixedCost = 1
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
		r.fail(n, fmt.Sprintf("cost %d", cost), "at least 1")
	}
	for _, rate := range p.all() {
		if rate.Permits > 0 && int64(cost) > rate.Permits {
			r.fail(n, fmt.Sprintf("cost %d can never be granted", cost), "at most the permits of every rate: "+show(rate))
			return
		}
	}
}

// count reads which calls are charged.
func (r *reader) count(p *Policy, n *yaml.Node) {
	p.Count, p.count = r.expression(n, "count", r.compiler.counts, cel.BoolType)
	if p.count != nil && !p.count.uses(nameStatus) {
		r.fail(n, "count does not ask for "+nameStatus,
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
	text, ok := r.scalar(n, "fail")
	switch share, isLocal := strings.CutPrefix(text, "local "); {
	case !ok || text == "closed":
	case text == "open":
		p.Fail.Open = true
	case isLocal:
		r.share(p, n, strings.TrimSpace(share))
	default:
		r.fail(n, fmt.Sprintf("fail %q", text), "closed, open or a share such as local 1/8"+
			didYouMean(text, "closed", "open"))
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
		r.fail(n, fmt.Sprintf("share %q", text), "more than 0 and at most 1, as in local 1/8")
	}
}

// choice reads a word that is one of several, "" if there is none.
func (r *reader) choice(n *yaml.Node, word string, known ...string) string {
	if n == nil {
		return ""
	}
	text, ok := r.scalar(n, word)
	if ok && !slices.Contains(known, text) {
		what, want := unknown(word, text, known)
		r.fail(n, what, want)
	}
	return text
}

// expression reads an expression. It returns nil if there is none or it is wrong.
func (r *reader) expression(n *yaml.Node, word string, env *cel.Env, kind *cel.Type) (string, *expression) {
	if n == nil || r.full() {
		return "", nil
	}
	text, ok := r.scalar(n, word)
	if !ok {
		return "", nil
	}
	e, problems := r.compiler.compile(text, env, kind)
	for _, p := range problems {
		line, column := r.place(n, p)
		r.failAt(line, column, word+": "+p.what, p.want)
	}
	return text, e
}
