package lua51

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// directive is one %-item of string.format.
type directive struct {
	flags     string // of "-+ #0"
	width     int
	precision int // -1: none
	verb      byte
}

func stringFormat(c call) int {
	format := c.str(1)
	var out bytes.Buffer
	arg := 1
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			out.WriteByte(format[i])
			continue
		}
		i++
		if i < len(format) && format[i] == '%' {
			out.WriteByte('%')
			continue
		}
		arg++
		if arg > c.GetTop() {
			c.argError(arg, "no value")
		}
		d, n := c.parseDirective(format[i:])
		i += n
		d.verb = 0
		if i < len(format) {
			d.verb = format[i]
		}
		out.WriteString(c.formatArg(d, arg))
	}
	return c.push(lua.LString(out.String()))
}

// parseDirective reads flags, width and precision, and returns how many bytes they have.
func (c call) parseDirective(s string) (directive, int) {
	i := len(s) - len(strings.TrimLeft(s, "-+ #0"))
	d := directive{flags: s[:i], precision: -1}
	if i > 5 {
		c.fail("invalid format (repeated flags)")
	}
	var n int
	d.width, n = twoDigits(s[i:])
	i += n
	if i < len(s) && s[i] == '.' {
		i++
		d.precision, n = twoDigits(s[i:])
		i += n
	}
	if i < len(s) && isDigit(s[i]) {
		c.fail("invalid format (width or precision too long)")
	}
	return d, i
}

func (d directive) has(flag string) bool { return strings.Contains(d.flags, flag) }

func twoDigits(s string) (value, length int) {
	for length < len(s) && length < 2 && isDigit(s[length]) {
		value = value*10 + int(s[length]-'0')
		length++
	}
	return value, length
}

func (c call) formatArg(d directive, arg int) string {
	switch d.verb {
	case 'c':
		return cString(d.pad(string([]byte{byte(toInt32(c.num(arg)))})))
	case 'd', 'i':
		return d.integer(toInt64(c.num(arg)))
	case 'o', 'u', 'x', 'X':
		return d.unsigned(toUint64(c.num(arg)))
	case 'e', 'E', 'f', 'g', 'G':
		return d.float(c.num(arg))
	case 'q':
		return quotedLua(c.str(arg))
	case 's':
		return d.string(c.str(arg))
	}
	option := ""
	if d.verb != 0 {
		option = string(rune(d.verb))
	}
	c.fail("invalid option '%%%s' to 'format'", option)
	return ""
}

// string formats as sprintf's %s, which stops at a NUL; long strings Lua takes whole.
func (d directive) string(s string) string {
	if d.precision < 0 && len(s) >= 100 {
		return s
	}
	s = cString(s)
	if d.precision >= 0 && d.precision < len(s) {
		s = s[:d.precision]
	}
	return d.pad(s)
}

func (d directive) integer(n int64) string {
	digits := strconv.FormatInt(n, 10)
	digits, negative := strings.CutPrefix(digits, "-")
	return d.number(d.sign(negative), d.atLeast(digits))
}

func (d directive) unsigned(n uint64) string {
	switch d.verb {
	case 'o':
		digits := d.atLeast(strconv.FormatUint(n, 8))
		if d.has("#") && !strings.HasPrefix(digits, "0") {
			digits = "0" + digits
		}
		return d.number("", digits)
	case 'u':
		return d.number("", d.atLeast(strconv.FormatUint(n, 10)))
	}
	prefix := ""
	if d.has("#") && n != 0 {
		prefix = "0x"
	}
	s := d.number(prefix, d.atLeast(strconv.FormatUint(n, 16)))
	if d.verb == 'X' {
		return strings.ToUpper(s)
	}
	return s
}

// atLeast fills an integer's digits up to the precision; a precision of 0 leaves nothing of a zero.
func (d directive) atLeast(digits string) string {
	if d.precision == 0 && digits == "0" {
		return ""
	}
	return strings.Repeat("0", max(d.precision-len(digits), 0)) + digits
}

// float leaves finite numbers to Go, which formats them as C does.
func (d directive) float(x float64) string {
	if text, special := formatSpecial(math.Abs(x)); special {
		text = d.pad(d.sign(math.Signbit(x)) + text)
		if isUpper(d.verb) {
			return strings.ToUpper(text)
		}
		return text
	}
	precision := d.precision
	if precision < 0 {
		precision = 6
	}
	return fmt.Sprintf("%"+d.flags+"*.*"+string(d.verb), d.width, precision, x)
}

func (d directive) sign(negative bool) string {
	switch {
	case negative:
		return "-"
	case d.has("+"):
		return "+"
	case d.has(" "):
		return " "
	}
	return ""
}

// number puts sign and digits into the width; zeros go between the two.
func (d directive) number(sign, digits string) string {
	if d.has("0") && !d.has("-") && d.precision < 0 {
		return sign + strings.Repeat("0", max(d.width-len(sign)-len(digits), 0)) + digits
	}
	return d.pad(sign + digits)
}

func (d directive) pad(s string) string {
	fill := strings.Repeat(" ", max(d.width-len(s), 0))
	if d.has("-") {
		return s + fill
	}
	return fill + s
}

// quotedLua is %q: a string that Lua reads back.
func quotedLua(s string) string {
	var out strings.Builder
	out.WriteByte('"')
	for i := range len(s) {
		switch s[i] {
		case '"', '\\', '\n':
			fmt.Fprintf(&out, "\\%c", s[i])
		case '\r':
			out.WriteString("\\r")
		case 0:
			out.WriteString("\\000")
		default:
			out.WriteByte(s[i])
		}
	}
	out.WriteByte('"')
	return out.String()
}
