package scripttest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/gopher-lua/parse"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/luasyntax"
)

// TestMutants lists all mutants of small scripts.
func TestMutantsOf(t *testing.T) {
	for _, c := range []struct {
		source string
		want   []string
	}{
		{`return a <= b`, []string{
			"1:1: return a <= b -> nothing", "1:10: <= -> <", "1:10: <= -> >",
		}},
		{`x = a ~= b`, []string{"1:1: x = a ~= b -> nothing", "1:7: ~= -> =="}},
		{`x = (a + b) * c % 2`, []string{
			"1:1: x = (a + b) * c % 2 -> nothing", "1:8: + -> -", "1:13: * -> /", "1:17: % -> *", "1:19: 2 -> 3", "1:19: 2 -> 1",
		}},
		{`local x = -y and not z`, []string{
			"1:1: local x = -y and not z -> local x", "1:11: -y -> y", "1:14: and -> or", "1:18: not z -> z",
		}},
		{"while f(x) or a.b do\n  break\nend", []string{
			"1:1: while f(x) or a.b do .. -> nothing", "1:7: f(x) -> not f(x)", "1:12: or -> and", "1:15: a.b -> not a.b",
			"2:3: break -> nothing",
		}},
		{`local x local f = function() return true end`, []string{
			"1:9: local f = function() return true end -> local f", "1:30: return true -> nothing", "1:37: true -> false",
		}},
		{`redis.call("SET", k, (v), "EX", v) redis.pcall("A", b, b) other.call("A", b, c)`, []string{
			`1:1: redis.call("SET", k, (v), "EX", v) -> nothing`, "1:19: k, (v) -> (v), k", `1:22: (v), "EX" -> "EX", (v)`,
			`1:27: "EX", v -> v, "EX"`, `1:36: redis.pcall("A", b, b) -> nothing`, `1:59: other.call("A", b, c) -> nothing`,
		}},
		{`if x then return {a, b, c = d, e} end local function f() return {a, b} end`, []string{
			"1:1: if x then return {a, b, c = d, e} end -> nothing", "1:4: x -> not x",
			"1:11: return {a, b, c = d, e} -> nothing", "1:19: a, b -> b, a",
			"1:39: local function f() return {a, b} end -> local f", "1:58: return {a, b} -> nothing",
		}},
		{"if a then x()\nelseif b then y()\nend", []string{
			"1:1: if a then x() .. -> nothing", "1:4: a -> not a", "1:11: x() -> nothing",
			"2:1: elseif b then y() -> nothing", "2:8: b -> not b", "2:15: y() -> nothing",
		}},
	} {
		script, err := Compile("s", c.source)
		must(t, err)
		var got []string
		for m := range script.Mutants() {
			got = append(got, strings.TrimPrefix(m.String(), "s:"))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.source, diff)
		}
	}
}

// TestMutantsCompute runs mutants and looks at what they reply.
func TestMutantsCompute(t *testing.T) {
	const source = "local n = 7\nif n < 8 then n = n - 1 end\nif n < 8 then n = n - 1 end\nreturn {n, \"a\"}"
	script, err := Compile("s", source)
	must(t, err)
	script.Budget = 1234
	got := map[string]any{}
	for m := range script.Mutants() {
		mutant, err := m.Compile()
		must(t, err)
		if mutant.Budget != 1234 || mutant.SHA1 != script.SHA1 {
			t.Errorf("%v: budget %d, SHA1 %s", m, mutant.Budget, mutant.SHA1)
		}
		reply := mutant.Run(Start(t), nil, nil).Reply
		if items, ok := reply.([]any); ok {
			reply = items[0]
		}
		got[m.String()] = reply
	}
	for mutant, want := range map[string]any{
		"s:2:6: < -> >=":               int64(6),
		"s:3:17: - -> +":               nil,
		"s:2:8: 8 -> 7":                int64(6),
		"s:3:8: 8 -> 7":                int64(5),
		"s:2:21: - -> +":               int64(8),
		"s:2:23: 1 -> 2":               int64(4),
		"s:3:23: 1 -> 0":               int64(6),
		"s:2:15: n = n - 1 -> nothing": int64(6),
		"s:3:1: if n < 8 then n = n - 1 end -> nothing": int64(6),
		"s:4:9: n, \"a\" -> \"a\", n":                   "a",
		"s:4:1: return {n, \"a\"} -> nothing":           nil,
	} {
		if got[mutant] != want {
			t.Errorf("%s: %v, want %v", mutant, got[mutant], want)
		}
	}
}

// TestMutantNames: equal lines are told apart, and no two mutants of any script have one name.
func TestMutantNames(t *testing.T) {
	script, err := Compile("s", "x = 1\n  x = 1 -- one\nx = 1")
	must(t, err)
	var got []Mutant
	for m := range script.Mutants() {
		if m.To == "2" {
			got = append(got, Mutant{Line: m.Line, Before: m.Before, After: m.After, Nth: m.Nth})
		}
	}
	want := []Mutant{
		{Line: 1, Before: "x = 1", After: "x = 2", Nth: 1},
		{Line: 2, Before: "x = 1 -- one", After: "x = 2 -- one", Nth: 1},
		{Line: 3, Before: "x = 1", After: "x = 2", Nth: 2},
	}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for _, s := range sluice.All() {
		script, err := Compile(s.File, s.Source)
		must(t, err)
		names := map[[3]any]bool{}
		for m := range script.Mutants() {
			name := [3]any{m.Before, m.After, m.Nth}
			if names[name] {
				t.Errorf("%v has the name of another one", m)
			}
			names[name] = true
			if m.Before == m.After {
				t.Errorf("%v shows no change", m)
			}
		}
	}
}

// TestMutantsAsWritten parses what some mutants show: where a fault stays on its line and leaves no statement out, the
// line after it is the very tree that the mutant has.
func TestMutantsAsWritten(t *testing.T) {
	for _, s := range sluice.All() {
		script, err := Compile(s.File, s.Source)
		must(t, err)
		lines := strings.Split(s.Source, "\n")
		for m := range script.Mutants() {
			if m.index%8 != 0 || m.To == "" || strings.HasPrefix(m.To, "local ") || strings.Contains(m.From+m.To,
				"-") || m.From == "and" || m.From == "or" {
				continue
			}
			changed := append([]string{}, lines...)
			changed[m.Line-1] = m.After
			shown, _, err := luasyntax.Parse(strings.Join(changed, "\n"), "")
			if err != nil {
				t.Errorf("%v: %v", m, err)
				continue
			}
			tree, places, err := luasyntax.Parse(s.Source, "")
			must(t, err)
			findFaults(places, tree)[m.index].apply()
			if parse.Dump(shown) != parse.Dump(tree) {
				t.Errorf("%v: the mutant is not %q", m, m.After)
			}
		}
	}
}
