package lua51

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// directive is an item of string.format: flags, width, precision and verb. Others are refused.
var directive = regexp.MustCompile(`^%([-+ 0]{0,4})(\d{0,2})(\.\d{0,2})?([disfegxX])`)

func stringFormat(c call) int {
	format := c.str(1)
	var out bytes.Buffer
	for arg := 2; ; {
		before, after, found := strings.Cut(format, "%")
		out.WriteString(before)
		if !found {
			return c.push(lua.LString(out.String()))
		}
		if format = strings.TrimPrefix(after, "%"); len(format) < len(after) {
			out.WriteByte('%')
			continue
		}
		if arg > c.GetTop() {
			c.argError(arg, "no value")
		}
		item := directive.FindStringSubmatch("%" + after)
		if item == nil {
			c.unsupported("the format %" + after)
		}
		format = after[len(item[0])-1:]
		out.WriteString(c.formatted(item, arg))
		arg++
	}
}

// formatted is an argument as an item formats it.
func (c call) formatted(item []string, arg int) string {
	all, flags, precision := item[0], item[1], item[3]
	sign := "" // of what is not negative
	if strings.Contains(flags, "+") {
		sign = "+"
	} else if strings.Contains(flags, " ") {
		sign = " "
	}
	switch item[4] {
	case "s":
		return formatString(c.str(arg), flags, item[2], precision)
	case "d", "i":
		n := toInt64(c.num(arg))
		if n == 0 && strings.Trim(precision, "0") == "." { // nothing of it is left, and to Go no sign
			return formatString(sign, flags, item[2], "")
		}
		return fmt.Sprintf(all[:len(all)-1]+"d", n)
	case "x", "X":
		flags = strings.NewReplacer("+", "", " ", "").Replace(flags)
		return fmt.Sprintf("%"+flags+item[2]+precision+item[4], toUint64(c.num(arg)))
	}
	x := c.num(arg)
	if text, special := formatSpecial(x); special {
		if !math.Signbit(x) {
			text = sign + text
		}
		return formatString(text, flags, item[2], "")
	}
	if precision == "" { // to Go a %g without one is as long as it takes
		all = all[:len(all)-1] + ".6" + item[4]
	}
	return fmt.Sprintf(all, x)
}

// formatString is sprintf's %s, which stops at a NUL; long strings Lua takes whole.
func formatString(s, flags, width, precision string) string {
	if precision == "" && len(s) >= 100 {
		return s
	}
	s = cString(s)
	if most, err := strconv.Atoi("0" + strings.TrimPrefix(precision, ".")); precision != "" && err == nil {
		s = s[:min(most, len(s))]
	}
	n, _ := strconv.Atoi("0" + width)
	fill := strings.Repeat(" ", max(n-len(s), 0))
	if strings.Contains(flags, "-") {
		return s + fill
	}
	return fill + s
}
