package scripttest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCoverageCounts says of small scripts what their runs leave out. Each runs once for every argument.
func TestCoverageCounts(t *testing.T) {
	for _, c := range []struct {
		name   string
		source string
		args   []string
		want   []string
	}{
		{"all reached, a condition both ways", `if ARGV[1] == "a" then return 1 end return 2`, []string{"a", "b"}, nil},
		{"one way only", "if ARGV[1] == \"a\" then\n  return 1\nend\nreturn 2", []string{"b"},
			[]string{"s:2: not all reached", `s:1:4: never true: ARGV[1] == "a"`}},
		{"a line is covered when all its statements are", `if ARGV[1] == "a" then return 1 end return 2`, []string{"a"},
			[]string{"s:1: not all reached", `s:1:4: never false: ARGV[1] == "a"`}},
		{"never run", `return 1`, nil, []string{"s:1: not all reached"}},
		{"elseif and else", "local a = ARGV[1]\nif a == \"1\" then a = 2\nelseif a == \"2\" then a = 3\nelse a = 4 end",
			[]string{"1", "3"},
			[]string{"s:3: not all reached", `s:3:8: never true: a == "2"`}},
		{"every operand of a condition", `local a = ARGV[1] if (a == "1" or a == "2") and not (a == "1") then a = 1 end`,
			[]string{"1", "3"},
			[]string{"s:1: not all reached", `s:1:35: never true: a == "2"`, `s:1:53: never false: (a == "1")`}},
		{"a constant decides nothing", `while true do if ARGV[1] then break end end`, []string{"1"},
			[]string{"s:1:18: never false: ARGV[1]"}},
		{"the left operand of and, or as values",
			`local a = ARGV[1] == "1" and 5 or ARGV[2] local b = nil or 7 return (a or 3) and b`, []string{"1"},
			[]string{`s:1:11: never false: ARGV[1] == "1"`, `s:1:11: never false: ARGV[1] == "1" and 5`,
				"s:1:69: never false: (a or 3)", "s:1:70: never false: a"}},
		{"while and until", "local n = 0 while n < 2 do n = n + 1 end repeat n = n + 1 until n > 2", []string{"1"},
			[]string{"s:1:65: never false: n > 2"}},
		{"a for ends by itself", "for i = 1, #ARGV do local x = i end for i in pairs({1}) do local x = i end",
			[]string{"1"}, nil},
		{"a for without a turn", "for i = 1, #KEYS do\nlocal x = i\nend", []string{"1"},
			[]string{"s:2: not all reached", "s:1:1: never turn: for i = 1, #KEYS do .."}},
		{"a for that is always left",
			"for i = 1, 2 do for j = 1, 2 do if j == i then do break end end end do break end end", []string{"1"},
			[]string{"s:1:1: never end: for i = 1, 2 do for j = 1, 2 do if j == i then do break end end end do break end end",
				"s:1:17: never end: for j = 1, 2 do if j == i then do break end end end", "s:1:36: never false: j == i"}},
		{"a for that is left by return", "for i = 1, 2 do return i end", []string{"1"},
			[]string{"s:1:1: never end: for i = 1, 2 do return i end"}},
		{"functions",
			"local function f(x) if x then return 1 end end function t() end\nlocal g = function() return f(1) end return g()",
			[]string{"1"},
			[]string{"s:1:24: never false: x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := strings.Replace(c.source, "function t()", "local function t()", 1)
			if diff := cmp.Diff(c.want, coverageOf(t, source, c.args).Missing()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func coverageOf(t *testing.T, source string, args []string) *Coverage {
	t.Helper()
	var cov Coverage
	script, err := cov.Compile("s", source)
	must(t, err)
	r := Start(t)
	for _, arg := range args {
		if result := script.Run(r, nil, []string{arg}); result.Err != nil {
			t.Fatal(result.Err)
		}
	}
	return &cov
}

func TestCoverageHits(t *testing.T) {
	cov := coverageOf(t, "local n = 0\nfor i = 1, 3 do\n  if i % 2 == 1 then n = n + i end\nend\nreturn n",
		[]string{"", ""})
	got := cov.Scripts()[0]
	wantLines := []LineCoverage{{1, 2, true}, {2, 2, true}, {3, 6, true}, {5, 2, true}}
	wantBranches := []BranchCoverage{
		{2, 1, "for i = 1, 3 do ..", "turn", 6}, {2, 1, "for i = 1, 3 do ..", "end", 2},
		{3, 6, "i % 2 == 1", "true", 4}, {3, 6, "i % 2 == 1", "false", 2},
	}
	if diff := cmp.Diff(wantLines, got.Lines); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(wantBranches, got.Branches); diff != "" {
		t.Error(diff)
	}
}

func TestCoverageCompile(t *testing.T) {
	var cov Coverage
	if _, err := cov.Compile("s", "return ("); err == nil {
		t.Error("a syntax error is no error")
	}
	first, err := cov.Compile("s", "return 1")
	must(t, err)
	second, err := cov.Compile("s", "return 1")
	must(t, err)
	r := Start(t)
	first.Run(r, nil, nil)
	second.Run(r, nil, nil)
	if hits := cov.Scripts()[0].Lines[0].Hits; hits != 2 {
		t.Errorf("%d hits of a source compiled twice, want 2", hits)
	}
	if _, err := cov.Compile("s", "return 2"); err == nil {
		t.Error("another source under the same name is no error")
	}
}

func TestCoverageReports(t *testing.T) {
	cov := coverageOf(t, "if ARGV[1] < \"b\" then\n  return 1\nend\nreturn 2", []string{"a"})
	var table, page strings.Builder
	if err := cov.WriteTable(&table); err != nil {
		t.Error(err)
	}
	want := "  script  lines  covered     %  branches  covered     %\n" +
		"       s      3        2  66.6         2        1  50.0\n"
	if diff := cmp.Diff(want, table.String()); diff != "" {
		t.Error(diff)
	}
	if err := cov.WriteHTML(&page); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		`<a href="#s">s</a><td>3<td>2<td>66.6<td>2<td>1<td>50.0`,
		`<tr class="missed"><td class="number">1<td class="hits">1<td>if ARGV[1] &lt; &#34;b&#34; then`,
		`class="never">false 0</span>`,
		`<tr class="covered"><td class="number">2`,
		`<tr class="missed"><td class="number">4<td class="hits">0<td>return 2`,
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %s\n%s", want, page.String())
		}
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
