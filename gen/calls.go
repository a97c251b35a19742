package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

// The libraries that some servers lack. A body gets them by rawget(_G, "struct").
var optionalLibraries = []string{"struct", "cjson", "cmsgpack", "bit"}

var commandPattern = regexp.MustCompile(`^[A-Z]+$`)

func (b *body) call(e *ast.FuncCallExpr) {
	member := b.redisMember(e)
	switch {
	case member == "call" || member == "pcall":
		b.command(e, member)
	case member != "":
		b.noteCode(e)
		b.refuse(e, "redis.%s, want redis.call, redis.pcall or, outside functions, return redis.error_reply(..)", member)
	case b.global(e.Func, "rawget"):
		b.library(e)
		return
	default:
		b.expressions(e.Func, e.Receiver)
	}
	b.expressions(e.Args...)
}

// redisMember returns the function of redis that an expression calls, possibly behind an "and"; or "".
func (b *body) redisMember(expr ast.Expr) string {
	if and, ok := expr.(*ast.LogicalOpExpr); ok && and.Operator == "and" {
		expr = and.Rhs
	}
	e, ok := expr.(*ast.FuncCallExpr)
	if !ok {
		return ""
	}
	get, ok := e.Func.(*ast.AttrGetExpr)
	if !ok || !b.global(get.Object, "redis") {
		return ""
	}
	name, ok := get.Key.(*ast.StringExpr)
	if !ok {
		return "[..]"
	}
	return name.Value
}

// pcalled returns the command of a redis.pcall, possibly behind an "and"; or "".
func (b *body) pcalled(expr ast.Expr) string {
	if b.redisMember(expr) != "pcall" {
		return ""
	}
	if and, ok := expr.(*ast.LogicalOpExpr); ok {
		expr = and.Rhs
	}
	if args := expr.(*ast.FuncCallExpr).Args; len(args) > 0 {
		return literal(args[0])
	}
	return "?"
}

func (b *body) library(e *ast.FuncCallExpr) {
	if len(e.Args) == 2 && b.global(e.Args[0], "_G") {
		if name, ok := e.Args[1].(*ast.StringExpr); ok && slices.Contains(optionalLibraries, name.Value) {
			return
		}
	}
	b.refuse(e, `unsupported rawget, want rawget(_G, "<library>") with one of %s`, strings.Join(optionalLibraries, ", "))
}

// command checks a call of a command: its name, and that its key is one of KEYS.
func (b *body) command(e *ast.FuncCallExpr, member string) {
	if member == "pcall" {
		b.caught(e)
	}
	name := ""
	if len(e.Args) > 0 {
		name = literal(e.Args[0])
	}
	if !commandPattern.MatchString(name) {
		b.refuse(e, "redis.%s without a literal command, want a command's name in capital letters", member)
		return
	}
	if name == "TIME" {
		b.time(e)
	} else if len(e.Args) < 2 || !b.isKey(e.Args[1]) {
		b.refuse(e, "%s of a value that may not be a key, want a local of KEYS, or one chosen from them", name)
	}
	b.commands[name] = true
}

// isKey reports whether an expression is one of KEYS, possibly chosen by and/or.
func (b *body) isKey(expr ast.Expr) bool {
	switch e := expr.(type) {
	case *ast.IdentExpr:
		l, _ := b.lookup(e.Value)
		return l.key
	case *ast.AttrGetExpr:
		return b.isKeys(e.Object)
	case *ast.LogicalOpExpr:
		return b.isKey(e.Rhs) && (e.Operator == "and" || b.isKey(e.Lhs))
	}
	return false
}

func (b *body) caught(e ast.Expr) {
	if !b.codes["WRONGTYPE"] && !b.declared("WRONGTYPE") {
		b.refuse(e, "redis.pcall catches WRONGTYPE, want a row ERROR for it")
	}
	b.codes["WRONGTYPE"] = true
}

func (b *body) time(e ast.Expr) {
	if b.commands["TIME"] {
		b.refuse(e, "TIME is called again, want it once")
	}
	if b.blocks > 1 {
		b.refuse(e, "TIME is called in a block, want it outside all blocks, so that it always runs once")
	}
}

// isKeys reports whether an expression is KEYS, or a local of it.
func (b *body) isKeys(expr ast.Expr) bool {
	ident, ok := expr.(*ast.IdentExpr)
	if !ok {
		return false
	}
	l, isLocal := b.lookup(ident.Value)
	return l.keys || !isLocal && ident.Value == "KEYS"
}
