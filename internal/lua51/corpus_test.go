package lua51

// generator is Lua that draws numbers and texts: the minimal standard generator, the same everywhere.
const generator = `
	local state, out = 20261120, {}
	local function draw() state = state * 16807 % 2147483647 return state end
	local function below(n) return draw() % n end
	local function double() return (struct.unpack("d", struct.pack("I4I4", draw() * 2 + draw() % 2, draw() * 2 + draw() % 2))) end
	local function small()
		local kind = below(6)
		if kind == 0 then return below(1000) + 1 end
		if kind == 1 then return -(below(100000) + 1) / 8 end
		if kind == 2 then return draw() * 1048576 + draw() end
		if kind == 3 then return draw() * draw() * 7 end
		if kind == 4 then return (below(100) + 1) / 7 end
		return (draw() - 1073741824) * 1e-9
	end
	local function text(alphabet, most)
		local t = {}
		for i = 1, below(most + 1) do local k = below(#alphabet) + 1 t[i] = alphabet:sub(k, k) end
		return table.concat(t)
	end
`

// commandDrawer is Lua that draws commands with arguments that fit now and then.
const commandDrawer = `
	local templates = {
		"SET k v", "SET k v PX ms", "SET k v EX ms", "SET k v NX", "SET k v XX PX ms", "SET k v KEEPTTL", "SET k v GET",
		"SET k n NX GET", "GET k", "GETDEL k", "GETSET k v", "GETRANGE k n n", "SETRANGE k u v", "STRLEN k",
		"APPEND k v", "INCR k", "INCRBY k n", "DECRBY k n", "SETNX k v", "PSETEX k ms v", "SETEX k ms v", "MGET k k",
		"MSET k v k v", "DEL k", "UNLINK k k", "EXISTS k k", "TYPE k", "PERSIST k", "PEXPIRE k ms", "EXPIRE k ms",
		"PEXPIRE k ms NX", "TTL k", "RENAME k k", "RPUSH k v", "RPUSH k v v v", "LPUSH k v v", "RPUSHX k v", "LPOP k",
		"RPOP k", "LPOP k u", "RPOP k u", "LLEN k", "LINDEX k n", "LSET k n v", "LRANGE k n n", "LTRIM k n n",
		"LREM k n v", "LINSERT k BEFORE v v", "LMOVE k k LEFT RIGHT", "RPOPLPUSH k k", "ZADD k s v",
		"ZADD k s v s v s v", "ZADD k NX s v", "ZADD k XX s v", "ZADD k GT CH s v", "ZADD k INCR s v", "ZREM k v v",
		"ZCARD k", "ZSCORE k v", "ZINCRBY k s v", "ZRANGE k n n", "ZRANGE k n n WITHSCORES", "ZRANGE k n n REV",
		"ZRANGE k b b BYSCORE", "ZRANGE k b b BYSCORE LIMIT u n", "ZREVRANGE k n n", "ZRANGEBYSCORE k b b",
		"ZRANGEBYSCORE k b b WITHSCORES", "ZRANGEBYSCORE k b b LIMIT u n", "ZREVRANGEBYSCORE k b b", "ZCOUNT k b b",
		"ZRANK k v", "ZREVRANK k v", "ZPOPMIN k", "ZPOPMAX k u", "ZREMRANGEBYSCORE k b b", "ZREMRANGEBYRANK k n n",
		"ZMSCORE k v v", "HSET k v v", "HSET k v n v v", "HSETNX k v v", "HGET k v", "HMGET k v v", "HDEL k v v",
		"HLEN k", "HEXISTS k v", "HINCRBY k v n", "HSTRLEN k v", "SADD k v v", "SREM k v", "SCARD k", "SISMEMBER k v",
		"SMISMEMBER k v v", "SETBIT k u 1", "GETBIT k u", "BITCOUNT k",
	}
	local bounds = {"-inf", "+inf", "(1", "(2.5", "x"}
	local scores = {"1", "2.5", "0.1", "-3", "1e3", "inf", "1732100000123456", "x", "17.25"}
	local values = {"a", "b", "c", "d", "1", "5", ""}
	local kinds = {
		k = function() return ({"k1", "k2", "k3"})[below(3) + 1] end,
		v = function() return values[below(#values) + 1] end,
		n = function() return tostring(below(12) - 5) end,
		u = function() return tostring(below(6)) end,
		s = function() return scores[below(#scores) + 1] end,
		b = function() if below(2) == 0 then return bounds[below(#bounds) + 1] end return scores[below(#scores) + 1] end,
		ms = function() return ({"100000", "200000", "100000", "300000", "0", "-1", "x", "1.5"})[below(8) + 1] end,
	}
	local function drawCommand()
		local words = {}
		for word in templates[below(#templates) + 1]:gmatch("%S+") do
			words[#words + 1] = kinds[word] and kinds[word]() or word
		end
		return words
	end
	local function shown(reply)
		if type(reply) ~= "table" then return type(reply) .. ":" .. tostring(reply) end
		if reply.ok or reply.err then return tostring(reply.ok) .. "/" .. tostring(reply.err) end
		local t = {}
		for i, item in ipairs(reply) do t[i] = shown(item) end
		return "[" .. table.concat(t, " ") .. "]"
	end
`

type group struct {
	name      string
	fragments []string
}

