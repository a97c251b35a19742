package policy

import (
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
)

// plainOf returns a text expression that only names a value (user.key, request.header["x-user"], ip(request.ip, 64), a
// constant) as a function that runs without CEL, nil if it is more than that; and the text of a constant.
func plainOf(e ast.Expr, kind *cel.Type) (plain func(*values) string, constant *string) {
	if !kind.IsExactType(cel.StringType) {
		return nil, nil
	}
	if text, ok := literal(e); ok {
		return func(*values) string { return text }, &text
	}
	if name, ok := nameOf(e); ok {
		return func(v *values) string { return v.text(name) }, nil
	}
	if name, key, ok := entryOf(e); ok {
		return func(v *values) string { text, _ := v.at(name, key); return text }, nil
	}
	return plainIP(e), nil
}

// plainIP is ip(address, bits) of a plain address.
func plainIP(e ast.Expr) func(*values) string {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != "ip" {
		return nil
	}
	args := e.AsCall().Args()
	address, _ := plainOf(args[0], cel.StringType)
	bits, ok := number(args[1])
	if address == nil || !ok {
		return nil
	}
	return func(v *values) string {
		text, err := networkOf(address(v), bits)
		if err != nil {
			v.fail(err)
		}
		return text
	}
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
		return e.AsIdent() == "request.host"
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

// results returns the constants that an expression may be: of a ? "free" : user.plan, "free".
func results(e ast.Expr) (texts []string) {
	if text, ok := literal(e); ok {
		return []string{text}
	}
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == "_?_:_" {
		for _, branch := range e.AsCall().Args()[1:] {
			texts = append(texts, results(branch)...)
		}
	}
	return texts
}
