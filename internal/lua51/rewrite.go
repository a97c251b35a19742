package lua51

import (
	"fmt"
	"strconv"

	"github.com/yuin/gopher-lua/ast"

	"github.com/sluice-redis/sluice/internal/luasyntax"
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

// maxOperands is how many operands one call of a helper takes; VM registers are few.
const maxOperands = 50

// asRedis rewrites a chunk into one that computes as Redis does, wrapped as
//
//	local <helpers> = ...
//	return function() <chunk> end
func asRedis(stmts []ast.Stmt) []ast.Stmt {
	luasyntax.Walk(stmts, luasyntax.Visitor{Expr: rewriteExpr, Replace: rewriteStmt})

	helpers := &ast.LocalAssignStmt{Names: helperNames, Exprs: []ast.Expr{&ast.Comma3Expr{}}}
	body := &ast.FunctionExpr{ParList: &ast.ParList{}, Stmts: stmts}
	if n := len(stmts); n > 0 {
		body.SetLine(stmts[0].Line())
		body.SetLastLine(stmts[n-1].LastLine())
	}
	return []ast.Stmt{helpers, &ast.ReturnStmt{Exprs: []ast.Expr{body}}}
}

func rewriteExpr(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.NumberExpr:
		rewriteNumber(e)
	case *ast.StringConcatOpExpr:
		return concatCall(e)
	case *ast.ArithmeticOpExpr:
		if e.Operator == "%" {
			return onLine(e, helper(modHelper, e.Lhs, e.Rhs))
		}
	case *ast.UnaryNotOpExpr:
		return notConstant(e)
	case *ast.LogicalOpExpr:
		return decided(e)
	}
	return e
}

// rewriteNumber spells a literal so that the VM reads what strtod reads: to gopher-lua 010 is eight.
func rewriteNumber(e *ast.NumberExpr) {
	if x, ok := ParseNumber(e.Value); ok {
		e.Value = strconv.FormatFloat(x, 'e', -1, 64)
	}
}

// concatCall makes a chain of .. one call. The chain is right associative and its right part was rewritten
// before, so that part's operands are taken over.
func concatCall(e *ast.StringConcatOpExpr) ast.Expr {
	operands := []ast.Expr{e.Lhs, e.Rhs}
	if right, ok := e.Rhs.(*ast.FuncCallExpr); ok && isHelper(right, concatHelper) && len(right.Args) < maxOperands {
		operands = append(operands[:1], right.Args...)
	}
	return onLine(e, helper(concatHelper, operands...))
}

func isHelper(call *ast.FuncCallExpr, helper string) bool {
	name, ok := call.Func.(*ast.IdentExpr)
	return ok && name.Value == helper
}

// A loop whose body begins with a jump goes astray in gopher-lua: it takes for a label what is a distance
// already. Constants that decide something become jumps, so they are decided here, and of a condition that
// is constantly false a comparison is made.

func truth(e ast.Expr) (value, isConstant bool) {
	switch e.(type) {
	case *ast.NilExpr, *ast.FalseExpr:
		return false, true
	case *ast.TrueExpr, *ast.NumberExpr, *ast.StringExpr:
		return true, true
	}
	return false, false
}

func notConstant(e *ast.UnaryNotOpExpr) ast.Expr {
	value, isConstant := truth(e.Expr)
	switch {
	case !isConstant:
		return e
	case value:
		return &ast.FalseExpr{}
	}
	return &ast.TrueExpr{}
}

// decided is the operand of an and, or that a constant decides for.
func decided(e *ast.LogicalOpExpr) ast.Expr {
	value, isConstant := truth(e.Lhs)
	switch {
	case !isConstant:
		return e
	case value == (e.Operator == "or"):
		return e.Lhs
	}
	return single(e.Rhs)
}

// condition keeps a condition from being a jump.
func condition(e ast.Expr) ast.Expr {
	if value, isConstant := truth(e); !isConstant || value {
		return e
	}
	return &ast.RelationalOpExpr{Operator: "==", Lhs: &ast.TrueExpr{}, Rhs: &ast.FalseExpr{}}
}

// beginsWithJump reports whether the first thing in a block is a break.
func beginsWithJump(block []ast.Stmt) bool {
	if len(block) == 0 {
		return false
	}
	switch s := block[0].(type) {
	case *ast.BreakStmt:
		return true
	case *ast.DoBlockStmt:
		return beginsWithJump(s.Stmts)
	case *ast.RepeatStmt:
		return beginsWithJump(s.Stmts)
	case *ast.WhileStmt:
		_, isConstant := truth(s.Condition)
		return isConstant && beginsWithJump(s.Stmts)
	case *ast.IfStmt:
		_, isConstant := truth(s.Condition)
		return isConstant && beginsWithJump(s.Then)
	}
	return false
}

