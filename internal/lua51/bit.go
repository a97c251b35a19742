package lua51

import (
	"math"
	"math/bits"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// bitFunctions are LuaBitOp's: they work on 32 bits and give signed results.
func bitFunctions() map[string]function {
	return map[string]function{
		"arshift": shift(func(b uint32, n int) uint32 { return uint32(int32(b) >> n) }),
		"band":    fold(func(a, b uint32) uint32 { return a & b }),
		"bnot":    one(func(b uint32) uint32 { return ^b }),
		"bor":     fold(func(a, b uint32) uint32 { return a | b }),
		"bswap":   one(bits.ReverseBytes32),
		"bxor":    fold(func(a, b uint32) uint32 { return a ^ b }),
		"lshift":  shift(func(b uint32, n int) uint32 { return b << n }),
		"rol":     shift(bits.RotateLeft32),
		"ror":     shift(func(b uint32, n int) uint32 { return bits.RotateLeft32(b, -n) }),
		"rshift":  shift(func(b uint32, n int) uint32 { return b >> n }),
		"tobit":   one(func(b uint32) uint32 { return b }),
		"tohex":   bitToHex,
	}
}

// bits takes an argument as the library does: adding 2^52 + 2^51 leaves the number, rounded to the
// nearest even, modulo 2^32 in the low bits of the double.
func (c call) bits(n int) uint32 {
	return uint32(math.Float64bits(c.num(n) + (1<<52 + 1<<51)))
}

func (c call) pushBits(b uint32) int {
	return c.push(lua.LNumber(float64(int32(b))))
}

func one(f func(uint32) uint32) function {
	return func(c call) int { return c.pushBits(f(c.bits(1))) }
}

func fold(f func(a, b uint32) uint32) function {
	return func(c call) int {
		b := c.bits(1)
		for i := c.GetTop(); i >= 2; i-- {
			b = f(b, c.bits(i))
		}
		return c.pushBits(b)
	}
}

func shift(f func(b uint32, n int) uint32) function {
	return func(c call) int { return c.pushBits(f(c.bits(1), int(c.bits(2)&31))) }
}

// bitToHex writes the low digits, eight unless told; a negative number of digits asks for capitals.
func bitToHex(c call) int {
	b, digits := c.bits(1), int32(8)
	if c.GetTop() >= 2 {
		digits = int32(c.bits(2))
	}
	text := strconv.FormatUint(uint64(b)|1<<32, 16)[1:]
	if digits < 0 {
		digits, text = -digits, strings.ToUpper(text)
	}
	if digits < 0 || digits > 8 {
		digits = 8
	}
	return c.push(lua.LString(text[8-digits:]))
}
