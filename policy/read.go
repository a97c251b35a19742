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
)

// maxFile is the longest file, in bytes.
const maxFile = 1 << 20

var (
	fileWords   = []string{"limits", "attributes", "proxies"}
	policyWords = []string{"when", "by", "empty", "rates", "plan", "plans", "script", "cost", "count", "mode", "fail"}
)

// Parse reads a policy file. The name is used in errors only, which are Mistakes: all that are in the file. The same
// bytes always give the same policies, or the same mistakes. Cost: about a millisecond for each policy that has
// expressions.
func Parse(name string, src []byte) (*File, error) {
	r := &reader{name: name, lines: lineBreak.Split(string(src), -1)}
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
	compiler *compiler
	mistakes Mistakes
}

// fail adds a mistake at a node.
func (r *reader) fail(n *yaml.Node, what, want string) { r.failAt(n.Line, n.Column, what, want) }

func (r *reader) failAt(line, column int, what, want string) {
	m := Mistake{File: r.name, Line: max(line, 1), Column: max(column, 1), What: what, Want: want}
	r.mistakes = append(r.mistakes, m)
}

// document returns the mapping that the file is, nil if it is none.
func (r *reader) document(src []byte) *yaml.Node {
	if len(src) > maxFile || !utf8.Valid(src) {
		r.failAt(1, 1, fmt.Sprintf("a file of %d bytes", len(src)), "UTF-8 of at most 1 MiB")
		return nil
	}
	var document yaml.Node
	if err := yaml.Load(src, &document); err != nil {
		r.failYAML(err)
		return nil
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) != 1 {
		r.failAt(1, 1, "the file is empty", "limits")
		return nil
	}
	return document.Content[0]
}

// failYAML adds what is not YAML.
func (r *reader) failYAML(err error) {
	what, line, column := strings.TrimPrefix(err.Error(), "yaml: "), 1, 1
	var loadErr *yaml.LoadError
	if errors.As(err, &loadErr) && loadErr.Mark.Line > 0 {
		what, line, column = loadErr.Message, loadErr.Mark.Line, loadErr.Mark.Column
	}
	want := "YAML"
	switch {
	case strings.Contains(what, "no documents"):
		what, want = "the file is empty", "limits"
	case strings.Contains(what, "found multiple"):
		what, want = "several documents", "one, without ---"
	case strings.Contains(what, "mapping values are not allowed"):
		want = `YAML: an expression with ": " in it stands in quotes`
	case strings.Contains(what, "YAML tag"):
		want = "quotes around what begins with an exclamation mark"
	case strings.Contains(what, "expected ',' or ']'"):
		want = "YAML: in [..] an expression stands in quotes"
	}
	r.failAt(line, column, what, want)
}

