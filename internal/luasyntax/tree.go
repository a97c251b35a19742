package luasyntax

import "github.com/yuin/gopher-lua/ast"

// Visitor says what Walk does with the nodes of a tree: first the children, then the node. A nil function skips its
// kind of node.
type Visitor struct {
	Expr    func(ast.Expr) ast.Expr // returns the replacement
	Stmt    func(ast.Stmt)          // edits the statement in place
	Replace func(ast.Stmt) ast.Stmt // returns the replacement
}

// Walk visits every statement and expression below stmts, nested functions included.
func Walk(stmts []ast.Stmt, v Visitor) {
	for i, s := range stmts {
		v.visitStmt(s)
		if v.Replace != nil {
			stmts[i] = v.Replace(s)
		}
	}
}

func (v Visitor) visitStmt(s ast.Stmt) {
	v.each(partsOf(s))
	for _, block := range BlocksOf(s) {
		Walk(block, v)
	}
	if s, ok := s.(*ast.FuncDefStmt); ok {
		Walk(s.Func.Stmts, v)
	}
	if v.Stmt != nil {
		v.Stmt(s)
	}
}

func (v Visitor) each(parts []*ast.Expr) {
	for _, e := range parts {
		if *e == nil {
			continue
		}
		v.each(operandsOf(*e))
		if f, ok := (*e).(*ast.FunctionExpr); ok {
			Walk(f.Stmts, v)
		}
		if v.Expr != nil {
			*e = v.Expr(*e)
		}
	}
}

// Subexpressions returns the direct subexpressions of an expression in the order of the source. It does not enter
// functions.
func Subexpressions(e ast.Expr) []ast.Expr { return present(operandsOf(e)) }

// Expressions returns the direct expressions of a statement in the order of the source. It does not enter blocks.
func Expressions(s ast.Stmt) []ast.Expr { return present(partsOf(s)) }

func present(parts []*ast.Expr) (list []ast.Expr) {
	for _, part := range parts {
		if *part != nil {
			list = append(list, *part)
		}
	}
	return list
}

// operandsOf returns the places of the direct subexpressions of an expression. Some may hold nil.
func operandsOf(e ast.Expr) []*ast.Expr {
	switch e := e.(type) {
	case *ast.AttrGetExpr:
		return []*ast.Expr{&e.Object, &e.Key}
	case *ast.TableExpr:
		var list []*ast.Expr
		for _, f := range e.Fields {
			list = append(list, &f.Key, &f.Value)
		}
		return list
	case *ast.FuncCallExpr:
		return append([]*ast.Expr{&e.Func, &e.Receiver}, places(e.Args)...)
	case *ast.LogicalOpExpr:
		return []*ast.Expr{&e.Lhs, &e.Rhs}
	case *ast.RelationalOpExpr:
		return []*ast.Expr{&e.Lhs, &e.Rhs}
	case *ast.StringConcatOpExpr:
		return []*ast.Expr{&e.Lhs, &e.Rhs}
	case *ast.ArithmeticOpExpr:
		return []*ast.Expr{&e.Lhs, &e.Rhs}
	case *ast.UnaryMinusOpExpr:
		return []*ast.Expr{&e.Expr}
	case *ast.UnaryNotOpExpr:
		return []*ast.Expr{&e.Expr}
	case *ast.UnaryLenOpExpr:
		return []*ast.Expr{&e.Expr}
	}
	return nil
}

// partsOf returns the places of the expressions of a statement, without those in its blocks. Some may hold nil.
func partsOf(s ast.Stmt) []*ast.Expr {
	switch s := s.(type) {
	case *ast.AssignStmt:
		return append(places(s.Lhs), places(s.Rhs)...)
	case *ast.LocalAssignStmt:
		return places(s.Exprs)
	case *ast.FuncCallStmt:
		return []*ast.Expr{&s.Expr}
	case *ast.WhileStmt:
		return []*ast.Expr{&s.Condition}
	case *ast.RepeatStmt:
		return []*ast.Expr{&s.Condition}
	case *ast.IfStmt:
		return []*ast.Expr{&s.Condition}
	case *ast.NumberForStmt:
		return []*ast.Expr{&s.Init, &s.Limit, &s.Step}
	case *ast.GenericForStmt:
		return places(s.Exprs)
	case *ast.FuncDefStmt:
		return []*ast.Expr{&s.Name.Func, &s.Name.Receiver}
	case *ast.ReturnStmt:
		return places(s.Exprs)
	}
	return nil
}

func places(list []ast.Expr) []*ast.Expr {
	all := make([]*ast.Expr, len(list))
	for i := range list {
		all[i] = &list[i]
	}
	return all
}

// ConditionOf returns the condition of an if, elseif, while or until, or nil for other statements.
func ConditionOf(s ast.Stmt) ast.Expr {
	switch s := s.(type) {
	case *ast.IfStmt:
		return s.Condition
	case *ast.WhileStmt:
		return s.Condition
	case *ast.RepeatStmt:
		return s.Condition
	}
	return nil
}

// Operands visits a condition and, if it is an and, or or not, its operands, recursively.
func Operands(e ast.Expr, visit func(ast.Expr)) {
	visit(e)
	switch e := e.(type) {
	case *ast.LogicalOpExpr:
		Operands(e.Lhs, visit)
		Operands(e.Rhs, visit)
	case *ast.UnaryNotOpExpr:
		Operands(e.Expr, visit)
	}
}

// BlocksOf returns the blocks directly in a statement. The body of a function is not one.
func BlocksOf(s ast.Stmt) [][]ast.Stmt {
	switch s := s.(type) {
	case *ast.DoBlockStmt:
		return [][]ast.Stmt{s.Stmts}
	case *ast.WhileStmt:
		return [][]ast.Stmt{s.Stmts}
	case *ast.RepeatStmt:
		return [][]ast.Stmt{s.Stmts}
	case *ast.IfStmt:
		return [][]ast.Stmt{s.Then, s.Else}
	case *ast.NumberForStmt:
		return [][]ast.Stmt{s.Stmts}
	case *ast.GenericForStmt:
		return [][]ast.Stmt{s.Stmts}
	}
	return nil
}
