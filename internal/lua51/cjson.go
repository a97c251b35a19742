package lua51

import (
	"fmt"
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

const (
	maxJSONDepth  = 1000
	sparseRatio   = 2  // an array may have this many times as many places as values,
	sparseAllowed = 10 // and always this many places
)

func (lib *library) cjsonFunctions() map[string]function {
	functions := refusedAll("cjson", "new", "encode_sparse_array", "encode_max_depth", "decode_max_depth",
		"encode_number_precision", "encode_keep_buffer", "encode_invalid_numbers", "decode_invalid_numbers")
	functions["encode"], functions["decode"] = lib.cjsonEncode, lib.cjsonDecode
	return functions
}

type jsonEncoder struct {
	call call
	null lua.LValue
	out  strings.Builder
}

func (lib *library) cjsonEncode(c call) int {
	if c.GetTop() != 1 {
		c.argError(1, "expected 1 argument")
	}
	e := &jsonEncoder{call: c, null: lib.null}
	e.value(c.Get(1), 0)
	return c.push(lua.LString(e.out.String()))
}

func (e *jsonEncoder) value(v lua.LValue, depth int) {
	switch v := v.(type) {
	case lua.LString:
		e.string(string(v))
	case lua.LNumber:
		e.number(v)
	case lua.LBool:
		fmt.Fprint(&e.out, bool(v))
	case *lua.LTable:
		e.table(unprotected(v), depth+1)
	default:
		if v != lua.LNil && v != e.null {
			e.fail(v, "type not supported")
		}
		e.out.WriteString("null")
	}
}

func (e *jsonEncoder) fail(v lua.LValue, reason string) {
	e.call.fail("Cannot serialise %s: %s", v.Type(), reason)
}

// number writes 14 digits: times in microseconds lose theirs.
func (e *jsonEncoder) number(v lua.LNumber) {
	x := float64(v)
	if math.IsNaN(x) || math.IsInf(x, 0) {
		e.fail(v, "must not be NaN or Inf")
	}
	e.out.WriteString(formatNumber(x))
}

func (e *jsonEncoder) string(s string) {
	e.out.WriteByte('"')
	for i := range len(s) {
		if escaped, ok := jsonEscape(s[i]); ok {
			e.out.WriteString(escaped)
		} else {
			e.out.WriteByte(s[i])
		}
	}
	e.out.WriteByte('"')
}

func jsonEscape(c byte) (string, bool) {
	if i := strings.IndexByte("\b\t\n\f\r\"\\/", c); i >= 0 {
		return `\` + `btnfr"\/`[i:i+1], true
	}
	if isControl(c) {
		return fmt.Sprintf(`\u%04x`, c), true
	}
	return "", false
}

func (e *jsonEncoder) table(t *lua.LTable, depth int) {
	if depth > maxJSONDepth {
		e.call.fail("Cannot serialise, excessive nesting (%d)", depth)
	}
	if n := e.arrayLength(t); n > 0 {
		e.array(t, n, depth)
		return
	}
	e.object(t, depth)
}

// arrayLength is the largest index of a table that has indices only, else 0. It is kept as a C int, which
// an index that does not fit makes the smallest there is.
func (e *jsonEncoder) arrayLength(t *lua.LTable) int {
	largest, items := int32(0), 0
	for k := range entries(t) {
		n, ok := k.(lua.LNumber)
		if !ok || n < 1 || math.Floor(float64(n)) != float64(n) {
			return 0
		}
		if n > lua.LNumber(largest) {
			largest = toInt32(float64(n))
		}
		items++
	}
	if int(largest) > items*sparseRatio && largest > sparseAllowed {
		e.fail(t, "excessively sparse array")
	}
	return int(largest)
}

func (e *jsonEncoder) array(t *lua.LTable, n, depth int) {
	separator := "["
	for i := 1; i <= n; i++ {
		e.out.WriteString(separator)
		e.value(t.RawGet(lua.LNumber(i)), depth)
		separator = ","
	}
	e.out.WriteByte(']')
}

func (e *jsonEncoder) object(t *lua.LTable, depth int) {
	separator := ""
	e.out.WriteByte('{')
	for k, v := range entries(t) {
		e.out.WriteString(separator)
		e.key(k)
		e.out.WriteByte(':')
		e.value(v, depth)
		separator = ","
	}
	e.out.WriteByte('}')
}

func (e *jsonEncoder) key(k lua.LValue) {
	switch k := k.(type) {
	case lua.LString:
		e.string(string(k))
	case lua.LNumber:
		e.out.WriteByte('"')
		e.number(k)
		e.out.WriteByte('"')
	default:
		e.fail(k, "table key must be a number or string")
	}
}
