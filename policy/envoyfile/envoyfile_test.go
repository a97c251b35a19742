package envoyfile_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice/policy"
	"github.com/sluice-redis/sluice/policy/envoyfile"
)

const begin = "domain: d\ndescriptors:\n"

// What envoyproxy/ratelimit refuses is refused, each mistake with its place and a cure.
func TestMistakes(t *testing.T) {
	for src, want := range map[string]string{
		"descriptors: []":             "f:1:1: no domain: want domain: the name that the proxy sends",
		"domain: ''":                  "f:1:9: domain is empty: want a value",
		"[1]":                         "f:1:1: the file is a list: want a mapping: words and values",
		"domain: d\ndescriptros: []":  `f:2:1: unknown word "descriptros": want domain, descriptors: did you mean descriptors?`,
		"domain: d\ndescriptors: a":   "f:2:14: descriptors is no list: want a list: a dash before each",
		"domain: d\ndescriptors: [a]": "f:2:15: each of descriptors is a single value: want a mapping: words and values",
		begin + "  - value: x":        "f:3:5: a descriptor without a key: want key: as the proxy sends it",
		begin + "  - key: ''":         "f:3:10: key is empty: want a value",
		begin + "  - key: 1.5":        "f:3:10: key is the number 1.5: want quotes around it",
		begin + "  - key: a\n  - {key: a}": `f:4:5: two descriptors "a": want another key or value, also when they are ` +
			"joined by _: line 3 has this one",
		begin + "  - {key: a_b}\n  - {key: a, value: b}": `f:4:5: two descriptors "a_b": want another key or value, ` +
			"also when they are joined by _: line 3 has this one",
		begin + "  - {key: a, rate_limit: {requests_per_unit: 1}}": "f:3:26: a rate_limit without a unit: want unit: " +
			"second, minute, hour, day, week, month, year; or unlimited: true",
		begin + "  - {key: a, rate_limit: {unit: mintue, requests_per_unit: 1}}": `f:3:33: unknown unit "mintue": want ` +
			"second, minute, hour, day, week, month, year: did you mean minute?",
		begin + "  - {key: a, rate_limit: {unit: day, unlimited: true}}": "f:3:33: a unit beside unlimited: want one of them",
		begin + "  - {key: a, rate_limit: {unit: day, requests_per_unit: -1}}": `f:3:57: requests_per_unit "-1": want a ` +
			"whole number, 0 to 4294967295",
		begin + "  - {key: a, rate_limit: {unit: day, name: n, replaces: [{name: n}]}}": `f:3:65: "n" replaces itself: ` +
			"want the name of another rate_limit",
		begin + "  - {key: a, rate_limit: {unit: day, replaces: [{}]}}": "f:3:49: an empty entry in replaces: want name: " +
			"that of another rate_limit",
		begin + "  - {key: a, value: b, share_threshold: true}": "f:3:41: share_threshold without a wildcard: want a value " +
			"with *, or no share_threshold",
		begin + "  - {key: a, shadow_mode: yes please}": `f:3:27: shadow_mode is "yes please": want true or false`,
	} {
		_, err := envoyfile.Parse("f", []byte(src))
		mistakes, _ := errors.AsType[policy.Mistakes](err)
		if len(mistakes) != 1 || mistakes.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", src, err, want)
		}
	}
}

// Every key is read, in the forms that YAML has for it.
func TestParse(t *testing.T) {
	f, err := envoyfile.Parse("f", []byte(`
domain: d
x: &limit {unit: DAY, requests_per_unit: 7}
`))
	if err == nil {
		t.Fatalf("an unknown word beside the domain: %v", f)
	}
	f, err = envoyfile.Parse("f", []byte(`
domain: d
descriptors:
  - key: a
    value: 5
    shadow_mode: true
    detailed_metric: true
    metadata: {tier: gold, n: 3, on: [true, null]}
    rate_limit: &limit {unit: DAY, requests_per_unit: 7, name: n, replaces: [{name: m}]}
  - key: b
    quota_mode: true
    value_to_metric: true
    rate_limit: *limit
    descriptors:
      - {key: c, value: "x*", share_threshold: true, rate_limit: {unlimited: true}}
`))
	if err != nil {
		t.Fatal(err)
	}
	first, second, third := f.Rules[0], f.Rules[1], f.Rules[2]
	if first.Unit != envoyfile.Day || first.Requests != 7 || first.Name != "n" || first.Replaces[0] != "m" || !first.Shadow ||
		first.Metadata["n"] != 3.0 || !second.Quota || second.Requests != 7 || !third.Unlimited {
		t.Errorf("%+v\n%+v\n%+v", first, second, third)
	}
	entries := []envoyfile.Entry{{Key: "b", Value: "you"}, {Key: "c", Value: "x1"}}
	if got := f.Find(entries); got != third {
		t.Errorf("found %+v", got)
	}
	if key := strings.Join(third.Key(entries), "|"); key != "b|you|c|x*" {
		t.Error(key)
	}
	for rule, want := range map[*envoyfile.Rule]string{first: "a_5", second: "b_you", third: "b_you.c_x*"} {
		if got := rule.Label(entries[:len(rule.Path)]); rule != first && got != want {
			t.Errorf("label %q, want %q", got, want)
		}
	}
	if found := f.Find(nil); found != nil {
		t.Errorf("of no entries: %+v", found)
	}
}

