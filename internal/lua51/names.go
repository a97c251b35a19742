package lua51

import (
	"fmt"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"

	"github.com/sluice-redis/sluice/internal/luasyntax"
)

// name is what Lua 5.1 calls a value in an error text: "local 'x'". Temporary values have none.
type name struct {
	kind string // local, global, upvalue, field or method; "" is no name, unknownKind one not known here
	text string
}

// unknownKind is the kind of names that depend on which register Lua 5.1 takes.
const unknownKind = "?"

// unknownName is what a run is refused for when such a name is asked for.
const unknownName = "the name in an error text of what and, or, or the iterator of a for gave: " +
	"it depends on Lua's registers"

// The limits of Lua 5.1's compiler.
const (
	maxLocals   = 200
	maxUpvalues = 60
)

// namer finds the names of variables and fields in a chunk as the author wrote it.
type namer struct {
	names    map[ast.Expr]name
	function *functionScope
	display  string // of the chunk
	err      error
}

type functionScope struct {
	outer    *functionScope
	line     int
	locals   []string // those in scope, the latest last
	zeros    zeros
	upvalues map[upvalue]bool
}

type upvalue struct {
	owner *functionScope
	index int
}

// nameAll names the variables and fields of a chunk. The error is one of Lua 5.1's limits.
func nameAll(chunk []ast.Stmt, display string) (map[ast.Expr]name, error) {
	n := &namer{names: map[ast.Expr]name{}, display: display}
	n.body(0, nil, chunk)
	return n.names, n.err
}

func (n *namer) fail(format string, args ...any) {
	if n.err != nil {
		return
	}
	where := "main function"
	if n.function.line > 0 {
		where = fmt.Sprintf("function at line %d", n.function.line)
	}
	n.err = fmt.Errorf("%s: %s in %s", n.display, fmt.Sprintf(format, args...), where)
}

func (n *namer) body(line int, parameters []string, stmts []ast.Stmt) {
	n.function = &functionScope{outer: n.function, line: line, upvalues: map[upvalue]bool{}}
	n.block(stmts, parameters...)
	n.function = n.function.outer
}

// block reads statements in a scope of their own, which begins with some locals.
func (n *namer) block(stmts []ast.Stmt, locals ...string) {
	defer n.leave(len(n.function.locals))
	n.declare(locals...)
	for _, s := range stmts {
		n.stmt(s)
	}
}

func (n *namer) leave(locals int) { n.function.locals = n.function.locals[:locals] }

func (n *namer) declare(names ...string) {
	n.function.locals = append(n.function.locals, names...)
	if len(n.function.locals) > maxLocals {
		n.fail("too many local variables (limit is %d)", maxLocals)
	}
}

func (n *namer) stmt(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.LocalAssignStmt:
		n.localAssign(s)
	case *ast.RepeatStmt:
		defer n.leave(len(n.function.locals))
		for _, inner := range s.Stmts {
			n.stmt(inner)
		}
		n.exprs(s.Condition)
	case *ast.NumberForStmt:
		n.exprs(luasyntax.Expressions(s)...)
		n.block(s.Stmts, "(for index)", "(for limit)", "(for step)", s.Name)
	case *ast.GenericForStmt:
		n.exprs(s.Exprs...)
		n.block(s.Stmts, append([]string{"(for generator)", "(for state)", "(for control)"}, s.Names...)...)
	case *ast.FuncDefStmt:
		n.functionDefinition(s)
	default:
		n.exprs(luasyntax.Expressions(s)...)
		for _, block := range luasyntax.BlocksOf(s) {
			n.block(block)
		}
	}
}

func (n *namer) localAssign(s *ast.LocalAssignStmt) {
	if isLocalFunction(s) {
		n.declare(s.Names...)
		n.exprs(s.Exprs...)
		return
	}
	n.exprs(s.Exprs...)
	n.declare(s.Names...)
}

func (n *namer) functionDefinition(s *ast.FuncDefStmt) {
	n.exprs(luasyntax.Expressions(s)...)
	if s.Name.Func == nil {
		n.functionExpr(s.Func, "self")
	} else {
		n.functionExpr(s.Func)
	}
}

