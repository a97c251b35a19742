package luasyntax

import "github.com/yuin/gopher-lua/ast"

// Visitor says what Walk does with the nodes of a tree: children first, then the node itself. A nil
// function leaves its kind of node alone.
type Visitor struct {
	Expr    func(ast.Expr) ast.Expr // returns what stands in the expression's place
	Stmt    func(ast.Stmt)          // edits the statement in place
	Replace func(ast.Stmt) ast.Stmt // returns what stands in the statement's place
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
	switch s := s.(type) {
	case *ast.AssignStmt:
		v.exprs(s.Lhs)
		v.exprs(s.Rhs)
	case *ast.LocalAssignStmt:
		v.exprs(s.Exprs)
	case *ast.FuncCallStmt:
		v.one(&s.Expr)
	case *ast.DoBlockStmt:
		Walk(s.Stmts, v)
	case *ast.WhileStmt:
		v.one(&s.Condition)
		Walk(s.Stmts, v)
	case *ast.RepeatStmt:
		v.one(&s.Condition)
		Walk(s.Stmts, v)
	case *ast.IfStmt:
		v.one(&s.Condition)
		Walk(s.Then, v)
		Walk(s.Else, v)
	case *ast.NumberForStmt:
		v.one(&s.Init)
		v.one(&s.Limit)
		v.one(&s.Step)
		Walk(s.Stmts, v)
	case *ast.GenericForStmt:
		v.exprs(s.Exprs)
		Walk(s.Stmts, v)
	case *ast.FuncDefStmt:
		v.one(&s.Name.Func)
		v.one(&s.Name.Receiver)
		Walk(s.Func.Stmts, v)
	case *ast.ReturnStmt:
		v.exprs(s.Exprs)
	}
	if v.Stmt != nil {
		v.Stmt(s)
	}
}

func (v Visitor) exprs(list []ast.Expr) {
	for i := range list {
		v.one(&list[i])
	}
}

func (v Visitor) one(e *ast.Expr) {
	if *e == nil {
		return
	}
	v.children(*e)
	if v.Expr != nil {
		*e = v.Expr(*e)
	}
}

func (v Visitor) children(e ast.Expr) {
	switch e := e.(type) {
	case *ast.AttrGetExpr:
		v.one(&e.Object)
		v.one(&e.Key)
	case *ast.TableExpr:
		for _, f := range e.Fields {
			v.one(&f.Key)
			v.one(&f.Value)
		}
	case *ast.FuncCallExpr:
		v.one(&e.Func)
		v.one(&e.Receiver)
		v.exprs(e.Args)
	case *ast.LogicalOpExpr:
		v.one(&e.Lhs)
		v.one(&e.Rhs)
	case *ast.RelationalOpExpr:
		v.one(&e.Lhs)
		v.one(&e.Rhs)
	case *ast.StringConcatOpExpr:
		v.one(&e.Lhs)
		v.one(&e.Rhs)
	case *ast.ArithmeticOpExpr:
		v.one(&e.Lhs)
		v.one(&e.Rhs)
	case *ast.UnaryMinusOpExpr:
		v.one(&e.Expr)
	case *ast.UnaryNotOpExpr:
		v.one(&e.Expr)
	case *ast.UnaryLenOpExpr:
		v.one(&e.Expr)
	case *ast.FunctionExpr:
		Walk(e.Stmts, v)
	}
}

// ConditionOf is the condition of an if, elseif, while or until; nil of other statements.
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

// Operands visits a condition, and below and, or and not their operands.
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

// BlocksOf are the blocks right inside a statement.
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
