package scripttest

import (
	"strconv"

	"github.com/yuin/gopher-lua/ast"
)

// The names under which the rewritten tree calls what the VM itself would compute otherwise than Redis.
// They cannot be written in Lua, so no script meets them, and they are upvalues of the chunk, so no
// script finds them in its globals.
const (
	concatHelper = "(concat)"
	modHelper    = "(mod)"
	forHelper    = "(for)"
	countHelper  = "(count)" // of instrument only, as is the next
	wayHelper    = "(way)"
)

// helperNames is the order in which the compiled chunk takes its helpers.
var helperNames = []string{concatHelper, modHelper, forHelper, countHelper, wayHelper}

// maxConcat is how many operands one call of concatHelper takes; VM registers are few.
const maxConcat = 50

// asRedis rewrites a chunk into one that computes as Redis does, wrapped as
//
//	local <helpers> = ...
//	return function() <chunk> end
func asRedis(chunk []ast.Stmt) []ast.Stmt {
	walk(chunk, visitor{expr: rewriteExpr, stmt: rewriteStmt})
	helpers := &ast.LocalAssignStmt{Names: helperNames, Exprs: []ast.Expr{&ast.Comma3Expr{}}}
	body := &ast.FunctionExpr{ParList: &ast.ParList{}, Stmts: chunk}
	if n := len(chunk); n > 0 {
		body.SetLine(chunk[0].Line())
		body.SetLastLine(chunk[n-1].LastLine())
	}
	return []ast.Stmt{helpers, &ast.ReturnStmt{Exprs: []ast.Expr{body}}}
}

func rewriteExpr(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.NumberExpr:
		rewriteNumber(e)
	case *ast.StringConcatOpExpr:
		return rewriteConcat(e)
	case *ast.ArithmeticOpExpr:
		if e.Operator == "%" {
			return helperCall(modHelper, e.Lhs, e.Rhs)
		}
		e.SetLine(e.Rhs.Line()) // Lua 5.1 blames the line of the last operand
	}
	return e
}

// rewriteNumber spells a literal so that the VM reads what strtod reads: to gopher-lua 010 is eight.
func rewriteNumber(e *ast.NumberExpr) {
	if x, ok := parseNumber(e.Value); ok {
		e.Value = strconv.FormatFloat(x, 'e', -1, 64)
	}
}

// rewriteConcat makes a chain of .. one call. The chain is right associative and its right part was
// rewritten before, so that part's operands are taken over.
func rewriteConcat(e *ast.StringConcatOpExpr) ast.Expr {
	operands := []ast.Expr{e.Lhs}
	if right, ok := e.Rhs.(*ast.FuncCallExpr); ok && isConcat(right) && len(right.Args) < maxConcat {
		operands = append(operands, right.Args...)
	} else {
		operands = append(operands, e.Rhs)
	}
	return helperCall(concatHelper, operands...)
}

func isConcat(call *ast.FuncCallExpr) bool {
	name, ok := call.Func.(*ast.IdentExpr)
	return ok && name.Value == concatHelper
}

// rewriteStmt lets a numeric for take numeric strings, as Lua 5.1 does.
func rewriteStmt(s ast.Stmt) {
	loop, ok := s.(*ast.NumberForStmt)
	if !ok {
		return
	}
	loop.Init = forNumber(loop.Init, "initial")
	loop.Limit = forNumber(loop.Limit, "limit")
	loop.Step = forNumber(loop.Step, "step")
}

func forNumber(e ast.Expr, role string) ast.Expr {
	if e == nil {
		return nil
	}
	if _, literal := e.(*ast.NumberExpr); literal {
		return e
	}
	text := &ast.StringExpr{Value: role}
	text.SetLine(e.Line())
	return helperCall(forHelper, e, text)
}

// helperCall is a call of a helper with exactly one result, on the line of its last argument.
func helperCall(helper string, args ...ast.Expr) ast.Expr {
	last := args[len(args)-1]
	args[len(args)-1] = single(last)
	name := &ast.IdentExpr{Value: helper}
	call := &ast.FuncCallExpr{Func: name, Args: args, AdjustRet: true}
	for _, node := range []ast.PositionHolder{name, call} {
		node.SetLine(last.Line())
		node.SetLastLine(last.LastLine())
	}
	return call
}

// single cuts an operand down to one value where it would otherwise give the call all it has.
func single(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.FuncCallExpr:
		e.AdjustRet = true
	case *ast.Comma3Expr:
		e.AdjustRet = true
	}
	return e
}
