package policy

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
)

const (
	// maxCost bounds an expression, in CEL's units: estimated when the file is loaded, and counted when it runs.
	maxCost = 20_000

	// maxText is the longest text of a request, in bytes, that an expression looks at.
	maxText = 8192
)

// checkConstants refuses constants with which a function can only fail or a comparison never holds, and patterns that
// take too long or are not known yet.
func checkConstants(checked *cel.Ast) []problem {
	native := checked.NativeRep()
	c := &constants{info: native.SourceInfo()}
	ast.PostOrderVisit(native.Expr(), ast.NewExprVisitor(c.check))
	return c.problems
}

// constants looks at the constants of one expression.
type constants struct {
	info     *ast.SourceInfo
	problems []problem
	steps    int // of its patterns so far
}

func (c *constants) fail(e ast.Expr, what, want string) {
	place := c.info.GetStartLocation(e.ID())
	c.problems = append(c.problems, problem{line: place.Line(), column: place.Column(), what: what, want: want})
}

func (c *constants) check(e ast.Expr) {
	if name, key, ok := entryOf(e); ok && name == "request.header" && http.CanonicalHeaderKey(key) == "Host" {
		c.fail(e, "net/http takes the host out of the headers", "request.host")
	}
	if e.Kind() == ast.CallKind {
		c.checkCall(e, e.AsCall())
	}
}

func (c *constants) checkCall(e ast.Expr, call ast.CallExpr) {
	switch args := call.Args(); call.FunctionName() {
	case "_==_", "_!=_":
		c.checkMethod(args[0], args[1])
		c.checkMethod(args[1], args[0])
	case "@in":
		if args[1].Kind() == ast.ListKind {
			c.checkMethod(args[0], args[1].AsList().Elements()...)
		}
	case "ip":
		if bits, ok := number(args[1]); ok && (bits < 1 || bits > 128) {
			c.fail(e, fmt.Sprintf("ip(.., %d)", bits), "a prefix of 1 to 128 bits of an IPv6 address")
		}
	case "matches":
		if call.IsMemberFunction() {
			args = append([]ast.Expr{call.Target()}, args...)
		}
		if what, want := c.wrongPattern(args[0], args[1]); what != "" {
			c.fail(e, what, want)
		}
	}
}

// checkMethod refuses constants with which request.method is compared and that no method is.
func (c *constants) checkMethod(e ast.Expr, with ...ast.Expr) {
	if name, ok := nameOf(e); !ok || name != "request.method" {
		return
	}
	for _, constant := range with {
		if text, _ := literal(constant); text != strings.ToUpper(text) {
			c.fail(constant, fmt.Sprintf("request.method is never %q", text), fmt.Sprintf("%q", strings.ToUpper(text)))
		}
	}
}

func (c *constants) wrongPattern(text, pattern ast.Expr) (what, want string) {
	source, ok := literal(pattern)
	if !ok {
		return "the pattern of matches is computed", `a pattern in quotes, as in request.path.matches("^/v[0-9]+/")`
	}
	re, err := regexp.Compile(source)
	if err != nil {
		return err.Error(), "a pattern of RE2"
	}
	before := c.steps
	c.steps += stepsOf(re, longest(text))
	if before > maxSteps || c.steps <= maxSteps {
		return "", ""
	}
	if before > 0 {
		return "the patterns of the expression take too long together", "fewer or shorter ones, or a ^ in front of them"
	}
	return fmt.Sprintf("the pattern takes too long on %d bytes", longest(text)),
		"a shorter one, fewer repetitions such as {1000}, or a ^ in front of it"
}

// longest is how long a text can be, in bytes.
func longest(text ast.Expr) int {
	parts := 1
	ast.PostOrderVisit(text, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == "_+_" {
			parts++
		}
	}))
	return parts * maxText
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
	return &problem{what: fmt.Sprintf("the expression may cost %d", estimate.Max), want: fmt.Sprintf(
		"at most %d: fewer or shorter patterns, startsWith or == in place of matches", maxCost)}
}

// sizes tells CEL how long the texts of a request can be.
type sizes struct{}

// EstimateSize is the size of a variable.
func (sizes) EstimateSize(node cost.AstNode) *cost.SizeEstimate {
	if node.Type().Kind() == types.StringKind {
		return &cost.SizeEstimate{Min: 0, Max: maxText}
	}
	return &cost.SizeEstimate{Min: 0, Max: 1}
}

// EstimateCallCost is the cost of the functions that are defined here.
func (sizes) EstimateCallCost(_, overload string, target *cost.AstNode, _ []cost.AstNode) *cost.CallEstimate {
	switch overload {
	case "ip_string_int":
		return &cost.CallEstimate{CostEstimate: cost.Estimate{Min: 5, Max: 10},
			ResultSize: &cost.SizeEstimate{Min: 0, Max: 64}}
	case "string_lower_ascii":
		size := cost.SizeEstimate{Min: 0, Max: maxText}
		if computed := (*target).ComputedSize(); computed != nil {
			size = *computed
		}
		return &cost.CallEstimate{CostEstimate: size.MultiplyByCostFactor(0.1), ResultSize: &size}
	}
	return nil
}
