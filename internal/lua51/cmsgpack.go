package lua51

import (
	"encoding/binary"
	"math"

	lua "github.com/yuin/gopher-lua"
)

// maxPackNesting is how many tables within tables are packed; deeper ones become nil.
const maxPackNesting = 16

func cmsgpackFunctions() map[string]function {
	return map[string]function{
		"pack":   cmsgpackPack,
		"unpack": func(c call) int { return c.unpackAll(c.str(1)) },
		"unpack_one": func(c call) int {
			offset := c.optInt64(2, 0)
			return c.unpackSome(c.str(1), 1, int(offset))
		},
		"unpack_limit": func(c call) int {
			limit, offset := c.int64(2), c.optInt64(3, 0)
			return c.unpackSome(c.str(1), int(limit), int(offset))
		},
	}
}

func cmsgpackPack(c call) int {
	if c.GetTop() == 0 {
		c.argError(0, "MessagePack pack needs input.")
	}
	var out []byte
	for i := 1; i <= c.GetTop(); i++ {
		out = runOf(c.LState).packValue(out, c.Get(i), 0)
	}
	return c.push(lua.LString(out))
}

func (r *run) packValue(out []byte, v lua.LValue, level int) []byte {
	switch v := v.(type) {
	case lua.LString:
		return append(packHeader(out, len(v), 0xa0, 31, 0xd9), v...)
	case lua.LBool:
		if v {
			return append(out, 0xc3)
		}
		return append(out, 0xc2)
	case lua.LNumber:
		return packLuaNumber(out, float64(v))
	case *lua.LTable:
		if level < maxPackNesting {
			return r.packTable(out, unprotected(v), level+1)
		}
	}
	return append(out, 0xc0)
}

// packHeader writes the length of a string, array or map: in the byte itself up to a bound, else after
// the code of its 8-bit (strings only, where there is one), 16-bit or 32-bit form.
func packHeader(out []byte, n int, short byte, bound int, code8 byte) []byte {
	code16 := code8 + 1
	switch {
	case n <= bound:
		return append(out, short|byte(n))
	case n <= math.MaxUint8 && short == 0xa0:
		return append(out, code8, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(out, code16), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(out, code16+1), uint32(n))
}

func packLuaNumber(out []byte, x float64) []byte {
	if n := toInt64(x); float64(n) == x {
		return packInteger(out, n)
	}
	if f := float32(x); float64(f) == x {
		return binary.BigEndian.AppendUint32(append(out, 0xca), math.Float32bits(f))
	}
	return binary.BigEndian.AppendUint64(append(out, 0xcb), math.Float64bits(x))
}

// packInteger takes the shortest form, unsigned for what is not negative.
func packInteger(out []byte, n int64) []byte {
	if n >= -32 && n <= math.MaxInt8 {
		return append(out, byte(n))
	}
	size, code := 1, byte(0xcc) // in bytes
	for ; n >= 0 && n>>(8*size) != 0 || n < 0 && n>>(8*size-1) != -1; size *= 2 {
		code++
	}
	if n < 0 {
		code += 0xd0 - 0xcc
	}
	whole := binary.BigEndian.AppendUint64(nil, uint64(n))
	return append(append(out, code), whole[8-size:]...)
}

func (r *run) packTable(out []byte, t *lua.LTable, level int) []byte {
	var keys []lua.LValue
	for k := range entries(t) {
		keys = append(keys, k)
	}
	if isArray(keys) {
		out = packHeader(out, len(keys), 0x90, 15, 0xdb)
		for i := range keys {
			out = r.packValue(out, t.RawGet(lua.LNumber(i+1)), level)
		}
		return out
	}
	out = packHeader(out, len(keys), 0x80, 15, 0xdd)
	for _, k := range keys {
		out = r.packValue(r.packValue(out, k, level), t.RawGet(k), level)
	}
	return out
}

// isArray reports whether keys are 1 to their number, in any order.
func isArray(keys []lua.LValue) bool {
	largest := 0.0
	for _, k := range keys {
		n, ok := k.(lua.LNumber)
		if !ok || n <= 0 || math.Floor(float64(n)) != float64(n) {
			return false
		}
		largest = max(largest, float64(n))
	}
	return largest == float64(len(keys))
}