func (r *reader) file(root *yaml.Node) *File {
	if !r.isMapping(root, "the file") {
		return nil
	}
	words := r.mapping(root, fileWords)
	f := &File{Attributes: r.attributes(words["attributes"]), Proxies: r.proxies(words["proxies"])}
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
	if !r.isMapping(limits, "limits") {
		return f
	}
	if len(limits.Content) == 0 {
		r.fail(limits, "no limits", "at least one limit")
	}
	for _, e := range r.entries(limits, "limit") {
		if p := r.policy(e.key, e.value); p != nil {
			f.Policies = append(f.Policies, p)
		}
	}
	r.checkTogether(f.Policies)
	return f
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
	before := len(r.mistakes)
	if !limiterName.MatchString(key.Value) {
		r.fail(key, fmt.Sprintf("limit %q", key.Value), "a name of letters, digits, dot, underscore, dash and slash")
	}
	if !r.isMapping(n, "limit "+key.Value) {
		return nil
	}
	words := r.mapping(n, policyWords)
	p := &Policy{Name: key.Value, Line: key.Line, Column: key.Column, ofApplication: r.compiler.ofApplication}
	rules := r.compiler.rules
	p.When, p.when = r.expression(words["when"], "when", rules, cel.BoolType)
	r.by(p, key, words)
	p.Plan, p.plan = r.expression(words["plan"], "plan", rules, cel.StringType)
	r.rates(p, key, words)
	r.cost(p, words["cost"])
	p.Count, p.count = r.expression(words["count"], "count", r.compiler.counts, cel.BoolType)
	r.modes(p, words)
	if len(r.mistakes) == before {
		r.script(p, key, words["script"])
	}
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
	case rates != nil && plan != nil:
		r.fail(plan, "plan without plans", "plans: {NAME: [3/1m]}, or no plan")
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
	if n == nil {
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

// place returns where in the file a problem of an expression is, or where the expression begins if it is not written
// as it is read: in quotes with escapes, or folded.
func (r *reader) place(n *yaml.Node, p problem) (line, column int) {
	texts := strings.Split(n.Value, "\n")
	line, from := n.Line, n.Column-1
	if n.Style&yaml.LiteralStyle != 0 {
		line, from = n.Line+p.line, 0
	}
	if p.line < 1 || p.line > len(texts) || line > len(r.lines) {
		return n.Line, n.Column
	}
	runes := []rune(r.lines[line-1])
	before, _, found := strings.Cut(string(runes[min(from, len(runes)):]), texts[p.line-1])
	if !found || line == n.Line && len(texts) > 1 {
		return n.Line, n.Column
	}
	return line, from + utf8.RuneCountInString(before) + p.column + 1
}

// scalar returns the text of a node.
func (r *reader) scalar(n *yaml.Node, what string) (string, bool) {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		r.fail(n, "an anchor or alias", what+" written out")
	case n.Kind != yaml.ScalarNode:
		r.fail(n, what+" is "+kindOf(n), "a single value")
	case n.Style&yaml.TaggedStyle != 0:
		r.fail(n, fmt.Sprintf("%s has the YAML tag %s", what, n.Tag), "quotes around what begins with an exclamation mark")
	case n.Value == "":
		r.fail(n, what+" is empty", "a value")
	default:
		return n.Value, true
	}
	return "", false
}

// items returns the values of a list. A single value is a list of one. It is not ok if there is no list.
func (r *reader) items(n *yaml.Node, what string) (items []*yaml.Node, ok bool) {
	switch {
	case n == nil || n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return nil, true
	case n.Anchor != "" || n.Kind == yaml.AliasNode:
		r.fail(n, "an anchor or alias", what+" written out")
		return nil, false
	case n.Kind == yaml.SequenceNode:
		return n.Content, true
	case n.Kind == yaml.ScalarNode:
		return []*yaml.Node{n}, true
	}
	r.fail(n, what+" is "+kindOf(n), "a value or a list")
	return nil, false
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return "a single value"
}

// isMapping reports whether a node is a mapping.
func (r *reader) isMapping(n *yaml.Node, what string) bool {
	if n.Kind == yaml.MappingNode && n.Anchor == "" {
		return true
	}
	switch {
	case n.Anchor != "" || n.Kind == yaml.AliasNode:
		r.fail(n, "an anchor or alias", what+" written out")
	case n.Kind == yaml.ScalarNode && n.Value == "":
		r.fail(n, what+" is empty", "words and values below it")
	default:
		r.fail(n, what+" is "+kindOf(n), "a mapping: words and values")
	}
	return false
}

// entry is one line of a mapping.
type entry struct{ key, value *yaml.Node }

// entries returns the entries of a mapping. Two of the same key are a mistake.
func (r *reader) entries(n *yaml.Node, what string) (entries []entry) {
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if _, ok := r.scalar(key, what); !ok {
			continue
		}
		if line, twice := lines[key.Value]; twice {
			r.fail(key, fmt.Sprintf("two %ss of the name %q", what, key.Value),
				fmt.Sprintf("another name: line %d has it", line))
		}
		lines[key.Value] = key.Line
		entries = append(entries, entry{key, n.Content[i+1]})
	}
	return entries
}

// mapping returns the values of a mapping whose words are known.
func (r *reader) mapping(n *yaml.Node, known []string) map[string]*yaml.Node {
	values := map[string]*yaml.Node{}
	for _, e := range r.entries(n, "word") {
		if !slices.Contains(known, e.key.Value) {
			what, want := unknown("word", e.key.Value, known)
			r.fail(e.key, what, want)
			continue
		}
		values[e.key.Value] = e.value
	}
	return values
}
