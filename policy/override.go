package policy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"cel.dev/cel-go/common/ast"
	"go.yaml.in/yaml/v4"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/loader"
)

// Override is other rates for one subject of a policy, or for each subject in a network, until a time. The subject's
// state is the policy's: what the subject was granted counts before, during and after.
type Override struct {
	Subject string         // as Policy.Subject makes it; "" of a network
	Network string         // as the file has it: 10.0.0.0/8, or the name of a list
	Rates   []loader.Limit // with the windows of the policy, or of one of its plans
	Until   time.Time
	Reason  string

	rates    []rate
	networks networks
}

// Of reports whether the override is for a subject, as Policy.Subject makes it.
func (o Override) Of(subject string) bool {
	if o.Network == "" {
		return o.Subject == subject
	}
	address, _, _ := strings.Cut(subject, "/") // of 2001:db8::/64, which is in a network or not
	addr, err := netip.ParseAddr(address)
	return err == nil && o.networks.contain(addr)
}

// Active reports whether the override applies at a time.
func (o Override) Active(at time.Time) bool { return at.Before(o.Until) }

// Subject returns the subject under which calls with these values are counted: one value for each `by`. Use it for what
// an operator types. An address becomes what `by` makes of it: with ip(request.ip, 64), its /64. If there are several
// `by`, a single value is the subject as it is stored: "192.0.2.7|ada". Its error says what is wrong with the values.
func (p *Policy) Subject(values ...string) (string, error) {
	join := httplimit.Subject
	if len(values) == 1 && len(p.by) > 1 {
		values = strings.Split(values[0], "|")
		join = func(coded ...string) string { return strings.Join(coded, "|") }
	}
	if len(values) != len(p.by) {
		return "", fmt.Errorf("%q: want one value for each of by: %s", strings.Join(values, " "), strings.Join(p.By, ", "))
	}
	named := make([]string, len(values))
	for i, e := range p.by {
		var err error
		if named[i], err = namedBy(e.checked, values[i]); err != nil {
			return "", fmt.Errorf("%q: want an address, for %s", values[i], p.By[i])
		}
	}
	return join(named...), nil
}

// namedBy is the value of an expression, made of what a person calls it. It is itself if it is such a value already.
func namedBy(e ast.Expr, value string) (string, error) {
	if name, _ := nameOf(e); name == "request.ip" {
		return addressKey(value, 128)
	}
	if e.Kind() != ast.CallKind {
		return value, nil
	}
	switch call := e.AsCall(); call.FunctionName() {
	case "lowerAscii":
		return lowerASCII(value), nil
	case "ip":
		if bits, ok := number(call.Args()[1]); ok {
			return addressKey(value, bits)
		}
	}
	return value, nil
}

// addressKey is networkOf an address, or of a prefix that is such a key.
func addressKey(text string, bits int) (string, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil && prefix.Bits() == bits {
		text = prefix.Addr().String()
	}
	return networkOf(text, bits)
}

// override applies the override of the subject, or else the first one of a network that has it. One that has ended does
// not count.
func (m *Match) override(at time.Time) {
	if at.IsZero() {
		at = time.Now()
	}
	i, found := m.Policy.overridden[m.Subject]
	if !found || !m.Policy.Overrides[i].Active(at) {
		i = slices.IndexFunc(m.Policy.Overrides, func(o Override) bool {
			return o.Network != "" && o.Of(m.Subject) && o.Active(at)
		})
	}
	if i >= 0 {
		o := &m.Policy.Overrides[i]
		m.Override, m.Rates, m.limiter = o, o.Rates, max(len(m.Policy.Plans), 1)+i
	}
}

var overrideWords = []string{"subject", "network", "rates", "until", "reason"}

const wantOverride = "{subject: ada@example.com, rates: 10/1m, until: 2026-11-26T12:00:00Z}"

// overrides reads other rates for single subjects. They are checked also if they have ended: the same bytes always
// have the same mistakes.
func (r *reader) overrides(p *Policy, n *yaml.Node, ratesKnown bool) {
	p.overridden = map[string]int{}
	items, _ := r.Items(n, "overrides")
	for _, item := range items {
		if !r.IsMapping(item, "override") {
			continue
		}
		words := r.Mapping(item, overrideWords)
		missing := false
		want := []string{"subject", "rates", "until"}
		if words["network"] != nil {
			want[0] = "network"
		}
		for _, word := range want {
			if words[word] == nil {
				r.Fail(item, "override without "+word, wantOverride)
				missing = true
			}
		}
		if missing {
			continue
		}
		o := Override{Until: r.until(words["until"])}
		if words["network"] != nil {
			r.overrideNetwork(p, &o, words)
		} else {
			o.Subject = r.subject(p, words["subject"])
		}
		o.rates, _ = r.rateItems(words["rates"], "rates", 0)
		if reason := words["reason"]; reason != nil {
			o.Reason, _ = r.Scalar(reason, "reason")
		}
		if ratesKnown && len(o.rates) > 0 {
			r.overrideRates(p, words["rates"], o.rates)
		}
		if _, twice := p.overridden[o.Subject]; twice && o.Subject != "" {
			r.Fail(item, fmt.Sprintf("two overrides for %q", o.Subject), "one for each subject")
		}
		if o.Network == "" {
			p.overridden[o.Subject] = len(p.Overrides)
		}
		p.Overrides = append(p.Overrides, o)
	}
}

