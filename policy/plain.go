package policy

import (
	"net/http"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
)

// planner makes functions of texts that name and join values: user.key, request.header["x-user"], ip(request.ip, 64),
// user.id + ":" + user.email. They run without CEL, and know which of the values that they are made of were empty. What
// is in between, such as the condition in a ? b : c, is a program of CEL.
type planner struct {
	env  *cel.Env
	info *ast.SourceInfo
	err  error
}

// plan returns the function of a text, nil if it is another expression.
func (p *planner) plan(e ast.Expr) func(*values) string {
	if text, ok := literal(e); ok {
		return func(*values) string { return text }
	}
	if name, ok := nameOf(e); ok {
		return func(v *values) string { return v.needed(name) }
	}
	if name, key, ok := entryOf(e); ok {
		if name == "request.header" {
			key = http.CanonicalHeaderKey(key)
		}
		return func(v *values) string { text, _ := v.at(name, key); return text }
	}
	if e.Kind() == ast.CallKind {
		return p.planCall(e.AsCall())
	}
	return nil
}

func (p *planner) planCall(call ast.CallExpr) func(*values) string {
	args := call.Args()
	switch call.FunctionName() {
	case "_+_":
		a, b := p.part(args[0]), p.part(args[1])
		return func(v *values) string { return a(v) + b(v) }
	case "lowerAscii":
		text := p.part(call.Target())
		return func(v *values) string { return lowerASCII(text(v)) }
	case "ip":
		if bits, ok := number(args[1]); ok {
			address := p.part(args[0])
			return func(v *values) string {
				key, err := networkOf(address(v), bits)
				if err != nil {
					v.fail(err)
				}
				return key
			}
		}
	case "_?_:_":
		condition, a, b := p.program(args[0]), p.part(args[1]), p.part(args[2])
		return func(v *values) string {
			if holds, err := condition.holds(v); err != nil {
				v.fail(err)
			} else if holds {
				return a(v)
			}
			return b(v)
		}
	}
	return nil
}

// part is the plan of a part of a text, a program if there is none.
func (p *planner) part(e ast.Expr) func(*values) string {
	if plan := p.plan(e); plan != nil {
		return plan
	}
	program := p.program(e)
	return func(v *values) string {
		text, err := program.text(v)
		if err != nil {
			v.fail(err)
		}
		return text
	}
}

// program compiles a part of an expression by itself.
func (p *planner) program(e ast.Expr) *expression {
	text, err := cel.ExprToString(e, p.info)
	if err == nil {
		checked, issues := p.env.Compile(text)
		if err = issues.Err(); err == nil {
			program, programErr := p.env.Program(checked, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptOptimize))
			if programErr == nil {
				return &expression{program: program}
			}
			err = programErr
		}
	}
	if p.err == nil {
		p.err = err
	}
	return &expression{}
}

func literal(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	text, ok := e.AsLiteral().(types.String)
	return string(text), ok
}

func number(e ast.Expr) (int, bool) {
	if e.Kind() != ast.LiteralKind {
		return 0, false
	}
	n, ok := e.AsLiteral().(types.Int)
	return int(n), ok
}

// nameOf returns the name of a variable.
func nameOf(e ast.Expr) (string, bool) {
	if e.Kind() != ast.IdentKind {
		return "", false
	}
	return e.AsIdent(), true
}

// entryOf returns the name of a map and the key: of request.header["x-user"], or of request.cookie.sid.
func entryOf(e ast.Expr) (name, key string, ok bool) {
	switch e.Kind() {
	case ast.SelectKind:
		name, ok = nameOf(e.AsSelect().Operand())
		return name, e.AsSelect().FieldName(), ok && !e.AsSelect().IsTestOnly()
	case ast.CallKind:
		if call := e.AsCall(); call.FunctionName() == "_[_]" {
			name, isName := nameOf(call.Args()[0])
			key, isText := literal(call.Args()[1])
			return name, key, isName && isText
		}
	}
	return "", "", false
}

// mayBeEmpty reports whether the client may make a text empty, by leaving something out. What the application or the
// connection should have is another matter: see values.missing.
func mayBeEmpty(e ast.Expr) bool {
	switch e.Kind() {
	case ast.LiteralKind:
		text, ok := literal(e)
		return ok && text == ""
	case ast.IdentKind:
		return e.AsIdent() == "request.host" // domain and keys are never empty
	case ast.CallKind:
		return callMayBeEmpty(e.AsCall())
	}
	return true
}

func callMayBeEmpty(call ast.CallExpr) bool {
	args := call.Args()
	switch call.FunctionName() {
	case "_+_":
		return mayBeEmpty(args[0]) && mayBeEmpty(args[1])
	case "_?_:_":
		return slices.ContainsFunc(args[1:], mayBeEmpty)
	case "ip":
		return mayBeEmpty(args[0])
	case "lowerAscii":
		return mayBeEmpty(call.Target())
	case "string":
		return false
	}
	return true
}

// results returns the constants that an expression may be, and whether it may be nothing else: of
// a ? "free" : user.plan, "free" and false.
func results(e ast.Expr) (texts []string, all bool) {
	if text, ok := literal(e); ok {
		return []string{text}, true
	}
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != "_?_:_" {
		return nil, false
	}
	a, allOfA := results(e.AsCall().Args()[1])
	b, allOfB := results(e.AsCall().Args()[2])
	return append(a, b...), allOfA && allOfB
}
