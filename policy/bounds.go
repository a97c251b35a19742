package policy

import (
	"fmt"
	"net/http"
	"regexp"

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

// checkConstants refuses constants with which a function can only fail, and patterns that take too long or are not
// known yet.
func checkConstants(checked *cel.Ast) (problems []problem) {
	native := checked.NativeRep()
	c := &constants{}
	ast.PostOrderVisit(native.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		what, want := c.wrong(e)
		if what == "" {
			return
		}
		place := native.SourceInfo().GetStartLocation(e.ID())
		problems = append(problems, problem{line: place.Line(), column: place.Column(), what: what, want: want})
	}))
	return problems
}

// constants looks at the constants of one expression.
type constants struct {
	steps int // of its patterns so far
}

func (c *constants) wrong(e ast.Expr) (what, want string) {
	if name, key, ok := entryOf(e); ok && name == "request.header" && http.CanonicalHeaderKey(key) == "Host" {
		return "net/http takes the host out of the headers", "request.host"
	}
	if e.Kind() != ast.CallKind {
		return "", ""
	}
	call := e.AsCall()
	switch call.FunctionName() {
	case "ip":
		if bits, ok := number(call.Args()[1]); ok && (bits < 1 || bits > 128) {
			return fmt.Sprintf("ip(.., %d)", bits), "a prefix of 1 to 128 bits of an IPv6 address"
		}
	case "matches":
		operands := call.Args()
		if call.IsMemberFunction() {
			operands = append([]ast.Expr{call.Target()}, operands...)
		}
		return c.wrongPattern(operands[0], operands[1])
	}
	return "", ""
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
