package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

var errorPattern = regexp.MustCompile(`^([A-Z]+) ([A-Za-z_?]+): want .`)

// returned checks a reply of the script: an error, as many fields as the header has, or a result of redis.pcall.
func (b *body) returned(s *ast.ReturnStmt) {
	if b.functions > 0 {
		b.expressions(s.Exprs...)
		return
	}
	if b.script.KeyGroup != nil && b.manyReplied(s) {
		b.expressions(s.Exprs...)
		return
	}
	if len(s.Exprs) == 1 {
		switch e := s.Exprs[0].(type) {
		case *ast.TableExpr:
			b.replied(e)
			b.expression(e)
			return
		case *ast.FuncCallExpr:
			if b.redisMember(e) == "error_reply" && len(e.Args) == 1 {
				b.errorReply(e)
				b.expressions(e.Args...)
				return
			}
		case *ast.IdentExpr:
			if l, _ := b.lookup(e.Value); l.caught != "" {
				b.caughtReturned(e, l.caught)
				return
			}
		}
	}
	b.refuse(s, "unsupported return, want {..} as in the header, redis.error_reply(..) or a result of redis.pcall")
}

// tableReplies are the commands whose reply is a table where it is no error.
var tableReplies = []string{"HMGET", "SET"}

// caughtReturned wants every script to ask in the same way whether Redis refused a command.
func (b *body) caughtReturned(e *ast.IdentExpr, command string) {
	if slices.Contains(b.refused, e.Value) {
		return
	}
	want := fmt.Sprintf(`if type(%s) == "table" then`, e.Value)
	if slices.Contains(tableReplies, command) {
		want = fmt.Sprintf(`if %s.err then`, e.Value)
	}
	b.refuse(e, "%s is returned, want it behind %s", e.Value, want)
}

// refusedIf is the local that holds an error if a condition is true: what redis.pcall gave is a table or, of a command
// whose replies are tables, has err. "" if the condition is another.
func (b *body) refusedIf(condition ast.Expr) string {
	var asked ast.Expr
	switch e := condition.(type) {
	case *ast.RelationalOpExpr:
		call, isCall := e.Lhs.(*ast.FuncCallExpr)
		if isCall && e.Operator == "==" && literal(e.Rhs) == "table" && b.global(call.Func, "type") && len(call.Args) == 1 {
			asked = call.Args[0]
		}
	case *ast.AttrGetExpr:
		if literal(e.Key) == "err" {
			asked = e.Object
		}
	}
	ident, ok := asked.(*ast.IdentExpr)
	if !ok {
		return ""
	}
	l, _ := b.lookup(ident.Value)
	_, asksErr := condition.(*ast.AttrGetExpr)
	if l.caught == "" || asksErr != slices.Contains(tableReplies, l.caught) {
		return ""
	}
	return ident.Value
}

// manyReplied reports whether a script for many keys returns the reply for one key, or the reply.
func (b *body) manyReplied(s *ast.ReturnStmt) bool {
	if b.shared != nil {
		return len(s.Exprs) == len(ofSubjects(b.script.Reply))
	}
	_, isName := s.Exprs[0].(*ast.IdentExpr)
	return isName
}

func (b *body) replied(e *ast.TableExpr) {
	found, wanted := len(e.Fields), len(plain(b.script.Reply))
	if slices.ContainsFunc(e.Fields, func(f *ast.Field) bool { return f.Key != nil }) {
		b.refuse(e, "a reply with named fields, want them in the order of the header")
		return
	}
	if len(repeated(b.script.Reply)) > 0 {
		if found == 0 || !b.isUnpack(e.Fields[found-1].Value) {
			b.refuse(e, "a reply without the repeated fields, want unpack(..) as its last field")
			return
		}
		found--
	}
	if found != wanted {
		b.refuse(e, "%d fields, want the %d of the header", found, wanted)
	}
}

func (b *body) isUnpack(expr ast.Expr) bool {
	e, ok := expr.(*ast.FuncCallExpr)
	return ok && b.global(e.Func, "unpack")
}

func (b *body) errorReply(e *ast.FuncCallExpr) {
	text := e.Args[0]
	b.noteCode(e)
	parts := errorPattern.FindStringSubmatch(literal(text))
	if parts == nil {
		b.refuse(text, `error text %q, want "<CODE> <name>: want <what>"`, literal(text))
		return
	}
	code, name := parts[1], parts[2]
	if !b.declared(code) {
		b.refuse(text, "error %s is not in the header, want a row ERROR for it", code)
	}
	if code == "BADARG" && !slices.Contains(b.arguments(), name) {
		b.refuse(text, "BADARG of %s, want one of %s", name, strings.Join(b.arguments(), ", "))
	}
}

// noteCode records the code of an error: the first word of its text.
func (b *body) noteCode(e *ast.FuncCallExpr) {
	if len(e.Args) > 0 {
		code, _, _ := strings.Cut(literal(e.Args[0]), " ")
		b.codes[code] = true
	}
}

// literal returns a text with a question mark for each part that is not a constant.
func literal(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.StringExpr:
		return e.Value
	case *ast.StringConcatOpExpr:
		return literal(e.Lhs) + literal(e.Rhs)
	}
	return "?"
}

func (b *body) declared(code string) bool {
	return slices.ContainsFunc(b.script.Errors, func(e errorCode) bool { return e.Name == code })
}

// arguments returns the names that may follow BADARG.
func (b *body) arguments() []string {
	names := append([]string{"KEYS", "ARGV"}, keyNames(b.script)...)
	for _, name := range fieldNames(b.script.Args) {
		if of, isMember := strings.CutSuffix(name, "_i"); isMember {
			name = of + "_?"
		}
		names = append(names, name)
	}
	return names
}

func (b *body) ending(end place) {
	statements := b.tree.statements
	if len(statements) > 0 {
		if _, ok := statements[len(statements)-1].(*ast.ReturnStmt); ok {
			return
		}
	}
	b.note(refuse(end, "the body ends without a reply, want return {..}"))
}
