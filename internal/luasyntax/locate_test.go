package luasyntax

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	"github.com/sluice-redis/sluice"
)

// Every expression and statement of every script stands where Locate says: its text alone parses to the
// same node.
func TestLocate(t *testing.T) {
	sources := []string{
		`f{a = 1, [(2)] = (3), "x"; y} f"text" f[[long]] ("s"):rep((n)) (f or g)(1)(2)`,
		`local function g(a, ...) return (a) end function t.u.v() end function t:w(x) return self end`,
		`if ((a)) then elseif (b) and ((c) or d) then x = -(-y) ^ 2 else if not (not z) then end end`,
		"for i = (1), (2), (3) do break end for k, v in (pairs)(t) do end while ((x)) do end repeat local q until (q)\n",
		"x, y[1], z.a = (f()), (f(((1)))), {(f())}\r\nreturn (function() return ((1) + 2) * (3) .. \"a\" .. (\"b\") end)()",
		"do ; x = 1 ; y = 2 end local a local b, c = #t, 1 --[[ ( ]] -- )\nreturn",
	}
	for _, script := range sluice.All() {
		sources = append(sources, script.Source)
	}
	for _, source := range sources {
		tree, p, err := Parse(source, "")
		if err != nil {
			t.Fatal(err)
		}
		Walk(tree, Visitor{
			Expr: func(e ast.Expr) ast.Expr {
				if _, located := p.Spans[e]; located {
					sameTree(t, "return "+functionName.ReplaceAllString(p.Text(e), "function("), &ast.ReturnStmt{Exprs: []ast.Expr{e}})
				}
				return e
			},
			Stmt: func(s ast.Stmt) {
				text := p.Text(s)
				if strings.HasPrefix(text, "elseif") {
					text = text[len("else"):] + " end"
				}
				if strings.HasPrefix(text, "break") {
					return
				}
				sameTree(t, text, s)
				if line, _ := p.At(s); line != s.Line() {
					t.Errorf("%s: line %d, the parser says %d", text, line, s.Line())
				}
			},
		})
	}
}

// Goto and labels, which Parse refuses and gopher-lua's parser takes, stand where Locate says too, and what follows
// them stands where it does.
func TestLocateGoto(t *testing.T) {
	const source = "do x = 1 goto on end\n  ::on:: x = 2"
	tree, err := parse.Parse(strings.NewReader(source), "")
	if err != nil {
		t.Fatal(err)
	}
	p := Locate(source, tree)
	var got []string
	Walk(tree, Visitor{Stmt: func(s ast.Stmt) { got = append(got, p.Text(s)) }})
	want := []string{"x = 1", "goto on", "do x = 1 goto on end", "::on::", "x = 2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The names of functions stand where Locate says.
func TestLocateFunctionNames(t *testing.T) {
	const source = "function f() end function t.u.v() end function t.w:x() end"
	tree, p, err := Parse(source, "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range tree {
		name := s.(*ast.FuncDefStmt).Name
		if name.Func == nil {
			name.Func = name.Receiver
		}
		got = append(got, p.Text(name.Func))
	}
	if diff := cmp.Diff([]string{"f", "t.u.v", "t.w"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func sameTree(t *testing.T, text string, want ast.Stmt) {
	t.Helper()
	tree, err := parse.Parse(strings.NewReader(text), "")
	if err != nil {
		t.Errorf("%s: %v", text, err)
		return
	}
	got, wanted := parse.Dump(tree), parse.Dump([]ast.Stmt{want})
	if got != wanted {
		t.Errorf("%s\n%s", text, cmp.Diff(wanted, got))
	}
}

// functionName is how the text of a local function begins, which has a name and is an expression.
var functionName = regexp.MustCompile(`^function \w+\(`)
