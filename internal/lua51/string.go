package lua51

import (
	"bytes"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// maxString is the longest string that string.rep and .. make; more would only test the memory.
const maxString = 1 << 28

func stringFunctions() map[string]function {
	return map[string]function{
		"byte":    stringByte,
		"char":    stringChar,
		"dump":    refused("string.dump"),
		"find":    func(c call) int { return c.search(true) },
		"format":  stringFormat,
		"gfind":   stringGmatch,
		"gmatch":  stringGmatch,
		"gsub":    stringGsub,
		"len":     func(c call) int { return c.push(lua.LNumber(len(c.str(1)))) },
		"lower":   func(c call) int { return c.mapBytes(isUpper) },
		"match":   func(c call) int { return c.search(false) },
		"rep":     stringRep,
		"reverse": stringReverse,
		"sub":     stringSub,
		"upper":   func(c call) int { return c.mapBytes(isLower) },
	}
}

// fromEnd makes a position that may count from the end (-1 is the last byte) count from the start; one
// before the start is 0.
func fromEnd(position int64, length int) int64 {
	if position < 0 {
		position += int64(length) + 1
	}
	return max(position, 0)
}

func stringByte(c call) int {
	s := c.str(1)
	from := fromEnd(c.optInt64(2, 1), len(s))
	to := min(fromEnd(c.optInt64(3, from), len(s)), int64(len(s)))
	from = max(from, 1)
	if from > to {
		return 0
	}
	c.room(int(to-from+1), "stack overflow (string slice too long)")
	for _, b := range []byte(s[from-1 : to]) {
		c.Push(lua.LNumber(b))
	}
	return int(to - from + 1)
}

func stringChar(c call) int {
	out := make([]byte, c.GetTop())
	for i := range out {
		n := c.int(i + 1)
		if n < 0 || n > 255 {
			c.argError(i+1, "invalid value")
		}
		out[i] = byte(n)
	}
	return c.push(lua.LString(out))
}

// mapBytes changes the case of the ASCII letters that have one.
func (c call) mapBytes(change func(byte) bool) int {
	out := []byte(c.str(1))
	for i, b := range out {
		if change(b) {
			out[i] ^= 'a' ^ 'A'
		}
	}
	return c.push(lua.LString(out))
}

func stringRep(c call) int {
	s, n := c.str(1), max(c.int(2), 0)
	checkLength(c.LState, len(s)*n)
	return c.push(lua.LString(strings.Repeat(s, n)))
}

func stringReverse(c call) int {
	out := []byte(c.str(1))
	slices.Reverse(out)
	return c.push(lua.LString(out))
}

func stringSub(c call) int {
	s := c.str(1)
	from := max(fromEnd(c.int64(2), len(s)), 1)
	to := min(fromEnd(c.optInt64(3, -1), len(s)), int64(len(s)))
	if from > to {
		return c.push(lua.LString(""))
	}
	return c.push(lua.LString(s[from-1 : to]))
}

// patternSpecials are the characters that make a pattern more than the text itself.
const patternSpecials = "^$*+?.([%-"

func (c call) search(find bool) int {
	s, pattern := c.str(1), c.str(2)
	init := int(min(max(fromEnd(c.optInt64(3, 1), len(s))-1, 0), int64(len(s))))
	if find && (lua.LVAsBool(c.Get(4)) || !strings.ContainsAny(cString(pattern), patternSpecials)) {
		return c.findPlain(s, pattern, init)
	}
	found := c.matches(s, pattern, init, 1)
	if len(found) == 0 {
		return c.push(lua.LNil)
	}
	m := found[0]
	if !find {
		return c.push(m.captures(true)...)
	}
	return c.push(lua.LNumber(m.start()+1), lua.LNumber(m.end())) + c.push(m.captures(false)...)
}

func (c call) findPlain(s, text string, init int) int {
	i := strings.Index(s[init:], text)
	if i < 0 {
		return c.push(lua.LNil)
	}
	return c.push(lua.LNumber(init+i+1), lua.LNumber(float64(init+i+len(text))))
}

// stringGmatch returns an iterator. In gmatch of Lua 5.1 a ^ is a character like any other.
func stringGmatch(c call) int {
	s, pattern := c.str(1), c.str(2)
	if strings.HasPrefix(pattern, "^") {
		pattern = "%" + pattern
	}
	found := c.matches(s, pattern, 0, -1)
	return c.push(c.NewFunction(func(L *lua.LState) int {
		if len(found) == 0 {
			return 0
		}
		m := found[0]
		found = found[1:]
		return call{LState: L}.push(m.captures(true)...)
	}))
}

func stringGsub(c call) int {
	s, pattern := c.str(1), c.str(2)
	limit := c.optInt(4, len(s)+1)
	replacement := c.replacement()

	var found []match
	if limit > 0 {
		found = c.matches(s, pattern, 0, limit)
	}
	var out bytes.Buffer
	at := 0
	for _, m := range found {
		out.WriteString(s[at:m.start()])
		replacement(&out, m)
		at = m.end()
	}
	out.WriteString(s[at:])
	return c.push(lua.LString(out.String()), lua.LNumber(len(found)))
}

func (c call) replacement() func(out *bytes.Buffer, m match) {
	switch v := c.Get(3).(type) {
	case lua.LString, lua.LNumber:
		template, _ := toString(v)
		return func(out *bytes.Buffer, m match) { c.expand(out, m, template) }
	case *lua.LTable:
		return func(out *bytes.Buffer, m match) { c.replace(out, m, c.GetTable(v, m.captures(true)[0])) }
	case *lua.LFunction:
		return func(out *bytes.Buffer, m match) {
			c.Push(v)
			c.Call(c.push(m.captures(true)...), 1)
			result := c.Get(-1)
			c.Pop(1)
			c.replace(out, m, result)
		}
	}
	c.argError(3, "string/function/table expected")
	return nil
}
