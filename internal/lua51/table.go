package lua51

import (
	"sort"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

func tableFunctions() map[string]function {
	return map[string]function{
		"concat":   tableConcat,
		"foreach":  tableForeach,
		"foreachi": tableForeachi,
		"getn":     func(c call) int { return c.push(lua.LNumber(c.length(c.table(1)))) },
		"insert":   tableInsert,
		"maxn":     tableMaxn,
		"remove":   tableRemove,
		"setn":     tableSetn,
		"sort":     tableSort,
	}
}

func tableConcat(c call) int {
	separator := c.optStr(2, "")
	t := c.table(1)
	from, to := c.optInt(3, 1), c.length(t)
	if c.Get(4) != lua.LNil {
		to = c.int(4)
	}
	var out strings.Builder
	for i := from; i <= to; i++ {
		v := t.RawGet(lua.LNumber(i))
		s, ok := toString(v)
		if !ok {
			c.fail("invalid value (%s) at index %d in table for 'concat'", v.Type(), i)
		}
		out.WriteString(s)
		if i < to {
			out.WriteString(separator)
		}
	}
	return c.push(lua.LString(out.String()))
}

// tableForeach calls a function with every key and value until it returns something.
func tableForeach(c call) int {
	t, f := c.table(1), c.function(2)
	for k, v := t.Next(lua.LNil); k != lua.LNil; k, v = t.Next(k) {
		if c.visit(f, k, v) {
			return 1
		}
	}
	return 0
}

func tableForeachi(c call) int {
	t, f := c.table(1), c.function(2)
	for i, n := 1, c.length(t); i <= n; i++ {
		if c.visit(f, lua.LNumber(i), t.RawGetInt(i)) {
			return 1
		}
	}
	return 0
}

// visit reports whether f returned something, and leaves that on the stack.
func (c call) visit(f *lua.LFunction, k, v lua.LValue) bool {
	callMeta(c.LState, f, k, v)
	if c.Get(-1) != lua.LNil {
		return true
	}
	c.Pop(1)
	return false
}

func tableMaxn(c call) int {
	largest := 0.0
	t := c.table(1)
	t.ForEach(func(k, _ lua.LValue) {
		if n, ok := k.(lua.LNumber); ok {
			largest = max(largest, float64(n))
		}
	})
	return c.push(lua.LNumber(largest))
}

func tableSetn(c call) int {
	c.table(1)
	c.fail("'setn' is obsolete")
	return 0
}

func tableInsert(c call) int {
	c.table(1)
	end := c.length(c.table(1)) + 1
	switch c.GetTop() {
	case 2:
		c.writable(1).RawSet(lua.LNumber(end), c.Get(2))
	case 3:
		at := c.int(2)
		t := c.writable(1)
		for i := max(end, at); i > at; i-- {
			t.RawSet(lua.LNumber(i), t.RawGet(lua.LNumber(i-1)))
		}
		t.RawSet(lua.LNumber(at), c.Get(3))
	default:
		c.fail("wrong number of arguments to 'insert'")
	}
	return 0
}

func tableRemove(c call) int {
	n := c.length(c.table(1))
	at := c.optInt(2, n)
	if at < 1 || at > n {
		return 0
	}
	t := c.writable(1)
	c.Push(t.RawGetInt(at))
	for ; at < n; at++ {
		t.RawSetInt(at, t.RawGetInt(at+1))
	}
	t.RawSetInt(n, lua.LNil)
	return 1
}

// tableSort sorts in place. Elements that compare equal end up in another order than on Redis.
func tableSort(c call) int {
	n := c.length(c.table(1))
	s := &sorter{call: c, table: c.table(1), n: n}
	if c.Get(2) != lua.LNil {
		s.compare = c.function(2)
	}
	if n > 1 {
		c.writable(1)
	}
	sort.Sort(s)
	return 0
}

type sorter struct {
	call    call
	table   *lua.LTable
	compare *lua.LFunction // nil: <
	n       int
}

func (s *sorter) Len() int { return s.n }

func (s *sorter) Swap(i, j int) {
	a, b := s.table.RawGetInt(i+1), s.table.RawGetInt(j+1)
	s.table.RawSetInt(i+1, b)
	s.table.RawSetInt(j+1, a)
}

func (s *sorter) Less(i, j int) bool {
	a, b := s.table.RawGetInt(i+1), s.table.RawGetInt(j+1)
	if s.compare != nil {
		callMeta(s.call.LState, s.compare, a, b)
		defer s.call.Pop(1)
		return lua.LVAsBool(s.call.Get(-1))
	}
	if a.Type() != b.Type() || a.Type() != lua.LTNumber && a.Type() != lua.LTString && a.Type() != lua.LTTable {
		s.call.raise(compareText("attempt to compare " + a.Type().String() + " with " + b.Type().String()))
	}
	return s.call.LessThan(a, b)
}
