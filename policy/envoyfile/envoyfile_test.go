package envoyfile_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice/policy"
	"github.com/sluice-redis/sluice/policy/envoyfile"
)

const begin = "domain: d\ndescriptors:\n"

// What envoyproxy/ratelimit refuses is refused, each mistake with its place and a cure.
func TestMistakes(t *testing.T) {
	for src, want := range map[string]string{
		"descriptors: []": "f:1:1: no domain: want domain: the name that the proxy sends",
		"domain: ''":      "f:1:9: domain is empty: want a value",
		"[1]":             "f:1:1: the file is a list: want a mapping: words and values",
		"domain: d\ndescriptros: []": `f:2:1: unknown word "descriptros": want domain, descriptors, name: ` +
			"did you mean descriptors?",
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
			"whole number, 0 to 4294967295, without quotes",
		begin + "  - {key: a, rate_limit: {unit: day, shadow_mode: true}}": `f:3:38: unknown word "shadow_mode": ` +
			"want unit, requests_per_unit, unlimited, name, replaces",
		begin + "  - {key: a, value: 1, value: 2}": `f:3:24: two words of the name "value": want another name: line 3 has it`,
		begin + "  - {key: a, value: [b]}":         "f:3:21: value is a list: want a single value",
		begin + "  - {key: null}":                  "f:3:5: a descriptor without a key: want key: as the proxy sends it",
		begin + "  - {<<: [x], key: a}": "f:3:11: a merge of a single value: want <<: *NAME of a mapping, " +
			"or a list of them",
		"": "f:1:1: the file is empty: want domain",
		begin + "  - {key: a, rate_limit: {unit: day, name: n, replaces: [{name: n}]}}": `f:3:65: "n" replaces itself: ` +
			"want the name of another rate_limit",
		begin + "  - {key: a, rate_limit: {unit: day, replaces: [{}]}}": "f:3:49: an empty entry in replaces: want name: " +
			"that of another rate_limit",
		begin + "  - {key: a, value: b, share_threshold: true}": "f:3:41: share_threshold without a wildcard: want a value " +
			"with *, or no share_threshold",
		begin + "  - {key: a, shadow_mode: yes please}": `f:3:27: shadow_mode is "yes please": want true or false, ` +
			"without quotes",
		begin + "  - {key: a, rate_limit: {unit: day, requests_per_unit: !!int '5'}}": "f:3:57: requests_per_unit has the " +
			"YAML tag !!int: want quotes around what begins with an exclamation mark",
		begin + "  - {key: a, shadow_mode: 'yes'}": `f:3:27: shadow_mode is "yes": want true or false, without quotes`,
		"domain: d\nname: 1.5":                     "f:2:7: name is the number 1.5: want quotes around it",
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
	must(t, err)
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

// A value goes to the first pattern that it matches, or to one that has the same text.
func TestFindsPatterns(t *testing.T) {
	f, err := envoyfile.Parse("f", []byte(begin+"  - {key: a, value: '*', rate_limit: {unit: day, requests_per_unit: 1}}\n"+
		"  - {key: a, value: 'x*', rate_limit: {unit: day, requests_per_unit: 2}}"))
	must(t, err)
	for value, want := range map[string]uint32{"x1": 1, "x*": 2} {
		if got := f.Find([]envoyfile.Entry{{Key: "a", Value: value}}); got == nil || got.Requests != want {
			t.Errorf("%s: %+v, want %d", value, got, want)
		}
	}
}

// YAML that machines write means what it means for envoyproxy/ratelimit: its own checker says the same of these files.
func TestMadeByMachines(t *testing.T) {
	const limit = "rate_limit: {unit: day, requests_per_unit: 5}"
	const base = begin + "  - &a\n    key: a\n    value: v\n    metadata: {m: 1, n: 2}\n" +
		"    rate_limit: &r {unit: day, requests_per_unit: 5, name: n}\n"
	const av = "a_v 5/day n map[m:1 n:2]" // of base
	for src, want := range map[string]string{
		"name: d\n" + begin + "  - key: a\n    value: \"\"\n    " + limit:                                       "a 5/day",
		begin + "  - key: a\n    rate_limit: null\n    descriptors:\n      - {key: b, value: ~, " + limit + "}": "a|b 5/day",
		begin + "  - key: a\n    rate_limit:\n    descriptors:\n":                                               "",
		begin + "  - {key: a, metadata: null, shadow_mode: null, descriptors: null, rate_limit: {unit: day, " +
			"requests_per_unit: null, unlimited: null, name: null, replaces: null}}": "a 0/day",
		begin + "  - {key: a, rate_limit: {unit: null, unlimited: yes}}":           "a unlimited",
		begin + "  - {key: a, value: !!str 1.5, shadow_mode: on, " + limit + "}":   "a_1.5 5/day shadow",
		begin + "  - {key: a, value: no, shadow_mode: off, " + limit + "}":         "a_no 5/day",
		begin + "  - {key: a, rate_limit: {unit: day, requests_per_unit: 010}}":    "a 8/day",
		begin + "  - {key: a, rate_limit: {unit: day, requests_per_unit: 0x10}}":   "a 16/day",
		begin + "  - {key: a, rate_limit: {unit: day, requests_per_unit: 1_000}}":  "a 1000/day",
		"---\n" + begin + "  - {key: a, " + limit + "}\n---\n":                     "a 5/day",
		begin + "  - {key: a, " + limit + "}\n---\ndomain: e":                      "a 5/day, further documents",
		begin + "  - {key: a, " + limit + "}\n---\n: : [":                          "a 5/day, further documents",
		base + "  - {<<: *a, key: b}":                                              av + ", b_v 5/day n map[m:1 n:2]",
		base + "  - {<<: *a, key: b, value: null, rate_limit: {unit: hour}}":       av + ", b 5/hour n map[m:1 n:2]",
		base + "  - {<<: *a, key: b, metadata: {m: 3, on: yes}, rate_limit: null}": av,
		base + "  - {key: b, rate_limit: {unit: hour, <<: *r}}":                    av + ", b 5/day n",
		base + "  - {<<: [{key: b, metadata: {m: 3, p: yes}}, *a]}":                av + ", b_v 5/day n map[m:3 n:2 p:true]",
	} {
		f, err := envoyfile.Parse("f", []byte(src))
		if err != nil || !envoyfile.Is([]byte(src)) {
			t.Errorf("%s:\n%v", src, err)
			continue
		}
		var got []string
		for _, rule := range f.Rules {
			text := fmt.Sprintf("%s %d/%v", strings.Join(rule.Path, "|"), rule.Requests, rule.Unit)
			if rule.Unlimited {
				text = strings.Join(rule.Path, "|") + " unlimited"
			}
			if rule.Shadow {
				text += " shadow"
			}
			text = strings.TrimSpace(text + " " + rule.Name)
			if rule.Metadata != nil {
				text += " " + fmt.Sprint(rule.Metadata)
			}
			got = append(got, text)
		}
		if f.Further {
			got = append(got, "further documents")
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%s:\ngot  %s\nwant %s", src, text, want)
		}
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
  - {key: z, value_to_metric: true, rate_limit: {unit: day, requests_per_unit: 0}}
`))
	must(t, err)
	text, err := envoyfile.Convert([]*envoyfile.File{f})
	must(t, err)
	ours, err := policy.Parse("converted", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for want, entries := range map[string][]envoyfile.Entry{
		"d-a":       {{Key: "a", Value: "q"}},
		"pattern":   {{Key: "a", Value: "x'z"}},
		"d-a_x-y":   {{Key: "a", Value: "x'y"}},
		"d-a_x-y-b": {{Key: "a", Value: "x'y"}, {Key: "b", Value: "1"}},
		"d-z":       {{Key: "z", Value: "1"}},
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
	for _, comment := range []string{"# f:10: unlimited, so there is no limit", "# f:11: metrics have the name"} {
		if !strings.Contains(string(text), comment) {
			t.Errorf("%s: want %s", text, comment)
		}
	}
}

// What a policy file cannot say is an error with its place, and nothing is written.
func TestConvertMistakes(t *testing.T) {
	const limit, as = "rate_limit: {unit: day, requests_per_unit: 1", "want this file served as it is"
	for descriptor, want := range map[string]string{
		"{key: a, " + limit + ", replaces: [{name: n}, {name: m}]}}": "3:26: replaces n, m: " + as,
		"{key: a, quota_mode: true, " + limit + "}}":                 "3:44: quota_mode: " + as,
		"{key: a, metadata: {x: 1}, " + limit + "}}":                 "3:44: metadata: " + as,
		`{key: "a*", ` + limit + "}}": `3:29: the key "a*" with a wildcard: ` +
			"want the keys written out",
		"{key: a, descriptors: [{key: a, " + limit + "}}]}": `3:49: the key "a" twice: ` +
			"want another key at one level",
	} {
		f, err := envoyfile.Parse("f", []byte(begin+"  - "+descriptor))
		must(t, err)
		if text, err := envoyfile.Convert([]*envoyfile.File{f}); text != nil || err == nil ||
			strings.ReplaceAll(err.Error(), "a policy file cannot say ", "") != "f:"+want {
			t.Errorf("%s:\ngot  %v\nwant %s\n%s", descriptor, err, want, text)
		}
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
		text, err := envoyfile.Convert([]*envoyfile.File{file})
		if err == nil && len(file.Rules) > 0 {
			_, err = policy.Parse("converted", text)
		}
		if mistakes, ok := errors.AsType[policy.Mistakes](err); err != nil && (!ok || mistakes[0].Line < 1) {
			t.Fatal(err)
		}
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
