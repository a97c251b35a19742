package lua51

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// caught makes a fragment of statements that may fail: it replies the texts of their errors.
func caught(statements ...string) string {
	var source strings.Builder
	source.WriteString("local t, n, s, u, out = {x = 1, m = function(self, p) return p end}, 5, 'text', nil, {}\n" +
		"local function id(...) return ... end local function add(p, q) u = u return p + q end\n")
	for _, statement := range statements {
		fmt.Fprintf(&source, "out[#out + 1] = tostring(select(2, pcall(function() %s\nend)))\n", statement)
	}
	return source.String() + "return out"
}

// faithful are fragments of what other interpreters of Lua do not give as Redis does: the texts of errors, the order in
// which arguments are looked at, loops that gopher-lua compiles wrongly.
var faithful = []group{
	{"names of values", []string{
		caught("return n.x.y", "return t.x.y", "return t.y.z", "return t[n].x", "return t['k'].x", "return (t.y).z",
			"return u.x", "local v v.x = 1", "t.y.z = 1", "u.x = 1", "u[1] = 2"),
		caught("n()", "t()", "t.x()", "t.y()", "t[1]()", "u()", "t:y()", "t:x()", "n:x()", "u:x()", "s:nope()",
			"(function() return n end)()()", "t.m(1)()", "('x')()", "redis()", "redis.nope()", "redis.nope.x()", "id(nil)()"),
		caught("return n + t", "return t + n", "return t.y * 2", "return 2 - t.y", "return u / 1", "return -t", "return -u",
			"return -t.y", "return s + 1", "return 1 % u", "return t.x ^ t.y", "return redis + 1", "return {} + 1",
			"return id() + 1", "return nil + 1", "local v = t[n] + 1"),
		caught("return n .. t", "return t .. n", "return 'a' .. u .. 'b'", "return 'a' .. 'b' .. t.y", "return t.y .. 'b'",
			"return n .. id() .. 'x'", "return 'a' .. {} .. 'b'"),
		caught("return #n", "return #u", "return #t.y", "return #t.x", "return #nil", "return #id()"),
		caught("for i = n, u do end", "for i = u, 1 do end", "for i = 1, 2, t do end", "for i = u.x, n.y do end",
			"for k in pairs(u) do end", "for k in id(u) do end", "for k in redis.pcall('GET', 'k') do end"),
		caught("local function f() return f.x.y end f()", "local f = function() return f end f()", "local v = v + 1",
			"local a, b = 1 return b.c", "function t.y.z() end", "function u:z() end", "t.x, n = u.y, 1",
			"t[nil] = 1",
			"t[0/0] = 1", "local v = {[nil] = 1}", "t.x = 1"),
		caught("add(1)", "add(nil, 1)", "return add()", "return pcall(u)"),
		caught("string.rep()", "local r = string.rep r()", "t.r = string.rep t.r()", "return string.rep()", "s.rep()", "id(string.rep)()", "ipairs()", "string.rep(t)",
			"local x = string x.rep(x)"),
		caught("t.f = string.upper t:f()", "t.f = table.concat t.f()", "table.concat(t, t)",
			"for k in string.gmatch() do end", "table.sort({1, 2, 3}, string.rep)",
			"return ('x'):gsub('x', string.rep)"),
		caught("error('one')", "error('two', 2)", "error('three', 3)", "add('x')",
			"local function f() error('f', 2) end f()",
			"local function f() error('f', 3) end local function g() f() end g()",
			"local function f() error('tail', 2) end local function g() return f() end g()",
			"return error('returned', 1)", "return error('returned', 2)", "pcall(function() error('deep', 4) end)"),
	}},
	{"the order of arguments", []string{
		caught("math.fmod()", "math.pow({}, {})",
			"table.concat(nil, {})", "string.gsub('a', 'b', nil, 'x')", "table.sort(redis, 1)", "return table.sort(redis)"),
		caught("return redis.log('10', 'x')", "return redis.log(0/0, 'x')",
			"return coroutine.create < 'x'",
			"return {} < {}", "return table.sort({{}, {}})"),
		caught("return select('#', pcall(error, {}))",
			"return select('#', pcall(error, {err = 1}))", "return pcall(error, {err = 'x'})",
			"return ('a\\0b'):find('\\0')",
			"return ('abc'):gsub('\\0b', 'x')"),
		caught("table.insert(redis, 1)", "table.remove(redis)",
			"t.a, t.b = nil, t.y.z", "for i = 1, u.x do end"),
	}},
	{"loops that begin with a jump", []string{
		`local t, a = {x=1} for k, v in pairs(t) do break end return 1`,
		`local t, a = {x=1} for k, v in pairs(t) do do break end end return 1`,
		`local t, a = {x=1} for k, v in pairs(t) do while true do break end a = k end return a`,
		`local t, a = {x=1} for k, v in pairs(t) do repeat break until true a = k end return a`,
		`local t, a = {x=1} for k, v in pairs(t) do while not not nil do end a = k end return a`,
		`local t, a = {x=1} for k, v in pairs(t) do local x = nil and 1 a = tostring(x) end return a`,
		`local t, a = {x=1} for k, v in pairs(t) do local x = true or 1 a = tostring(x) end return a`,
		`local t, a = {x=1} for k, v in pairs(t) do if true or k then a = 3 end end return a`,
		`local t, a = {x=1} for k, v in pairs(t) do if k or true then a = 3 end end return a`,
		`local t, a = {x=1} for k, v in pairs(t) do if nil or k then a = 3 end end return a`,
		`local t, a = {x=1} for k, v in pairs(t) do if nil or nil then a = 3 end end return a`,
		`local t, a = {x=1} for k, v in pairs(t) do return 5 end return a`,
		`local n, a = 0, 0 while true do if nil then return 3 end n = n + 1 if n > 5 then break end end return n`,
		`local n, a = 0, 0 while n < 3 do if false then return 3 end n = n + 1 if n > 5 then break end end return n`,
		`local n, a = 0, 0 repeat if false then return 3 end n = n + 1 until n > 5 return n`,
		`local n, a = 0, 0 repeat while false do end n = n + 1 until n > 5 return n`,
		`local n, a = 0, 0 while true do while true do n = n + 1 if n > 4 then break end end break end return n`,
		`local n, a = 0, 0 while true do for i = 1, 3 do n = n + 1 end if n > 4 then break end end return n`,
		`return select("#", nil or unpack({1,2})) + select("#", 1 and unpack({1,2}))`,
		`local t, a = {x=1} for k, v in pairs(t) do if nil then error("x") else do local o = t a = 2 end end end return a`,
		`local t, a = {x=1} for k, v in pairs(t) do if nil then error("x") else local o = t a = 2 end end return a`,
		`local t, a = {x=1} for k, v in pairs(t) do if nil then error("x") else a = 2 end end return a`,
		`local t, a = {x=1} for k, v in pairs(t) do if false then error("x") else a = 2 end end return a`,
		`local t, a = {x=1} for k, v in pairs(t) do if 1 == 2 then error("x") else a = 2 end end return a`,
		`local t, a = {x=1} for k, v in pairs(t) do if nil then error("x") end a = 2 end return a`,
		`local t, a = {x=1} for k, v in pairs(t) do if nil then error("x") else tostring(1) a = 2 end end return a`,
		`local t, a = {x=1} for k, v in pairs(t) do if nil then error("x") else do end tostring(1) a = 2 end end return a`,
		`local t, a = {x=1} for k, v in pairs(t) do if nil then error("x") else tostring(1) tostring(t) a = 2 end end return a`,
		`local t, a = {x=1} for k, v in pairs(t) do if nil then error("x") else local a1, a2, a3, a4 = 1, 2, 3, 4 a = 2 end end return a`,
	}},
}