// Aliases that stand for themselves, or for too much, are mistakes.
func TestAliases(t *testing.T) {
	for _, src := range []string{
		"domain: d\ndescriptors: &a [{key: k, descriptors: *a}]",
		"domain: d\na: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
			"e: &e [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]",
	} {
		if _, err := envoyfile.Parse("f", []byte(src)); err == nil || !strings.Contains(err.Error(), "aliases") {
			t.Errorf("%s: %v", src, err)
		}
	}
}

// A converted file is a policy file, whose limits match the same descriptors.
func TestConvert(t *testing.T) {
	f, err := envoyfile.Parse("f", []byte(begin+`
  - {key: a, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: a, value: "x'*", rate_limit: {unit: hour, requests_per_unit: 2, name: pattern}}
  - key: a
    value: x'y
    rate_limit: {unit: month, requests_per_unit: 3}
    descriptors: [{key: b, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 4}}]
  - {key: n, rate_limit: {unlimited: true}}
`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := envoyfile.Convert([]*envoyfile.File{f})
	if err != nil {
		t.Fatal(err)
	}
	ours, err := policy.Parse("converted", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for want, entries := range map[string][]envoyfile.Entry{
		"d-a":       {{Key: "a", Value: "q"}},
		"pattern":   {{Key: "a", Value: "x'z"}},
		"d-a_x-y":   {{Key: "a", Value: "x'y"}},
		"d-a_x-y-b": {{Key: "a", Value: "x'y"}, {Key: "b", Value: "1"}},
		"":          {{Key: "a", Value: "q"}, {Key: "b", Value: "1"}},
	} {
		about := policy.Descriptor{Domain: "d", Hits: 1, Entries: entries}
		matches, err := ours.Match(policy.Attributes{Descriptor: &about})
		var got []string
		for _, m := range matches {
			got = append(got, m.Policy.Name)
		}
		if err != nil || strings.Join(got, ",") != want {
			t.Errorf("%v: %q, %v; want %q\n%s", entries, got, err, want, text)
		}
	}
	if !strings.Contains(string(text), "not converted: unlimited") {
		t.Errorf("%s", text)
	}
}

// Two files of one domain are a mistake.
func TestCheckAll(t *testing.T) {
	a, _ := envoyfile.Parse("a", []byte("domain: d"))
	b, _ := envoyfile.Parse("b", []byte("domain: d"))
	const want = `b:1:9: the domain "d" is in a too: want one file for each domain`
	if err := envoyfile.CheckAll([]*envoyfile.File{a, b}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := envoyfile.CheckAll([]*envoyfile.File{a}); err != nil {
		t.Error(err)
	}
}

// FuzzParse finds no text that panics, and no mistake without a place.
func FuzzParse(f *testing.F) {
	f.Add(begin+"  - {key: a, value: b*, rate_limit: {unit: day, requests_per_unit: 1}}", "a", "bc")
	f.Add("domain: d\ndescriptors: &a [{key: k, descriptors: *a}]", "k", "")
	f.Add(begin+"  - key: a\n    metadata: {x: 1.5}\n    rate_limit: {unit: week}", "a", "*")
	f.Fuzz(func(t *testing.T, src, key, value string) {
		envoyfile.Is([]byte(src))
		file, err := envoyfile.Parse("f", []byte(src))
		if err != nil {
			mistakes, ok := errors.AsType[policy.Mistakes](err)
			if !ok || len(mistakes) == 0 || mistakes[0].Line < 1 || mistakes[0].Column < 1 {
				t.Fatal(err)
			}
			return
		}
		entries := []envoyfile.Entry{{Key: key, Value: value}}
		if rule := file.Find(entries); rule != nil {
			rule.Key(entries)
			rule.Label(entries)
		}
		if _, err := envoyfile.Convert([]*envoyfile.File{file}); err != nil {
			t.Fatal(err)
		}
	})
}
