package lua51

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFacts are the differences that this package is for, with what Redis 7.0.15 replies. They hold without a server;
// TestAgainstRedis holds many more against one.
func TestFacts(t *testing.T) {
	const tail = " script: %s, on @user_script:1."
	for _, c := range []struct {
		source string
		want   any
	}{
		{`return 1732100000123456 .. ""`, "1.7321000001235e+15"},
		{`return tostring(1732100000123456)`, "1.7321000001235e+15"},
		{`return string.format("%s", 1732100000123456)`, "1.7321000001235e+15"},
		{`return table.concat({1732100000123456})`, "1.7321000001235e+15"},
		{`return string.format("%.0f", 1732100000123456)`, "1732100000123456"},
		{`return 1732100000123456`, int64(1732100000123456)},
		{`redis.call("SET", KEYS[1], 1732100000123456) return redis.call("GET", KEYS[1])`, "1732100000123456"},
		{`return {3.99, -3.99, true, false, 0/0, 1, nil, 2}`,
			[]any{int64(3), int64(-3), int64(1), nil, int64(-1 << 63), int64(1)}},
		{`return {tonumber("1e3"), tonumber("0x10"), tonumber(" 7 "), "0x10" + "1e1"}`,
			[]any{int64(1000), int64(16), int64(7), int64(26)}},
		{`return {tostring(tonumber("nan")), tostring(tonumber("-inf")), tostring(tonumber(""))}`,
			[]any{"nan", "-inf", "nil"}},
		{`return {ok = "FINE"}`, Status("FINE")},
		{`return {1, {err = "BAD x"}}`, []any{int64(1), ErrorReply("BAD x")}},
		{`return redis.error_reply("BADARG limit: want 1..10000")`, ErrorReply("BADARG limit: want 1..10000")},
		{`error("boom")`, ErrorReply("ERR user_script:1: boom" + tail)},
		{`x = 1`, ErrorReply("ERR user_script:1: Attempt to modify a readonly table" + tail)},
		{`return x`, ErrorReply("ERR user_script:1: Script attempted to access nonexistent global variable 'x'" + tail)},
		{`return redis.call("nope")`, ErrorReply("ERR Unknown Redis command called from script" + tail)},
		{`return redis.pcall("nope")`, ErrorReply("ERR Unknown Redis command called from script")},
		{`local t = {} for i = 1, 8000 do t[i] = i end return unpack(t)`,
			ErrorReply("ERR user_script:1: too many results to unpack" + tail)},
		{`return struct.pack(">I4I2", 2^32 + 1, 7)`, "\x00\x00\x00\x01\x00\x07"},
		{`local x = 1 local f = function() x = x + 1 end pcall(error) f() return x`, int64(2)},
	} {
		want := c.want
		if text, ok := want.(ErrorReply); ok {
			want = ErrorReply(strings.ReplaceAll(string(text), "%s", compiled(t, c.source).SHA1))
		}
		if diff := cmp.Diff(want, evaluate(t, Start(t), c.source)); diff != "" {
			t.Errorf("%s\n(-want +got)\n%s", c.source, diff)
		}
	}
}

// TestSyntax are chunks that Compile refuses, each for a reason of its own.
func TestSyntax(t *testing.T) {
	for source, want := range map[string]string{
		"#!lua\nreturn 1":         "scripttest does not emulate a first line that begins with #",
		"x = = 1":                 "ERR Error compiling script (new function): user_script line:1(column:5) near '=': syntax error",
		"local a\ngoto a\n::a::":  "ERR Error compiling script (new function): user_script:3: goto and labels are not Lua 5.1",
		"return tostring\n(1)":    "ERR Error compiling script (new function): user_script:2: ambiguous syntax (function call x new statement) near '('",
		"break":                   "ERR Error compiling script (new function): user_script:1: no loop to break",
		"local s = 'unterminated": "ERR Error compiling script (new function): user_script at EOF: unterminated string",
	} {
		if _, err := Compile("syntax", source); err == nil || err.Error() != want {
			t.Errorf("Compile(%q) = %v\nwant %s", source, err, want)
		}
	}
}
