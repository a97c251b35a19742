package scripttest

import "github.com/yuin/gopher-lua/ast"

// visitor says what walk does with the nodes of a tree: children first, then the node itself. A nil
// function leaves its kind of node alone.
type visitor struct {
	expr    func(ast.Expr) ast.Expr // returns what stands in the expression's place
	stmt    func(ast.Stmt)          // edits the statement in place
	replace func(ast.Stmt) ast.Stmt // returns what stands in the statement's place
}

// walk visits every statement and expression below stmts, nested functions included.
func walk(stmts []ast.Stmt, v visitor) {
	for i, s := range stmts {
		v.visitStmt(s)
		if v.replace != nil {
			stmts[i] = v.replace(s)
		}
	}
}

func (v visitor) visitStmt(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.AssignStmt:
		v.exprs(s.Lhs)
		v.exprs(s.Rhs)
	case *ast.LocalAssignStmt:
		v.exprs(s.Exprs)
	case *ast.FuncCallStmt:
		v.one(&s.Expr)
	case *ast.DoBlockStmt:
		walk(s.Stmts, v)
	case *ast.WhileStmt:
		v.one(&s.Condition)
		walk(s.Stmts, v)
	case *ast.RepeatStmt:
		v.one(&s.Condition)
		walk(s.Stmts, v)
	case *ast.IfStmt:
		v.one(&s.Condition)
		walk(s.Then, v)
		walk(s.Else, v)
	case *ast.NumberForStmt:
		v.one(&s.Init)
		v.one(&s.Limit)
		v.one(&s.Step)
		walk(s.Stmts, v)
	case *ast.GenericForStmt:
		v.exprs(s.Exprs)
		walk(s.Stmts, v)
	case *ast.FuncDefStmt:
		v.one(&s.Name.Func)
		v.one(&s.Name.Receiver)
		walk(s.Func.Stmts, v)
	case *ast.ReturnStmt:
		v.exprs(s.Exprs)
	}
	if v.stmt != nil {
		v.stmt(s)
	}
}

func (v visitor) exprs(list []ast.Expr) {
	for i := range list {
		v.one(&list[i])
	}
}

func (v visitor) one(e *ast.Expr) {
	if *e == nil {
		return
	}
	v.children(*e)
	if v.expr != nil {
		*e = v.expr(*e)
	}
}

func (v visitor) children(e ast.Expr) {
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
		walk(e.Stmts, v)
	}
}

// conditionOf is the condition of an if, elseif, while or until; nil of other statements.
func conditionOf(s ast.Stmt) ast.Expr {
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

// operands visits a condition, and below and, or and not their operands.
func operands(e ast.Expr, visit func(ast.Expr)) {
	visit(e)
	switch e := e.(type) {
	case *ast.LogicalOpExpr:
		operands(e.Lhs, visit)
		operands(e.Rhs, visit)
	case *ast.UnaryNotOpExpr:
		operands(e.Expr, visit)
	}
}

// blocksOf are the blocks right inside a statement.
func blocksOf(s ast.Stmt) [][]ast.Stmt {
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
