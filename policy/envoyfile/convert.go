package envoyfile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-redis/sluice/policy/internal/yamlfile"
)

// Convert writes the files as one policy file. What that cannot say is an error, a policy.Mistakes: replaces,
// quota_mode, metadata, a key that is twice in a descriptor or has a wildcard. What is unlimited, and names of metrics,
// are comments.
func Convert(files []*File) ([]byte, error) {
	c := converter{names: map[string]bool{}}
	c.b.WriteString("limits:\n")
	for _, f := range files {
		for _, rule := range f.Rules {
			if c.check(f, rule) {
				c.rule(f, rule)
			}
		}
	}
	if len(c.mistakes) > 0 {
		return nil, c.mistakes
	}
	return []byte(c.b.String()), nil
}

type converter struct {
	b        strings.Builder
	names    map[string]bool
	mistakes yamlfile.Mistakes
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// name returns a name that no other limit has.
func (c *converter) name(f *File, rule *Rule) string {
	text := rule.Name
	if text == "" {
		text = f.Domain + "-" + strings.Join(rule.Path, "-")
	}
	text = strings.Trim(notInNames.ReplaceAllString(text, "-"), "-")
	text = text[:min(len(text), 100)]
	for n, name := 2, text; ; n++ {
		if name != "" && !c.names[name] {
			c.names[name] = true
			return name
		}
		name = fmt.Sprintf("%s-%d", text, n)
	}
}

// check reports whether there is a limit to be written, and adds what a policy file cannot say.
func (c *converter) check(f *File, rule *Rule) bool {
	fail := func(wrong bool, what, want string) {
		if wrong {
			c.mistakes = append(c.mistakes, yamlfile.Mistake{File: f.Name, Line: rule.Line, Column: rule.Column,
				What: "a policy file cannot say " + what, Want: want})
		}
	}
	metrics := rule.detailed
	for i, d := range rule.levels {
		metrics = metrics || d.valueToMetric
		fail(strings.Contains(d.key, "*"), fmt.Sprintf("the key %q with a wildcard", d.key), "the keys written out")
		twice := slices.Contains(keys(rule.levels[:i]), d.key)
		fail(twice, fmt.Sprintf("the key %q twice", d.key), "another key at one level")
	}
	const serve = "this file served as it is"
	fail(len(rule.Replaces) > 0, "replaces "+strings.Join(rule.Replaces, ", "), serve)
	fail(rule.Quota, "quota_mode", serve)
	fail(rule.Metadata != nil, "metadata", serve)
	switch {
	case rule.Unlimited:
		fmt.Fprintf(&c.b, "  # %s:%d: unlimited, so there is no limit\n", f.Name, rule.Line)
	case metrics:
		fmt.Fprintf(&c.b, "  # %s:%d: metrics have the name of the limit, without values\n", f.Name, rule.Line)
	}
	return !rule.Unlimited
}

func (c *converter) rule(f *File, rule *Rule) {
	when := []string{"domain == " + quoted(f.Domain), "keys == " + quoted(strings.Join(keys(rule.levels), ","))}
	by, in := []string(nil), f.root
	for _, d := range rule.levels {
		when = append(when, in.condition(d)...)
		if (d.value == "" || d.isPattern()) && !d.share {
			by = append(by, value(d.key))
		}
		in = d.below
	}
	if by == nil {
		by = []string{`"all"`}
	}
	condition := strings.ReplaceAll(strings.Join(when, " && "), "'", "''")
	fmt.Fprintf(&c.b, "  %s:\n    when: '%s'\n    by:\n", c.name(f, rule), condition)
	for _, text := range by {
		fmt.Fprintf(&c.b, "      - '%s'\n", strings.ReplaceAll(text, "'", "''"))
	}
	rate := fmt.Sprintf("[%d/%s]", min(rule.Requests, 1_000_000_000), rates[rule.Unit])
	c.b.WriteString("    empty: shared\n    script: slice_ring\n")
	if rule.Requests == 0 {
		fmt.Fprintf(&c.b, "    plan: '\"none\"'\n    plans: {none: %s}\n", rate)
	} else {
		fmt.Fprintf(&c.b, "    rates: %s\n", rate)
	}
	if rule.Shadow {
		c.b.WriteString("    mode: shadow\n")
	}
}

func keys(levels []*descriptor) (keys []string) {
	for _, d := range levels {
		keys = append(keys, d.key)
	}
	return keys
}

var rates = []string{"", "1s", "1m", "1h", "1d", "7d", "30d", "365d"}

// condition says when an entry goes to a descriptor, and not to one beside it that goes before.
func (l *level) condition(d *descriptor) (conditions []string) {
	switch {
	case d.isPattern():
		conditions = append(conditions, d.test())
	case d.value != "":
		return []string{d.test()}
	}
	for _, other := range l.all {
		if other.key == d.key && other != d && other.goesBefore(d, l) {
			conditions = append(conditions, "!("+other.test()+")")
		}
	}
	return conditions
}

// goesBefore reports whether an entry that both match goes to d.
func (d *descriptor) goesBefore(other *descriptor, l *level) bool {
	switch {
	case d.value == "":
		return false
	case !d.isPattern():
		return !other.isPattern() || matches(other.composite(), []byte(d.composite()))
	}
	return !other.isPattern() || slices.Index(l.patterns, d) < slices.Index(l.patterns, other)
}

// test is the condition by which an entry matches a descriptor with a value.
func (d *descriptor) test() string {
	if !d.isPattern() {
		return value(d.key) + " == " + quoted(d.value)
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(d.value), `\*`, ".*")
	return value(d.key) + ".matches(" + quoted("^"+pattern+"$") + ")"
}

func value(key string) string { return "descriptor[" + quoted(key) + "]" }

// quoted is a text as CEL writes it.
func quoted(text string) string { return strconv.Quote(text) }
