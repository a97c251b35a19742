package lua51

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/sluice-redis/sluice/internal/luasyntax"
)

// The names under which the rewritten tree calls what the VM itself would compute otherwise than Redis.
// They cannot be written in Lua, so no script meets them, and they are upvalues of the chunk, so no
// script finds them in its globals.
const (
	concatHelper = "(concat)"
	modHelper    = "(mod)"
	powHelper    = "(pow)"
	forHelper    = "(for)"
	lengthHelper = "(length)"
	tableHelper  = "(table)"
	moreHelper   = "(more)"
	setHelper    = "(set)"
	countHelper  = "(count)" // of instrument only, as is the next
	wayHelper    = "(way)"
)

// helperNames is the order in which the compiled chunk takes its helpers.
var helperNames = []string{
	concatHelper, modHelper, powHelper, forHelper, lengthHelper, tableHelper, moreHelper, setHelper, countHelper,
	wayHelper,
}

// maxOperands is how many operands one call of a helper takes; VM registers are few.
const maxOperands = 50

type rewriter struct {
	names    map[ast.Expr]name
	operands map[ast.Expr][]name // of calls of helpers: what they are called for
	callees  map[*ast.GenericForStmt]name
	sites    sites
	chunk    int
}

// asRedis rewrites a chunk into one that computes as Redis does, wrapped as
//
//	local <helpers> = ...
//	return function() <chunk> end
//
// and puts the numbers of its sites in the place of lines. chunk is its number in the run.
func asRedis(stmts []ast.Stmt, display string, chunk int) ([]ast.Stmt, sites, error) {
	names, err := nameAll(stmts, display)
	if err != nil {
		return nil, nil, err
	}
	r := &rewriter{names: names, operands: map[ast.Expr][]name{}, callees: map[*ast.GenericForStmt]name{}, chunk: chunk}
	luasyntax.Walk(stmts, luasyntax.Visitor{Expr: r.expr, Replace: r.stmt})
	luasyntax.Walk(stmts, luasyntax.Visitor{Expr: r.numberExpr, Stmt: r.numberStmt})

	helpers := &ast.LocalAssignStmt{Names: helperNames, Exprs: []ast.Expr{&ast.Comma3Expr{}}}
	body := &ast.FunctionExpr{ParList: &ast.ParList{}, Stmts: stmts}
	if n := len(stmts); n > 0 {
		body.SetLine(stmts[0].Line())
		body.SetLastLine(stmts[n-1].LastLine())
	}
	return []ast.Stmt{helpers, &ast.ReturnStmt{Exprs: []ast.Expr{body}}}, r.sites, nil
}

func (r *rewriter) expr(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.NumberExpr:
		rewriteNumber(e)
	case *ast.StringConcatOpExpr:
		return r.concat(e)
	case *ast.ArithmeticOpExpr:
		return r.arithmetic(e)
	case *ast.UnaryNotOpExpr:
		return notConstant(e)
	case *ast.LogicalOpExpr:
		return r.decided(e)
	case *ast.UnaryLenOpExpr:
		return onLine(e, r.helper(lengthHelper, r.namesOf(e.Expr), e.Expr))
	case *ast.TableExpr:
		return r.constructor(e)
	}
	return e
}

// rewriteNumber spells a literal so that the VM reads what strtod reads: to gopher-lua 010 is eight.
func rewriteNumber(e *ast.NumberExpr) {
	if x, ok := ParseNumber(e.Value); ok {
		e.Value = strconv.FormatFloat(x, 'e', -1, 64)
	}
}

func (r *rewriter) namesOf(list ...ast.Expr) []name {
	names := make([]name, len(list))
	for i, e := range list {
		names[i] = r.names[e]
	}
	return names
}

func (r *rewriter) arithmetic(e *ast.ArithmeticOpExpr) ast.Expr {
	switch e.Operator {
	case "%":
		return onLine(e, r.helper(modHelper, r.namesOf(e.Lhs, e.Rhs), e.Lhs, e.Rhs))
	case "^":
		return onLine(e, r.helper(powHelper, r.namesOf(e.Lhs, e.Rhs), e.Lhs, e.Rhs))
	}
	return e
}

// concat makes a chain of .. one call. The chain is right associative and its right part was rewritten
// before, so that part's operands are taken over.
func (r *rewriter) concat(e *ast.StringConcatOpExpr) ast.Expr {
	operands, names := []ast.Expr{e.Lhs, e.Rhs}, r.namesOf(e.Lhs, e.Rhs)
	if right, ok := e.Rhs.(*ast.FuncCallExpr); ok && isHelper(right, concatHelper) && len(right.Args) < maxOperands {
		operands = append(operands[:1], right.Args...)
		names = append(names[:1], r.operands[right]...)
	}
	return onLine(e, r.helper(concatHelper, names, operands...))
}