// loopBody is the body of a loop, with something before a jump at its beginning.
func loopBody(block []ast.Stmt) []ast.Stmt {
	if !beginsWithJump(block) {
		return block
	}
	return append([]ast.Stmt{&ast.LocalAssignStmt{Names: []string{"(begin)"}}}, block...)
}

func rewriteStmt(s ast.Stmt) ast.Stmt {
	switch s := s.(type) {
	case *ast.IfStmt:
		s.Condition = condition(s.Condition)
	case *ast.WhileStmt:
		s.Condition, s.Stmts = condition(s.Condition), loopBody(s.Stmts)
	case *ast.RepeatStmt:
		s.Condition, s.Stmts = condition(s.Condition), loopBody(s.Stmts)
	case *ast.NumberForStmt:
		return numberFor(s)
	case *ast.GenericForStmt:
		return genericFor(s)
	case *ast.LocalAssignStmt:
		if len(s.Exprs) == 1 && !isLocalFunction(s) {
			hideFromItself(s)
		}
	}
	return s
}

// hideFromItself keeps the function of "local f = function" from seeing f, as gopher-lua would let it: it
// does so where the function is all that is assigned.
func hideFromItself(s *ast.LocalAssignStmt) {
	if _, isFunction := s.Exprs[0].(*ast.FunctionExpr); isFunction {
		s.Exprs = append(s.Exprs, &ast.NilExpr{})
	}
}

// numberFor lets the bounds be numeric strings, as in Lua 5.1, and looks at them when all are evaluated.
func numberFor(s *ast.NumberForStmt) ast.Stmt {
	bounds := &ast.LocalAssignStmt{}
	bounds.SetLine(s.Line())
	for i, bound := range []struct {
		role string
		expr *ast.Expr
	}{{"initial value", &s.Init}, {"limit", &s.Limit}, {"step", &s.Step}} {
		if *bound.expr == nil || isNumber(*bound.expr) {
			continue
		}
		bounds.Exprs = append(bounds.Exprs, single(*bound.expr))
		role := &ast.StringExpr{Value: bound.role}
		role.SetLine(s.LastLine())
		*bound.expr = helper(forHelper, hidden(*bound.expr, bounds, "bound", i), role)
	}
	if len(bounds.Names) == 0 {
		return s
	}
	return inBlock(bounds, s)
}

// inBlock puts a statement into a block of its own, behind the locals that it needs.
func inBlock(locals *ast.LocalAssignStmt, s ast.Stmt) ast.Stmt {
	block := &ast.DoBlockStmt{Stmts: []ast.Stmt{locals, s}}
	block.SetLine(s.Line())
	return block
}

// genericFor evaluates what a for goes through before gopher-lua takes registers for it, which it would
// overwrite, unless that is one call.
func genericFor(s *ast.GenericForStmt) ast.Stmt {
	s.Stmts = loopBody(s.Stmts)
	if _, isCall := s.Exprs[0].(*ast.FuncCallExpr); isCall && len(s.Exprs) == 1 {
		return s
	}
	locals := &ast.LocalAssignStmt{Exprs: s.Exprs}
	locals.SetLine(s.Line())
	first := s.Exprs[0]
	s.Exprs = nil
	for i, role := range []string{"generator", "state", "control"} {
		s.Exprs = append(s.Exprs, hidden(first, locals, role, i))
	}
	return inBlock(locals, s)
}

func isNumber(e ast.Expr) bool {
	_, ok := e.(*ast.NumberExpr)
	return ok
}

// hidden adds a local to a statement under a name that no script can write.
func hidden(where ast.Expr, s *ast.LocalAssignStmt, role string, i int) *ast.IdentExpr {
	local := &ast.IdentExpr{Value: fmt.Sprintf("(%s %d)", role, i)}
	local.SetLine(where.Line())
	s.Names = append(s.Names, local.Value)
	return local
}

func onLine(e ast.Expr, call *ast.FuncCallExpr) *ast.FuncCallExpr {
	call.SetLine(e.Line())
	return call
}

// helper is a call of a helper with exactly one result, on the line of its last argument.
func helper(name string, args ...ast.Expr) *ast.FuncCallExpr {
	args[len(args)-1] = single(args[len(args)-1])
	return helperCall(name, args...)
}

func helperCall(helper string, args ...ast.Expr) *ast.FuncCallExpr {
	last := args[len(args)-1]
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

// isLocalFunction tells "local function f" from "local f = function", which does not see f: the parser
// notes the last line of the former only.
func isLocalFunction(s *ast.LocalAssignStmt) bool { return s.LastLine() != 0 }
