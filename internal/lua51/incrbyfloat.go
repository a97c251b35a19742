package lua51

import (
	"math/big"
	"strings"
)

// Redis adds in C's long double: 64 bits of mantissa, and exponents up to 2^14.
const (
	longMantissa = 64
	longExponent = 1 << 14
	longDigits   = 17 // behind the point
)

// increment answers INCRBYFLOAT and HINCRBYFLOAT, which miniredis rounds otherwise.
func (c *client) increment(words []string) any {
	last := len(words) - 1
	get, set, notStored := []string{"GET", words[1]}, []string{"SET", words[1], "", "KEEPTTL"}, ErrorReply(notAFloat)
	if last == 3 {
		get, set, notStored = []string{"HGET", words[1], words[2]}, []string{"HSET", words[1], words[2], ""},
			"ERR hash value is not a float"
	}
	by, okBy := parseLong(words[last])
	if last == 3 && !okBy {
		return ErrorReply(notAFloat)
	}
	if last == 3 && by.IsInf() {
		return ErrorReply("ERR value is NaN or Infinity")
	}
	stored, ok := big.NewFloat(0), true
	switch reply := c.dispatch(get).(type) {
	case ErrorReply:
		return reply
	case string:
		stored, ok = parseLong(reply)
	}
	switch {
	case !ok:
		return notStored
	case !okBy:
		return ErrorReply(notAFloat)
	case stored.IsInf() || by.IsInf():
		return ErrorReply("ERR increment would produce NaN or Infinity")
	}
	sum := new(big.Float).SetPrec(longMantissa).Add(stored, by)
	set[len(get)] = formatLong(sum)
	c.dispatch(set)
	return set[len(get)]
}

// parseLong reads all of a string as C's strtold does, but for white space and NaN.
func parseLong(s string) (*big.Float, bool) {
	negative := strings.HasPrefix(s, "-")
	if negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	n, text := scanMagnitude(s)
	if n == 0 || n != len(s) || text == "nan" {
		return nil, false
	}
	base := 10
	if strings.HasPrefix(strings.ToLower(text), "0x") {
		base = 0
	}
	x, _, err := new(big.Float).SetPrec(longMantissa).Parse(text, base)
	if err != nil || x.MantExp(nil) > longExponent || x.MantExp(nil) < -longExponent {
		return nil, false
	}
	if negative {
		x.Neg(x)
	}
	return x, true
}

// formatLong writes a number without exponent and without zeros at its end.
func formatLong(x *big.Float) string {
	text := strings.TrimRight(strings.TrimRight(x.Text('f', longDigits), "0"), ".")
	if text == "-0" {
		return "0"
	}
	return text
}
