package lua51

import (
	"fmt"
	"math"

	lua "github.com/yuin/gopher-lua"
)

// function is a library function: it returns how many results it pushed.
type function func(call) int

// call is one call of a library function, with checks of its arguments as Lua's auxiliary library words
// them. Checks that fail do not return.
type call struct {
	*lua.LState
	name string // the one it has in its library
}

// maxStack is Lua's LUAI_MAXCSTACK: how many values a C function may have on its stack.
const maxStack = 8000

// fail raises an error with the position of the Lua code that called the function.
func (c call) fail(format string, args ...any) {
	c.raise(position(c.LState, 1) + fmt.Sprintf(format, args...))
}

func (c call) raise(text string) {
	c.Error(lua.LString(text), 0)
}

func (c call) argError(n int, message string) {
	c.fail("bad argument #%d to '%s' (%s)", n, c.name, message)
}

func (c call) typeError(n int, want string) {
	c.argError(n, want+" expected, got "+c.typeName(n))
}

func (c call) typeName(n int) string {
	if n > c.GetTop() {
		return "no value"
	}
	return c.Get(n).Type().String()
}

// position is the "user_script:1: " of the function at a level of the call stack: 0 is the running
// one, 1 its caller. It is empty for a function that is not Lua.
func position(L *lua.LState, level int) string {
	chunk, line, ok := lineAt(L, level)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s:%d: ", chunk, line)
}

// lineAt is the line where the function at a level stands, if it is Lua. Below a stack that pcall has made
// the levels go on with that of its caller, whose top is pcall itself.
func lineAt(L *lua.LState, level int) (chunk string, line int, ok bool) {
	run := runOf(L)
	debug, ok := L.GetStack(level)
	for !ok {
		below := run.callers[L]
		if below == nil {
			return "", 0, false
		}
		level -= depth(L) - 1
		L = below
		debug, ok = L.GetStack(level)
	}
	if _, err := L.GetInfo("Sl", debug, lua.LNil); err != nil {
		return "", 0, false
	}
	return debug.Source, debug.CurrentLine, debug.CurrentLine > 0
}

func depth(L *lua.LState) (n int) {
	for {
		if _, ok := L.GetStack(n); !ok {
			return n
		}
		n++
	}
}

// any refuses an absent argument.
func (c call) any(n int) lua.LValue {
	if n > c.GetTop() {
		c.argError(n, "value expected")
	}
	return c.Get(n)
}

// str takes a string, or a number as Lua writes it.
func (c call) str(n int) string {
	s, ok := toString(c.Get(n))
	if !ok {
		c.typeError(n, "string")
	}
	return s
}

func (c call) optStr(n int, otherwise string) string { return optional(c, n, otherwise, call.str) }

// optional reads an argument that may be nil or absent.
func optional[T any](c call, n int, otherwise T, read func(call, int) T) T {
	if c.Get(n) == lua.LNil {
		return otherwise
	}
	return read(c, n)
}

// num takes a number, or a string that reads as one.
func (c call) num(n int) float64 {
	x, ok := toNumber(c.Get(n))
	if !ok {
		c.typeError(n, "number")
	}
	return x
}

// int64 is luaL_checkinteger.
func (c call) int64(n int) int64 { return toInt64(c.num(n)) }

func (c call) optInt64(n int, otherwise int64) int64 { return optional(c, n, otherwise, call.int64) }

// int is luaL_checkint: the low 32 bits of the integer.
func (c call) int(n int) int { return int(int32(c.int64(n))) }

func (c call) optInt(n int, otherwise int) int { return optional(c, n, otherwise, call.int) }

// table takes a table to read; for a protected one that is what it stands for.
func (c call) table(n int) *lua.LTable {
	t, ok := c.Get(n).(*lua.LTable)
	if !ok {
		c.typeError(n, "table")
	}
	return unprotected(t)
}

// writable takes a table to write, and refuses a protected one as Redis does.
func (c call) writable(n int) *lua.LTable {
	t := c.table(n)
	if t != c.Get(n) {
		c.raise(readonlyText)
	}
	return t
}

func (c call) function(n int) *lua.LFunction {
	f, ok := c.Get(n).(*lua.LFunction)
	if !ok {
		c.typeError(n, "function")
	}
	return f
}

// room refuses to push n more values than Lua's C stack takes.
func (c call) room(n int, message string) {
	if n < 0 || c.GetTop()+n > maxStack {
		c.fail("%s", message)
	}
}

// push pushes results and returns their number, which a library function returns.
func (c call) push(results ...lua.LValue) int {
	for _, v := range results {
		c.Push(v)
	}
	return len(results)
}

// toString is lua_tostring: strings and numbers only.
func toString(v lua.LValue) (string, bool) {
	switch v := v.(type) {
	case lua.LString:
		return string(v), true
	case lua.LNumber:
		return formatNumber(float64(v)), true
	}
	return "", false
}

// toNumber is lua_tonumber: numbers and strings that read as one.
func toNumber(v lua.LValue) (float64, bool) {
	switch v := v.(type) {
	case lua.LNumber:
		return float64(v), true
	case lua.LString:
		return ParseNumber(string(v))
	}
	return math.NaN(), false
}

// length is # of a table.
func (c call) length(t *lua.LTable) int { return t.Len() }