// isLocalFunction tells "local function f" from "local f = function", which does not see f: the parser
// notes the last line of the former only.
func isLocalFunction(s *ast.LocalAssignStmt) bool { return s.LastLine() != 0 }

func (n *namer) exprs(list ...ast.Expr) {
	for _, e := range list {
		n.expr(e)
	}
}

func (n *namer) expr(e ast.Expr) {
	if n.literal(e, true) {
		return
	}
	switch e := e.(type) {
	case *ast.IdentExpr:
		n.names[e] = n.variable(e.Value)
	case *ast.AttrGetExpr:
		n.exprs(e.Object, e.Key)
		n.names[e] = name{"field", "?"}
		if key, constant := e.Key.(*ast.StringExpr); constant {
			n.names[e] = name{"field", key.Value}
		}
	case *ast.FunctionExpr:
		n.functionExpr(e)
	case *ast.LogicalOpExpr:
		n.uncertain(e.Lhs)
		n.exprs(e.Rhs)
		n.names[e] = name{kind: unknownKind}
	case *ast.ArithmeticOpExpr:
		n.uncertain(e.Lhs)
		n.uncertain(e.Rhs)
	case *ast.UnaryNotOpExpr:
		n.uncertain(e.Expr)
	default:
		n.exprs(luasyntax.Subexpressions(e)...)
	}
}

// uncertain is an operand that Lua may take for a constant sooner or later than gopher-lua, or never.
func (n *namer) uncertain(e ast.Expr) {
	if !n.literal(e, false) {
		n.expr(e)
	}
}

func (n *namer) functionExpr(e *ast.FunctionExpr, parameters ...string) {
	parameters = append(parameters, e.ParList.Names...)
	if e.ParList.HasVargs {
		parameters = append(parameters, "arg")
	}
	n.body(e.Line(), parameters, e.Stmts)
}

func (n *namer) variable(text string) name {
	for f := n.function; f != nil; f = f.outer {
		for i := len(f.locals) - 1; i >= 0; i-- {
			if f.locals[i] != text {
				continue
			}
			if f == n.function {
				return name{"local", text}
			}
			n.closeOver(upvalue{f, i}, f)
			return name{"upvalue", text}
		}
	}
	return name{"global", text}
}

// closeOver notes an upvalue of all functions between its owner and the one that uses it.
func (n *namer) closeOver(u upvalue, owner *functionScope) {
	for f := n.function; f != owner; f = f.outer {
		f.upvalues[u] = true
		if len(f.upvalues) > maxUpvalues {
			n.fail("more than %d upvalues", maxUpvalues)
		}
	}
}

// site is a place in a chunk where something may fail: its line, and the names of the values there.
type site struct {
	line     int
	operands []name // those that are indexed or computed with
	callee   name   // the one that is called
}

// sites are the places of a chunk. The VM is given their numbers in the place of lines, so that it tells of
// an error not only where it was, but at which operation.
type sites []site

// siteBase keeps the numbers of sites apart from lines, and those of a run's chunks from each other.
const siteBase = 1 << 40

func siteNumber(chunk, index int) int { return (chunk+1)*siteBase + index }

func (r *run) site(number int) (site, bool) {
	chunk := number/siteBase - 1
	if chunk < 0 || chunk >= len(r.chunks) {
		return site{}, false
	}
	return r.chunks[chunk][number%siteBase], true
}

// caller is the place in the Lua function that called the running one; there is none if that is not Lua.
func caller(L *lua.LState) (site, bool) {
	debug, ok := L.GetStack(1)
	if !ok {
		return site{}, false
	}
	if _, err := L.GetInfo("l", debug, lua.LNil); err != nil {
		return site{}, false
	}
	return runOf(L).site(debug.CurrentLine)
}

func (s site) operand(i int) name {
	if i < len(s.operands) {
		return s.operands[i]
	}
	return name{}
}

func (r *run) describe(n name, kind lua.LValueType) string {
	switch n.kind {
	case "":
		return fmt.Sprintf("a %s value", kind)
	case unknownKind:
		r.doubt(unknownName)
	}
	return fmt.Sprintf("%s '%s' (a %s value)", n.kind, n.text, kind)
}
