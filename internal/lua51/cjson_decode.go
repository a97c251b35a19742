package lua51

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	lua "github.com/yuin/gopher-lua"
)

// jsonToken is one token, by the name that cjson's messages give it; for what is no token the name is
// the complaint.
type jsonToken struct {
	kind   string
	at     int // offset in bytes
	text   string
	number float64
}

const (
	tokenObjectBegin = "T_OBJ_BEGIN"
	tokenObjectEnd   = "T_OBJ_END"
	tokenArrayBegin  = "T_ARR_BEGIN"
	tokenArrayEnd    = "T_ARR_END"
	tokenString      = "T_STRING"
	tokenNumber      = "T_NUMBER"
	tokenBoolean     = "T_BOOLEAN"
	tokenNull        = "T_NULL"
	tokenColon       = "T_COLON"
	tokenComma       = "T_COMMA"
	tokenEnd         = "T_END"
)

type jsonDecoder struct {
	call  call
	null  lua.LValue
	data  string
	at    int
	depth int
}

func (lib *library) cjsonDecode(c call) int {
	if c.GetTop() != 1 {
		c.argError(1, "expected 1 argument")
	}
	d := &jsonDecoder{call: c, null: lib.null, data: c.str(1)}
	if len(d.data) >= 2 && (d.data[0] == 0 || d.data[1] == 0) {
		c.fail("JSON parser does not support UTF-16 or UTF-32")
	}
	v := d.value(d.next())
	if t := d.next(); t.kind != tokenEnd {
		d.fail("the end", t)
	}
	return c.push(v)
}

func (d *jsonDecoder) fail(expected string, t jsonToken) {
	d.call.fail("Expected %s but found %s at character %d", expected, t.kind, t.at+1)
}

func (d *jsonDecoder) value(t jsonToken) lua.LValue {
	switch t.kind {
	case tokenString:
		return lua.LString(t.text)
	case tokenNumber:
		return lua.LNumber(t.number)
	case tokenBoolean:
		return lua.LBool(t.text == "true")
	case tokenNull:
		return d.null
	case tokenObjectBegin:
		return d.nested(d.object)
	case tokenArrayBegin:
		return d.nested(d.array)
	}
	d.fail("value", t)
	return nil
}

func (d *jsonDecoder) nested(decode func() lua.LValue) lua.LValue {
	d.depth++
	defer func() { d.depth-- }()
	if d.depth > maxJSONDepth {
		d.call.fail("Found too many nested data structures (%d) at character %d", d.depth, d.at)
	}
	return decode()
}

func (d *jsonDecoder) object() lua.LValue {
	table := d.call.NewTable()
	d.items(tokenObjectEnd, "comma or object end", func(t jsonToken) {
		if t.kind != tokenString {
			d.fail("object key string", t)
		}
		if colon := d.next(); colon.kind != tokenColon {
			d.fail("colon", colon)
		}
		table.RawSetString(t.text, d.value(d.next()))
	})
	return table
}

func (d *jsonDecoder) array() lua.LValue {
	table := d.call.NewTable()
	d.items(tokenArrayEnd, "comma or array end", func(t jsonToken) { table.Append(d.value(t)) })
	return table
}

// items reads what is separated by commas, up to the end token. decode gets the first token of each item.
func (d *jsonDecoder) items(end, expected string, decode func(first jsonToken)) {
	t := d.next()
	if t.kind == end {
		return
	}
	for {
		decode(t)
		if t = d.next(); t.kind == end {
			return
		}
		if t.kind != tokenComma {
			d.fail(expected, t)
		}
		t = d.next()
	}
}

