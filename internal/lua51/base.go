package lua51

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// baseFunctions are the global functions of Lua 5.1 that Redis 7 leaves to scripts.
func (lib *library) baseFunctions() map[string]function {
	return map[string]function{
		"__redis__err__handler": refused("__redis__err__handler"),
		"collectgarbage":        refused("collectgarbage"),
		"gcinfo":                refused("gcinfo"),
		"load":                  refused("load"),
		"loadstring":            refused("loadstring"),

		"assert":       baseAssert,
		"error":        baseError,
		"getmetatable": lib.baseGetMetatable,
		"ipairs":       baseIpairs,
		"next":         baseNext,
		"pairs":        basePairs,
		"pcall":        basePcall,
		"rawequal":     func(c call) int { return c.push(lua.LBool(c.RawEqual(c.any(1), c.any(2)))) },
		"rawget":       func(c call) int { return c.push(c.table(1).RawGet(c.any(2))) },
		"rawset":       baseRawSet,
		"select":       baseSelect,
		"setmetatable": baseSetMetatable,
		"tonumber":     baseToNumber,
		"tostring":     baseToString,
		"type":         func(c call) int { return c.push(lua.LString(c.any(1).Type().String())) },
		"unpack":       baseUnpack,
		"xpcall":       baseXpcall,
	}
}

func baseAssert(c call) int {
	if !lua.LVAsBool(c.any(1)) {
		c.fail("%s", c.optStr(2, "assertion failed!"))
	}
	return c.GetTop()
}

func baseError(c call) int {
	v := c.Get(1)
	level := c.optInt(2, 1)
	if text, ok := toString(v); ok && level > 0 {
		v = lua.LString(position(c.LState, level) + text)
	}
	c.Error(v, 0)
	return 0
}

func (lib *library) baseGetMetatable(c call) int {
	v := c.any(1)
	if _, ok := v.(lua.LString); ok {
		mt := c.NewTable()
		mt.RawSetString("__index", lib.strings.RawGetString("__index"))
		return c.push(protected(c.LState, mt))
	}
	if v == lib.env {
		return c.push(protected(c.LState, lib.globals.Metatable.(*lua.LTable)))
	}
	mt := lua.LNil
	if t, ok := v.(*lua.LTable); ok && unprotected(t) == t {
		mt = t.Metatable
	}
	if t, ok := mt.(*lua.LTable); ok {
		if hidden := t.RawGetString("__metatable"); hidden != lua.LNil {
			mt = hidden
		}
	}
	return c.push(mt)
}

func baseSetMetatable(c call) int {
	t := c.table(1)
	mt := c.Get(2)
	if mt.Type() != lua.LTTable && (mt != lua.LNil || c.GetTop() < 2) {
		c.argError(2, "nil or table expected")
	}
	if !runOf(c.LState).script.namesMetatables {
		c.unsupported("setmetatable by a name that the source does not hold")
	}
	if weak, ok := mt.(*lua.LTable); ok && weak.RawGetString("__mode") != lua.LNil {
		c.unsupported("weak tables")
	}
	if old, ok := t.Metatable.(*lua.LTable); ok && t == c.Get(1) && old.RawGetString("__metatable") != lua.LNil {
		c.fail("cannot change a protected metatable")
	}
	c.writable(1).Metatable = mt
	return c.push(t)
}

func baseIpairs(c call) int {
	c.table(1)
	return c.push(c.NewFunction(ipairsStep), c.Get(1), lua.LNumber(0))
}

func ipairsStep(L *lua.LState) int {
	c := call{LState: L, name: "for iterator"}
	i := c.int(2) + 1
	v := c.table(1).RawGetInt(i)
	if v == lua.LNil {
		return 0
	}
	return c.push(lua.LNumber(i), v)
}

func basePairs(c call) int {
	c.table(1)
	return c.push(c.NewFunction(bound("next", baseNext)), c.Get(1), lua.LNil)
}

func baseNext(c call) int {
	k, v := c.table(1).Next(c.Get(2))
	c.Push(k)
	if k == lua.LNil {
		return 1
	}
	c.Push(v)
	return 2
}

func baseRawSet(c call) int {
	c.table(1)
	k, v := c.any(2), c.any(3)
	c.RawSet(c.writable(1), k, v)
	c.SetTop(1)
	return 1
}

func baseSelect(c call) int {
	top := c.GetTop()
	if s, ok := c.Get(1).(lua.LString); ok && strings.HasPrefix(string(s), "#") {
		return c.push(lua.LNumber(top - 1))
	}
	n := c.int(1)
	switch {
	case n < 0:
		n += top
	case n > top:
		n = top
	}
	if n < 1 {
		c.argError(1, "index out of range")
	}
	return top - n
}

func baseToNumber(c call) int {
	base := c.optInt(2, 10)
	x, ok := 0.0, false
	if base == 10 {
		x, ok = toNumber(c.any(1))
	} else {
		s := c.str(1)
		if base < 2 || base > 36 {
			c.argError(2, "base out of range")
		}
		x, ok = parseBase(s, base)
	}
	if !ok {
		return c.push(lua.LNil)
	}
	return c.push(lua.LNumber(x))
}

func baseToString(c call) int {
	v := c.any(1)
	if own := c.GetMetaField(v, "__tostring"); own != lua.LNil {
		c.Push(own)
		c.Push(v)
		c.Call(1, 1)
		return 1
	}
	return c.push(lua.LString(displayed(v)))
}

func baseUnpack(c call) int {
	t := c.table(1)
	from := c.optInt(2, 1)
	to := 0
	if c.Get(3) != lua.LNil {
		to = c.int(3)
	} else {
		to = c.length(t)
	}
	if from > to {
		return 0
	}
	c.room(to-from+1, "too many results to unpack")
	for i := from; i <= to; i++ {
		c.Push(t.RawGet(lua.LNumber(i)))
	}
	return to - from + 1
}