func isHelper(call *ast.FuncCallExpr, helpers ...string) bool {
	name, ok := call.Func.(*ast.IdentExpr)
	return ok && slices.Contains(helpers, name.Value)
}

// constructor makes of a table constructor a call that knows the order of its items. Its first arguments
// are what Lua 5.1 makes room for, positions and keys, both plus 1, and the shape of the items: for each
// whether it is a (v)alue or a (k)ey with its value.
func (r *rewriter) constructor(e *ast.TableExpr) ast.Expr {
	fields := e.Fields
	first := fields[:min(len(fields), maxItems)]
	keys := len(fields) - positions(fields)
	room := len(fields) - keys
	if isOpenEnded(fields) {
		room--
	}
	table := r.items(e, tableHelper, []ast.Expr{numberAt(e, room+1), numberAt(e, keys+1)}, first)
	for from := maxItems; from < len(fields); from += maxItems {
		next := fields[from:min(len(fields), from+maxItems)]
		table = r.items(e, moreHelper, []ast.Expr{table, numberAt(e, positions(fields[:from])+1)}, next)
	}
	return table
}

// maxItems is how many items of a constructor one call takes.
const maxItems = 20

func (r *rewriter) items(e *ast.TableExpr, helper string, args []ast.Expr, fields []*ast.Field) *ast.FuncCallExpr {
	var shape strings.Builder
	var values []ast.Expr
	for _, f := range fields {
		if f.Key != nil {
			shape.WriteByte('k')
			values = append(values, single(f.Key), single(f.Value))
		} else {
			shape.WriteByte('v')
			values = append(values, f.Value)
		}
	}
	args = append(args, textAt(e.Line(), shape.String()))
	call := helperCall(helper, append(args, values...)...)
	call.SetLine(e.Line())
	call.SetLastLine(e.LastLine())
	return call
}

func positions(fields []*ast.Field) (n int) {
	for _, f := range fields {
		if f.Key == nil {
			n++
		}
	}
	return n
}

