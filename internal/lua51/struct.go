package lua51

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

func structFunctions() map[string]function {
	return map[string]function{"pack": structPack, "size": structSize, "unpack": structUnpack}
}

const (
	maxIntSize = 32 // of i and I, in bytes
	maxAlign   = 8  // what a lone ! aligns to
)

// layout reads a format string, option by option, and keeps what its control options set: little endian
// and no alignment to begin with.
type layout struct {
	call   call
	format string
	big    bool
	align  int
}

func newLayout(c call) *layout {
	return &layout{call: c, format: cString(c.str(1)), align: 1}
}

// next returns the next option, its size in bytes, and how many bytes of padding come before it when
// so many bytes are there already. An option of 0 is the end.
func (l *layout) next(at int) (option byte, size, padding int) {
	if l.format == "" {
		return 0, 0, 0
	}
	option, l.format = l.format[0], l.format[1:]
	size = l.size(option)
	return option, size, l.padding(at, option, size)
}

func (l *layout) size(option byte) int {
	switch option {
	case 'b', 'B', 'x':
		return 1
	case 'h', 'H':
		return 2
	case 'f':
		return 4
	case 'l', 'L', 'T', 'd':
		return 8
	case 'c':
		return l.number(1)
	case 'i', 'I':
		size := l.number(4)
		if size > maxIntSize {
			l.call.fail("integral size %d is larger than limit of %d", size, maxIntSize)
		}
		return size
	}
	return 0
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

func (l *layout) padding(at int, option byte, size int) int {
	if size == 0 || option == 'c' {
		return 0
	}
	size = min(size, l.align)
	return (size - at&(size-1)) & (size - 1)
}

// control obeys an option that stands for no data.
func (l *layout) control(option byte) {
	switch option {
	case ' ':
	case '>':
		l.big = true
	case '<':
		l.big = false
	case '!':
		l.align = l.number(maxAlign)
		if l.align <= 0 || l.align&(l.align-1) != 0 {
			l.call.fail("alignment %d is not a power of 2", l.align)
		}
	default:
		l.call.argError(1, "invalid format option '"+string([]byte{option})+"'")
	}
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
	for arg := 2; ; {
		option, size, padding := l.next(len(out))
		out = append(out, make([]byte, padding)...)
		switch option {
		case 0:
			return c.push(lua.LString(out))
		case 'x':
			out = append(out, 0)
			continue
		case 'c', 's':
			out = append(out, c.packString(option, size, arg)...)
		case 'b', 'B', 'h', 'H', 'l', 'L', 'T', 'i', 'I', 'f', 'd':
			out = append(out, l.order(packNumber(option, size, c.structNum(arg)))...)
		default:
			l.control(option)
			continue
		}
		arg++
	}
}

// structNum is an argument of pack; the library pads the stack, so an absent one is a nil.
func (c call) structNum(n int) float64 {
	if n > c.GetTop() {
		c.argError(n, "number expected, got nil")
	}
	return c.num(n)
}

func (c call) packString(option byte, size, arg int) string {
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
	if option == 's' {
		return s[:size] + "\x00"
	}
	return s[:size]
}

// packNumber returns the little-endian bytes; integers wrap round silently.
func packNumber(option byte, size int, x float64) []byte {
	switch option {
	case 'f':
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(x)))
	case 'd':
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(x))
	}
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
	results := 0
	for {
		option, size, padding := l.next(at)
		if option == 0 {
			break
		}
		at += padding
		c.inside(data, at, size)
		c.room(2, "stack overflow (too many results)")
		switch option {
		case 'x':
		case 'c':
			if size == 0 {
				size = c.previousSize(results)
				results--
				c.inside(data, at, size)
			}
			results += c.push(lua.LString(data[at : at+size]))
		case 's':
			size = c.zeroTerminated(data[at:])
			results += c.push(lua.LString(data[at : at+size-1]))
		case 'b', 'B', 'h', 'H', 'l', 'L', 'T', 'i', 'I', 'f', 'd':
			results += c.push(lua.LNumber(unpackNumber(option, l.order([]byte(data[at:at+size])))))
		default:
			l.control(option)
		}
		at += size
	}
	return results + c.push(lua.LNumber(at+1))
}

// inside refuses to read beyond the data.
func (c call) inside(data string, at, size int) {
	if at < 0 || size < 0 || size > len(data) || at > len(data)-size {
		c.argError(2, "data string too short")
	}
}

// zeroTerminated is the length of the string that data begins with, its NUL included.
func (c call) zeroTerminated(data string) int {
	i := strings.IndexByte(data, 0)
	if i < 0 {
		c.fail("unfinished string in data")
	}
	return i + 1
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

func unpackNumber(option byte, b []byte) float64 {
	switch option {
	case 'f':
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case 'd':
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	}
	n := uint64(0)
	for i := len(b) - 1; i >= 0; i-- {
		n = n<<8 | uint64(b[i])
	}
	if isUpper(option) {
		return float64(n)
	}
	signs := ^uint64(0) << (uint(len(b)*8-1) % 64)
	if n&signs != 0 {
		n |= signs
	}
	return float64(int64(n))
}

func structSize(c call) int {
	l := newLayout(c)
	at := 0
	for {
		option, size, padding := l.next(at)
		switch {
		case option == 0:
			return c.push(lua.LNumber(at))
		case option == 's':
			c.argError(1, "option 's' has no fixed size")
		case option == 'c' && size == 0:
			c.argError(1, "option 'c0' has no fixed size")
		case !isAlnum(option):
			l.control(option)
		}
		at += padding + size
	}
}
