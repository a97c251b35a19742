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

// shown makes a fragment that replies how tables look after each of some statements: entries in the order of pairs, #,
// getn, maxn.
func shown(statements ...string) string {
	return `local out = {}
local function none() end
local function many() return 7, nil, 8, nil end
local function show(t)
	local words = {}
	for k, v in pairs(t) do words[#words + 1] = tostring(k) .. "=" .. tostring(v) end
	out[#out + 1] = table.concat(words, " ") .. " #" .. #t .. " " .. table.getn(t) .. " " .. table.maxn(t)
end
local t
` + strings.Join(statements, " show(t)\n") + " show(t) return out"
}

// faithful are fragments of what other interpreters of Lua do not give as Redis does: names and lines in the texts of
// errors, the order of tables, the order in which arguments are looked at.
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
			"t[0/0] = 1", "local v = {[nil] = 1}", "rawset(t, nil, 1)"),
		caught("add(1)", "add(nil, 1)", "return add()", "return pcall(u)",
			"local a = setmetatable({}, {__index = function(self, k) return k.x.y end}) return a.b",
			"local a = setmetatable({}, {__add = function(p, q) return q.x end}) return 1 + a, a + nil"),
		caught("string.rep()", "local r = string.rep r()", "t.r = string.rep t.r()", "return string.rep()", "('x'):rep()",
			"('x'):rep({})", "s.rep()", "s:rep(1, 2):rep()", "id(string.rep)()", "ipairs()", "string.rep(t)",
			"local x = string x.rep('x', {})"),
		caught("t.f = string.upper t:f()", "t.f = table.concat t.f()", "table.concat(t, t)", "setmetatable(t, 1)",
			"for k in string.gmatch() do end", "table.sort({1, 2, 3}, string.rep)", "xpcall(string.rep, error)",
			"return ('x'):gsub('x', string.rep)"),
		caught("error('one')", "error('two', 2)", "error('three', 3)", "add('x')",
			"local function f() error('f', 2) end f()",
			"local function f() error('f', 3) end local function g() f() end g()",
			"local function f() error('tail', 2) end local function g() return f() end g()",
			"return error('returned', 1)", "return error('returned', 2)", "pcall(function() error('deep', 4) end)"),
	}},
	{"lines of errors", []string{
		"local t = {}\nlocal x = t.y\n.z\nreturn x", "local t = {}\nlocal x = t.y.z\n+ 1\nreturn x",
		"local t = {}\nlocal x = 1 +\nt\n.y", "local t = {}\nlocal x = (t.y\n).z",
		"local t = {}\nlocal x = (t\n.y) + 1", "local t = {}\nreturn id(t.y.z,\n1)", "local t = {}\nreturn {t.y.z,\n1}",
		"local t = {}\nreturn {1,\nt.y.z\n}", "local t = {}\nreturn {a =\nt.y.z\n, 1}",
		"local t = {}\nreturn tostring(1,\nt.y.z\n)", "local t = {}\nt.y.z\n= 1",
		"local t = {}\nt.y\n.z = tostring(\n1)", "local t = {}\nlocal x = -\nt\n", "local t = {}\nlocal x = t <\n1",
		"local t = {}\nlocal x = t ..\n'a' ..\n'b'", "local t = {}\nlocal x = #\nt.y\n",
		"local t = {}\nif t.y.z\nthen end", "local t = {}\nwhile 1 <\nt.y.z do\nend",
		"local t = {}\nfor i = 1,\nt do\nend", "local t = {}\nfor i = 1,\n2,\nt\ndo end",
		"local t = {}\nfor i in\nt.y.z\ndo end", "local t = {}\nfor i in\nt:x()\ndo end", "local t = {}\nt:\nx(\n1)",
		"local t = {}\nt.x(\n1,\n2)", "local t = {}\nt.x\n{1}", "local t = {}\nt.x[[a\nb]]", "undefined\n.x = 1",
		"return undefined\n+ 1", "return 1 + undefined\n", "local a, b =\nundefined,\n1", "created = tostring(\n1)",
		"function created(\n)\nend", "function redis.x(\n)\nend", "local t = {}\nt.a, t.b.c = 1,\n2",
		"local s = [[a\nb]] + 1", "local s = 1 + [[a\nb]]", "local t = {}\nreturn t.y.z and\n1",
		"local t = {}\nreturn 1 and\nt.y.z\n", "return tostring(1)\n(2)", "local f = tostring\n(f)(1)",
		"local f = tostring\nf\n(1)", "local x = 'a'\n(tostring)(1)", "local x\n(tostring or x)(1)",
		"return ('a'):rep\n(2)",
	}},
	{"the order of tables", []string{
		shown(`t = {a = 1, b = 2, c = 3, d = 4, e = 5}`, `t.f = 6 t.g = 7 t.h = 8`, `t.a = nil t.c = nil`, `t.i = 9`,
			`t[1] = "one" t[2] = "two"`),
		shown(`t = {limit = 10, window = 60, rate = 5, interval = 1000, scope = 0}`, `t.burst = 1`,
			`t.now = 2 t.wait = 3 t.granted = 4 t.remaining = 5 t.reset_after = 6`),
		shown(`t = {}`, `t.x = 1`, `t.y = 2`, `t.z = 3`, `t[true] = 4 t[false] = 5`,
			`t[0.5] = 6 t[-1] = 7 t[2^40] = 8 t[1e300] = 9 t[1/0] = 10`, `t[0] = 11`, `t[cjson.null] = 12`),
		shown(`t = {1, 2, 3, nil, 5}`, `t[2] = nil`, `t[6] = 6`, `t[3] = nil t[1] = nil`, `t[7] = 7 t[8] = 8 t[9] = 9`),
		shown(`t = {nil, nil, 3}`, `t = {1, nil, 3}`, `t = {1, 2, 3, nil}`, `t = {nil, 2}`, `t = {n = nil, 1, nil, 3}`,
			`t = {many()}`, `t = {(many())}`, `t = {many(), many()}`, `t = {none()}`, `t = {1, none()}`,
			`t = {x = 1, many()}`,
			`t = {[3] = 3, 1, [2] = "lost", 2}`),
		shown(`t = {} for i = 10, 1, -1 do t[i] = i end`, `for i = 2, 10, 2 do t[i] = nil end`, `t[11] = 11 t[12] = 12`,
			`table.insert(t, 13)`, `table.insert(t, 1, 0)`, `table.remove(t)`, `table.remove(t, 2)`),
		shown(`t = {3, 1, 2} table.sort(t)`, `t[5] = 5 rawset(t, 4, 4)`, `rawset(t, 100, 1)`, `t.x, t.y, t[6] = 1, 2, 3`,
			`function t.f1() end t.f1 = 1`, `t[("long"):rep(20)] = 1 t[("longer"):rep(30)] = 2`),
		shown(`t = {} for i = 1, 40 do t["k" .. i] = i end`, `for i = 1, 40, 3 do t["k" .. i] = nil end`,
			`for i = 41, 60 do t["k" .. i] = i end`),
		shown(`t = cjson.decode('{"b":1,"a":2,"limit":3,"window":4,"x":{"q":1}}') t.x = nil`,
			`t = cjson.decode('[1,2,null,4]')`, `t = cmsgpack.unpack(cmsgpack.pack({a = 1, b = 2, [10] = 3}))`,
			`t = KEYS`,
			`t = ARGV t[3] = nil`, `t[2] = nil`, `t = redis.call("TIME") t = {}`),
		shown(`redis.call("RPUSH", "k1", 1, 2, 3, 4, 5) t = redis.call("LRANGE", "k1", 0, -1)`, `t[3] = nil`, `t[5] = nil`,
			`t = redis.pcall("nope") t.ignore_error_stats_update = nil`, `t = (function(...) return arg end)(1, nil, 3) `),
		`return {cjson.encode({a = 1, b = {c = 2, d = 3, e = 4}, limit = 5, [1.5] = 6}), cmsgpack.pack({a = 1, b = 2, c = 3}), cjson.encode({[3] = 3, [1] = 1, x = 2})}`,
		`return {map = {a = 1, b = 2, c = 3, limit = 4}}`,
		`return {set = {a = true, b = true, c = true, limit = true}}`,
		`local out = {} for _, lib in ipairs{"_G", "string", "table", "math", "coroutine", "bit", "struct", "cjson", "cmsgpack", "redis"} do for k, v in pairs(_G[lib]) do out[#out + 1] = lib .. "." .. k .. ":" .. type(v) end end return out`,
		`return {#setmetatable({1, 2}, {__len = function() return 7 end}), select("#", unpack({1, nil, 3})), table.concat({1, 2, nil, 4}, ",", 1, 2), type(getmetatable(_G).__index)}`,
		`return {pcall(next, {}, "x")}`,
		`local t = {a = 1, b = 2, c = 3} for k in pairs(t) do t[k] = nil end return tostring(next(t))`,
		`local out = {} table.foreach({a = 1, b = 2, c = 3, d = 4}, function(k, v) out[#out + 1] = k .. v end) return out`,
	}},
	{"the order of arguments", []string{
		caught("math.fmod()", "math.pow({}, {})", "math.ldexp()", "bit.band(1, {}, true)", "bit.bor(1, 2, 3, {}, true)",
			"table.concat(nil, {})", "string.gsub('a', 'b', nil, 'x')", "load(1, {})", "cmsgpack.unpack_limit({})",
			"cmsgpack.unpack_one({}, {})", "collectgarbage('no', {})", "table.sort(redis, 1)", "return table.sort(redis)"),
		caught("return redis.log('10', 'x')", "return redis.log(0/0, 'x')", "return redis.set_repl('x')",
			"return redis.setresp('x')", "return redis.acl_check_cmd({})", "return coroutine.create < 'x'",
			"return {} < {}", "return table.sort({{}, {}})",
			"return 1 + setmetatable({}, {__add = function() return 6 end})",
			"return nil + setmetatable({}, {__add = function() return 6 end})"),
		caught("return xpcall(nil, nil)", "return xpcall(error, {})", "return select('#', pcall(error, {}))",
			"return select('#', pcall(error, {err = 1}))", "return pcall(error, {err = 'x'})",
			"return load(function() error('cb') end)", "return load(function() return {} end)",
			"return ('a\\0b'):find('\\0')",
			"return ('abc'):gsub('\\0b', 'x')"),
		caught("error(cjson.null)", "return tostring(cjson.null)", "table.insert(redis, 1)", "table.remove(redis)",
			"t.a, t.b = nil, t.y.z", "for i = 1, u.x do end"),
	}},
	{"loops that begin with a jump", []string{
		`local t, a = {x=1} for k, v in pairs(t) do break end return 1`,
		`local t, a = {x=1} for k, v in pairs(t) do do break end end return 1`,
		`local t, a = {x=1, y = 2} for k, v in pairs(t) do while true do break end a = k end return a`,
		`local t, a = {x=1, y = 2} for k, v in pairs(t) do repeat break until true a = k end return a`,
		`local t, a = {x=1, y = 2} for k, v in pairs(t) do while not not nil do end a = k end return a`,
		`local t, a = {x=1, y = 2} for k, v in pairs(t) do local x = nil and 1 a = tostring(x) end return a`,
		`local t, a = {x=1, y = 2} for k, v in pairs(t) do local x = true or 1 a = tostring(x) end return a`,
		`local t, a = {x=1, y = 2} for k, v in pairs(t) do if true or k then a = 3 end end return a`,
		`local t, a = {x=1, y = 2} for k, v in pairs(t) do if k or true then a = 3 end end return a`,
		`local t, a = {x=1, y = 2} for k, v in pairs(t) do if nil or k then a = 3 end end return a`,
		`local t, a = {x=1, y = 2} for k, v in pairs(t) do if nil or nil then a = 3 end end return a`,
		`local t, a = {x=1, y = 2} for k, v in pairs(t) do return 5 end return a`,
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
	{"negative zeros", []string{
		`return tostring(-0)`, `return tostring(0) .. tostring(-0)`,
		`return tostring(-0) .. tostring(0) .. tostring(0 * -1)`, `local x = 0 return tostring(-x) .. tostring(-0)`,
		`return tostring(0) .. (function() return tostring(-0) end)()`,
		`local t = {[-0] = 1} return {tostring(next(t)), t[0]}`,
		`redis.call("SET", KEYS[1], -0) return {redis.call("GET", KEYS[1]), -0, tostring(-0 + 0), tostring(0 * -1), cjson.encode({-0}), string.format("%d %g", -0, -0)}`,
		`return 1 / -0 .. ""`,
		`return {tostring(math.ceil(-0.5)), tostring(math.fmod(-0, 1)), tostring(math.max(-0, 0))}`,
	}},
	{"last digits", []string{
		generator + `for i = 1, 400 do local a, b = math.floor(small()) % 40 - 20, math.floor(small()) % 9 out[i] = string.format("%.17g %.17g %.17g", a ^ b, math.pow(a, b), 2 ^ (a * 20)) end return out`,
		`return {string.format("%.17g", 2 ^ -3), string.format("%.17g", 2 ^ 1023), string.format("%.17g", 2 ^ -1000), string.format("%.17g", 1.5 ^ 33), string.format("%.17g", 1.5 ^ 7), string.format("%.17g", (-0.75) ^ 5), string.format("%.17g", 4 ^ -9), string.format("%.17g", 10 ^ 22)}`,
		`local nan, minus, out = -(0/0), 0/0, {} for _, f in ipairs{"sqrt", "abs", "floor", "ceil"} do
			for _, x in ipairs{0, 1/0, -1/0, nan, minus} do out[#out + 1] = f .. tostring(math[f](x)) end end
			for _, f in ipairs{"pow", "fmod"} do for _, p in ipairs{{-2, 0.5}, {nan, 1}, {minus, 1}, {1, nan}, {1, minus}, {nan, minus}, {minus, 2}, {2, minus}, {-1, 1/0}, {-1/0, 0.5}, {1/0, 1/0}, {1/0, 2}, {0, -1}, {-8, 3}} do out[#out + 1] = f .. tostring(math[f](p[1], p[2])) end end return out`,
		`return {tostring(math.sqrt(-1)), tostring((-2) ^ 0.5)}`,
		`math.randomseed(123456789) local out = {} for i = 1, 50 do out[i] = string.format("%.17g %d %d", math.random(), math.random(1000), math.random(-5, 5)) end return out`,
	}},
	// Tables of drawn histories. A name once removed is not set again: see what is refused.
	{"drawn tables", []string{
		generator + `local names = 0
		local function key()
			local kind = below(6)
			if kind < 3 then return below(14) end
			if kind == 3 then names = names + 1 return "n" .. names % 977 .. names end
			if kind == 4 then return ({true, false, 0.5, -1, 2^40, -0.25, 1e15, cjson.null, 100, 33})[below(10) + 1] end
			return -below(20)
		end
		local function show(t)
			local words = {}
			for k, v in pairs(t) do words[#words + 1] = tostring(k) .. "=" .. tostring(v) end
			return table.concat(words, " ") .. " #" .. #t .. " " .. table.maxn(t)
		end
		for i = 1, 1500 do
			local kind, t = below(4)
			if kind == 0 then t = {} elseif kind == 1 then t = {1, nil, 3} elseif kind == 2 then t = {a = 1, b = 2, c = 3, 4} else t = {nil, 2, [key()] = 3, [key()] = 4} end
			for j = 1, below(40) do
				local step = below(9)
				if step == 0 then local k = key() if type(k) ~= "string" then t[k] = nil end
				elseif step == 1 then t[#t + 1] = j
				elseif step == 2 then table.insert(t, j)
				elseif step == 3 then table.remove(t)
				elseif step == 4 then table.insert(t, below(5), j)
				elseif step == 5 then rawset(t, key(), j)
				elseif step == 6 then t[key()], t[key()] = j, -j
				else t[key()] = j end
			end
			out[i] = show(t)
		end return out`,
	}},
}

// TestRefused are scripts that end with an *UnsupportedError, which none of them can catch: what Redis makes of them
// cannot be told.
func TestRefused(t *testing.T) {
	const overflow, constant, register, again = stackOverflow,
		"a function with a zero and a negative zero for constants: Lua takes them for one", unknownName,
		"the order of a table in which a removed name is set again: it depends on when Redis collects garbage"
	for _, c := range []struct{ source, want string }{
		{`local function f() return 1 + f() end return f()`, overflow},
		{`return pcall(function() local function f() return 1 + f() end return f() end)`, overflow},
		{`local n = 0 local function f() n = n + 1 pcall(f) end f() return n`, overflow},
		{`local function f(a) table.sort({1, 2}, f) end f() return 1`, overflow},
		{`local function f(a) return (("x"):gsub("x", f)) end f() return 1`, overflow},
		{`return coroutine.create(pcall)`, "coroutine.create"},
		{`return pcall(coroutine.wrap, pcall)`, "coroutine.wrap"},
		{`local mt = {} mt.__index = function(t, k) return k > 300 and 1 or t[k + 1] end return setmetatable({}, mt)[1]`,
			overflow},
		{`return _G["setmeta" .. "table"]({}, {})`, "setmetatable by a name that the source does not hold"},
		{`return math.random()`, "math.random without math.randomseed before it"},
		{`return pcall(math.random, 5)`, "math.random without math.randomseed before it"},
		{`return collectgarbage("count")`, `collectgarbage("count")`},
		{`return collectgarbage("step")`, `collectgarbage("step")`},
		{`return gcinfo()`, "gcinfo"},
		{`return setmetatable({}, {__mode = "k"})`, "weak tables"},
		{`return __redis__err__handler()`, "__redis__err__handler"},
		{`return pcall()`, "pcall() without a function, which Redis lets read beyond its stack"},
		{`return xpcall(error, function() error("again") end)`, "an error in the handler of xpcall"},
		{`return loadstring("x = = 1")`,
			"the error text of a chunk that does not compile: [string \"x = = 1\"] line:1(column:5) near '=': syntax error"},
		{`return ...`, "a chunk in which there is: cannot use '...' outside a vararg function"},
		{`return {0 / 0, -0}`, constant},
		{`local x = 0 + KEYS[1] return {x, 0 * -1}`, constant},
		{`return function() local a = (0 or 1) return -0 end`, constant},
		{`local t = nil local x = (t or nil).y`, register},
		{`local t = {} return pcall(function() return (t.a and t.b) + 1 end)`, register},
		{`local t = {} for k in t do end`, register},
		{`for k in string.rep do end`, register},
		{`for k in {} do end`, register},
		{"local t = {\n[KEYS[5]] = 1}", "the line of an error in a table constructor of several lines"},
		{`local t = {a = 1, b = 2} t.a = nil t.a = 3 for k in pairs(t) do end`, again},
		{`local t = {a = 1, b = 2} t.a = nil t.a = 3 return cjson.encode(t)`, again},
		{`local t = {1, nil, 3, a = 1} t.a = nil t.a = 2 return #t`, again},
		{`local t = {[{}] = 1, b = 2} return next(t)`,
			"the order of a table that has a table for a key: it depends on addresses"},
		{`local t = {} t[function() end] = 1 t.x = 2 pcall(table.foreach, t, tostring) return 1`,
			"the order of a table that has a function for a key: it depends on addresses"},
		{`return math.sin(0)`, "math.sin"},
		{`return pcall(math.atan2, 0, 1)`, "math.atan2"},
		{`return 3 ^ 34`, "3 ^ 34: the last digit depends on the C library"},
		{`return 2 ^ 0.5`, "2 ^ 0.5: the last digit depends on the C library"},
		{`return 10 ^ -3`, "10 ^ -3: the last digit depends on the C library"},
		{`return 2 ^ -1001`, "2 ^ -1001: the last digit depends on the C library"},
		{`return 1.5 ^ 34`, "1.5 ^ 34: the last digit depends on the C library"},
		{`redis.setresp(3)`, "redis.setresp(3)"},
		{`pcall(redis.setresp, 3) return 1`, "redis.setresp(3)"},
		{`cjson.encode_sparse_array(true)`, "cjson.encode_sparse_array"},
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
