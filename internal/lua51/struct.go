package lua51

import (
	"math"
	"slices"

	lua "github.com/yuin/gopher-lua"
)

func structFunctions() map[string]function {
	functions := refusedAll("struct", "size")
	functions["pack"], functions["unpack"] = structPack, structUnpack
	return functions
}

const maxIntSize = 8 // of i and I, in bytes; more is refused

// layout reads a format string, option by option: integers and strings of a length, little endian to begin with.
type layout struct {
	call   call
	format string
	big    bool
}

func newLayout(c call) *layout { return &layout{call: c, format: cString(c.str(1))} }

// next returns the next option and its size in bytes. An option of 0 is the end.
func (l *layout) next() (option byte, size int) {
	for l.format != "" {
		option, l.format = l.format[0], l.format[1:]
		switch option {
		case '<', '>':
			l.big = option == '>'
			continue
		case 'b', 'B':
			return option, 1
		case 'h', 'H':
			return option, 2
		case 'l', 'L':
			return option, 8
		case 'c':
			return option, l.number(1)
		case 'i', 'I':
			if size = l.number(4); size > 0 && size <= maxIntSize {
				return option, size
			}
		}
		l.call.unsupported("the format " + string(option) + " of struct")
	}
	return 0, 0
}

func (l *layout) number(otherwise int) int {
	if l.format == "" || !isDigit(l.format[0]) {
		return otherwise
	}
	n := 0
	for l.format != "" && isDigit(l.format[0]) {
		n = n*10 + int(l.format[0]-'0')
		if n > math.MaxInt32 {
			l.call.fail("integral size overflow")
		}
		l.format = l.format[1:]
	}
	return n
}

// order puts little-endian bytes into the byte order of the layout, in place, or takes them out of it.
func (l *layout) order(b []byte) []byte {
	if l.big {
		slices.Reverse(b)
	}
	return b
}

func structPack(c call) int {
	l := newLayout(c)
	var out []byte
	for arg := 2; ; arg++ {
		switch option, size := l.next(); option {
		case 0:
			return c.push(lua.LString(out))
		case 'c':
			out = append(out, c.packString(size, arg)...)
		default:
			out = append(out, l.order(packInteger(size, c.structNum(arg)))...)
		}
	}
}

// structNum is an argument of pack; the library pads the stack, so an absent one is a nil.
func (c call) structNum(n int) float64 {
	if n > c.GetTop() {
		c.argError(n, "number expected, got nil")
	}
	return c.num(n)
}

func (c call) packString(size, arg int) string {
	if arg > c.GetTop() {
		c.argError(arg, "string expected, got nil")
	}
	s := c.str(arg)
	if size == 0 {
		size = len(s)
	}
	if len(s) < size {
		c.argError(arg+1, "string too short")
	}
	return s[:size]
}

// packInteger returns the little-endian bytes; integers wrap round silently.
func packInteger(size int, x float64) []byte {
	n := uint64(toInt64(x))
	if x >= 0 {
		n = toUint64(x)
	}
	out := make([]byte, size)
	for i := range out {
		out[i] = byte(n)
		n >>= 8
	}
	return out
}

func structUnpack(c call) int {
	l, data := newLayout(c), c.str(2)
	at := int(c.optInt64(3, 1)) - 1
	if at == -1 {
		c.argError(3, "offset must be 1 or greater")
	}
	for results := 0; ; {
		option, size := l.next()
		if option == 0 {
			return results + c.push(lua.LNumber(at+1))
		}
		c.inside(data, at, size)
		c.room(2, "stack overflow (too many results)")
		switch {
		case option == 'c' && size == 0:
			size = c.previousSize(results)
			results--
			c.inside(data, at, size)
			fallthrough
		case option == 'c':
			results += c.push(lua.LString(data[at : at+size]))
		default:
			results += c.push(lua.LNumber(unpackInteger(option, l.order([]byte(data[at:at+size])))))
		}
		at += size
	}
}

// inside refuses to read beyond the data.
func (c call) inside(data string, at, size int) {
	if at < 0 || size < 0 || size > len(data) || at > len(data)-size {
		c.argError(2, "data string too short")
	}
}

// previousSize takes back the value unpacked last: the size that c0 needs.
func (c call) previousSize(results int) int {
	x, ok := toNumber(c.Get(-1))
	if results == 0 || !ok {
		c.fail("format 'c0' needs a previous size")
	}
	c.Pop(1)
	return int(toUint64(x))
}

func unpackInteger(option byte, b []byte) float64 {
	n := uint64(0)
	for i := len(b) - 1; i >= 0; i-- {
		n = n<<8 | uint64(b[i])
	}
	if isUpper(option) {
		return float64(n)
	}
	unused := 64 - 8*len(b) // bits
	return float64(int64(n<<unused) >> unused)
}
