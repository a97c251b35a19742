package lua51

import (
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// arithmetic are the operations that the VM leaves to metatables as soon as an operand is not a number.
// Strings have them so that they convert as strtod does; the other types so that errors are worded as
// in Lua 5.1.
var arithmetic = map[string]operation{
	"__add": func(a, b float64) float64 { return a + b },
	"__sub": func(a, b float64) float64 { return a - b },
	"__mul": func(a, b float64) float64 { return a * b },
	"__div": func(a, b float64) float64 { return a / b },
	"__mod": func(a, b float64) float64 { return modulo(a, b) },
	"__pow": math.Pow,
	"__unm": func(a, _ float64) float64 { return -a },
}

type operation func(a, b float64) float64

// modulo is Lua 5.1's a % b, rounding and all.
func modulo(a, b float64) float64 {
	return a - float64(math.Floor(a/b)*b)
}

// primitiveMeta is the metatable of everything that is neither table nor userdata.
func primitiveMeta(L *lua.LState) *lua.LTable {
	mt := L.NewTable()
	for event, compute := range arithmetic {
		mt.RawSetString(event, L.NewFunction(arithmeticOn(compute)))
	}
	for event, verb := range map[string]string{
		"__index": "index", "__newindex": "index", "__call": "call", "__len": "get length of",
	} {
		mt.RawSetString(event, L.NewFunction(func(L *lua.LState) int {
			cannot(L, verb, L.Get(1))
			return 0
		}))
	}
	return mt
}

func arithmeticOn(compute operation) lua.LGFunction {
	return func(L *lua.LState) int {
		a, okA := toNumber(L.Get(1))
		b, okB := toNumber(L.Get(2))
		if L.GetTop() < 2 {
			okB = true // unary minus
		}
		if !okA {
			cannot(L, "perform arithmetic on", L.Get(1))
		}
		if !okB {
			cannot(L, "perform arithmetic on", L.Get(2))
		}
		L.Push(lua.LNumber(compute(a, b)))
		return 1
	}
}

func cannot(L *lua.LState, verb string, v lua.LValue) {
	call{LState: L}.fail("attempt to %s a %s value", verb, v.Type())
}

// stringMeta is the metatable of strings: the library for methods, and arithmetic. Like Redis's it has
// no __len and no __call; calling a string is an error all the same.
func stringMeta(L *lua.LState, library *lua.LTable) *lua.LTable {
	mt := primitiveMeta(L)
	mt.RawSetString("__index", library)
	return mt
}

// helperFunctions are what helperNames stand for, in that order.
func helperFunctions() []lua.LGFunction {
	return []lua.LGFunction{helpConcat, arithmeticHelper("__mod"), helpFor, helpCount, helpWay}
}

// arithmeticHelper is an operator as a call: numbers at once, all else by metatable.
func arithmeticHelper(event string) lua.LGFunction {
	compute := arithmetic[event]
	primitive := arithmeticOn(compute)
	return func(L *lua.LState) int {
		a, okA := L.Get(1).(lua.LNumber)
		b, okB := L.Get(2).(lua.LNumber)
		if okA && okB {
			L.Push(lua.LNumber(compute(float64(a), float64(b))))
			return 1
		}
		return primitive(L)
	}
}

// helpConcat joins its arguments as a chain of .. does: from the right, numbers with 14 digits.
func helpConcat(L *lua.LState) int {
	if s, ok := joined(L); ok {
		L.Push(lua.LString(s))
		return 1
	}
	n := L.GetTop()
	right := L.Get(n)
	for i := n - 1; i >= 1; i-- {
		right = concat(L, i, right)
	}
	L.Push(right)
	return 1
}

// joined is the whole chain when it has strings and numbers only.
func joined(L *lua.LState) (string, bool) {
	texts, length := make([]string, 0, 8), 0
	for i := 1; i <= L.GetTop(); i++ {
		s, ok := toString(L.Get(i))
		if !ok {
			return "", false
		}
		texts, length = append(texts, s), length+len(s)
	}
	checkLength(L, length)
	return strings.Join(texts, ""), true
}

// checkLength ends the run before a string becomes longer than string.rep makes one: doubling it a few times more
// would take all memory, long before the budget ends.
func checkLength(L *lua.LState, length int) {
	if length > maxString {
		runOf(L).refuse(L, "strings of more than 256 MB")
	}
}

// concat joins operand i, counted from 1, with what is right of it.
func concat(L *lua.LState, i int, b lua.LValue) lua.LValue {
	a := L.Get(i)
	left, okA := toString(a)
	right, okB := toString(b)
	if okA && okB {
		checkLength(L, len(left)+len(right))
		return lua.LString(left + right)
	}
	if okA {
		cannot(L, "concatenate", b)
	}
	cannot(L, "concatenate", a)
	return nil
}

func helpFor(L *lua.LState) int {
	x, ok := toNumber(L.Get(1))
	if !ok {
		call{LState: L}.fail("'for' %s must be a number", L.Get(2))
	}
	L.Push(lua.LNumber(x))
	return 1
}
