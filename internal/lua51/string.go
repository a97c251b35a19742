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
	m := newMatcher(c, s, pattern)
	for start := init; start <= len(s); start++ {
		if end := m.matchAt(start); end >= 0 {
			if !find {
				return m.pushCaptures(start, end, true)
			}
			return c.push(lua.LNumber(start+1), lua.LNumber(end)) + m.pushCaptures(start, end, false)
		}
		if m.anchored {
			break
		}
	}
	return c.push(lua.LNil)
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
	next := 0
	c.Push(c.NewFunction(func(L *lua.LState) int {
		m := newMatcher(call{LState: L, name: "gmatch"}, s, pattern)
		m.anchored, m.pattern = false, cString(pattern)
		for start := next; start <= len(s); start++ {
			end := m.matchAt(start)
			if end < 0 {
				continue
			}
			next = end
			if end == start {
				next++
			}
			return m.pushCaptures(start, end, true)
		}
		next = len(s) + 1
		return 0
	}))
	return 1
}

func stringGsub(c call) int {
	s, pattern := c.str(1), c.str(2)
	limit := c.optInt(4, len(s)+1)
	replace := c.replacement()

	m := newMatcher(c, s, pattern)
	var out bytes.Buffer
	at, count := 0, 0
	for count < limit {
		end := m.matchAt(at)
		if end >= 0 {
			count++
			replace(m, &out, at, end)
		}
		switch {
		case end > at:
			at = end
		case at < len(s):
			out.WriteByte(s[at])
			at++
		default:
			at++
		}
		if at > len(s) || m.anchored {
			break
		}
	}
	if at < len(s) {
		out.WriteString(s[at:])
	}
	return c.push(lua.LString(out.String()), lua.LNumber(count))
}

func (c call) replacement() func(m *matcher, out *bytes.Buffer, start, end int) {
	switch v := c.Get(3).(type) {
	case lua.LString, lua.LNumber:
		template, _ := toString(v)
		return func(m *matcher, out *bytes.Buffer, start, end int) { m.expand(out, template, start, end) }
	case *lua.LTable:
		return func(m *matcher, out *bytes.Buffer, start, end int) {
			key := m.capture(0, start, end)
			m.replace(out, c.GetTable(v, key), start, end)
		}
	case *lua.LFunction:
		return func(m *matcher, out *bytes.Buffer, start, end int) {
			c.Push(v)
			c.Call(m.pushCaptures(start, end, true), 1)
			result := c.Get(-1)
			c.Pop(1)
			m.replace(out, result, start, end)
		}
	}
	c.argError(3, "string/function/table expected")
	return nil
}
