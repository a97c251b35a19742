package scripttest

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/sluice-redis/sluice/internal/lua51"
	"github.com/sluice-redis/sluice/internal/luasyntax"
)

// A fault is one that a mutant has: what it does to the tree, and the same to the source, to be shown.
type fault struct {
	places *luasyntax.Places
	at     int // the token where it is
	from   string
	to     string
	edits  []edit
	apply  func()
}

// An edit puts a text in place of source[from:to].
type edit struct {
	from, to int
	text     string
}

// mutant describes the fault.
func (f fault) mutant(s *Script, index int) Mutant {
	pos := f.places.Tokens[f.at].Pos
	m := Mutant{Line: pos.Line, Column: pos.Column, From: f.from, To: f.to, script: s, index: index}
	m.Before, m.After = f.lines()
	return m
}

// lines are the line where the fault begins, before and after, as far as the line goes.
func (f fault) lines() (before, after string) {
	source := f.places.Source
	start := strings.LastIndexByte(source[:f.edits[0].from], '\n') + 1
	end := start + strings.IndexByte(source[start:]+"\n", '\n')
	var out strings.Builder
	done := start
	for _, e := range f.edits {
		if e.from > end {
			break
		}
		out.WriteString(source[done:e.from] + e.text)
		done = e.to
	}
	if done < end {
		out.WriteString(source[done:end])
	}
	return strings.TrimSpace(source[start:end]), strings.TrimSpace(out.String())
}

// faults collects them.
type faults struct {
	*luasyntax.Places
	tree []ast.Stmt
	all  []fault
}

// findFaults finds every fault that a script can have, in its order. Each may be applied to the tree, once,
// and no other after it.
func findFaults(places *luasyntax.Places, tree []ast.Stmt) []fault {
	f := &faults{Places: places, tree: tree}
	luasyntax.Walk(tree, luasyntax.Visitor{Expr: f.expr, Stmt: f.stmt})
	f.block(tree)
	f.replies(tree)
	slices.SortStableFunc(f.all, func(a, b fault) int { return cmp.Compare(a.at, b.at) })
	return f.all
}

func (f *faults) stmt(s ast.Stmt) {
	for _, block := range luasyntax.BlocksOf(s) {
		f.block(block)
	}
	if def, ok := s.(*ast.FuncDefStmt); ok {
		f.block(def.Func.Stmts)
	}
	if condition := luasyntax.ConditionOf(s); condition != nil {
		luasyntax.Operands(condition, f.negate)
	}
}

func (f *faults) expr(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.FunctionExpr:
		f.block(e.Stmts)
	case *ast.RelationalOpExpr:
		f.operator(e, &e.Operator)
	case *ast.ArithmeticOpExpr:
		f.operator(e, &e.Operator)
	case *ast.LogicalOpExpr:
		f.operator(e, &e.Operator)
	case *ast.UnaryNotOpExpr:
		f.leaveOut(e, e.Expr)
	case *ast.UnaryMinusOpExpr:
		f.leaveOut(e, e.Expr)
	case *ast.TrueExpr:
		f.replace(e, "false", &ast.FalseExpr{})
	case *ast.FalseExpr:
		f.replace(e, "true", &ast.TrueExpr{})
	case *ast.NumberExpr:
		f.number(e)
	case *ast.FuncCallExpr:
		f.arguments(e)
	}
	return e
}

// otherOperators are those that are tried in place of one.
var otherOperators = map[string][]string{
	"<": {"<=", ">="}, "<=": {"<", ">"}, ">": {">=", "<="}, ">=": {">", "<"}, "==": {"~="}, "~=": {"=="},
	"+": {"-"}, "-": {"+"}, "*": {"/"}, "/": {"*"}, "%": {"*"}, "^": {"*"},
	"and": {"or"}, "or": {"and"},
}

func (f *faults) operator(e ast.Expr, operator *string) {
	at := f.Operators[e]
	t := f.Tokens[at]
	for _, other := range otherOperators[*operator] {
		f.add(at, *operator, other, func() { *operator = other }, edit{t.From, t.To, other})
	}
}

