package envoyfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/sluice-redis/sluice/policy/internal/yamlfile"
)

var (
	fileWords       = []string{"domain", "descriptors", "name"} // gateways write a name, which nobody reads
	descriptorWords = []string{"key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode", "detailed_metric",
		"value_to_metric", "share_threshold", "metadata"}
	limitWords = []string{"unit", "requests_per_unit", "unlimited", "name", "replaces"}
)

// maxLevels is how deep descriptors may stand in one another.
const maxLevels = 50

// Parse reads a file. The name is used in mistakes. Its error is policy.Mistakes.
func Parse(name string, src []byte) (*File, error) {
	r := &reader{Reader: yamlfile.New(name, src, "domain"), file: &File{Name: name}}
	r.Made = true
	if root := r.Document(src); root != nil && r.IsMapping(root, "the file") {
		r.top(root)
	}
	r.file.Further = r.Further
	if len(r.Mistakes) > 0 {
		return nil, r.Mistakes.Sorted()
	}
	return r.file, nil
}

// reader reads one file.
type reader struct {
	*yamlfile.Reader
	file *File
}

// words returns the values of a mapping whose words are known, without those that are null.
func (r *reader) words(n *yaml.Node, known []string) map[string]*yaml.Node {
	words := r.Mapping(n, known)
	maps.DeleteFunc(words, func(_ string, n *yaml.Node) bool { return yamlfile.IsNull(n) })
	return words
}

func (r *reader) top(root *yaml.Node) {
	words := r.words(root, fileWords)
	if n := words["domain"]; n == nil {
		r.Fail(root, "no domain", "domain: the name that the proxy sends")
	} else if text, ok := r.text(n, "domain"); ok {
		r.file.Domain, r.file.line, r.file.column = text, n.Line, n.Column
	}
	r.mayBeEmpty(words["name"], "name")
	r.file.root = r.level(words["descriptors"], nil)
}

// level reads descriptors below others.
func (r *reader) level(n *yaml.Node, above []*descriptor) *level {
	items := r.list(n, "descriptors")
	if len(items) == 0 {
		return nil
	}
	if len(above) == maxLevels {
		r.Fail(n, fmt.Sprintf("descriptors more than %d levels deep", maxLevels), "fewer levels")
		return nil
	}
	l, lines := &level{exact: map[string]*descriptor{}}, map[string]int{}
	for _, item := range items {
		if r.Full() {
			break
		}
		d := r.descriptor(item, above)
		if d == nil {
			continue
		}
		composite := d.composite()
		if line, twice := lines[composite]; twice {
			r.Fail(item, fmt.Sprintf("two descriptors %q", composite),
				fmt.Sprintf("another key or value, also when they are joined by _: line %d has this one", line))
			continue
		}
		lines[composite] = item.Line
		l.all = append(l.all, d)
		l.exact[composite] = d
		if d.isPattern() {
			l.patterns = append(l.patterns, d)
		}
	}
	return l
}

// list returns the mappings in a list.
func (r *reader) list(n *yaml.Node, what string) (items []*yaml.Node) {
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		r.Fail(n, what+" is no list", "a list: a dash before each")
		return nil
	}
	for _, item := range n.Content {
		if r.IsMapping(item, "each of "+what) {
			items = append(items, item)
		}
	}
	return items
}

// descriptor reads one descriptor and those below it.
func (r *reader) descriptor(n *yaml.Node, above []*descriptor) *descriptor {
	words := r.words(n, descriptorWords)
	d := &descriptor{}
	if words["key"] == nil {
		r.Fail(n, "a descriptor without a key", "key: as the proxy sends it")
		return nil
	}
	var ok bool
	if d.key, ok = r.text(words["key"], "key"); !ok {
		return nil
	}
	d.value = r.mayBeEmpty(words["value"], "value")
	d.share = r.flag(words["share_threshold"], "share_threshold")
	if d.share && !d.isPattern() {
		r.Fail(words["share_threshold"], "share_threshold without a wildcard", "a value with *, or no share_threshold")
	}
	d.valueToMetric = r.flag(words["value_to_metric"], "value_to_metric")
	levels := append(slices.Clone(above), d)
	d.rule = r.rule(words, levels)
	d.below = r.level(words["descriptors"], levels)
	return d
}

