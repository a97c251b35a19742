package main

import (
	"strconv"

	"github.com/yuin/gopher-lua/ast"
)

// constants are the large numbers of the scripts beside those of the headers, by the local that holds one: a name has
// one value in all scripts.
var constants = map[string]string{
	"max_exact": "9007199254740991", // 2^53 - 1: up to there a Lua number is exact
	"max_depth": "4503599627370496", // 2^52: a sum of two is exact
	"step_back": "60000000",         // 60 s: a clock that steps back further is not believed
	"wrap":      "281474976710656",  // 2^48: totals of rings begin again
	"max_count": "10000000000000",   // 10^13: where charges of rings stop
	"slack":     "120000000",        // a booking of 60 s and a step back of 60 s
}

// largest is the largest number that a body may have anywhere: the microseconds of a second.
const largest = 1000000

// constant refuses another value of a constant.
func (b *body) constant(name string, value ast.Expr) {
	want, isConstant := constants[name]
	if n, _ := value.(*ast.NumberExpr); isConstant && (n == nil || n.Value != want) {
		b.refuse(value, "another value of %s, want %s, as in gen/constants.go", name, want)
	}
}

// number refuses a large number that is neither a constant nor a bound in the header.
func (b *body) number(e *ast.NumberExpr) {
	n, err := strconv.ParseInt(e.Value, 0, 64)
	if err != nil || n <= largest || b.script.KeyGroup != nil || b.bounds(n) {
		return
	}
	if in := b.script.partAt(b.tree.at(e).line); in == nil || in.name != argumentsPart {
		b.refuse(e, "the number %s, want a local of gen/constants.go that holds it", e.Value)
	}
}

func (b *body) bounds(n int64) bool {
	for _, f := range b.script.Args {
		if f.Max == n {
			return true
		}
	}
	return false
}
