package lua51

import (
	"cmp"
	"slices"
	"strconv"
	"sync/atomic"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"

	"github.com/sluice-redis/sluice/internal/luasyntax"
)

// instrument is the pass that makes a script count where it goes. It numbers the counters in the order of
// its walk, so that the same source has the same ones whenever it is compiled.
type instrument struct {
	statements []Statement
	decisions  []Decision
	counters   int

	places   *luasyntax.Places
	deciding map[ast.Expr]bool      // operands that decide a condition by themselves
	inside   map[ast.Expr]bool      // and, or of conditions: their operands are counted, not they
	turns    map[ast.Stmt]int       // of a for: the counter of its turns; the next one is that of its ends
	exits    map[*ast.BreakStmt]int // the counter of the ends of the for that it leaves
}

// A Statement is counted each time it is reached.
type Statement struct {
	Line, Column int // where it begins, from 1; a column is a byte
	Counter      int
}

// A Decision is counted each time it is made, its two ways apart.
type Decision struct {
	Line, Column int    // where it begins, from 1; a column is a byte
	Text         string // as it is written; of a for its first line
	Loop         bool   // a for, which has no condition
	Counter      int    // of the first way: true, or another turn; the second way's is the next one
}

// Counted is a script that counts where its runs go.
type Counted struct {
	*Script
	Statements []Statement // in the order of the source, as are the decisions
	Decisions  []Decision
}

// CompileCounted is Compile for a script that counts. Counting is not held against its budget, but a comparison that
// is counted may take a little more: it is computed first and decided upon then.
func CompileCounted(name, source string) (*Counted, error) {
	in := &instrument{}
	script, err := Compile(name, source, in.pass)
	if err != nil {
		return nil, err
	}
	script.counts = make([]atomic.Int64, max(in.counters, 1))
	slices.SortFunc(in.statements, func(a, b Statement) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	slices.SortFunc(in.decisions, func(a, b Decision) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Counter, b.Counter))
	})
	return &Counted{Script: script, Statements: in.statements, Decisions: in.decisions}, nil
}

// Count returns what a counter stands at: all runs of the script together, also those that are under way.
func (c *Counted) Count(counter int) int64 { return c.counts[counter].Load() }

// countingInstructions is what one count takes: the helper, two arguments and the call. They are not held
// against the script.
const countingInstructions = 4

// helpCount adds its second argument to the counter that the first one names.
func helpCount(L *lua.LState) int {
	run := runOf(L)
	run.script.counts[int(L.Get(1).(lua.LNumber))].Add(int64(L.Get(2).(lua.LNumber)))
	run.used -= countingInstructions
	return 0
}

// helpWay counts which way its second argument decides, and returns it.
func helpWay(L *lua.LState) int {
	counter := int(L.Get(1).(lua.LNumber))
	if lua.LVIsFalse(L.Get(2)) {
		counter++
	}
	run := runOf(L)
	run.script.counts[counter].Add(1)
	run.used -= countingInstructions
	return 1
}

func (in *instrument) pass(tree []ast.Stmt, places *luasyntax.Places) []ast.Stmt {
	in.places = places
	in.deciding, in.inside = map[ast.Expr]bool{}, map[ast.Expr]bool{}
	in.turns, in.exits = map[ast.Stmt]int{}, map[*ast.BreakStmt]int{}
	luasyntax.Walk(tree, luasyntax.Visitor{Stmt: in.mark})
	luasyntax.Walk(tree, luasyntax.Visitor{Expr: in.expr, Stmt: in.blocks})
	return in.counted(tree)
}

func (in *instrument) mark(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.NumberForStmt:
		in.loop(s, s.Stmts)
	case *ast.GenericForStmt:
		in.loop(s, s.Stmts)
	}
	if condition := luasyntax.ConditionOf(s); condition != nil {
		luasyntax.Operands(condition, func(e ast.Expr) {
			_, logical := e.(*ast.LogicalOpExpr)
			_, not := e.(*ast.UnaryNotOpExpr)
			in.inside[e] = logical
			in.deciding[e] = !logical && !not && !isConstant(e)
		})
	}
}