// rule reads a rate_limit and what stands beside it, nil if there is none.
func (r *reader) rule(words map[string]*yaml.Node, levels []*descriptor) *Rule {
	rule := &Rule{levels: levels}
	rule.Shadow, rule.Quota = r.flag(words["shadow_mode"], "shadow_mode"), r.flag(words["quota_mode"], "quota_mode")
	rule.detailed = r.flag(words["detailed_metric"], "detailed_metric")
	if n := words["metadata"]; n != nil && r.IsMapping(n, "metadata") {
		if value, ok := r.plain(n).(map[string]any); ok {
			rule.Metadata = value
		}
	}
	n := words["rate_limit"]
	if n == nil || !r.IsMapping(n, "rate_limit") {
		return nil
	}
	rule.Line, rule.Column = n.Line, n.Column
	dynamic := rule.detailed
	for _, d := range levels {
		rule.Path = append(rule.Path, d.composite())
		dynamic = dynamic || d.valueToMetric
	}
	if !dynamic {
		rule.label = strings.Join(rule.Path, ".")
	}
	r.limit(rule, n)
	r.file.Rules = append(r.file.Rules, rule)
	return rule
}

// limit reads what stands in a rate_limit.
func (r *reader) limit(rule *Rule, n *yaml.Node) {
	words := r.words(n, limitWords)
	rule.Unlimited = r.flag(words["unlimited"], "unlimited")
	if requests := words["requests_per_unit"]; requests != nil {
		text, ok := r.text(requests, "requests_per_unit")
		if ok && requests.Load(&rule.Requests) != nil {
			r.Fail(requests, fmt.Sprintf("requests_per_unit %q", text), "a whole number, 0 to 4294967295, without quotes")
		}
	}
	rule.Name = r.mayBeEmpty(words["name"], "name")
	for _, item := range r.list(words["replaces"], "replaces") {
		r.replaces(rule, item)
	}
	unit := words["unit"]
	switch {
	case rule.Unlimited && unit != nil && unit.Value != "" && unitOf(unit.Value) > 0:
		r.Fail(unit, "a unit beside unlimited", "one of them")
	case rule.Unlimited:
	case unit == nil:
		r.Fail(n, "a rate_limit without a unit", "unit: "+strings.Join(unitNames[1:], ", ")+"; or unlimited: true")
	default:
		text, ok := r.text(unit, "unit")
		if rule.Unit = unitOf(text); ok && rule.Unit == 0 {
			what, want := yamlfile.Unknown("unit", text, unitNames[1:])
			r.Fail(unit, what, want)
		}
	}
}

// unitOf returns the unit of a word in any case, 0 if it is none.
func unitOf(text string) Unit {
	return Unit(max(slices.Index(unitNames[1:], strings.ToLower(text))+1, 0))
}

func (r *reader) replaces(rule *Rule, n *yaml.Node) {
	name := r.words(n, []string{"name"})["name"]
	switch {
	case name == nil || name.Value == "":
		r.Fail(n, "an empty entry in replaces", "name: that of another rate_limit")
	case name.Value == rule.Name:
		r.Fail(name, fmt.Sprintf("%q replaces itself", rule.Name), "the name of another rate_limit")
	default:
		if text, ok := r.text(name, "name"); ok {
			rule.Replaces = append(rule.Replaces, text)
		}
	}
}

// text reads a value. Numbers with a point are refused, as there.
func (r *reader) text(n *yaml.Node, what string) (string, bool) {
	text, ok := r.Scalar(n, what)
	if ok && n.ShortTag() == "!!float" {
		r.Fail(n, fmt.Sprintf("%s is the number %s", what, text), "quotes around it")
		return "", false
	}
	return text, ok
}

// mayBeEmpty reads a value that may be "" or left out.
func (r *reader) mayBeEmpty(n *yaml.Node, what string) string {
	if n == nil || n.Kind == yaml.ScalarNode && n.Value == "" {
		return ""
	}
	text, _ := r.text(n, what)
	return text
}

// flag reads true or false, also as yes, on, no and off. It is false if there is none.
func (r *reader) flag(n *yaml.Node, what string) (on bool) {
	if n == nil {
		return false
	}
	if text, ok := r.text(n, what); ok && (n.Style != 0 || n.Load(&on) != nil) {
		r.Fail(n, fmt.Sprintf("%s is %q", what, text), "true or false, without quotes")
	}
	return on
}

// plain returns a value of metadata.
func (r *reader) plain(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		values := map[string]any{}
		for _, e := range r.Entries(n, "key") {
			values[e.Key.Value] = r.plain(e.Value)
		}
		return values
	case yaml.SequenceNode:
		values := []any{}
		for _, item := range n.Content {
			values = append(values, r.plain(item))
		}
		return values
	}
	var value any
	if on := false; n.Style == 0 && n.ShortTag() == "!!str" && n.Load(&on) == nil {
		return on // yes, no and the like
	}
	if err := n.Load(&value); err != nil {
		r.Fail(n, "metadata: "+err.Error(), "texts, numbers, true and false")
	}
	switch v := value.(type) {
	case int:
		return float64(v)
	case float64, bool, string, nil:
		return v
	}
	return n.Value
}
