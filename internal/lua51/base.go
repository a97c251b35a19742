package lua51

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// baseFunctions are the global functions of Lua 5.1 that Redis 7 leaves to scripts.
func baseFunctions() map[string]function {
	return map[string]function{
		"__redis__err__handler": refused("__redis__err__handler"),
		"collectgarbage":        refused("collectgarbage"),
		"gcinfo":                refused("gcinfo"),
		"getmetatable":          refused("getmetatable"),
		"load":                  refused("load"),
		"loadstring":            refused("loadstring"),
		"setmetatable":          refused("setmetatable"),
		"xpcall":                refused("xpcall"),

		"assert":   baseAssert,
		"error":    baseError,
		"ipairs":   baseIpairs,
		"next":     baseNext,
		"pairs":    basePairs,
		"pcall":    basePcall,
		"rawequal": func(c call) int { return c.push(lua.LBool(c.RawEqual(c.any(1), c.any(2)))) },
		"rawget":   func(c call) int { return c.push(c.table(1).RawGet(c.any(2))) },
		"rawset":   baseRawSet,
		"select":   baseSelect,
		"tonumber": baseToNumber,
		"tostring": func(c call) int { return c.push(lua.LString(displayed(c.any(1)))) },
		"type":     func(c call) int { return c.push(lua.LString(c.any(1).Type().String())) },
		"unpack":   baseUnpack,
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
	if c.optInt(2, 10) != 10 {
		c.unsupported("tonumber() to another base")
	}
	x, ok := toNumber(c.any(1))
	if !ok {
		return c.push(lua.LNil)
	}
	return c.push(lua.LNumber(x))
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