// leaveOut leaves the operator out that stands before its only operand.
func (f *faults) leaveOut(e, operand ast.Expr) {
	f.replace(e, f.Text(operand), operand)
}

// negate negates what a condition asks and has no operator that is changed anyway.
func (f *faults) negate(e ast.Expr) {
	switch e.(type) {
	case *ast.IdentExpr, *ast.AttrGetExpr, *ast.FuncCallExpr:
		f.replace(e, "not "+f.Text(e), &ast.UnaryNotOpExpr{Expr: e})
	}
}

func (f *faults) number(e *ast.NumberExpr) {
	x, _ := lua51.ParseNumber(e.Value)
	for _, by := range []float64{1, -1} {
		text := strconv.FormatFloat(x+by, 'f', -1, 64)
		f.replace(e, text, &ast.NumberExpr{Value: text})
	}
}

// replace puts another expression in place of one.
func (f *faults) replace(e ast.Expr, text string, by ast.Expr) {
	from, to := f.Bytes(e)
	f.add(f.Spans[e].First, f.Text(e), text, func() {
		by.SetLine(e.Line())
		by.SetLastLine(e.LastLine())
		luasyntax.Walk(f.tree, luasyntax.Visitor{Expr: func(found ast.Expr) ast.Expr {
			if found == e {
				return by
			}
			return found
		}})
	}, edit{from, to, text})
}

// block leaves out each statement of a block.
func (f *faults) block(stmts []ast.Stmt) {
	for i, s := range stmts {
		from, to := f.Bytes(s)
		at, text := f.Spans[s].First, f.FirstLine(s)
		local, ok := s.(*ast.LocalAssignStmt)
		switch {
		case !ok:
			f.add(at, text, "", func() { stmts[i] = &ast.DoBlockStmt{} }, edit{from, to, ""})
		case len(local.Exprs) > 0:
			names := "local " + strings.Join(local.Names, ", ")
			f.add(at, text, names, func() { local.Exprs = nil }, edit{from, to, names})
		}
	}
}

// arguments exchanges neighbouring arguments of redis.call and redis.pcall.
func (f *faults) arguments(call *ast.FuncCallExpr) {
	if name := f.Text(call.Func); name != "redis.call" && name != "redis.pcall" {
		return
	}
	for i := 1; i+1 < len(call.Args); i++ {
		f.exchange(&call.Args[i], &call.Args[i+1])
	}
}

// replies exchanges neighbouring fields of the tables that the chunk itself returns.
func (f *faults) replies(stmts []ast.Stmt) {
	for _, s := range stmts {
		for _, block := range luasyntax.BlocksOf(s) {
			f.replies(block)
		}
		if reply, ok := s.(*ast.ReturnStmt); ok && len(reply.Exprs) == 1 {
			if t, ok := reply.Exprs[0].(*ast.TableExpr); ok {
				f.fields(t)
			}
		}
	}
}

func (f *faults) fields(t *ast.TableExpr) {
	for i := 0; i+1 < len(t.Fields); i++ {
		if t.Fields[i].Key == nil && t.Fields[i+1].Key == nil {
			f.exchange(&t.Fields[i].Value, &t.Fields[i+1].Value)
		}
	}
}

// exchange lets two neighbours change places, unless they are the same.
func (f *faults) exchange(a, b *ast.Expr) {
	textA, textB := f.Text(*a), f.Text(*b)
	if textA == textB {
		return
	}
	fromA, toA := f.Bytes(*a)
	fromB, toB := f.Bytes(*b)
	f.add(f.Spans[*a].First, textA+", "+textB, textB+", "+textA, func() { *a, *b = *b, *a },
		edit{fromA, toA, textB}, edit{fromB, toB, textA})
}

func (f *faults) add(at int, from, to string, apply func(), edits ...edit) {
	f.all = append(f.all, fault{places: f.Places, at: at, from: from, to: to, edits: edits, apply: apply})
}
