package lua51

import (
	"maps"
	"sort"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

func tableFunctions() map[string]function {
	functions := refusedAll("table", "foreach", "foreachi", "getn", "maxn", "setn")
	maps.Copy(functions, map[string]function{
		"concat": tableConcat,
		"insert": tableInsert,
		"remove": tableRemove,
		"sort":   tableSort,
	})
	return functions
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
		s.call.Push(s.compare)
		s.call.Call(s.call.push(a, b), 1)
		defer s.call.Pop(1)
		return lua.LVAsBool(s.call.Get(-1))
	}
	if a.Type() != b.Type() || a.Type() != lua.LTNumber && a.Type() != lua.LTString {
		s.call.raise(compareText("attempt to compare " + a.Type().String() + " with " + b.Type().String()))
	}
	return s.call.LessThan(a, b)
}