// subject reads whom an override is for.
func (r *reader) subject(p *Policy, n *yaml.Node) string {
	items, ok := r.Items(n, "subject")
	var values []string
	for _, item := range items {
		value, isText := r.Scalar(item, "subject")
		ok = ok && isText
		values = append(values, value)
	}
	if !ok || len(p.by) < len(p.By) || len(p.by) == 0 {
		return ""
	}
	subject, err := p.Subject(values...)
	if at := strings.Index(subject, ":{"); at > 0 && strings.Contains(subject[at:], "}:") {
		r.Fail(n, "subject "+subject, "what is between the braces of the key")
	}
	if err != nil {
		what, want, _ := strings.Cut(err.Error(), ": want ")
		r.Fail(n, "subject "+what, want)
	}
	return subject
}

// overrideNetwork reads the network of an override, or the name of a list.
func (r *reader) overrideNetwork(p *Policy, o *Override, words map[string]*yaml.Node) {
	n := words["network"]
	if words["subject"] != nil {
		r.Fail(words["subject"], "subject beside network", "one of them")
	}
	if o.Network, _ = r.Scalar(n, "network"); r.lists["networks."+o.Network] != nil {
		o.networks = r.lists["networks."+o.Network]
	} else if network, err := parseNetwork(o.Network); err == nil {
		o.networks = networks{network}
	} else {
		r.Fail(n, fmt.Sprintf("network %q", o.Network),
			networkLike(o.Network, "10.0.0.0/8, say, or the name of a list in networks"))
	}
	bits := 0
	if len(p.by) == 1 {
		bits = addressBits(p.by[0].checked)
	}
	small := func(network netip.Prefix) bool { return network.Addr().Is6() && network.Bits() > bits }
	if bits == 0 && len(p.by) == len(p.By) && len(p.by) > 0 {
		r.Fail(n, "override of a network, and the limit is not by address alone", "by: request.ip, or by: ip(request.ip, 64)")
	} else if slices.ContainsFunc(o.networks, small) && bits > 0 {
		r.Fail(n, fmt.Sprintf("a network that is smaller than the /%d by which the limit counts", bits), "a larger one")
	}
}

// addressBits returns how many bits of an IPv6 address an expression has; 0 if it is no address.
func addressBits(e ast.Expr) int {
	if name, _ := nameOf(e); name == "request.ip" {
		return 128
	}
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == "ip" {
		bits, _ := number(e.AsCall().Args()[1])
		return bits
	}
	return 0
}

func (r *reader) until(n *yaml.Node) (until time.Time) {
	text, ok := r.Scalar(n, "until")
	if !ok {
		return until
	}
	until, err := time.Parse(time.RFC3339, text)
	if err != nil {
		r.Fail(n, fmt.Sprintf("until %q", text), "a date and a time with its zone, as in 2026-11-26T12:00:00Z or "+
			"2026-11-26T13:00:00+01:00")
	}
	return until
}

// overrideRates refuses rates that the subject's state cannot be compared with. An override changes permits only: a log
// forgets what a shorter window does not need, and a ring begins a new window empty.
func (r *reader) overrideRates(p *Policy, n *yaml.Node, rates []rate) {
	var known []string
	for _, plan := range p.plans() {
		if text := showWindows(plan.rates); text != "" && !slices.Contains(known, text) {
			known = append(known, text)
		}
	}
	_, maxRate := windowsOf(rates)
	switch {
	case !slices.Contains(known, showWindows(rates)):
		r.Fail(n, "override with the window "+showWindows(rates), strings.Join(known, ", or ")+": those of the limit")
	case maxRate > largest[p.Script]:
		r.Fail(n, fmt.Sprintf("%s holds %d permits, and a rate has %d", p.Script, largest[p.Script], maxRate),
			"fewer, or script: slice_ring")
	}
	for _, rate := range p.enforced(rates) {
		if rate.Permits > 0 && p.fixedCost > rate.Permits {
			r.Fail(n, fmt.Sprintf("cost %d can never be granted by %s", p.fixedCost, rate.show()), "at least the cost, or 0")
		}
	}
}

// showWindows is the windows and periods of rates, the shortest first.
func showWindows(rates []rate) string {
	rates = slices.SortedFunc(slices.Values(rates), func(a, b rate) int {
		return cmp.Or(cmp.Compare(a.Window, b.Window), cmp.Compare(a.period, b.period))
	})
	texts := make([]string, len(rates))
	for i, rate := range rates {
		texts[i] = rate.per()
	}
	return strings.Join(texts, " and ")
}
