package policy

import (
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/checker"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

const (
	// maxCost bounds an expression, in CEL's units: estimated when the file is loaded, and counted when it runs.
	maxCost = 20_000

	// maxText is the longest text of a request, in bytes, that an expression looks at.
	maxText = 8192
)

// expression is a compiled expression.
type expression struct {
	plain    func(*values) string // nil: program
	program  cel.Program
	checked  ast.Expr
	mayEmpty bool     // the client may make it empty
	names    []string // of the variables that it uses
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

// function is a function or an operator of the standard library, with those of its overloads that are known here.
func function(name string, ids ...string) *env.Function {
	f := env.NewFunction(name)
	for _, id := range ids {
		f.Overloads = append(f.Overloads, &env.Overload{ID: id})
	}
	return f
}

// standard is what expressions may use of CEL's standard library: no macros, so no loops.
var standard = &env.LibrarySubset{DisableMacros: true, IncludeFunctions: []*env.Function{
	function("_&&_"), function("_||_"), function("!_"), function("_?_:_"), function("_==_"), function("_!=_"),
	function("_<_", overloads.LessInt64), function("_<=_", overloads.LessEqualsInt64),
	function("_>_", overloads.GreaterInt64), function("_>=_", overloads.GreaterEqualsInt64),
	function("_+_", overloads.AddInt64, overloads.AddString),
	function("_-_", overloads.SubtractInt64), function("_*_", overloads.MultiplyInt64),
	function("_/_", overloads.DivideInt64), function("_%_", overloads.ModuloInt64), function("-_", overloads.NegateInt64),
	function("@in", overloads.InList, overloads.InMap), function("_[_]", overloads.IndexMap),
	function("startsWith"), function("endsWith"), function("contains"), function("matches"),
	function("size", overloads.SizeString, overloads.SizeStringInst),
	function("int", overloads.StringToInt), function("string", overloads.IntToString),
}}

// newEnvironment returns the variables and functions of one kind of expression.
func newEnvironment(variables []variable) (*cel.Env, error) {
	opts := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(standard)),
		cel.Function("ip", cel.Overload("ip_string_int", []*cel.Type{cel.StringType, cel.IntType}, cel.StringType,
			cel.BinaryBinding(celIP))),
		cel.Function("lowerAscii", cel.MemberOverload("string_lower_ascii", []*cel.Type{cel.StringType}, cel.StringType,
			cel.UnaryBinding(func(v ref.Val) ref.Val { return types.String(lowerASCII(string(v.(types.String)))) }))),
	}
	for _, v := range variables {
		opts = append(opts, cel.Variable(v.name, v.kind))
	}
	return cel.NewCustomEnv(opts...)
}

func lowerASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

// celIP is the function ip of expressions.
func celIP(address, bits ref.Val) ref.Val {
	text, err := networkOf(string(address.(types.String)), int(bits.(types.Int)))
	if err != nil {
		return types.WrapErr(err)
	}
	return types.String(text)
}

// networkOf is the key of an address: an IPv4 address as it is, of IPv6 the prefix of so many bits. IPv4-mapped
// addresses become IPv4, a zone is dropped. The empty address stays empty.
func networkOf(address string, bits int) (string, error) {
	if address == "" {
		return "", nil
	}
	a, err := netip.ParseAddr(address[:min(len(address), 64)])
	if err != nil {
		return "", fmt.Errorf("ip(%.64q): not an address", address)
	}
	if bits < 1 || bits > 128 {
		return "", fmt.Errorf("ip(.., %d): want a prefix of 1 to 128 bits", bits)
	}
	a = a.Unmap().WithZone("")
	if a.Is4() || bits == 128 {
		return a.String(), nil
	}
	prefix, err := a.Prefix(bits)
	return prefix.String(), err
}

// compiler compiles the expressions of one file.
type compiler struct {
	rules, counts *cel.Env // counts knows response.status too
	names         []string
	ofApplication map[string]bool // names whose values the application passes
}

func newCompiler(attributes []string) (*compiler, error) {
	c := &compiler{ofApplication: map[string]bool{}}
	known := slices.Clone(requestVariables)
	for _, name := range append(slices.Clone(userNames), attributes...) {
		known = append(known, variable{name, cel.StringType})
		c.ofApplication[name] = true
	}
	for _, v := range known {
		c.names = append(c.names, v.name)
	}
	var err error
	if c.rules, err = newEnvironment(known); err != nil {
		return nil, err
	}
	c.counts, err = newEnvironment(append(known, variable{nameStatus, cel.IntType}))
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
	if p := checkCost(env, checked); p != nil {
		return nil, []problem{*p}
	}
	if problems := checkConstants(checked); problems != nil {
		return nil, problems
	}
	e := &expression{checked: checked.NativeRep().Expr(), names: namesIn(checked)}
	e.mayEmpty = mayBeEmpty(e.checked)
	if err := c.prepare(e, env, checked, want); err != nil {
		return nil, []problem{{what: err.Error(), want: "an expression that can be computed"}}
	}
	return e, nil
}

// prepare makes what runs: texts that only name and join values run without CEL.
func (c *compiler) prepare(e *expression, env *cel.Env, checked *cel.Ast, kind *cel.Type) (err error) {
	if kind.IsExactType(cel.StringType) {
		p := &planner{env: env, info: checked.NativeRep().SourceInfo()}
		if e.plain = p.plan(e.checked); p.err != nil || e.plain != nil {
			return p.err
		}
	}
	e.program, err = env.Program(checked, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptOptimize))
	return err
}