// corpus are the fragments that run both here and on Redis. Each sees two keys (k1, k2) and three arguments (a, 10,
// 1e3) and an empty store.
var corpus = []group{
	{"replies", []string{
		`return 1`, `return -3.99`, `return true`, `return false`, `return nil`, `return`, ``, `return "a\0b"`,
		`return {}`, `return {1, "a", 2.5, true, false, {1, {}}, {ok="fine"}, {err="BAD thing"}}`, `return {1, nil, 3}`,
		`return {[1]=1, [2]=2, x=3}`, `return {ok="fine\r\nor not"}`, `return {err="BAD thing"}`,
		`return {err="-BAD\nthing\n"}`, `return {err="nocode"}`, `return {err=1}`, `return {ok=1}`,
		`return {1, 2, ok="x"}`, `return {double=3.1}`, `return {double="3.1"}`, `return {map={a=1}}`,
		`return {set={a=true}}`, `return function() end`, `return {1, function() end, 3}`, `return cjson.null`,
		`return redis.error_reply("BAD thing")`, `return redis.error_reply("-BAD thing")`,
		`return redis.error_reply("BAD")`, `return redis.error_reply("BAD\r\n")`,
		`return redis.error_reply("BAD two\nlines")`, `return redis.error_reply("")`, `return redis.error_reply(1)`,
		`return redis.error_reply()`, `return redis.error_reply("A b", 1)`, `return redis.status_reply("FINE")`,
		`return redis.status_reply()`,
		`return setmetatable({}, {__index = function(t, i) return i < 3 and i or nil end})`, `return ARGV`,
		`return KEYS`, `return {1, 2}, 3`, `return _G`,
	}},
	{"numbers", []string{
		`return 1732100000123456 .. ""`, `return "" .. 1732100000123456`, `return "a" .. 1 .. 2.5 .. "b" .. -0.1`,
		`return (1 .. 2) + 1`, `return tostring(1732100000123456)`,
		`return tostring(99999999999999) .. " " .. tostring(100000000000000) .. " " .. tostring(-100000000000000)`,
		`return tostring(123456789012345)`,
		`return tostring(0.1) .. " " .. tostring(1/3) .. " " .. tostring(1e15) .. " " .. tostring(1e-5) .. " " .. tostring(0.0001)`,
		`return tostring(0/0) .. tostring(-(0/0)) .. tostring(1/0) .. tostring(-1/0)`,
		`return tostring(5 % math.huge) .. " " .. tostring(-5 % math.huge) .. " " .. tostring(5 % -math.huge)`,
		`return {5 % 3, -5 % 3, 5 % -3, -5 % -3, 5.5 % 2}`,
		`return tostring(5 % 0) .. tostring(math.huge % 2) .. tostring(2^53 % 3) .. tostring((2^53 - 1) % 7) .. " " .. tostring(1e300 % 7)`,
		`return {"10" + 1, "0x10" * 2, "1e3" / 10, " 5 " - 1, "3" ^ 2, "7" % 4, -"2"}`, `return "abc" + 1`,
		`return 1 + "abc"`, `return -"abc"`, `return {} + 1`, `return {} + {}`, `return 1 - true`, `return "010" + 0`,
		`return 010 + 0x10 + 1e2 + .5 + 5. + 3E-1`, `return 0xff`, `return "0b11" + 0`, `return "1_000" + 0`,
		`local t = {} for i, s in ipairs{"10", "1e3", "0x10", " 7 ", "\t7\n", "7 x", "", " ", "0x", "0xg", "-0x10", "1e", "1e+", ".", ".5", "5.", "-.5e1",
			"nan", "-nan", "inf", "-INF", "infinity", "infinit", "nan(12)", "nan(", "nan(a_1)", "nan(-)", "0x1p4", "0x.8", "0x1.8p-1", "10\0", "10\0x", "\0", "+1", "+-1", "- 1",
			"1e400", "1e-400", "9007199254740993", "123456789012345678901234567890", "00012", "1 2", "0b1", "0o7", "1_0", "١"} do
			t[i] = tostring(tonumber(s)) end return t`,
		`local t = {} for i, a in ipairs{{"ff", 16}, {"0xff", 16}, {"-ff", 16}, {"zz", 36}, {"8", 8}, {"7", 8}, {" 11 ", 2}, {"", 10}, {"1e1", 10}, {"1.5", 10},
			{"ffffffffffffffff", 16}, {"fffffffffffffffff", 16}, {"-fffffffffffffffff", 16}, {"+7", 9}, {"1 1", 2}, {"0x", 16}, {"_", 36}, {"1_0", 36}, {15, 16}, {"--1", 16}} do
			t[i] = tostring(tonumber(a[1], a[2])) end return t`,
		`return tostring(tonumber(nil))`, `return tonumber()`, `return tonumber("1", 1)`, `return tonumber("1", 37)`,
		`return tonumber({})`, `return tonumber({}, 16)`, `return tonumber(ARGV[3])`,
		`return {tonumber("1732100000123456")}`,
		`for i = "1", "3" do redis.call("RPUSH", KEYS[1], i) end return redis.call("LRANGE", KEYS[1], 0, -1)`,
		`for i = 1, nil do end`, `for i = {}, 2 do end`, `for i = 1, 2, "x" do end`,
		`local n = 0 for i = 3, 1, -1 do n = n * 10 + i end return n`,
		`local n = 0 for i = 1, 2, 0.25 do n = n + 1 end return n`, `return {1 < 2, "a" < "b", "Z" < "a", "a" < "a\0"}`,
		`return 1 < "2"`, `return {} < {}`, `return nil < 1`, `return {} <= 1`, `return 1 == "1"`,
		`return 1732100000123456 % 1000000`, `return math.floor(1732100000123456 / 1000)`,
	}},
	{"errors", []string{
		`error("boo")`, "\n\n  error('line three')", `error("boo", 0)`, `error("boo", 2)`,
		`local function f() error("boo", 2) end f()`, "local function f() error('boo', 2) end\n f()\n return 1",
		"local function g() error('x') end\nlocal function f() return g() end\nreturn f()",
		"local function g() return redis.call('nope') end\nlocal function f() return g() end\nreturn f()",
		"local function g() local a = {} + 1 end\nlocal function f() g() end\nf()",
		"local t = setmetatable({}, {__index = function(t, k)\n error('no ' .. k) end})\n\nreturn t.x",
		"local t = setmetatable({}, {__add = function(a, b)\n return redis.call('nope') end})\n\nreturn t + 1",
		"table.sort({1, 2}, function(a, b)\n error('in sort') end)",
		"return (('abc'):gsub('b',\n function() error('in gsub') end))", "pcall(error, 'x')\n\nerror('after')",
		"local ok, e = pcall(function()\n error('inside') end)\nerror(e, 0)",
		"for i = 1, 3 do\n if i == 2 then\n  error('turn ' .. i)\n end\nend",
		"local t = {\n a = 1,\n b = nil + 1,\n}", "return redis.call('set',\n 'k1',\n {})",
		`local function f(...) local a, b = ... return select("#", ...), a, b end return {f(1, 2, 3)}`,
		`error({err="MY error"})`, `error({err="MY error", code=7})`, `error(42)`, `error(1732100000123456)`,
		`error(true)`, `error(nil)`, `error()`, `assert(false)`, `assert(nil, "told you")`, `assert(false, {})`,
		`return {assert(1, 2, 3)}`, `local t = nil; return t.x`, "local x = 1\nlocal y = 2\nreturn (nil)[1]",
		`return #nil`, `return nil .. "a"`, `return "a" .. {}`, `return "a" .. nil .. "b"`, `(nil)()`, `return -{}`,
		`return #5`, `return {pcall(error, "x")}`, `return {pcall(error, "x", 1)}`, `return {pcall(error)}`,
		`local ok, e = pcall(error, {a=1}) return {tostring(ok), type(e), e.a}`,
		`local ok, e = pcall(error, {err="E f"}) return {tostring(ok), e}`,
		`local ok, e = pcall(redis.call, "nope") return {tostring(ok), type(e), e}`,
		`local ok, e = pcall(redis.call, "incr", KEYS[1], 2) return {tostring(ok), type(e), e}`,
		`local ok, e = pcall(function() local x = nil; x.y = 1 end)
			return {tostring(ok), (e:gsub("local 'x' %(a nil value%)", "a nil value"))}`,
		`return {pcall(nil)}`, `return {pcall(function() return 1, 2, nil, 3 end)}`,
		`return select("#", pcall(function() end))`, `return {pcall(pcall, error, "x")}`,
		`return {xpcall(function() error("x", 0) end, function(e) return e .. "!" end)}`,
		`return {xpcall(function() return 1, 2 end, error)}`,
		`local x = 1; local f = function() x = x + 1 end; pcall(error); f(); return x`,
		`local x = 1; local f = function() x = x + 1 end; pcall(function() pcall(error) error() end); f(); return x`,
		`local g; pcall(function() local y = 5; g = function() y = y + 1 return y end; error() end); return {g(), g()}`,
		`string.rep()`, `local again = string.rep again()`, `local t = {again = string.rep} t.again()`,
		`return {pcall(string.rep)}`, `return string.rep()`, `return {xpcall(string.rep, function(e) return e end)}`,
		`return {pcall(table.sort, {3, 1, 2}, string.rep)}`, `string.rep("x", {})`, `string.rep("x")`, `ipairs()`,
		`pairs(nil)`, `setmetatable({}, 1)`, `return setmetatable({}, nil) and 1`, `setmetatable({})`,
		`return {pcall(setmetatable, setmetatable({}, {__metatable = 1}), {})}`,
		`return getmetatable(setmetatable({}, {__metatable = "locked"}))`, `select(0)`, `select("x")`, `select()`,
		`type()`, `tostring()`, `return {select("#", 1, nil, nil), select(-1, 7, 8), select(2, 7, 8, 9)}`, `unpack()`,
		`local t = {} for i = 1, 7999 do t[i] = i end return #{unpack(t)}`,
		`local t = {} for i = 1, 8000 do t[i] = i end return #{unpack(t)}`,
		`local t = {} for i = 1, 7997 do t[i] = i end return #{unpack(t, 1, #t)}`,
		`local t = {} for i = 1, 7998 do t[i] = i end return #{unpack(t, 1, #t)}`,
		`local t = {} for i = 1, 7999 do t[i] = i end return redis.call("RPUSH", KEYS[1], unpack(t, 1, 7000))`,
		`return {unpack({1, 2, 3}, 2), unpack({1, 2, 3}, 2, 5), 9}`, `return {unpack({1, 2, 3}, -1, 1)}`,
		`return {string.byte(string.rep("x", 7997), 1, -1)}`, `return #{string.byte(string.rep("x", 8000), 1, -1)}`,
	}},
	{"globals", []string{
		`foo = 1`, `return foo`, `return _G.foo`, `_G.foo = 1`, `_G["redis"] = nil`, `redis = 1`, `redis.call = nil`,
		`redis.new = 1`, `string.x = 1`, `KEYS = {}`, `KEYS[1] = "x" return KEYS[1]`, `function foo() end`,
		`rawset(_G, "foo", 1)`, `setmetatable(_G, {})`, `setmetatable(redis, {})`, `table.insert(redis, 1)`,
		`getmetatable("").__index = 1`, `return getmetatable("").__index == string`,
		`return tostring(getmetatable(redis))`, `return rawget(_G, "foo")`, `return rawget(_G, "print")`,
		`return {tostring(rawget(_G, "os")), tostring(rawget(_G, "io")), tostring(rawget(_G, "debug")),
			tostring(rawget(_G, "require")), tostring(rawget(_G, "setfenv")), tostring(rawget(_G, "server"))}`,
		`return print`, `return os.time()`, `return _G == _G._G`,
		`local t = {} for k, v in pairs(_G) do t[#t + 1] = k .. ":" .. type(v) end table.sort(t) return t`,
		`local t = {} for _, lib in ipairs{"redis", "string", "table", "math", "bit", "struct", "cjson", "coroutine"} do
			for k, v in pairs(_G[lib]) do t[#t + 1] = lib .. "." .. k .. ":" .. type(v) end end table.sort(t) return t`,
		`return {next({}), type(next(redis))}`, `return type(newproxy)`,
		`local t = {} t.x = 1 t[1] = 2 return t.x + t[1]`, `local goto_ = 1 return goto_`,
		`return {redis.REDIS_VERSION_NUM > 458751, redis.LOG_WARNING, redis.REPL_ALL}`,
		`local function f(...) return select("#", ...), arg.n end return {f(1, nil, 3)}`,
		`local mt = {__index = function(_, k) return k .. "!" end, __call = function(_, a) return a end, __tostring = function() return "me" end, __concat = function(a, b) return "cat" end,
			__add = function() return 7 end, __mod = function() return 8 end, __unm = function() return 9 end, __lt = function() return true end, __eq = function() return true end}
			local t = setmetatable({}, mt) return {t.x, t(5), tostring(t), t .. "a", 1 .. t, "a" .. "b" .. t, t + 1, 1 % t, t % t, -t, t < setmetatable({}, mt), t == setmetatable({}, mt)}`,
	}},
	{"strings", []string{
		`return {("x"):rep(3), ("abc"):len(), ("aBc"):upper(), ("aBc"):lower(), ("abc"):reverse(), #"a\0b"}`,
		`return string.upper("é ß") .. string.lower("É")`,
		`return {string.sub("hello", 2), string.sub("hello", -3), string.sub("hello", 2, -2), string.sub("hello", 0),
			string.sub("hello", 4, 2), string.sub("hello", -100, 100), string.sub("hello", 6)}`,
		`return string.sub(1732100000123456, 1, 10)`, `return string.len(1732100000123456)`,
		`return string.sub("hello", "2", "3")`, `return string.sub("hello", 2.7)`,
		`return {string.byte("abc"), string.byte("abc", 2), string.byte("abc", -1), string.byte("abc", 9),
			string.byte("abc", 1, -1)}`,
		`return {string.byte("abc", 0)}`, `return {string.byte("", 1)}`, `return string.char(0, 65, 255)`,
		`return string.char(-1)`, `return string.rep("ab", 0) .. string.rep("ab", -1) .. string.rep("ab", 2.9)`,
		`return {string.find("hello world", "o w"), string.find("hello", "l"), string.find("hello", "l", 4),
			string.find("hello", "xyz"), string.find("hello", "", 10), string.find("hello", "", 3)}`,
		`return {string.find("a.b", ".", 1, true), string.find("a.b", "%."), string.find("abc", "b", -1)}`,
		`return {string.find("key=val", "(%w+)=(%w+)")}`, `return {string.find("hello", "()ll()")}`,
		`return {string.match("2024-01-02", "(%d+)-(%d+)-(%d+)")}`, `return {string.match("hello", ".-(l+)(.*)$")}`,
		`return {string.match("  trim me ", "^%s*(.-)%s*$")}`,
		`return {string.match("x^y", "^x"), string.match("x^y", "x^"), string.match("a$", "a$"), string.match("a$b", "a$b")}`,
		`return {("%d"):gsub("%%d", "x"), ("abc"):gsub("", "-"), ("abc"):gsub(".", {a = 1, b = true, c = false})}`,
		`return ("a\0b"):find("%z") + ("a\0b"):find("[%z]")`,
		`return {("abc"):gsub("b", "%%"), ("abc"):gsub("(b)", "[%1%0]"), ("abc"):gsub("b", "%x")}`,
		`return {("hello world"):gsub("o", "0", 1), ("hello"):gsub("^h", "j"), ("hhh"):gsub("^h", "j"), ("abc"):gsub("x*", "-")}`,
		`return {("abc"):gsub("%w", function(c) return c .. 1732100000123456 end, 1)}`,
		`return {("abc"):gsub("%w", function(c) return 1732100000123456 end, 1)}`,
		`return {("abc"):gsub("(a)(b)", function(x, y) return y .. x end)}`,
		`return ("abc"):gsub("a", function() return {} end)`, `return string.gsub("abc", "a", true)`,
		`return {string.match("[x]", "[]]"), string.match("[x]", "[^]]"), string.match("a-b", "[a%-]+"), string.match("a-b", "[+--]")}`,
		`return ("abc"):gsub("a", "%2")`,
		`local t = {} for w in ("one two  three"):gmatch("%a+") do t[#t + 1] = w end return t`,
		`local t = {} for k, v in ("a=1, b=2"):gmatch("(%w+)=(%w+)") do t[#t + 1] = k .. v end return t`,
		`local t = {} for w in ("abc"):gmatch("") do t[#t + 1] = "x" end return #t`,
		`local t = {} for w in ("^a^a"):gmatch("^a") do t[#t + 1] = w end return t`,
		`return {("%a%c%d%l%p%s%u%w%x%z"):gsub("%%(%a)", function(k) local n = 0
			for i = 0, 255 do if string.char(i):find("%" .. k) then n = n + i end end return n .. " " end)}`,
		`return {("%A%C%D%L%P%S%U%W%X%Z"):gsub("%%(%a)", function(k) local n = 0
			for i = 0, 255 do if string.char(i):find("%" .. k) then n = n + i end end return n .. " " end)}`,
		`return string.format("%5s|%-5s|%05d|%+d|%x|%X|%o|%e|%G|%c|%q|%.3s|%%|%#x|%5.1f|% d|%i|%u", "ab", "cd", 42, 7, 255, 255, 8, 12345.678, 1e-10, 65, 'a"b\n\0c\r', "abcdef", 255, 3.14159, 5, 6, -1)`,
		`return string.format("%d %d %d", 3.7, -3.7, "42")`,
		`return string.format("%d %d %d %d", 1732100000123456, 2^53, 2^63, -2^63)`,
		`return string.format("%d %d", 0/0, 1/0)`, `return string.format("%x %X %o %u", -1, 2^64, 2^63, 1e300)`,
		`return string.format("%.0f %.0f %.0f %.0f %.0f", 1732100000123456, 0.5, 1.5, 2.5, 1e22)`,
		`return string.format("%s %s", 1732100000123456, 0.1)`,
		`return string.format("%g %g %g %g %g %.3g %#g %#.3g", 100000, 1000000, 1e15, 0.0001, 0.00001, 1234.5, 1, 1)`,
		`return string.format("%.14g %.17g %.16g %.15g", 0.1, 0.1, 0.1, 2/3)`,
		`return string.format("%f %e %g %5.1f|%-8.2f|%08.2f|%+.1e|% .2f|%#.0f", 1/3, 1/3, 1/3, 2.25, 2.255, -2.5, 12345, 1, 3)`,
		`return string.format("%f %g %e %5.1f|%05f|%-6f|%+f|%G|%E", 1/0, -1/0, 0/0, 1/0, 1/0, 1/0, 1/0, 1/0, 1/0)`,
		`return string.format("%5d|%-5d|%05d|%.3d|%5.3d|%+5d|%.0d|", 42, 42, -42, 7, 7, 7, 0)`,
		`return string.format("%#o %#x %#X %.5x", 8, 0, 255, 255)`, `return string.format("%5c|%-5c|%c", 65, 66, 0)`,
		`return string.format("%s", "a\0b") .. "|" .. string.format("%s", ("x"):rep(99) .. "\0b") .. "|" .. string.format("%5s", "a\0b")`,
		`return string.format("%s", ("x"):rep(100) .. "\0b")`,
		`return string.format("%.2s|%10.2s|%-10s|%.0s|", "abcdef", "abcdef", "abc", "x")`,
		`return string.format("%q", "a\\b\n\r\0\t")`, `return string.format("%s", nil)`,
		`return string.format("%s", true)`, `return string.format("%s", {})`, `return string.format("%d", nil)`,
		`return string.format("%d")`, `return string.format("%y", 1)`, `return string.format("%", 1)`,
		`return string.format("%123d", 1)`, `return string.format("%.123d", 1)`, `return string.format("%------d", 1)`,
		`return string.format("%%")`, `return string.format("no args", 1, 2)`, `return string.format(12)`,
		`return "\65\066\x41\q\a\b\"\'\
line"`,
		"return [[\nlong]] .. [==[a]]b]==]", `return #"é" .. ("é"):byte(1)`,
	}},
	{"tables", []string{
		`return table.concat({1, 2.5, "x", 1732100000123456}, ",")`,
		`return table.concat({1, 2, 3}, "-", 2, 3) .. "|" .. table.concat({}) .. "|" .. table.concat({1, 2}, ",", 3) .. "|" .. table.concat({1, 2, 3}, 0)`,
		`return table.concat({1, 2}, ",", 1, 3)`, `return table.concat({1, true})`,
		`local t = {1, 2, 3} table.insert(t, 4) table.insert(t, 1, 0) table.insert(t, 3, 9) return t`,
		`local t = {1} table.insert(t, 1, 2, 3)`, `table.insert({})`, `table.insert(nil, 1)`,
		`local t = {1, 2, 3, 4} return {table.remove(t), table.remove(t, 1), table.remove(t, 9), #t, unpack(t)}`,
		`return {table.remove({}), 1}`, `local t = {1, 2, 3} t[#t] = nil t[#t + 1] = 7 return t`,
		`local t = {5, 2, 8, 1, 9, 3} table.sort(t) return t`,
		`local t = {5, 2, 8, 1, 9, 3} table.sort(t, function(a, b) return a > b end) return t`,
		`local t = {"b", "a", "C", "10", "9"} table.sort(t) return t`, `table.sort({1, "a"})`,
		`table.sort({1, 2}, 5)`,
		`local n = 0 for k, v in pairs({1, 2, x = 3, y = 4}) do n = n + v end return n`,
		`local t = {} for i, v in ipairs({1, 2, nil, 4}) do t[#t + 1] = v end return t`,
		`return {rawequal("a", "a"), rawequal({}, {}), rawget({5}, 1), rawset({}, 1, 2)[1]}`, `local t = {} t[nil] = 1`,
		`return ({})[nil]`, `return next({}, nil)`, `return {#{1, 2, 3}, #"abc", #{n = 1}}`,
		`local t = {10, 20, 30, nil} return #t`,
		`local t = setmetatable({}, {__newindex = function(t, k, v) rawset(t, k, v * 2) end}) t.x = 5 return t.x`,
		`return {math.floor(-3.5), math.ceil(-3.5), math.abs(-2), math.max(1, 5, 3), math.min(4, 2), math.fmod(-7, 3),
			math.mod(7, 3), math.sqrt(16), math.pow(2, 10)}`,
		`return {tostring(math.huge), tostring(-math.huge), tostring(math.pi), math.floor(2^52 + 0.5)}`,
		`return math.floor("3.7")`, `return math.floor("x")`,
		`return math.max()`, `return {math.max(1, "10"), math.min("3", 4)}`,
	}},
	{"redis", []string{
		`redis.call()`, `redis.call(nil)`, `redis.call({})`, `redis.call("set", "k1", true)`,
		`redis.call("set", "k1", {})`, `return redis.pcall("set", "k1", nil)`, `return redis.pcall()`,
		`redis.call("nope")`, `redis.call("")`, `return redis.pcall("nope", 1)`, `redis.call("get")`,
		`redis.call("get", 1, 2)`, `return redis.pcall("get")`, `redis.call("eval", "return 1", 0)`,
		`return redis.pcall("evalsha", "x", 0)`, `return redis.pcall("multi")`, `return redis.pcall("subscribe", "x")`,
		`return redis.pcall("blpop", "k1", 0)`, `return redis.pcall("config", "get", "x")`,
		`return redis.pcall("config", "nope")`, `return redis.pcall("script", "flush")`,
		`redis.call("incr", "k1") return redis.call("lpush", "k1", 1)`,
		`redis.call("incr", "k1") local e = redis.pcall("lpush", "k1", 1)
			local t = {} for k, v in pairs(e) do t[#t + 1] = k .. "=" .. tostring(v) end table.sort(t) return t`,
		`redis.call("incr", "k1") return redis.pcall("lpush", "k1", 1)`,
		`local e = redis.pcall({}) local t = {} for k, v in pairs(e) do t[#t + 1] = k .. "=" .. tostring(v) end
			table.sort(t) return t`,
		`local e = redis.error_reply("A b") local t = {} for k, v in pairs(e) do t[#t + 1] = k .. "=" .. tostring(v) end
			table.sort(t) return t`,
		`local e = redis.pcall("nope") local t = {} for k, v in pairs(e) do t[#t + 1] = k .. "=" .. tostring(v) end
			table.sort(t) return t`,
		"local a = 1\nlocal b = 2\nreturn redis.call('nope')",
		"local function f()\n return redis.call('get')\nend\nlocal x = f()\nreturn x",
		`redis.call("SET", KEYS[1], 1732100000123456) return redis.call("get", KEYS[1])`,
		`redis.call("SET", KEYS[1], 0.1) return redis.call("get", KEYS[1])`,
		`redis.call("SET", KEYS[1], 1e15) return redis.call("get", KEYS[1])`,
		`redis.call("SET", KEYS[1], 1e17) return redis.call("get", KEYS[1])`,
		`redis.call("SET", KEYS[1], 12345678901234567890) return redis.call("get", KEYS[1])`,
		`redis.call("SET", KEYS[1], -1/0) return redis.call("get", KEYS[1])`,
		`redis.call("SET", KEYS[1], 0/0) return redis.call("get", KEYS[1])`,
		`redis.call("SET", KEYS[1], 3.0) return redis.call("get", KEYS[1])`,
		`redis.call("SET", KEYS[1], "a\0b\r\n") return redis.call("get", KEYS[1])`,
		`return type(redis.call("get", "none"))`, `return tostring(redis.call("get", "none"))`,
		`return redis.call("set", KEYS[1], 1).ok`, `return type(redis.call("incr", KEYS[1]))`,
		`return {redis.call("ping"), redis.call("ping", "x"), redis.call("echo", "y")}`,
		`return redis.call("mget", "a", "b")`, `local r = redis.call("mget", "a", "b") return tostring(r[1]) .. #r`,
		`return redis.sha1hex("")`, `return redis.sha1hex(1732100000123456)`, `return redis.sha1hex()`,
		`return redis.log(redis.LOG_NOTICE, "a", 1)`, `return redis.log("a")`, `return redis.log("a", "b")`,
		`return redis.log(9, "a")`, `return redis.replicate_commands()`, `return redis.set_repl(redis.REPL_NONE)`,
		`return redis.set_repl(99)`, `return redis.set_repl()`, `return redis.setresp(2)`, `return redis.setresp(4)`,
		`return redis.setresp()`, `return redis.breakpoint()`, `return redis.debug("x")`,
		`return redis.acl_check_cmd("get", "k")`, `return redis.acl_check_cmd("nope")`, `return redis.acl_check_cmd()`,
		`return #redis.call("time")`, `return redis.call("TiMe")[1] + 0 > 0`, `return redis.call("select", 1)`,
		`redis.call("select", 1) redis.call("set", "k1", "v") redis.call("select", 0) return redis.call("get", "k1")`,
	}},
	{"struct", []string{
		`return struct.pack(">I8I4", 1732100000123456, 7)`, `return struct.pack("<I4>I4I4", 1, 2, 3)`,
		`return {struct.unpack(">I8I4", struct.pack(">I8I4", 1732100000123456, 7))}`,
		`return struct.pack("bBhHlLiITfd", -1, 255, -2, 65535, -3, 4, -5, 6, 7, 1.5, 2.5)`,
		`return {struct.unpack("bBhHlLiIT", struct.pack("bBhHlLiIT", -1, 255, -2, 65535, -3, 4, -5, 6, 7))}`,
		`local t = {struct.unpack("fd", struct.pack("fd", 0.1, 0.1))} return {tostring(t[1]), tostring(t[2]), t[3]}`,
		`return struct.pack(">I4", 2^32 + 5)`, `return struct.pack(">I4", -1)`, `return struct.pack(">I4", 3.99)`,
		`return struct.pack(">i4", -3.99)`, `return struct.pack(">I8", 2^63)`, `return struct.pack(">I8", 2^64)`,
		`return struct.pack(">I8", 2^63 + 2^62)`, `return struct.pack(">I8I8I8I8", 0/0, 1/0, -1/0, -2^63)`,
		`return struct.pack(">I4", "77")`, `return struct.pack(">I3I5I7", 1, 2, 3)`,
		`return struct.pack(">I9", 1) .. struct.pack("<i16", -1)`,
		`return {struct.unpack(">I3", "\1\2\3"), struct.unpack("<i3", "\255\255\255"), struct.unpack(">i3", "\128\0\0")}`,
		`return tostring(struct.unpack(">I8", "\255\255\255\255\255\255\255\255")) .. tostring(struct.unpack(">i8", "\255\255\255\255\255\255\255\255"))`,
		`return tostring(struct.unpack(">I9", "\1\0\0\0\0\0\0\0\2")) .. tostring(struct.unpack(">i9", "\1\128\0\0\0\0\0\0\0"))`,
		`return {struct.unpack("i0", "abc"), struct.pack("i0", 5), struct.unpack("I0", "abc")}`,
		`return struct.pack("c5", "hello world") .. struct.pack("c0", "all") .. struct.pack("s", "zero") .. struct.pack("c", "one")`,
		`return struct.pack("c5", "abc")`, `return struct.pack("c5", 12345678)`,
		`return {struct.unpack("c3", "abcdef"), struct.unpack("s", "ab\0cd"), struct.unpack("Bc0", "\3abcdef"),
			struct.unpack("c", "xyz")}`,
		`return {struct.unpack("ss", "ab\0cd\0ef")}`, `return {struct.unpack("s", "abcd")}`,
		`return {struct.unpack("c0", "abcd")}`, `return {struct.unpack("sc0", "x\0abcd")}`,
		`return {struct.unpack("Bc0", "\9abcd")}`, `return {struct.unpack("c5", "abcd")}`,
		`return {struct.unpack(">I4", "abc")}`, `return {struct.unpack(">I4", "")}`,
		`return {struct.unpack(">I2", "abcd", 3)}`, `return {struct.unpack(">I2", "abcd", 4)}`,
		`return {struct.unpack(">I2", "abcd", 0)}`, `return {struct.unpack(">I2", "abcd", -1)}`,
		`return {struct.unpack("", "abcd", 3)}`, `return {struct.unpack("x", "ab"), struct.pack("x"), struct.pack("")}`,
		`return struct.pack("!4bI4", 1, 2) .. struct.pack("!bd", 1, 2) .. struct.pack("!2bI8", 1, 2) .. struct.pack("!8 b h i l", 1, 2, 3, 4)`,
		`return struct.pack("!8bI3", 1, 2)`, `return struct.pack("!8bI6b", 1, 2, 3)`,
		`return {struct.unpack("!4bI4", struct.pack("!4bI4", 1, 2))}`,
		`return {struct.size("!8bI8"), struct.size("bxhilTfd"), struct.size("c7"), struct.size("!4bi!8d"),
			struct.size(""), struct.size("Q")}`,
		`return struct.size("c0")`, `return struct.size("%")`, `return struct.pack("=I4", 1)`,
		`return struct.pack("!3I4", 1)`, `return struct.pack("!0I4", 1)`, `return struct.pack("I33", 1)`,
		`return struct.pack("I2147483648", 1)`, `return struct.pack("I4")`, `return struct.pack("I4", nil)`,
		`return struct.pack("I4", "x")`, `return struct.pack("I4", {})`, `return struct.pack("s")`,
		`return struct.pack("s", {})`, `return struct.pack()`, `return struct.unpack("I4")`,
		`return struct.unpack("I4", "\1\0\0\0\0\0\0\0", 1.9)`, `return struct.pack("I4", 1, 2, 3)`,
		`return #{struct.unpack(("B"):rep(7990), ("x"):rep(7990))}`,
		`return #{struct.unpack(("B"):rep(8000), ("x"):rep(8000))}`,
	}},
	{"bit", []string{
		`return {bit.tobit(0xffffffff), bit.tobit(2^32 + 7), bit.tobit(-1), bit.tobit(0.5), bit.tobit(1.5),
			bit.tobit(2.5), bit.tobit(-0.5), bit.tobit("0x10")}`,
		`return {bit.tobit(2^51 + 3), bit.tobit(2^53), bit.tobit(1e15), bit.tobit(1e300), bit.tobit(-2^40 - 1)}`,
		`return {bit.band(0xff, 0x0f), bit.bor(1, 2, 4), bit.bxor(5, 1), bit.bnot(0), bit.band(7),
			bit.band(0xffffffff, 0xf0000000)}`,
		`return {bit.lshift(1, 31), bit.lshift(1, 32), bit.lshift(1, 33), bit.rshift(-1, 28), bit.arshift(-256, 4),
			bit.rshift(256, -1)}`,
		`return {bit.rol(0x12345678, 12), bit.ror(0x12345678, 12), bit.bswap(0x12345678)}`,
		`return {bit.tohex(255), bit.tohex(255, 4), bit.tohex(255, -4), bit.tohex(-1), bit.tohex(0x12345678, 0),
			bit.tohex(1, 20), bit.tohex(0xabcdef, -20)}`,
		`return bit.band("x")`, `return bit.band({})`,
	}},
	{"cjson", []string{
		`return cjson.encode({1, nil, 3})`, `return cjson.encode({a = 1})`,
		`return cjson.encode({a = {b = {c = {1, {}, {x = 2}}}}})`, `return cjson.encode({[1.5] = 2})`,
		`return cjson.encode({[0] = 1})`, `return cjson.encode({[2] = "b"})`, `return cjson.encode({[10] = 1})`,
		`return cjson.encode({[11] = 1})`, `return cjson.encode({[1] = 1, [100] = 2})`,
		`return cjson.encode({[true] = 1})`, `return cjson.encode({function() end})`,
		`return cjson.encode(1732100000123456)`, `return cjson.encode({0.1, 1e15, 123456789012345, -5, 1e100, 1/3})`,
		`return cjson.encode("a/b\127\1\31\"\\\b\t\n\f\r é")`, `return cjson.encode({true, false, cjson.null})`,
		`return cjson.encode(nil)`, `return cjson.encode()`, `return cjson.encode(1, 2)`,
		`local t = {} for i = 1, 999 do t = {t} end return #cjson.encode(t)`,
		`local t = {} for i = 1, 1000 do t = {t} end return #cjson.encode(t)`,
		`return cjson.decode("[1, 2.5, \"x\", true, null, {}]")`, `return cjson.decode('{"a": {"b": [1, 2]}}').a.b`,
		`return tostring(cjson.decode("null")) .. tostring(cjson.decode("[null]")[1] == cjson.null)`,
		`return {cjson.decode("{}"), cjson.decode("[]"), cjson.decode("\"\""), cjson.decode(" 1 ")}`,
		`return cjson.decode('"\\u00e9\\ud834\\udd1e\\u0041\\/\\b\\n\\t\\f\\r\\"\\\\"')`,
		`return tostring(cjson.decode("-1.5"))`,
		`return cjson.decode(5)`, `return cjson.decode({})`, `return cjson.decode()`,
		`return #cjson.decode(("["):rep(1000) .. ("]"):rep(1000))`,
		`return cjson.decode('{"1": "a", "x": "b"}')["1"]`,
		`return cjson.decode("9007199254740993")`, `return {cjson._NAME, cjson._VERSION}`,
	}},
	{"cmsgpack", []string{
		`return cmsgpack.pack(0, 127, 128, 255, 256, 65535, 65536, 4294967295, 4294967296, 2^53)`,
		`return cmsgpack.pack(-1, -32, -33, -128, -129, -32768, -32769, -2147483648, -2147483649, -2^53)`,
		`return cmsgpack.pack(1.5, 0.1, 1e300, 2^63, -2^63, 1/0)`, `return cmsgpack.pack(nil, true, false, "abc", "")`,
		`return cmsgpack.pack({}, {1, 2, 3}, {a = 1}, {[2] = 1}, {1, nil, 3})`,
		`return cmsgpack.pack(function() end, cjson.null)`,
		`local out = {} for i, n in ipairs{31, 32, 255, 256, 65535, 65536} do out[i] = cmsgpack.pack(("x"):rep(n)):sub(1, 6) end return out`,
		`local out = {} for i, n in ipairs{15, 16, 65536} do local t = {} for j = 1, n do t[j] = 1 end out[i] = cmsgpack.pack(t):sub(1, 6) end return out`,
		`local t = {1} for i = 1, 20 do t = {t} end return cmsgpack.pack(t)`,
		`return {cmsgpack.unpack(cmsgpack.pack(1, -1, 300, 70000, 5e9, -200, -40000, -5e9, "x", true, {1, {2}}))}`,
		`local t = cmsgpack.unpack(cmsgpack.pack({a = 1, b = {x = "y"}})) return {t.a, t.b.x}`,
		`return {tostring(cmsgpack.unpack(cmsgpack.pack(0.1))),
			tostring(cmsgpack.unpack("\207\255\255\255\255\255\255\255\255")), tostring(cmsgpack.unpack("\202\63\192\0\0"))}`,
		`return {cmsgpack.unpack_one(cmsgpack.pack(1, 2, 3))}`,
		`return {cmsgpack.unpack_one(cmsgpack.pack(1, 2, 3), 1)}`,
		`return {cmsgpack.unpack_one(cmsgpack.pack(1, 2, 3), 2)}`,
		`return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 2)}`,
		`return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 5, 1)}`,
		`return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 0)}`, `return {cmsgpack.unpack("")}`,
		`return {cmsgpack.unpack("\196\2ab"), cmsgpack.unpack("\217\1a")}`,
		`local t = {cmsgpack.unpack("\192\194\195\204\200\205\1\2\206\1\2\3\4\207\0\0\0\1\0\0\0\2\208\200\209\200\1\210\200\1\2\3\211\255\255\255\0\0\0\0\1")} for i = 1, 11 do t[i] = tostring(t[i]) end return t`,
		`return {cmsgpack.unpack("\217\1a\218\0\1b\219\0\0\0\1c\220\0\1\7\221\0\0\0\1\8\222\0\1\1\9\223\0\0\0\1\1\10")}`,
		`return cmsgpack.unpack("\205\1")`, `return cmsgpack.unpack("\165ab")`, `return cmsgpack.unpack("\212\1\1")`,
		`return cmsgpack.unpack_one("a", 2)`, `return cmsgpack.unpack_one("a", -1)`,
		`return cmsgpack.unpack_limit("a", -1)`, `return cmsgpack.unpack({})`, `return cmsgpack.unpack()`,
	}},
	// Each draws its cases from the generator below, so both sides see the same ones.
	{"drawn", []string{
		generator + `for i = 1, 3000 do
			local d = double()
			out[i] = tostring(d) .. "|" .. string.format("%.17g|%g|%.3f|%e|%d|%x|%u|%5.1f|%G", d, d, d, d, d, d, d, d, d) .. "|" .. bit.tobit(d) .. "|" .. tostring(bit.tohex(d))
		end return out`,
		generator + `for i = 1, 3000 do
			local a, b = small(), small()
			out[i] = tostring(a % b) .. "|" .. tostring(a / b) .. "|" .. a * b .. "|" .. tostring(math.fmod(a, b)) .. "|" .. tostring(math.floor(a)) .. "|" .. tostring(-a)
		end return out`,
		generator + `for i = 1, 3000 do
			local s = text("0123456789.eExX+- infa\0pP_", 8)
			out[i] = s .. "=" .. tostring(tonumber(s)) .. "|" .. tostring(tonumber(s, 16)) .. "|" .. tostring(tonumber(s, 2)) .. "|" .. tostring(tonumber(s, 36))
		end return out`,
		generator + `for i = 1, 6000 do
			local subject, pattern = text("ab(1.%", 12), text("ab1.*+-?^$]", 7)
			local ok, from, to, one, two = pcall(string.find, subject, pattern, below(4) - 2)
			local fine, replaced, n = pcall(string.gsub, subject, pattern, "<%0>")
			out[i] = subject .. " ~ " .. pattern .. ": " .. tostring(ok) .. tostring(from) .. tostring(to) .. tostring(one) .. tostring(two) .. " " .. tostring(fine) .. tostring(replaced) .. tostring(n)
		end return out`,
		generator + `for i = 1, 3000 do
			local format = "%" .. text("-+ #0", 3) .. text("123", 2) .. text(".05", 3) .. ("dioxXuceEfgGqs"):sub(i % 14 + 1, i % 14 + 1)
			local ok, s = pcall(string.format, format, small())
			out[i] = format .. ": " .. tostring(s)
		end return out`,
		generator + `for i = 1, 2000 do
			local format = text("<>!bBhHiIlLfdx", 5) .. ({"", "1", "2", "3", "4", "8"})[below(6) + 1]
			local ok, s = pcall(struct.pack, format, small(), small(), small(), small(), small(), small())
			out[i] = format .. ": " .. tostring(s)
			if ok then
				local v = {pcall(struct.unpack, format, s)}
				for k = 1, #v do out[i] = out[i] .. " " .. tostring(v[k]) end
			end
		end return out`,
		generator + `for i = 1, 300 do
			local t = {} for k = 1, below(60) do t[k] = {below(8), k} end
			table.sort(t, function(a, b) return a[1] * 100 + a[2] < b[1] * 100 + b[2] end)
			for k, v in ipairs(t) do t[k] = v[1] .. ":" .. v[2] end
			out[i] = table.concat(t, " ")
		end return out`,
		generator + `for i = 1, 1500 do
			local v = double()
			out[i] = cmsgpack.pack(v, small(), math.floor(small())) .. tostring(cmsgpack.unpack(cmsgpack.pack(v)))
			if v == v and v < 1/0 and v > -1/0 then out[i] = out[i] .. cjson.encode({v}) .. tostring(cjson.decode(cjson.encode({v}))[1]) end
		end return out`,
		generator + commandDrawer + `for i = 1, 20000 do
			if i % 40 == 0 then redis.call("FLUSHALL") end
			local words = drawCommand()
			out[i] = table.concat(words, " ") .. " -> " .. shown(redis.pcall(unpack(words)))
		end return out`,
		generator + `for i = 1, 1000 do
			local v = small()
			redis.call("SET", "k1", v) redis.call("ZADD", "k2", v, "m")
			out[i] = redis.call("GET", "k1") .. " " .. redis.call("ZSCORE", "k2", "m")
		end return out`,
	}},
	{"commands", []string{
		`redis.call("ZADD", KEYS[1], 1732100000123456, "a", 0.1, "b", "inf", "c", -1.5, "d", 1e20, "e")
			return redis.call("ZRANGE", KEYS[1], 0, -1, "WITHSCORES")`,
		`redis.call("ZADD", KEYS[1], 1732100000123456, "a") return {redis.call("ZSCORE", KEYS[1], "a"),
			redis.call("ZSCORE", KEYS[1], "none"), redis.call("ZINCRBY", KEYS[1], 0.1, "a"),
			redis.call("ZMSCORE", KEYS[1], "a", "x")}`,
		`redis.call("ZADD", KEYS[1], 1, "a", 2, "b", 2, "c", 3, "d") return {redis.call("ZRANGEBYSCORE", KEYS[1], "(1", 2), redis.call("ZCOUNT", KEYS[1], "-inf", "(3"), redis.call("ZCARD", KEYS[1]),
			redis.call("ZRANGE", KEYS[1], -1, -1), redis.call("ZREVRANGE", KEYS[1], 0, 0, "WITHSCORES"), redis.call("ZRANGEBYSCORE", KEYS[1], 2, "+inf", "LIMIT", 1, 1), redis.call("ZRANK", KEYS[1], "c")}`,
		`redis.call("ZADD", KEYS[1], 1, "a", 2, "b", 3, "c") return {redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", 1),
			redis.call("ZREMRANGEBYRANK", KEYS[1], 0, 0), redis.call("ZREM", KEYS[1], "c", "x"), redis.call("EXISTS", KEYS[1])}`,
		`return redis.call("ZADD", KEYS[1], "NX", "CH", 1, "a", 2, "b")`,
		`return redis.call("ZADD", KEYS[1], "INCR", 1.5, "a")`, `return redis.pcall("ZADD", KEYS[1], "x", "a")`,
		`return redis.pcall("ZADD", KEYS[1], "nan", "a")`,
		`return redis.pcall("ZADD", KEYS[1], "NX", 1, "a", "nan", "b")`,
		`return redis.pcall("ZINCRBY", KEYS[1], "nan", "a")`, `return redis.pcall("ZADD", KEYS[1], 1, "nan")`,
		`return redis.pcall("ZADD", KEYS[1], 1)`,
		`redis.call("ZADD", KEYS[1], 1, "a", 2, "b") return redis.call("ZPOPMIN", KEYS[1])`,
		`redis.call("ZADD", KEYS[1], 5, "a", 5, "B", 5, "10", 5, "9") return redis.call("ZRANGE", KEYS[1], 0, -1)`,
		`redis.call("ZADD", KEYS[1], 1, "a", 2, "b", 3, "c") return {redis.call("ZRANGE", KEYS[1], 2, 1, "REV"),
			redis.call("ZRANGE", KEYS[1], "(1", 3, "BYSCORE", "LIMIT", 0, 1, "WITHSCORES")}`,
		`redis.call("RPUSH", KEYS[1], 1, 2, 3, 1732100000123456) return {redis.call("LINDEX", KEYS[1], -1),
			redis.call("LINDEX", KEYS[1], 9), redis.call("LLEN", KEYS[1]), redis.call("LRANGE", KEYS[1], 1, -2),
			redis.call("LTRIM", KEYS[1], 1, -1), redis.call("LPOP", KEYS[1]), redis.call("RPOP", KEYS[1]),
			redis.call("LSET", KEYS[1], 0, "x"), redis.call("LRANGE", KEYS[1], 0, -1)}`,
		`redis.call("RPUSH", KEYS[1], 1, 2, 3) return {redis.call("LPOP", KEYS[1], 2), redis.call("LPOP", "none"),
			redis.call("LTRIM", KEYS[1], 5, 9), redis.call("EXISTS", KEYS[1]), redis.call("TYPE", KEYS[1])}`,
		`return redis.pcall("LSET", KEYS[1], 0, "x")`,
		`redis.call("RPUSH", KEYS[1], 1) return redis.pcall("LSET", KEYS[1], 5, "x")`,
		`redis.call("RPUSH", KEYS[1], 1) return redis.pcall("LINDEX", KEYS[1], "x")`,
		`redis.call("HSET", KEYS[1], "rate", 5, "interval", 1732100000123456)
			return {redis.call("HMGET", KEYS[1], "rate", "interval", "none"), redis.call("HGET", KEYS[1], "none"),
			redis.call("HLEN", KEYS[1]), redis.call("HEXISTS", KEYS[1], "rate"), redis.call("HDEL", KEYS[1], "rate", "x"),
			redis.call("HINCRBY", KEYS[1], "n", 5)}`,
		`redis.call("HSET", KEYS[1], "a", 1) return redis.call("HGETALL", KEYS[1])`,
		`return redis.pcall("HSET", KEYS[1], "a")`,
		`redis.call("HSET", KEYS[1], "a", "x") return redis.pcall("HINCRBY", KEYS[1], "a", 1)`,
		`return redis.pcall("HINCRBY", KEYS[1], "a", "x")`, `return redis.pcall("SETEX", KEYS[1], 0, 5)`,
		`redis.call("SET", KEYS[1], "x") return {redis.pcall("INCR", KEYS[1]), redis.pcall("HGET", KEYS[1], "a"),
			redis.pcall("ZADD", KEYS[1], 1, "a"), redis.pcall("LPUSH", KEYS[1], 1), redis.pcall("SADD", KEYS[1], 1)}`,
		`return {redis.call("SET", KEYS[1], 5, "PX", 1000), redis.call("PTTL", KEYS[1]) > 900,
			redis.call("TTL", KEYS[1]), redis.call("SET", KEYS[1], 6, "NX"), redis.call("SET", KEYS[1], 6, "XX", "KEEPTTL"),
			redis.call("PERSIST", KEYS[1]), redis.call("TTL", KEYS[1]), redis.call("TTL", "none")}`,
		`return redis.pcall("SET", KEYS[1], 5, "PX", 0)`, `return redis.pcall("SET", KEYS[1], 5, "PX", 1.5)`,
		`return redis.pcall("SET", KEYS[1], 5, "PX", -1)`, `return redis.pcall("SET", KEYS[1], 5, "FOO")`,
		`return redis.pcall("SET", KEYS[1], 5, "PX", 1e20)`, `return redis.pcall("PSETEX", KEYS[1], 0, 5)`,
		`return {redis.call("PEXPIRE", KEYS[1], 10), redis.call("SET", KEYS[1], 1), redis.call("PEXPIRE", KEYS[1], 1800),
			redis.call("TTL", KEYS[1]), redis.call("PEXPIRE", KEYS[1], 0), redis.call("EXISTS", KEYS[1])}`,
		`redis.call("SET", KEYS[1], 1) return {redis.call("PEXPIRE", KEYS[1], -5), redis.call("EXISTS", KEYS[1])}`,
		`redis.call("SET", KEYS[1], 1) return redis.pcall("PEXPIRE", KEYS[1], 1.5)`,
		`redis.call("SET", KEYS[1], 1) return redis.pcall("PEXPIRE", KEYS[1], "x")`,
		`redis.call("SET", KEYS[1], 1) return {redis.call("PEXPIRE", KEYS[1], 5000, "GT"),
			redis.call("PEXPIRE", KEYS[1], 5000, "NX"), redis.call("PEXPIRE", KEYS[1], 9000, "LT")}`,
		`return {redis.call("INCR", KEYS[1]), redis.call("INCRBY", KEYS[1], 10), redis.call("DECR", KEYS[1]),
			redis.call("DECRBY", KEYS[1], 3), redis.call("APPEND", KEYS[1], "x"),
			redis.call("STRLEN", KEYS[1]), redis.call("GETRANGE", KEYS[1], 0, 1), redis.call("SETRANGE", KEYS[1], 1, "yy"),
			redis.call("GET", KEYS[1])}`,
		`redis.call("SET", KEYS[1], "9223372036854775807") return redis.pcall("INCR", KEYS[1])`,
		`redis.call("SET", KEYS[1], "1.5") return redis.pcall("INCRBY", KEYS[1], 1)`,
		`return redis.pcall("INCRBY", KEYS[1], 1.5)`, `return redis.pcall("INCRBY", KEYS[1], "x")`,
		`return {redis.call("SETNX", KEYS[1], 1), redis.call("SETNX", KEYS[1], 1), redis.call("GETSET", KEYS[1], 2),
			redis.call("GETDEL", KEYS[1]), redis.call("DEL", KEYS[1], "x"), redis.call("UNLINK", KEYS[1])}`,
		`redis.call("MSET", "a", 1, "b", 2) return {redis.call("MGET", "a", "b", "c"),
			redis.call("EXISTS", "a", "b", "c", "a"), redis.call("TYPE", "a"), redis.call("TYPE", "c"),
			redis.call("DEL", "a", "b", "c")}`,
		`return {redis.call("SADD", KEYS[1], "a", "b", "a"), redis.call("SCARD", KEYS[1]),
			redis.call("SISMEMBER", KEYS[1], "a"), redis.call("SREM", KEYS[1], "a", "z"), redis.call("SMEMBERS", KEYS[1])}`,
		`return {redis.call("SETBIT", KEYS[1], 7, 1), redis.call("GETBIT", KEYS[1], 7), redis.call("BITCOUNT", KEYS[1])}`,
		`redis.call("SET", KEYS[1], 1) redis.call("RENAME", KEYS[1], KEYS[2]) return {redis.call("GET", KEYS[2]),
			redis.call("DBSIZE"), redis.pcall("RENAME", "none", "x")}`,
		`return {redis.call("FLUSHALL"), redis.call("DBSIZE"), redis.call("KEYS", "*")}`,
		`redis.call("SET", "a1", 1) return redis.call("SCAN", 0, "MATCH", "a*", "COUNT", 100)`,
		`redis.call("SET", KEYS[1], 1) return {redis.call("EXPIREAT", KEYS[1], 99999999999),
			redis.call("PEXPIREAT", KEYS[1], 1), redis.call("EXISTS", KEYS[1])}`,
		`return {redis.call("SET", KEYS[1], 1, "GET"), redis.call("SET", KEYS[1], 2, "GET"),
			redis.call("GETEX", KEYS[1], "PX", 100000), redis.call("TTL", KEYS[1])}`,
		`redis.call("ZADD", KEYS[1], 1, "a") return redis.pcall("GET", KEYS[1])`,
		`return {redis.call("ZRANGEBYSCORE", "none", 0, 1), redis.call("ZCARD", "none"), redis.call("LLEN", "none"),
			redis.call("HGETALL", "none"), redis.call("LRANGE", "none", 0, -1), redis.call("ZSCORE", "none", "a")}`,
		`return redis.pcall("ZRANGEBYSCORE", KEYS[1], "x", 1)`, `return redis.pcall("ZRANGE", KEYS[1], "x", 1)`,
		`return redis.pcall("ZRANGE", KEYS[1], 0, 1, "FOO")`, `return redis.pcall("LRANGE", KEYS[1], "x", 1)`,
	}},
}