// TestRefused are scripts that end with an *UnsupportedError, which none of them can catch: what Redis makes of them
// cannot be told.
func TestRefused(t *testing.T) {
	const overflow = stackOverflow
	for _, c := range []struct{ source, want string }{
		{`local function f() return 1 + f() end return f()`, overflow},
		{`return pcall(function() local function f() return 1 + f() end return f() end)`, overflow},
		{`local n = 0 local function f() n = n + 1 pcall(f) end f() return n`, overflow},
		{`local function f(a) table.sort({1, 2}, f) end f() return 1`, overflow},
		{`local function f(a) return (("x"):gsub("x", f)) end f() return 1`, overflow},
		{`return coroutine.create(pcall)`, "coroutine.create"},
		{`return pcall(coroutine.wrap, pcall)`, "coroutine.wrap"},
		{`return setmetatable({}, {})`, "setmetatable"},
		{`return pcall(getmetatable, "")`, "getmetatable"},
		{`return math.random()`, "math.random"},
		{`return pcall(math.random, 5)`, "math.random"},
		{`return collectgarbage("count")`, "collectgarbage"},
		{`return gcinfo()`, "gcinfo"},
		{`return table.getn({})`, "table.getn"},
		{`return loadstring("return 1")()`, "loadstring"},
		{`return ("f(a)"):match("%b()")`, "the pattern %b()"},
		{`return ("a"):find("%f")`, "the pattern %f"},
		{`return ("aa"):find("(a)%1")`, "the pattern (a)%1"},
		{`return ("a"):find("a%")`, "the pattern a%"},
		{`return ("a"):find("[a")`, "the error text of a pattern: unexpected EOS at 1"},
		{`return (("a"):rep(32)):find(("a?"):rep(32))`, "the pattern " + strings.Repeat("a?", 32) + " on so long a string"},
		{`return (("a"):rep(2000)):find("a*a*a*b")`, "the pattern a*a*a*b on so long a string"},
		{`return ("a"):find(("()"):rep(33))`, "the pattern " + strings.Repeat("()", 33) + " on so long a string"},
		{`return ("a"):gsub("a", "%")`, "a replacement that ends with %"},
		{`return cjson.decode("[1]")`, "cjson.decode"},
		{`return pcall(cmsgpack.pack, 1)`, "cmsgpack.pack"},
		{`return bit.band(1, 2)`, "bit.band"},
		{`return struct.pack("!4bI4", 1, 2)`, "the format ! of struct"},
		{`return struct.pack("d", 1)`, "the format d of struct"},
		{`return struct.unpack("I9", ("x"):rep(9))`, "the format I of struct"},
		{`return ("%q"):format("x")`, "the format %q"},
		{`return ("%d %123d"):format(1, 1)`, "the format %123d"},
		{`return tonumber("ff", 16)`, "tonumber() to another base"},
		{`return {map = {a = 1}}`, "a reply of RESP3, with a field map"},
		{`redis.call("SELECT", 1)`, "the command SELECT"},
		{`return __redis__err__handler()`, "__redis__err__handler"},
		{`return pcall()`, "pcall() without a function, which Redis lets read beyond its stack"},
		{`return xpcall(error, error)`, "xpcall"},
		{`return ...`, "a chunk in which there is: cannot use '...' outside a vararg function"},
		{`return math.sin(0)`, "math.sin"},
		{`return pcall(math.atan2, 0, 1)`, "math.atan2"},
		{`redis.setresp(3)`, "redis.setresp"},
		{`return string.dump(function() end)`, "string.dump"},
		{`error({})`, "error() with a table without err, which crashes Redis 7.0"},
		{`redis.call("XADD", "k", "*", "a", 1)`, "the command XADD"},
		{`redis.pcall("PFADD", "k", "a")`, "the command PFADD"},
		{`redis.call("LCS", "a", "b")`, "the command LCS"},
		{`redis.call("INCRBYFLOAT", "k", 1)`, "the command INCRBYFLOAT"},
		{`redis.pcall("HINCRBYFLOAT", "k", "f", 1)`, "the command HINCRBYFLOAT"},
		{`redis.call("SET", "k", 1, "PX", 1e15)`, "a TTL of more than 290 years"},
		{`redis.call("PEXPIRE", "k", "9223372036854775807")`, "a TTL of more than 290 years"},
		{`redis.call("SETRANGE", "k", "268435456", "x")`, "strings beyond 256 MB"},
		{`redis.call("SETBIT", "k", "2147483648", 1)`, "strings beyond 256 MB"},
		{`return ("x"):rep(1e9)`, "strings of more than 256 MB"},
		{`local s = "x" while true do s = s .. s end`, "strings of more than 256 MB"},
		{`local s = ("x"):rep(2^24) while true do redis.call("STRLEN", s) end`, "commands of more than 256 MB in one run"},
	} {
		script, err := Compile("refused", c.source)
		if err == nil {
			err = script.Run(Start(t), []string{"k1"}, nil).Err
		}
		var unsupported *UnsupportedError
		if !errors.As(err, &unsupported) || unsupported.What != c.want {
			t.Errorf("%s:\n%v\nwant unsupported: %s", c.source, err, c.want)
		}
	}
}
