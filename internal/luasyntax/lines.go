package luasyntax

import (
	"fmt"
	"slices"

	"github.com/yuin/gopher-lua/ast"
)

// liner sets the line of each node to the one that Lua 5.1 names in errors. Lua 5.1 emits an instruction, with the
// current line, as soon as it has read enough. Reading a field waits for the next token, so in
//
//	local x = t.y
//	    + 1
//
// t is indexed on the first line and the sum is on the second. gopher-lua would use the first line for both.
type liner struct {
	*Places
	starts []int
}

// settleLines sets the lines of all nodes. It returns an error for a call whose parenthesis begins a line: Lua 5.1
// rejects that as ambiguous.
func settleLines(places *Places, display string, stmts []ast.Stmt) error {
	l := &liner{Places: places, starts: lineStarts(places.Source)}
	l.block(stmts)
	if l.ambiguous > 0 {
		return fmt.Errorf("%s:%d: ambiguous syntax (function call x new statement) near '('", display, l.ambiguous)
	}
	return nil
}

func (l *liner) line(token int) int {
	at, _ := slices.BinarySearch(l.starts, l.Tokens[token].To)
	return at
}

func (l *liner) last(e ast.Expr) int {
	s, ok := l.Spans[e]
	if !ok {
		return e.Line()
	}
	return l.line(s.Last)
}

func (l *liner) after(e ast.Expr) int { return l.line(l.Spans[e].Last + 1) }

func (l *liner) block(stmts []ast.Stmt) {
	for _, s := range stmts {
		l.stmt(s)
	}
}

func (l *liner) stmt(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.AssignStmt:
		l.list(s.Rhs)
		for _, target := range s.Lhs {
			l.expr(target, l.last(s.Rhs[len(s.Rhs)-1]))
		}
	case *ast.NumberForStmt:
		l.numberFor(s)
	case *ast.FuncDefStmt:
		if s.Name.Func != nil {
			s.Name.Func.SetLine(s.Line())
		}
		l.block(s.Func.Stmts)
	default:
		l.list(Expressions(s))
	}
	for _, inner := range BlocksOf(s) {
		l.block(inner)
	}
}

// numberFor stores the line of do, where Lua checks the bounds, as the last line.
func (l *liner) numberFor(s *ast.NumberForStmt) {
	bounds := Expressions(s)
	for _, e := range bounds {
		l.alone(e)
	}
	s.SetLastLine(l.after(bounds[len(bounds)-1]))
}

// list handles a list of expressions. Each, except the last, is finished at the next comma.
func (l *liner) list(exprs []ast.Expr) {
	for i, e := range exprs {
		if i < len(exprs)-1 {
			l.expr(e, l.after(e))
		} else {
			l.alone(e)
		}
	}
}

// alone handles an expression that is finished at its last token.
func (l *liner) alone(e ast.Expr) { l.expr(e, l.last(e)) }

// expr handles an expression that is finished on a given line.
func (l *liner) expr(e ast.Expr, finished int) {
	switch e := e.(type) {
	case *ast.IdentExpr:
		e.SetLine(l.inParentheses(e, finished))
	case *ast.AttrGetExpr:
		finished = l.inParentheses(e, finished)
		l.alone(e.Object)
		l.alone(e.Key)
		e.SetLine(finished)
	case *ast.FuncCallExpr:
		l.call(e)
	case *ast.TableExpr:
		l.table(e)
	case *ast.FunctionExpr:
		l.block(e.Stmts)
	default:
		switch operands := Subexpressions(e); len(operands) {
		case 1:
			l.unary(e, operands[0])
		case 2:
			l.binary(e, operands[0], operands[1])
		}
	}
}

// inParentheses returns the line of the innermost parenthesis that closes around a variable or field, because that
// finishes it. Without parentheses it returns the given line.
func (l *liner) inParentheses(e ast.Expr, finished int) int {
	s, ok := l.Spans[e]
	if !ok {
		return e.Line()
	}
	for at := s.Last; at > s.First && l.Tokens[at].Type == ')'; at-- {
		finished = l.line(at)
	}
	return finished
}

func (l *liner) binary(e, left, right ast.Expr) {
	l.expr(left, l.line(l.Operators[e]))
	l.alone(right)
	e.SetLine(l.last(right))
}

func (l *liner) unary(e, operand ast.Expr) {
	l.alone(operand)
	e.SetLine(l.last(operand))
}

// call uses the line of the parenthesis, or of the text or table that replaces it.
func (l *liner) call(e *ast.FuncCallExpr) {
	if e.Func != nil {
		l.alone(e.Func)
	} else {
		l.expr(e.Receiver, l.line(l.opens[e]-1))
	}
	e.SetLine(l.line(l.opens[e]))
	for _, arg := range e.Args {
		l.expr(arg, l.after(arg))
	}
}

// table sets the last line of a table and the lines of its items.
func (l *liner) table(e *ast.TableExpr) {
	for _, f := range e.Fields {
		if f.Key != nil {
			l.alone(f.Key)
			l.alone(f.Value)
		} else {
			l.expr(f.Value, l.positionEnd(f.Value))
		}
	}
	e.SetLastLine(l.last(e))
}

// positionEnd returns the line of the comma after an item without a key, or of the brace.
func (l *liner) positionEnd(value ast.Expr) int {
	at := l.Spans[value].Last + 1
	if kind := l.Tokens[at].Type; (kind == ',' || kind == ';') && l.Tokens[at+1].Type == '}' {
		at++
	}
	return l.line(at)
}
