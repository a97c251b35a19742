package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
)

// expression is a compiled expression.
type expression struct {
	plain    func(*values) string // nil: program
	program  cel.Program
	checked  ast.Expr
	mayEmpty bool     // the client may make it empty
	names    []string // of the variables that it uses
	entries  []string // of the maps that it asks, as File.Set names them
}

// uses reports whether the expression asks for a variable, or for one that begins so if the name ends in a dot.
func (e *expression) uses(name string) bool {
	if e == nil {
		return false
	}
	if strings.HasSuffix(name, ".") {
		return slices.ContainsFunc(e.names, func(n string) bool { return strings.HasPrefix(n, name) })
	}
	return slices.Contains(e.names, name)
}

// compiler compiles the expressions of one file.
type compiler struct {
	rules, counts *cel.Env // counts knows response.status too
	names         []string
	ofApplication map[string]bool // names whose values the application passes
	forService    bool            // there is no application
}

func newCompiler(attributes []string, lists map[string]networks, forService bool) (*compiler, error) {
	c := &compiler{ofApplication: map[string]bool{}, forService: forService}
	known := slices.Concat(requestVariables, descriptorVariables)
	for _, name := range append(slices.Clone(userNames), attributes...) {
		c.ofApplication[name] = true
		if !forService {
			known = append(known, variable{name, cel.StringType})
		}
	}
	for _, v := range known {
		c.names = append(c.names, v.name)
	}
	c.names = append(c.names, slices.Sorted(maps.Keys(lists))...)
	var err error
	if c.rules, err = newEnvironment(known, lists); err != nil {
		return nil, err
	}
	c.counts, err = newEnvironment(append(known, variable{nameStatus, cel.IntType}), lists)
	return c, err
}

// problem is what is wrong with an expression, and where in its text.
type problem struct {
	line, column int // from 1 and 0; line 0: the whole expression
	what, want   string
}

// compile compiles an expression that must be of this type.
func (c *compiler) compile(text string, env *cel.Env, want *cel.Type) (*expression, []problem) {
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, c.problems(text, env, issues)
	}
	if !checked.OutputType().IsExactType(want) {
		return nil, []problem{{what: fmt.Sprintf("the expression is of type %s", checked.OutputType()), want: want.String()}}
	}
	if problems := checkConstants(checked); problems != nil {
		return nil, problems
	}
	if p := checkCost(env, checked); p != nil {
		return nil, []problem{*p}
	}
	e := &expression{checked: checked.NativeRep().Expr(), names: namesIn(checked)}
	e.entries = entriesIn(e.checked)
	e.mayEmpty = mayBeEmpty(e.checked)
	if err := e.prepare(env, checked, want); err != nil {
		return nil, []problem{{what: err.Error(), want: "an expression that can be computed"}}
	}
	return e, nil
}

// prepare makes what runs: texts that only name and join values run without CEL.
func (e *expression) prepare(env *cel.Env, checked *cel.Ast, kind *cel.Type) (err error) {
	if kind.IsExactType(cel.StringType) {
		p := &planner{env: env, info: checked.NativeRep().SourceInfo()}
		e.plain = p.plan(e.checked)
		if p.err != nil || e.plain != nil {
			return p.err
		}
	}
	e.program, err = env.Program(checked, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptOptimize))
	return err
}

// entriesIn returns the entries of maps that an expression asks for: request.header.x-user, or request.header alone if
// the key is computed.
func entriesIn(e ast.Expr) (entries []string) {
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		name, key, ok := entryOf(e)
		if e.Kind() == ast.CallKind {
			switch args := e.AsCall().Args(); e.AsCall().FunctionName() {
			case "_[_]":
				name, ok = nameOf(args[0])
			case "@in":
				key, _ = literal(args[0])
				name, ok = nameOf(args[1])
			}
		}
		if name == "request.header" {
			key = strings.ToLower(key)
		}
		if ok {
			entries = append(entries, strings.TrimSuffix(name+"."+key, "."))
		}
	}))
	return entries
}

// namesIn returns the variables of an expression.
func namesIn(checked *cel.Ast) (names []string) {
	for _, reference := range checked.NativeRep().ReferenceMap() {
		if reference.Name != "" && !slices.Contains(names, reference.Name) {
			names = append(names, reference.Name)
		}
	}
	slices.Sort(names)
	return names
}
