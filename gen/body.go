package main

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/sluice-redis/sluice/internal/luasyntax"
)

// The globals that a body may read. error, pcall, rawset, loadstring and everything that some server lacks are left
// out on purpose.
var allowedGlobals = []string{
	"KEYS", "ARGV", "string", "table", "math", "tonumber", "tostring", "type", "unpack", "ipairs", "pairs",
}

// checkBody checks the body of a script against its header and records the commands that it calls.
func checkBody(file string, s *script) error {
	tree, err := parseLua(file, s.Source)
	if err != nil {
		return err
	}
	b := &body{script: s, tree: tree, commands: map[string]bool{}, codes: map[string]bool{}}
	b.block(tree.statements)
	b.ending(lastLine(file, s.Source))
	b.agreement()
	s.Commands = slices.Sorted(maps.Keys(b.commands))
	return errors.Join(b.refusals...)
}

// A body holds the state of one walk through a script's body, including the locals in scope.
type body struct {
	script *script
	tree   *chunk
	scope  *scope

	functions int    // nesting depth of functions
	shared    *scope // of a script for many keys, inside the function decide: what is kept from key to key
	blocks    int    // nesting depth of blocks

	commands map[string]bool
	codes    map[string]bool // error codes replied
	refusals []error
}

type scope struct {
	locals map[string]local
	outer  *scope
}

// A local may hold a key's name, the table of them, or a result of redis.pcall.
type local struct{ key, keys, caught bool }

func (b *body) note(err error) {
	if err != nil {
		b.refusals = append(b.refusals, err)
	}
}

func (b *body) refuse(node ast.PositionHolder, format string, args ...any) {
	b.note(refuse(b.tree.at(node), format, args...))
}

func (b *body) lookup(name string) (local, bool) {
	for s := b.scope; s != nil; s = s.outer {
		if l, ok := s.locals[name]; ok {
			return l, true
		}
	}
	return local{}, false
}

func (b *body) global(expr ast.Expr, name string) bool {
	ident, ok := expr.(*ast.IdentExpr)
	if !ok || ident.Value != name {
		return false
	}
	_, isLocal := b.lookup(name)
	return !isLocal
}

// block walks statements in a new scope that begins with these names.
func (b *body) block(statements []ast.Stmt, names ...string) {
	b.scoped(names, func() {
		for _, s := range statements {
			b.statement(s)
		}
	})
}

func (b *body) scoped(names []string, walk func()) {
	b.scope = &scope{map[string]local{}, b.scope}
	for _, name := range names {
		b.scope.locals[name] = local{}
	}
	b.blocks++
	walk()
	b.blocks--
	b.scope = b.scope.outer
}

func (b *body) statement(stmt ast.Stmt) {
	switch s := stmt.(type) {
	case *ast.LocalAssignStmt:
		b.localAssign(s)
	case *ast.AssignStmt:
		b.expressions(s.Rhs...)
		for _, target := range s.Lhs {
			b.assigned(target)
		}
	case *ast.RepeatStmt:
		b.scoped(nil, func() {
			for _, inner := range s.Stmts {
				b.statement(inner)
			}
			b.expression(s.Condition)
		})
	case *ast.NumberForStmt:
		b.expressions(luasyntax.Expressions(s)...)
		b.block(s.Stmts, s.Name)
	case *ast.GenericForStmt:
		b.expressions(s.Exprs...)
		b.block(s.Stmts, s.Names...)
	case *ast.FuncDefStmt:
		b.assigned(s.Name.Func)
		b.expression(s.Func)
	case *ast.ReturnStmt:
		b.returned(s)
	case *ast.LabelStmt, *ast.GotoStmt:
		b.refuse(s, "a goto or its label, want Lua 5.1")
	default:
		b.expressions(luasyntax.Expressions(s)...)
		for _, block := range luasyntax.BlocksOf(s) {
			b.block(block)
		}
	}
}

