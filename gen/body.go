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
	b.block(0, tree.statements)
	b.ending(lastLine(file, s.Source))
	b.agreement()
	b.unused()
	s.Commands = slices.Sorted(maps.Keys(b.commands))
	return errors.Join(b.refusals...)
}

// A body holds the state of one walk through a script's body, including the locals in scope.
type body struct {
	script *script
	tree   *chunk
	scope  *scope

	functions int      // nesting depth of functions
	shared    *scope   // of a script for many keys, inside the function decide: what is kept from key to key
	blocks    int      // nesting depth of blocks
	refused   []string // the locals that hold an error, because of the if round this place

	commands map[string]bool
	codes    map[string]bool // error codes replied
	refusals []error
}

type scope struct {
	locals map[string]local
	outer  *scope
}

// A local may hold a key's name, the table of them, or what redis.pcall gave.
type local struct {
	key, keys bool
	caught    string // the command of redis.pcall
	line      int    // where it begins
}

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

// block walks statements in a new scope that begins with these names, which stand on a line.
func (b *body) block(line int, statements []ast.Stmt, names ...string) {
	b.scoped(line, names, func() {
		for _, s := range statements {
			b.statement(s)
		}
	})
}

func (b *body) scoped(line int, names []string, walk func()) {
	b.scope = &scope{map[string]local{}, b.scope}
	for _, name := range names {
		b.scope.locals[name] = local{line: line}
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
		b.scoped(s.Line(), nil, func() {
			for _, inner := range s.Stmts {
				b.statement(inner)
			}
			b.expression(s.Condition)
		})
	case *ast.NumberForStmt:
		b.expressions(luasyntax.Expressions(s)...)
		b.block(s.Line(), s.Stmts, s.Name)
	case *ast.GenericForStmt:
		b.expressions(s.Exprs...)
		b.block(s.Line(), s.Stmts, s.Names...)
	case *ast.FuncDefStmt:
		b.assigned(s.Name.Func)
		b.expression(s.Func)
	case *ast.ReturnStmt:
		b.returned(s)
	case *ast.IfStmt:
		b.expression(s.Condition)
		b.refused = append(b.refused, b.refusedIf(s.Condition))
		b.block(s.Line(), s.Then)
		b.refused = b.refused[:len(b.refused)-1]
		b.block(s.Line(), s.Else)
	case *ast.LabelStmt, *ast.GotoStmt:
		b.refuse(s, "a goto or its label, want Lua 5.1")
	default:
		b.expressions(luasyntax.Expressions(s)...)
		for _, block := range luasyntax.BlocksOf(s) {
			b.block(s.Line(), block)
		}
	}
}

func (b *body) localAssign(s *ast.LocalAssignStmt) {
	if len(s.Exprs) == 1 {
		if f, ok := s.Exprs[0].(*ast.FunctionExpr); ok { // the function may call itself
			b.scope.locals[s.Names[0]] = local{line: s.Line()}
			if b.script.KeyGroup != nil && s.Names[0] == "decide" {
				b.decide(f)
				return
			}
		}
	}
	for i, e := range s.Exprs {
		if i >= len(s.Names) || constants[s.Names[i]] == "" {
			b.expression(e)
		}
	}
	for i, name := range s.Names {
		l := local{line: s.Line()}
		if i < len(s.Exprs) {
			b.constant(name, s.Exprs[i])
			l.key, l.keys, l.caught = b.isKey(s.Exprs[i]), b.isKeys(s.Exprs[i]), b.pcalled(s.Exprs[i])
		}
		b.scope.locals[name] = l
	}
}

// decide walks the function of a script for many keys that decides about one: its returns are replies.
func (b *body) decide(f *ast.FunctionExpr) {
	b.shared = b.scope
	b.scoped(f.Line(), f.ParList.Names, func() {
		for _, name := range f.ParList.Names[:min(1, len(f.ParList.Names))] {
			b.scope.locals[name] = local{key: b.script.Group == nil, keys: b.script.Group != nil, line: f.Line()}
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
	if isLocal {
		b.crosses(ident.Value, l.line, b.tree.at(ident))
	} else {
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
	case *ast.NumberExpr:
		b.number(e)
	case *ast.FunctionExpr:
		b.functions++
		b.block(e.Line(), e.Stmts, e.ParList.Names...)
		b.functions--
	default:
		b.expressions(luasyntax.Subexpressions(e)...)
	}
}

func (b *body) read(ident *ast.IdentExpr) {
	at := b.tree.at(ident)
	in := b.script.partAt(at.line)
	printed := b.script.KeyGroup != nil || in != nil && in.name == argumentsPart
	if !printed && (ident.Value == "KEYS" || ident.Value == "ARGV") {
		b.note(refuse(at, "%s is read again, want the locals of the part arguments", ident.Value))
	}
	l, isLocal := b.lookup(ident.Value)
	if isLocal {
		b.crosses(ident.Value, l.line, at)
		return
	}
	if !slices.Contains(allowedGlobals, ident.Value) {
		b.refuse(ident, `global %s is read, want a local, redis.<function>(..), rawget(_G, "<library>"), or one of %s`,
			ident.Value, strings.Join(allowedGlobals, ", "))
	}
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
