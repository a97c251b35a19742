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
		c.checkNever(args[0], args[1])
		c.checkNever(args[1], args[0])
	case "@in":
		if args[1].Kind() == ast.ListKind {
			c.checkNever(args[0], args[1].AsList().Elements()...)
		}
	case "startsWith":
		if name, _ := nameOf(call.Target()); name == "request.path" {
			c.checkNever(call.Target(), args[0])
		}
	case "cidr":
		if text, ok := literal(args[0]); !ok {
			c.fail(e, "the network of cidr is computed", `a network in quotes, as in cidr("10.0.0.0/8")`)
		} else if _, err := parseNetwork(text); err != nil {
			c.fail(args[0], err.Error(), networkLike(text, wantNetworks))
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

// checkNever refuses constants with which a value is compared that it never has.
func (c *constants) checkNever(e ast.Expr, with ...ast.Expr) {
	for _, constant := range with {
		if text, ok := literal(constant); ok {
			if what, want := neverIs(e, text); what != "" {
				c.fail(constant, what, want)
			}
		}
	}
}

// neverIs says of what value a text is not, and what may be meant.
func neverIs(e ast.Expr, text string) (what, want string) {
	switch name, _ := nameOf(e); {
	case name == "request.method" && text != strings.ToUpper(text):
		return fmt.Sprintf("request.method is never %q", text), fmt.Sprintf("%q", strings.ToUpper(text))
	case name == "request.host" && text != hostOf(text):
		return fmt.Sprintf("request.host is never %q", text), fmt.Sprintf("%q", hostOf(text))
	case name == "request.path" && strings.ContainsAny(text, "?#"):
		return fmt.Sprintf("request.path has no query: it is never %q", text),
			`the path alone; request.query["name"] is a value`
	case name == "request.path" && text != "" && text != "*" && text[0] != '/':
		return fmt.Sprintf("request.path is never %q", text), fmt.Sprintf("%q", "/"+text)
	case name == "request.ip":
		return neverAddress("request.ip", text, 128)
	}
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == "ip" {
		if bits, ok := number(e.AsCall().Args()[1]); ok {
			return neverAddress(fmt.Sprintf("ip(.., %d)", bits), text, bits)
		}
	}
	return "", ""
}

// neverAddress is neverIs of an address, of IPv6 a prefix of so many bits.
func neverAddress(value, text string, bits int) (what, want string) {
	if is, err := addressKey(text, bits); text == "" || err == nil && is == text {
		return "", ""
	} else if err == nil {
		return fmt.Sprintf("%s is never %q", value, text), fmt.Sprintf("%q", is)
	}
	if network, err := parseNetwork(text); err == nil {
		return fmt.Sprintf("%s is never %q", value, text), fmt.Sprintf("cidr(%q).containsIP(request.ip)", network)
	}
	return fmt.Sprintf("%s is never %q", value, text), `an address, or cidr("10.0.0.0/8").containsIP(request.ip)`
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
	case "cidr_string", "net_cidr_contains_ip_string":
		return &cost.CallEstimate{CostEstimate: cost.Estimate{Min: 5, Max: 10}}
	case "string_lower_ascii":
		size := cost.SizeEstimate{Min: 0, Max: maxText}
		if computed := (*target).ComputedSize(); computed != nil {
			size = *computed
		}
		return &cost.CallEstimate{CostEstimate: size.MultiplyByCostFactor(0.1), ResultSize: &size}
	}
	return nil
}