func isConstant(e ast.Expr) bool {
	_, constant := e.(ast.ConstExpr)
	return constant
}

func (in *instrument) loop(s ast.Stmt, body []ast.Stmt) {
	counter := in.decide(s, in.places.FirstLine(s), true)
	in.turns[s] = counter
	in.leaving(body, counter+1)
}

// leaving finds the breaks that leave the loop of a body.
func (in *instrument) leaving(body []ast.Stmt, counter int) {
	for _, s := range body {
		switch s := s.(type) {
		case *ast.BreakStmt:
			in.exits[s] = counter
		case *ast.IfStmt:
			in.leaving(s.Then, counter)
			in.leaving(s.Else, counter)
		case *ast.DoBlockStmt:
			in.leaving(s.Stmts, counter)
		}
	}
}

func (in *instrument) decide(node ast.PositionHolder, text string, loop bool) (counter int) {
	line, column := in.places.At(node)
	in.decisions = append(in.decisions, Decision{Line: line, Column: column, Text: text, Loop: loop, Counter: in.counters})
	in.counters += 2
	return in.counters - 2
}

// expr counts the ways of what decides, and the statements of functions.
func (in *instrument) expr(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.FunctionExpr:
		e.Stmts = in.counted(e.Stmts)
	case *ast.LogicalOpExpr:
		if !in.inside[e] && !isConstant(e.Lhs) {
			e.Lhs = in.ways(e.Lhs)
		}
	}
	if in.deciding[e] {
		return in.ways(e)
	}
	return e
}

func (in *instrument) ways(e ast.Expr) ast.Expr {
	counter := in.decide(e, in.places.Text(e), false)
	return helperCall(wayHelper, numberAt(e, counter), single(e))
}

func (in *instrument) blocks(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.DoBlockStmt:
		s.Stmts = in.counted(s.Stmts)
	case *ast.WhileStmt:
		s.Stmts = in.counted(s.Stmts)
	case *ast.RepeatStmt:
		s.Stmts = in.counted(s.Stmts)
	case *ast.IfStmt:
		s.Then, s.Else = in.counted(s.Then), in.counted(s.Else)
	case *ast.NumberForStmt:
		s.Stmts = append([]ast.Stmt{countAt(s, in.turns[s], 1)}, in.counted(s.Stmts)...)
	case *ast.GenericForStmt:
		s.Stmts = append([]ast.Stmt{countAt(s, in.turns[s], 1)}, in.counted(s.Stmts)...)
	case *ast.FuncDefStmt:
		s.Func.Stmts = in.counted(s.Func.Stmts)
	}
}

// counted puts before each statement of a block what counts it. Behind a for its end is counted, and a
// break, which ends it too and is not its own decision, takes one off that count first.
func (in *instrument) counted(block []ast.Stmt) (out []ast.Stmt) {
	for _, s := range block {
		line, column := in.places.At(s)
		in.statements = append(in.statements, Statement{Line: line, Column: column, Counter: in.counters})
		out = append(out, countAt(s, in.counters, 1))
		in.counters++
		if exit, ok := s.(*ast.BreakStmt); ok {
			if counter, ofFor := in.exits[exit]; ofFor {
				out = append(out, countAt(s, counter, -1))
			}
		}
		out = append(out, s)
		if counter, isFor := in.turns[s]; isFor {
			out = append(out, countAt(s, counter+1, 1))
		}
	}
	return out
}

func countAt(where ast.PositionHolder, counter, by int) ast.Stmt {
	s := &ast.FuncCallStmt{Expr: helperCall(countHelper, numberAt(where, counter), numberAt(where, by))}
	s.SetLine(where.Line())
	return s
}

func numberAt(where ast.PositionHolder, n int) *ast.NumberExpr {
	e := &ast.NumberExpr{Value: strconv.Itoa(n)}
	e.SetLine(where.Line())
	return e
}
