package lua51

import (
	"math"

	"github.com/yuin/gopher-lua/ast"
)

// Lua takes a zero and a negative zero for one constant of a function, and so does gopher-lua: all are what
// the first one is. zeros finds functions in which that may not be the same one for both.
type zeros struct {
	first   float64 // 1 or -1: the sign of the first zero of the function, 0 before there is one
	certain bool    // it is the first one for both
}

// add notes a zero. It reports whether it is clear what the zeros of the function are.
func (z *zeros) add(x float64, certain bool) bool {
	sign := math.Copysign(1, x)
	if z.first == 0 {
		*z = zeros{sign, certain}
	}
	return z.first == sign || z.certain
}

// literal notes the zero that an expression of literals is, and reports whether it is such an expression.
func (n *namer) literal(e ast.Expr, certain bool) bool {
	x, ok := constant(e)
	switch {
	case !ok:
		return false
	case math.IsNaN(x) || math.IsInf(x, 0):
		x, certain = 0, false // a division by zero: Lua leaves it and its zeros alone, gopher-lua does not
	}
	if x == 0 && !n.function.zeros.add(x, certain) && n.err == nil {
		n.err = &UnsupportedError{What: "a function with a zero and a negative zero for constants: Lua takes them for one"}
	}
	return true
}

// constant is what an expression of literals computes, unless that has powers and remainders.
func constant(e ast.Expr) (x float64, ok bool) {
	switch e := e.(type) {
	case *ast.NumberExpr:
		return ParseNumber(e.Value)
	case *ast.UnaryMinusOpExpr:
		x, ok = constant(e.Expr)
		return -x, ok
	case *ast.ArithmeticOpExpr:
		a, okA := constant(e.Lhs)
		b, okB := constant(e.Rhs)
		compute := map[string]func() float64{
			"+": func() float64 { return a + b }, "-": func() float64 { return a - b },
			"*": func() float64 { return a * b }, "/": func() float64 { return a / b },
		}[e.Operator]
		if okA && okB && compute != nil {
			return compute(), true
		}
	}
	return 0, false
}