// isOpenEnded reports whether a constructor has all values of a call or ... that stands last.
func isOpenEnded(fields []*ast.Field) bool {
	if len(fields) == 0 || fields[len(fields)-1].Key != nil {
		return false
	}
	switch last := fields[len(fields)-1].Value.(type) {
	case *ast.FuncCallExpr:
		return !last.AdjustRet
	case *ast.Comma3Expr:
		return !last.AdjustRet
	}
	return false
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
func (r *rewriter) decided(e *ast.LogicalOpExpr) ast.Expr {
	value, isConstant := truth(e.Lhs)
	switch {
	case !isConstant:
		return e
	case value == (e.Operator == "or"):
		return e.Lhs
	}
	r.names[e.Rhs] = name{kind: unknownKind}
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

func (r *rewriter) stmt(s ast.Stmt) ast.Stmt {
	switch s := s.(type) {
	case *ast.IfStmt:
		s.Condition = condition(s.Condition)
	case *ast.WhileStmt:
		s.Condition, s.Stmts = condition(s.Condition), loopBody(s.Stmts)
	case *ast.RepeatStmt:
		s.Condition, s.Stmts = condition(s.Condition), loopBody(s.Stmts)
	case *ast.NumberForStmt:
		return r.numberFor(s)
	case *ast.GenericForStmt:
		return r.genericFor(s)
	case *ast.LocalAssignStmt:
		if len(s.Exprs) == 1 && !isLocalFunction(s) {
			hideFromItself(s)
		}
	case *ast.AssignStmt:
		return r.assignment(s)
	case *ast.FuncDefStmt:
		return r.definition(s)
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
func (r *rewriter) numberFor(s *ast.NumberForStmt) ast.Stmt {
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
		*bound.expr = r.helper(forHelper, nil, hidden(*bound.expr, bounds, "bound", i), textAt(s.LastLine(), bound.role))
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
func (r *rewriter) genericFor(s *ast.GenericForStmt) ast.Stmt {
	s.Stmts = loopBody(s.Stmts)
	r.callees[s] = iteratorName(s.Exprs)
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

// assignment makes calls of the assignments to fields. Where there are several, everything is evaluated
// first and then assigned from the last to the first.
func (r *rewriter) assignment(s *ast.AssignStmt) ast.Stmt {
	target, isField := s.Lhs[0].(*ast.AttrGetExpr)
	if len(s.Lhs) == 1 && len(s.Rhs) == 1 {
		if !isField {
			return s
		}
		return r.set(target.Line(), r.names[target.Object], target.Object, target.Key, s.Rhs[0])
	}
	places, values := &ast.LocalAssignStmt{}, &ast.LocalAssignStmt{Exprs: s.Rhs}
	var stores []ast.Stmt
	for i, target := range s.Lhs {
		value := hidden(target, values, "value", i)
		if field, ok := target.(*ast.AttrGetExpr); ok {
			object, key := hidden(target, places, "object", i), hidden(target, places, "key", i)
			places.Exprs = append(places.Exprs, single(field.Object), single(field.Key))
			stores = append(stores, r.set(field.Line(), r.names[field.Object], object, key, value))
		} else {
			store := &ast.AssignStmt{Lhs: []ast.Expr{target}, Rhs: []ast.Expr{value}}
			store.SetLine(target.Line())
			stores = append(stores, store)
		}
	}
	block := &ast.DoBlockStmt{}
	for _, local := range []*ast.LocalAssignStmt{places, values} {
		local.SetLine(s.Line())
		if len(local.Names) > 0 {
			block.Stmts = append(block.Stmts, local)
		}
	}
	slices.Reverse(stores)
	block.Stmts = append(block.Stmts, stores...)
	block.SetLine(s.Line())
	return block
}

// hidden adds a local to a statement under a name that no script can write.
func hidden(where ast.Expr, s *ast.LocalAssignStmt, role string, i int) *ast.IdentExpr {
	local := &ast.IdentExpr{Value: fmt.Sprintf("(%s %d)", role, i)}
	local.SetLine(where.Line())
	s.Names = append(s.Names, local.Value)
	return local
}

func (r *rewriter) set(line int, object name, args ...ast.Expr) ast.Stmt {
	call := r.helper(setHelper, []name{object}, args...)
	call.SetLine(line)
	s := &ast.FuncCallStmt{Expr: call}
	s.SetLine(line)
	return s
}

// definition makes an assignment of "function t.f" and "function t:f".
func (r *rewriter) definition(s *ast.FuncDefStmt) ast.Stmt {
	if s.Name.Func == nil {
		key := textAt(s.Line(), s.Name.Method)
		s.Func.ParList.Names = append([]string{"self"}, s.Func.ParList.Names...)
		return r.set(s.Line(), r.names[s.Name.Receiver], s.Name.Receiver, key, s.Func)
	}
	if field, ok := s.Name.Func.(*ast.AttrGetExpr); ok {
		return r.set(s.Line(), r.names[field.Object], field.Object, field.Key, s.Func)
	}
	return s
}

func textAt(line int, text string) *ast.StringExpr {
	e := &ast.StringExpr{Value: text}
	e.SetLine(line)
	return e
}

func onLine(e ast.Expr, call *ast.FuncCallExpr) *ast.FuncCallExpr {
	call.SetLine(e.Line())
	return call
}

// helper is a call of a helper with exactly one result, on the line of its last argument.
func (r *rewriter) helper(helper string, names []name, args ...ast.Expr) *ast.FuncCallExpr {
	args[len(args)-1] = single(args[len(args)-1])
	call := helperCall(helper, args...)
	r.operands[call] = names
	return call
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

// numberExpr puts the number of a site in the place of an expression's line.
func (r *rewriter) numberExpr(e ast.Expr) ast.Expr {
	s := site{line: e.Line()}
	switch e := e.(type) {
	case *ast.AttrGetExpr:
		s.operands = r.namesOf(e.Object)
	case *ast.ArithmeticOpExpr:
		s.operands = r.namesOf(e.Lhs, e.Rhs)
	case *ast.UnaryMinusOpExpr:
		s.operands = r.namesOf(e.Expr)
	case *ast.FuncCallExpr:
		s.operands, s.callee = r.operands[e], r.names[e.Func]
		if isHelper(e, tableHelper) && e.LastLine() != e.Line() {
			s.callee = name{kind: unknownKind}
		}
		if e.Receiver != nil {
			s.operands, s.callee = r.namesOf(e.Receiver), name{"method", e.Method}
		}
	}
	r.number(e, s)
	return e
}

func (r *rewriter) numberStmt(s ast.Stmt) {
	at := site{line: s.Line()}
	if loop, ok := s.(*ast.GenericForStmt); ok {
		at.callee = r.callees[loop]
	}
	r.number(s, at)
}

// iteratorName is the name of what a for calls: none after a call, which leaves its results where the
// iterator is called; else that of whatever was there before.
func iteratorName(exprs []ast.Expr) name {
	if call, isCall := exprs[len(exprs)-1].(*ast.FuncCallExpr); isCall && !isHelper(call, helperNames...) {
		return name{}
	}
	return name{kind: unknownKind}
}

func (r *rewriter) number(node ast.PositionHolder, s site) {
	last := node.LastLine()
	node.SetLine(r.add(s))
	if last != 0 {
		node.SetLastLine(r.add(site{line: last}))
	}
}

func (r *rewriter) add(s site) int {
	r.sites = append(r.sites, s)
	return siteNumber(r.chunk, len(r.sites)-1)
}
