package envoyfile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Convert writes the files as one policy file. What a policy file cannot say stands in comments.
func Convert(files []*File) ([]byte, error) {
	c := converter{names: map[string]bool{}}
	c.b.WriteString("limits:\n")
	for _, f := range files {
		for _, rule := range f.Rules {
			c.rule(f, rule)
		}
	}
	return []byte(c.b.String()), nil
}

type converter struct {
	b     strings.Builder
	names map[string]bool
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

func (c *converter) rule(f *File, rule *Rule) {
	not := func(why string) { fmt.Fprintf(&c.b, "  # %s:%d: not converted: %s\n", f.Name, rule.Line, why) }
	var keys []string
	for _, d := range rule.levels {
		if slices.Contains(keys, d.key) {
			not("the key " + d.key + " twice")
			return
		}
		keys = append(keys, d.key)
	}
	switch {
	case rule.Unlimited:
		not("unlimited")
		return
	case rule.Requests == 0:
		not("a limit of 0")
		return
	case rule.Quota:
		not("quota_mode: this limit denies by itself")
	}
	if len(rule.Replaces) > 0 {
		not("replaces " + strings.Join(rule.Replaces, ", "))
	}
	if rule.Metadata != nil {
		not("metadata")
	}
	when := []string{"domain == " + quoted(f.Domain), "keys == " + quoted(strings.Join(keys, ","))}
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
	fmt.Fprintf(&c.b, "  %s:\n    when: '%s'\n    by:\n", c.name(f, rule), strings.ReplaceAll(strings.Join(when, " && "), "'", "''"))
	for _, text := range by {
		fmt.Fprintf(&c.b, "      - '%s'\n", strings.ReplaceAll(text, "'", "''"))
	}
	requests := min(rule.Requests, 1_000_000_000)
	fmt.Fprintf(&c.b, "    empty: shared\n    rates: [%d/%s]\n    script: slice_ring\n", requests, rates[rule.Unit])
	if rule.Shadow {
		c.b.WriteString("    mode: shadow\n")
	}
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