// checkConstants refuses constants with which a function can only fail.
func checkConstants(checked *cel.Ast) (problems []problem) {
	native := checked.NativeRep()
	ast.PostOrderVisit(native.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		what, want := wrongConstant(e)
		if what == "" {
			return
		}
		place := native.SourceInfo().GetStartLocation(e.ID())
		problems = append(problems, problem{line: place.Line(), column: place.Column(), what: what, want: want})
	}))
	return problems
}

func wrongConstant(e ast.Expr) (what, want string) {
	if e.Kind() != ast.CallKind {
		return "", ""
	}
	call := e.AsCall()
	switch args := call.Args(); call.FunctionName() {
	case "ip":
		if bits, ok := number(args[1]); ok && (bits < 1 || bits > 128) {
			return fmt.Sprintf("ip(.., %d)", bits), "a prefix of 1 to 128 bits of an IPv6 address"
		}
	case "matches":
		if pattern, ok := literal(args[0]); ok {
			if _, err := regexp.Compile(pattern); err != nil {
				return err.Error(), "a pattern of RE2"
			}
		}
	}
	return "", ""
}

// checkCost refuses what could take too long.
func checkCost(env *cel.Env, checked *cel.Ast) *problem {
	estimate, err := env.EstimateCost(checked, sizes{})
	if err != nil {
		return &problem{what: "the cost cannot be estimated: " + err.Error(), want: "a simpler expression"}
	}
	if estimate.Max <= maxCost {
		return nil
	}
	cost := fmt.Sprint(estimate.Max)
	if estimate.Max == math.MaxUint64 {
		cost = "without bound"
	}
	return &problem{what: "the expression may cost " + cost, want: fmt.Sprintf("at most %d: fewer or shorter patterns, "+
		"startsWith or == in place of matches", maxCost)}
}

// sizes tells CEL how long the texts of a request can be.
type sizes struct{}

// EstimateSize is the size of a variable.
func (sizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	if node.Type().Kind() == types.StringKind {
		return &checker.SizeEstimate{Min: 0, Max: maxText}
	}
	return &checker.SizeEstimate{Min: 0, Max: 1}
}

// EstimateCallCost is the cost of the functions that are defined here.
func (sizes) EstimateCallCost(_, overload string, target *checker.AstNode, _ []checker.AstNode) *checker.CallEstimate {
	switch overload {
	case "ip_string_int":
		return &checker.CallEstimate{CostEstimate: checker.CostEstimate{Min: 5, Max: 10},
			ResultSize: &checker.SizeEstimate{Min: 0, Max: 64}}
	case "string_lower_ascii":
		size := checker.SizeEstimate{Min: 0, Max: maxText}
		if computed := (*target).ComputedSize(); computed != nil {
			size = *computed
		}
		return &checker.CallEstimate{CostEstimate: size.MultiplyByCostFactor(0.1), ResultSize: &size}
	}
	return nil
}

var (
	undeclared = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	dotted     = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*`)
	overload   = regexp.MustCompile(`^found no matching overload for '@?_?([^_']+)_?\]?' applied to '(?:.*\.)?(\(.*\))'$`)
	wrongType  = regexp.MustCompile(`^expected type '(.*)' but found '(.*)'$`)
)

// problems puts CEL's errors into words.
func (c *compiler) problems(text string, env *cel.Env, issues *cel.Issues) (problems []problem) {
	for _, e := range issues.Errors() {
		p := problem{line: e.Location.Line(), column: e.Location.Column()}
		message := strings.ReplaceAll(e.Message, " (in container '')", "")
		if found := undeclared.FindStringSubmatch(message); found != nil {
			p.what, p.want, p.column = c.unknownName(textAt(text, p.line, p.column), env, found[1], p.column)
		} else {
			p.what, p.want = explain(message)
		}
		problems = append(problems, p)
	}
	return problems
}

func explain(message string) (what, want string) {
	if found := overload.FindStringSubmatch(message); found != nil {
		return fmt.Sprintf("%s does not take %s", found[1], found[2]), formsOf(found[1])
	}
	if found := wrongType.FindStringSubmatch(message); found != nil {
		return "of type " + found[2], found[1]
	}
	message, _, _ = strings.Cut(message, " expecting ")
	if strings.Contains(message, "missing ')' at '<EOF>'") {
		return "syntax error: a parenthesis is missing", "as many ) as (; in [..] and {..} a comma ends an expression, " +
			"unless it stands in quotes"
	}
	if syntax, ok := strings.CutPrefix(message, "Syntax error: "); ok {
		return "syntax error: " + syntax, "an expression in CEL"
	}
	return message, "an expression in CEL"
}

// unknownName explains a variable or a function that is not on the list, and finds where it begins: CEL says where its
// last dot or its parenthesis is.
func (c *compiler) unknownName(at string, env *cel.Env, name string, column int) (what, want string, begins int) {
	if strings.HasPrefix(at, "(") {
		what, want = unknown("function", name, functionNames)
		return what, want, column - len(name)
	}
	if strings.HasPrefix(at, ".") {
		column -= strings.LastIndex(name, ".")
	} else {
		name = dotted.FindString(at)
	}
	if strings.HasPrefix(name, nameStatus) {
		return nameStatus + " is not known before the response", "it in count only", column
	}
	known := c.names
	if env == c.counts {
		known = append(slices.Clone(known), nameStatus)
	}
	what, want = unknown("name", name, known)
	if first, _, _ := strings.Cut(name, "."); first != "request" && first != "response" && likely(name, known) == "" {
		want += "; what else the application passes is named in attributes"
	}
	return what, want, column
}

// textAt is what stands at a place of an expression.
func textAt(text string, line, column int) string {
	lines := strings.Split(text, "\n")
	if line < 1 || line > len(lines) {
		return ""
	}
	runes := []rune(lines[line-1])
	return string(runes[min(max(column, 0), len(runes)):])
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
