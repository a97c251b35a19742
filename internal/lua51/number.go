package lua51

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// formatNumber writes a number as Lua 5.1 does wherever it makes a string of one: "%.14g".
func formatNumber(x float64) string {
	if i := int64(x); float64(i) == x && i > -1e14 && i < 1e14 && !(i == 0 && math.Signbit(x)) {
		return strconv.FormatInt(i, 10)
	}
	return formatG(x, 14)
}

// formatG is C's "%.<digits>g".
func formatG(x float64, digits int) string {
	if s, special := formatSpecial(x); special {
		return s
	}
	return strconv.FormatFloat(x, 'g', digits, 64)
}

// formatSpecial is how C prints what is not a finite number; the sign of a NaN shows.
func formatSpecial(x float64) (string, bool) {
	s := "inf"
	switch {
	case math.IsNaN(x):
		s = "nan"
	case !math.IsInf(x, 0):
		return "", false
	}
	if math.Signbit(x) {
		s = "-" + s
	}
	return s, true
}

// ParseNumber reads a number as Lua 5.1 does: strtod over all of the string, which ends at its first
// NUL and may have white space around.
func ParseNumber(s string) (float64, bool) {
	if x, ok := parseDigits(s); ok {
		return x, true
	}
	if i := strings.IndexByte(s, 0); i >= 0 {
		s = s[:i]
	}
	s = strings.TrimLeft(s, spaces)
	x, n := strtod(s)
	if n == 0 || strings.TrimLeft(s[n:], spaces) != "" {
		return 0, false
	}
	return x, true
}

// spaces are the characters that C's isspace knows.
const spaces = " \t\n\v\f\r"

// parseDigits is the short way for what is nearly always there: a few decimal digits.
func parseDigits(s string) (float64, bool) {
	if len(s) == 0 || len(s) > 15 {
		return 0, false
	}
	n := int64(0)
	for i := range len(s) {
		if !isDigit(s[i]) {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return float64(n), true
}

// strtod reads the longest number that s begins with, and says how many bytes it has: 0 for none.
func strtod(s string) (float64, int) {
	sign := 0
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign = 1
	}
	n, text := scanMagnitude(s[sign:])
	if n == 0 {
		return 0, 0
	}
	x, _ := strconv.ParseFloat(text, 64) // out of range it is 0 or infinite, as strtod has it
	if s[0] == '-' {
		x = math.Copysign(x, -1)
	}
	return x, sign + n
}

// magnitude matches an unsigned number as C's strtod reads it: the longest one that a text begins with.
var magnitude = regexp.MustCompile(`(?i)^(?:inf(?:inity)?|nan(?:\(\w*\))?|` +
	`0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?\d+)?|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)`)

// scanMagnitude finds an unsigned number at the start of s: its length and how Go spells it.
func scanMagnitude(s string) (int, string) {
	found := magnitude.FindString(s)
	switch lower := strings.ToLower(found); {
	case strings.HasPrefix(lower, "inf"):
		return len(found), "inf"
	case strings.HasPrefix(lower, "nan"):
		return len(found), "nan"
	case strings.HasPrefix(lower, "0x") && !strings.Contains(lower, "p"):
		return len(found), lower + "p0" // Go demands an exponent
	}
	return len(found), found
}

// cString is what C sees of s: all before its first NUL.
func cString(s string) string {
	if i := strings.IndexByte(s, 0); i >= 0 {
		return s[:i]
	}
	return s
}

// toInt64 is C's conversion on the machines Redis runs on: toward zero, and the smallest integer for
// all that does not fit.
func toInt64(x float64) int64 {
	if x >= -(1<<63) && x < 1<<63 {
		return int64(x)
	}
	return math.MinInt64
}

// toInt32 is the same for int.
func toInt32(x float64) int32 {
	if x > math.MinInt32-1 && x < math.MaxInt32+1 {
		return int32(x)
	}
	return math.MinInt32
}

// toUint64 is the same for unsigned long.
func toUint64(x float64) uint64 {
	if x >= 1<<63 {
		return uint64(toInt64(x-(1<<63))) ^ 1<<63
	}
	return uint64(toInt64(x))
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
