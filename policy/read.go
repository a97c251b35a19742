package policy

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"go.yaml.in/yaml/v4"

	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/policy/internal/yamlfile"
)

var (
	fileWords   = []string{"limits", "attributes", "proxies", "hops", "networks", "zone"}
	policyWords = []string{
		"when", "by", "empty", "rates", "zone", "plan", "plans", "script", "cost", "count", "ban", "delay", "mode", "fail", "ahead",
		"overrides",
	}
)

// Parse reads a policy file. The name is used in errors only, which are Mistakes. The same bytes always give the same
// policies, or the same mistakes. Cost: up to a millisecond for each expression; of more than 1000 mistakes the rest of
// the file is not looked at.
func Parse(name string, src []byte) (*File, error) { return parse(name, src, false) }

// ParseForService is Parse for a service that proxies ask, such as sluiced. It knows nothing of an application: neither
// its values nor its answers. What a file asks for and such a service never has is a mistake: `attributes`, user.key,
// user.plan and `count`, and a `plan` that the client names without a plan `default`.
func ParseForService(name string, src []byte) (*File, error) { return parse(name, src, true) }

func parse(name string, src []byte, forService bool) (*File, error) {
	r := &reader{Reader: yamlfile.New(name, src, "limits"), forService: forService}
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
	compiler   *compiler
	fileZone   *time.Location
	lists      map[string]networks
	forService bool
}

func (r *reader) file(name string, root *yaml.Node) *File {
	if !r.IsMapping(root, "the file") {
		return nil
	}
	words := r.Mapping(root, fileWords)
	r.fileZone = r.zone(words["zone"], time.UTC)
	f := &File{name: name, Attributes: r.attributes(words["attributes"]), Proxies: r.proxies(words["proxies"])}
	if len(f.Proxies) > 0 {
		f.clientsErr = f.clients.TrustXForwardedFor(f.Proxies...)
	}
	r.hops(f, words["hops"])
	r.lists = r.networks(words["networks"])
	if r.forService && len(f.Attributes) > 0 {
		r.Fail(words["attributes"], "attributes: "+noApplication, wantRequest)
	}
	var err error
	if r.compiler, err = newCompiler(f.Attributes, r.lists, r.forService); err != nil {
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
		policies = append(policies, r.policy(e.Key, e.Value)...)
	}
	return policies
}

// checkNames refuses names that headers give to a window, or to a period, of another limit.
func (r *reader) checkNames(policies []*Policy) {
	windows := map[string]string{}
	for _, p := range policies {
		for _, name := range p.windowNames() {
			windows[name] = "a window of " + p.Name
		}
		if p.Ban.Permits > 0 {
			windows[p.BanName()] = "the ban of " + p.Limit()
		}
		if p.Period != "" {
			windows[p.Name] = "a rate of " + p.Limit()
		}
	}
	for _, p := range policies {
		if other := windows[p.Name]; other != "" && p.Period == "" {
			r.FailAt(p.Line, p.Column, fmt.Sprintf("headers use the name %q for %s", p.Name, other), "another name")
		}
	}
}

// windowNames is the names of windows in headers: "api-1m" and "api-1h". A single window has the name of the limit.
func (p *Policy) windowNames() (names []string) {
	for _, plan := range p.plans() {
		if len(plan.Rates) < 2 {
			continue
		}
		for _, rate := range plan.Rates {
			names = append(names, p.Name+"-"+admit.ShortDuration(rate.Window))
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
			r.Fail(item, fmt.Sprintf("proxy %q", text),
				networkLike(text, "an address, a network such as 10.0.0.0/8, or unix"))
			continue
		}
		proxies = append(proxies, text)
	}
	return proxies
}

// hops reads how many proxies there are, where their addresses are not known.
func (r *reader) hops(f *File, n *yaml.Node) {
	if n == nil {
		return
	}
	text, ok := r.Scalar(n, "hops")
	hops, err := strconv.Atoi(text)
	switch {
	case !ok:
	case len(f.Proxies) > 0:
		r.Fail(n, "hops beside proxies", "one of them: the proxies' addresses, if they are known")
	case err != nil || f.clients.TrustHops(hops) != nil:
		r.Fail(n, fmt.Sprintf("hops %q", text), "how many proxies there are: 1 to 100")
	}
	f.Hops = hops
}

func isNetwork(text string) bool {
	address, err := netip.ParseAddr(text)
	if err == nil {
		return address.Zone() == ""
	}
	_, err = parseNetwork(text)
	return err == nil
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
