package lua51

import (
	"encoding/binary"
	"math"

	lua "github.com/yuin/gopher-lua"
)

func (c call) unpackAll(data string) int {
	u := &unpacker{call: c, data: data}
	n := 0
	for ; u.at < len(data); n++ {
		c.room(1, "stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)")
		c.Push(u.value())
	}
	return n
}

// unpackSome pushes the offset to go on at, -1 at the end of the data, and up to limit values.
func (c call) unpackSome(data string, limit, offset int) int {
	switch {
	case offset < 0 || limit < 0:
		c.fail("Invalid request to unpack with offset of %d and limit of %d.", int32(offset), len(data))
	case offset > len(data):
		c.fail("Start offset %d greater than input length %d.", offset, len(data))
	case offset == 0 && limit == 0:
		return c.unpackAll(data)
	}
	u := &unpacker{call: c, data: data, at: offset}
	var values []lua.LValue
	for len(values) < limit && u.at < len(data) {
		values = append(values, u.value())
	}
	next := u.at
	if next == len(data) {
		next = -1
	}
	return c.push(lua.LNumber(next)) + c.push(values...)
}

type unpacker struct {
	call call
	data string
	at   int
}

func (u *unpacker) take(n int) string {
	if n > len(u.data)-u.at {
		u.call.fail("Missing bytes in input.")
	}
	u.at += n
	return u.data[u.at-n : u.at]
}

func (u *unpacker) uint(size int) uint64 {
	var wide [8]byte
	copy(wide[8-size:], u.take(size))
	return binary.BigEndian.Uint64(wide[:])
}

func (u *unpacker) value() lua.LValue {
	code := u.take(1)[0]
	switch {
	case code < 0x80:
		return lua.LNumber(code)
	case code < 0x90:
		return u.table(int(code&0xf), true)
	case code < 0xa0:
		return u.table(int(code&0xf), false)
	case code < 0xc0:
		return lua.LString(u.take(int(code & 0x1f)))
	case code >= 0xe0:
		return lua.LNumber(int8(code))
	}
	return u.long(code)
}

// long reads what follows a code that is not itself a value or a length.
func (u *unpacker) long(code byte) lua.LValue {
	switch code {
	case 0xc0:
		return lua.LNil
	case 0xc2, 0xc3:
		return lua.LBool(code == 0xc3)
	case 0xca:
		return lua.LNumber(math.Float32frombits(uint32(u.uint(4))))
	case 0xcb:
		return lua.LNumber(math.Float64frombits(u.uint(8)))
	case 0xcc, 0xcd, 0xce, 0xcf:
		return lua.LNumber(int64(u.uint(1 << (code - 0xcc)))) // of 64 bits, too, signed
	case 0xd0:
		return lua.LNumber(int8(u.uint(1)))
	case 0xd1:
		return lua.LNumber(int16(u.uint(2)))
	case 0xd2:
		return lua.LNumber(int32(u.uint(4)))
	case 0xd3:
		return lua.LNumber(int64(u.uint(8)))
	case 0xd9, 0xda, 0xdb:
		return lua.LString(u.take(int(u.uint(1 << (code - 0xd9)))))
	case 0xdc, 0xdd:
		return u.table(int(u.uint(2<<(code-0xdc))), false)
	case 0xde, 0xdf:
		return u.table(int(u.uint(2<<(code-0xde))), true)
	}
	u.call.fail("Bad data format in input.")
	return nil
}

func (u *unpacker) table(n int, isMap bool) lua.LValue {
	t := u.call.NewTable()
	for i := 1; i <= n; i++ {
		k := lua.LValue(lua.LNumber(i))
		if isMap {
			k = u.value()
		}
		u.call.RawSet(t, k, u.value())
	}
	return t
}