func (b *body) localAssign(s *ast.LocalAssignStmt) {
	if len(s.Exprs) == 1 {
		if f, ok := s.Exprs[0].(*ast.FunctionExpr); ok { // the function may call itself
			b.scope.locals[s.Names[0]] = local{}
			if b.script.KeyGroup != nil && s.Names[0] == "decide" {
				b.decide(f)
				return
			}
		}
	}
	b.expressions(s.Exprs...)
	for i, name := range s.Names {
		var l local
		if i < len(s.Exprs) {
			l = local{key: b.isKey(s.Exprs[i]), keys: b.isKeys(s.Exprs[i]), caught: b.redisMember(s.Exprs[i]) == "pcall"}
		}
		b.scope.locals[name] = l
	}
}

// decide walks the function of a script for many keys that decides about one: its returns are replies.
func (b *body) decide(f *ast.FunctionExpr) {
	b.shared = b.scope
	b.scoped(f.ParList.Names, func() {
		for _, name := range f.ParList.Names[:min(1, len(f.ParList.Names))] {
			b.scope.locals[name] = local{key: b.script.Group == nil, keys: b.script.Group != nil}
		}
		for _, s := range f.Stmts {
			b.statement(s)
		}
	})
	b.shared = nil
}

// keptForNext reports whether a local is written for one key and read for the next.
func (b *body) keptForNext(name string) bool {
	for s := b.scope; s != nil && s != b.shared; s = s.outer {
		if _, ok := s.locals[name]; ok {
			return false
		}
	}
	return b.shared != nil
}

// assigned checks the target of an assignment: a local that is not a key, or a field of a local.
func (b *body) assigned(target ast.Expr) {
	root := target
	for {
		get, ok := root.(*ast.AttrGetExpr)
		if !ok {
			break
		}
		b.expression(get.Key)
		root = get.Object
	}
	ident, ok := root.(*ast.IdentExpr)
	if !ok {
		b.expression(root)
		return
	}
	l, isLocal := b.lookup(ident.Value)
	if !isLocal {
		b.refuse(target, "global %s is written, want a local", ident.Value)
	}
	if l.key || l.keys {
		b.refuse(target, "key %s is written, want it unchanged", ident.Value)
	}
	if isLocal && b.keptForNext(ident.Value) {
		b.refuse(target, "%s is written for one key and kept for the next, want it local behind the line %s",
			ident.Value, manyMark)
	}
}

func (b *body) expressions(exprs ...ast.Expr) {
	for _, e := range exprs {
		b.expression(e)
	}
}

func (b *body) expression(expr ast.Expr) {
	switch e := expr.(type) {
	case *ast.IdentExpr:
		b.read(e)
	case *ast.FuncCallExpr:
		b.call(e)
	case *ast.FunctionExpr:
		b.functions++
		b.block(e.Stmts, e.ParList.Names...)
		b.functions--
	default:
		b.expressions(luasyntax.Subexpressions(e)...)
	}
}

func (b *body) read(ident *ast.IdentExpr) {
	at := b.tree.at(ident)
	printed := b.script.KeyGroup != nil || at.line >= b.script.argsFrom && at.line <= b.script.argsTo
	if !printed && (ident.Value == "KEYS" || ident.Value == "ARGV") {
		b.note(refuse(at, "%s is read again, want the locals of the part arguments", ident.Value))
	}
	if _, isLocal := b.lookup(ident.Value); isLocal || slices.Contains(allowedGlobals, ident.Value) {
		return
	}
	b.refuse(ident, `global %s is read, want a local, redis.<function>(..), rawget(_G, "<library>"), or one of %s`,
		ident.Value, strings.Join(allowedGlobals, ", "))
}

func (b *body) agreement() {
	for _, e := range b.script.Errors {
		if !b.codes[e.Name] {
			b.note(refuse(e.at, "error %s is never replied, want it in the body, or its row removed", e.Name))
		}
	}
	for _, f := range b.script.Reply {
		if f.Type == "time" && !b.commands["TIME"] {
			b.note(refuse(f.at, "%s is a time but the body never reads the clock, want one redis.call(\"TIME\")", f.Name))
		}
	}
}
