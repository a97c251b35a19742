package envoyfile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/sluice-redis/sluice/internal/watch"
	"github.com/sluice-redis/sluice/policy"
	"github.com/sluice-redis/sluice/policy/internal/yamlfile"
)

// File is one file: the limits of one domain. Parse makes it. It does not change, and is safe for concurrent use.
type File struct {
	Name   string // of the file
	Domain string
	Rules  []*Rule // in the file's order

	// Further says that there are documents behind the first one. As by envoyproxy/ratelimit, they are not read.
	Further bool

	root         *level
	line, column int // of the domain
}

// Rule is a limit: a rate_limit and what stands beside it.
type Rule struct {
	Line, Column int      // in the file, from 1
	Path         []string // each level's key, or key and value joined by "_", as in the file
	Name         string   // "" if it has none
	Replaces     []string // names of the rules that do not hold in a request with this one
	Unlimited    bool
	Requests     uint32 // in each Unit, unless Unlimited; 0 allows nothing
	Unit         Unit
	Shadow       bool           // shadow_mode
	Quota        bool           // quota_mode
	Metadata     map[string]any // as structpb.NewStruct takes it

	levels   []*descriptor
	detailed bool
	label    string // "" if it depends on the request
}

// Entry is one entry of a descriptor.
type Entry = policy.Entry

// Unit is the window of a limit.
type Unit int

// The units. A month has 30 days, a year 365.
const (
	Second Unit = iota + 1
	Minute
	Hour
	Day
	Week
	Month
	Year
)

const day = 24 * time.Hour

var (
	unitNames = []string{"unknown", "second", "minute", "hour", "day", "week", "month", "year"}
	windows   = []time.Duration{0, time.Second, time.Minute, time.Hour, day, 7 * day, 30 * day, 365 * day}
)

// String is the word of the file, in lower case.
func (u Unit) String() string { return unitNames[u] }

// Window is the length of the unit.
func (u Unit) Window() time.Duration { return windows[u] }

// level is descriptors beside one another.
type level struct {
	exact    map[string]*descriptor // by the composite, with or without a value; patterns too
	patterns []*descriptor          // in the file's order
	all      []*descriptor
}

// descriptor is one descriptor of the file.
type descriptor struct {
	key, value    string
	rule          *Rule // nil: no limit
	share         bool  // share_threshold
	valueToMetric bool
	below         *level
}

func (d *descriptor) composite() string {
	if d.value == "" {
		return d.key
	}
	return d.key + "_" + d.value
}

func (d *descriptor) isPattern() bool { return strings.Contains(d.composite(), "*") }

// Is reports whether a text looks like such a file and not like a policy file: a mapping with domain or
// descriptors, and without limits.
func Is(src []byte) bool {
	var top map[string]yaml.Node
	if len(src) > watch.MaxFile || yaml.Load(src, &top, yaml.WithSingleDocument()) != nil {
		return bytes.Contains(src, []byte("descriptors:")) && !bytes.Contains(src, []byte("limits:"))
	}
	_, domain := top["domain"]
	_, descriptors := top["descriptors"]
	_, limits := top["limits"]
	return (domain || descriptors) && !limits
}

// CheckAll returns what is wrong with files beside one another: a domain that two of them have.
func CheckAll(files []*File) error {
	var mistakes yamlfile.Mistakes
	first := map[string]*File{}
	for _, f := range files {
		if other := first[f.Domain]; other != nil {
			mistakes = append(mistakes, yamlfile.Mistake{File: f.Name, Line: f.line, Column: f.column,
				What: fmt.Sprintf("the domain %q is in %s too", f.Domain, other.Name), Want: "one file for each domain"})
			continue
		}
		first[f.Domain] = f
	}
	if len(mistakes) == 0 {
		return nil
	}
	return mistakes
}

// Find returns the rule for a descriptor, nil if there is none. Cost: a look into a map or two for each entry, and a
// comparison for each pattern.
func (f *File) Find(entries []Entry) *Rule {
	var found *descriptor
	var buffer [256]byte
	in := f.root
	for _, e := range entries {
		if in == nil {
			return nil
		}
		composite := append(append(append(buffer[:0], e.Key...), '_'), e.Value...)
		if found = in.exact[string(composite)]; found == nil {
			i := slices.IndexFunc(in.patterns, func(d *descriptor) bool { return matches(d.composite(), composite) })
			if i >= 0 {
				found = in.patterns[i]
			} else if found = in.exact[e.Key]; found == nil {
				return nil
			}
		}
		in = found.below
	}
	if found == nil {
		return nil
	}
	return found.rule
}

// matches reports whether a text matches a pattern, in which each * stands for any characters, or none.
func matches(pattern string, text []byte) bool {
	before, rest, found := strings.Cut(pattern, "*")
	if !found {
		return string(text) == pattern
	}
	if len(text) < len(before) || string(text[:len(before)]) != before {
		return false
	}
	text = text[len(before):]
	for {
		part, next, more := strings.Cut(rest, "*")
		if !more {
			return bytes.HasSuffix(text, []byte(part))
		}
		at := bytes.Index(text, []byte(part))
		if at < 0 {
			return false
		}
		text, rest = text[at+len(part):], next
	}
}

// Key returns what a descriptor is counted by: the keys and values of its entries, and in place of a value the pattern
// that it matched where the file says share_threshold.
func (r *Rule) Key(entries []Entry) []string {
	key := make([]string, 0, 2*len(entries))
	for i, e := range entries {
		value := e.Value
		if d := r.levels[i]; d.share {
			value = d.value
		}
		key = append(key, e.Key, value)
	}
	return key
}

// Bounds of a label with values of a request, in bytes: of each level, and in all.
const (
	maxValue = 64
	maxLabel = 512
)

// Label names the rule in a metric: the levels of its path, joined by dots. Values of the request are in it only where
// the file says detailed_metric or value_to_metric, 64 bytes of each and 512 in all.
func (r *Rule) Label(entries []Entry) string {
	if r.label != "" {
		return r.label
	}
	parts := slices.Clone(r.Path)
	for i, e := range entries {
		if (r.detailed || r.levels[i].valueToMetric) && e.Value != "" {
			parts[i] = cut(e.Key, maxValue) + "_" + cut(e.Value, maxValue)
		}
	}
	return cut(strings.Join(parts, "."), maxLabel)
}

// cut returns the beginning of a text, without a piece of a character at its end.
func cut(text string, size int) string {
	return strings.Clone(strings.ToValidUTF8(text[:min(len(text), size)], ""))
}