// next reads a token. A NUL ends the text as its end does.
func (d *jsonDecoder) next() jsonToken {
	for d.peek(0) != 0 && strings.IndexByte(" \t\n\r", d.peek(0)) >= 0 {
		d.at++
	}
	start := d.at
	switch c := d.peek(0); {
	case c == 0:
		return jsonToken{kind: tokenEnd, at: start}
	case strings.IndexByte("{}[]:,", c) >= 0:
		d.at++
		return jsonToken{kind: punctuation(c), at: start}
	case c == '"':
		return d.string()
	case c == '-' || isDigit(c):
		return d.number()
	}
	for word, kind := range map[string]string{
		"true": tokenBoolean, "false": tokenBoolean, "null": tokenNull,
	} {
		if strings.HasPrefix(d.data[start:], word) {
			d.at += len(word)
			return jsonToken{kind: kind, at: start, text: word}
		}
	}
	if d.oddNumber() {
		return d.number()
	}
	return jsonToken{kind: "invalid token", at: start}
}

// peek is the byte so many places on; beyond the end it is NUL.
func (d *jsonDecoder) peek(n int) byte {
	if d.at+n >= len(d.data) {
		return 0
	}
	return d.data[d.at+n]
}

func punctuation(c byte) string {
	return map[byte]string{
		'{': tokenObjectBegin, '}': tokenObjectEnd, '[': tokenArrayBegin, ']': tokenArrayEnd,
		':': tokenColon, ',': tokenComma,
	}[c]
}

// oddNumber reports whether a number that is not JSON begins here: cjson takes a plus, infinities and
// NaN.
func (d *jsonDecoder) oddNumber() bool {
	if d.peek(0) == '+' {
		return true
	}
	word := strings.ToLower(d.data[d.at:min(d.at+3, len(d.data))])
	return word == "inf" || word == "nan"
}

func (d *jsonDecoder) number() jsonToken {
	x, n := strtod(d.data[d.at:])
	t := jsonToken{kind: tokenNumber, at: d.at, number: x}
	if n == 0 {
		t.kind = "invalid number"
	}
	d.at += n
	return t
}

func (d *jsonDecoder) string() jsonToken {
	t := jsonToken{kind: tokenString, at: d.at}
	var out []byte
	for d.at++; d.peek(0) != '"'; {
		complaint := ""
		switch c := d.peek(0); c {
		case 0:
			complaint = "unexpected end of string"
		case '\\':
			out, complaint = d.escape(out)
		default:
			out = append(out, c)
			d.at++
		}
		if complaint != "" {
			return jsonToken{kind: complaint, at: d.at}
		}
	}
	d.at++
	t.text = string(out)
	return t
}

func (d *jsonDecoder) escape(out []byte) ([]byte, string) {
	c := d.peek(1)
	if c == 'u' {
		r, length := d.codePoint()
		if length == 0 {
			return out, "invalid unicode escape code"
		}
		d.at += length
		return utf8.AppendRune(out, r), ""
	}
	i := strings.IndexByte(`btnfr"\/`, c)
	if c == 0 || i < 0 {
		return out, "invalid escape code"
	}
	d.at += 2
	return append(out, "\b\t\n\f\r\"\\/"[i]), ""
}

// codePoint reads \uXXXX or a pair of surrogates: the code point and how many bytes that were, 0 when it
// is malformed.
func (d *jsonDecoder) codePoint() (rune, int) {
	r, ok := d.hex4(2)
	if !ok || r&0xfc00 == 0xdc00 {
		return 0, 0
	}
	if r&0xfc00 != 0xd800 {
		return r, 6
	}
	if d.peek(6) != '\\' || d.peek(7) != 'u' {
		return 0, 0
	}
	low, ok := d.hex4(8)
	if !ok || low&0xfc00 != 0xdc00 {
		return 0, 0
	}
	return (r&0x3ff)<<10 | low&0x3ff + 0x10000, 12
}

func (d *jsonDecoder) hex4(n int) (rune, bool) {
	if d.at+n+4 > len(d.data) {
		return 0, false
	}
	digits := d.data[d.at+n : d.at+n+4]
	if !isHexDigit(digits[0]) { // no sign
		return 0, false
	}
	r, err := strconv.ParseUint(digits, 16, 16)
	return rune(r), err == nil && r <= math.MaxUint16
}
