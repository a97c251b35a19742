package lua51

// generator is Lua that draws numbers and texts: the minimal standard generator, the same everywhere.
const generator = `
	local state, out = 20261120, {}
	local function draw() state = state * 16807 % 2147483647 return state end
	local function below(n) return draw() % n end
	local function double() return (draw() * 4194304 + below(4194304)) * 2 ^ (below(2090) - 1070) * (below(2) * 2 - 1) end
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
		`return {1, 2, ok="x"}`,
		`return function() end`, `return {1, function() end, 3}`, `return cjson.null`,
		`return redis.error_reply("BAD thing")`, `return redis.error_reply("-BAD thing")`,
		`return redis.error_reply("BAD")`, `return redis.error_reply("BAD\r\n")`,
		`return redis.error_reply("BAD two\nlines")`, `return redis.error_reply("")`, `return redis.error_reply(1)`,
		`return redis.error_reply()`, `return redis.error_reply("A b", 1)`, `return redis.status_reply("FINE")`,
		`return redis.status_reply()`,
		`return ARGV`,
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
		`return tostring(tonumber(nil))`, `return tonumber()`,
		`return tonumber({})`, `return tonumber(ARGV[3])`,
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
		`local x = 1; local f = function() x = x + 1 end; pcall(error); f(); return x`,
		`local x = 1; local f = function() x = x + 1 end; pcall(function() pcall(error) error() end); f(); return x`,
		`local g; pcall(function() local y = 5; g = function() y = y + 1 return y end; error() end); return {g(), g()}`,
		`string.rep()`, `local again = string.rep again()`, `local t = {again = string.rep} t.again()`,
		`return {pcall(string.rep)}`, `return string.rep()`,
		`return {pcall(table.sort, {3, 1, 2}, string.rep)}`, `string.rep("x", {})`, `string.rep("x")`, `ipairs()`,
		`pairs(nil)`,
		`select(0)`, `select("x")`, `select()`,
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
		`rawset(_G, "foo", 1)`, `table.insert(redis, 1)`,
		`return rawget(_G, "foo")`, `return rawget(_G, "print")`,
		`return {tostring(rawget(_G, "os")), tostring(rawget(_G, "io")), tostring(rawget(_G, "debug")),
			tostring(rawget(_G, "require")), tostring(rawget(_G, "setfenv")), tostring(rawget(_G, "server"))}`,
		`return print`, `return os.time()`, `return _G == _G._G`,
		`local t = {} for k, v in pairs(_G) do t[#t + 1] = k .. ":" .. type(v) end table.sort(t) return t`,
		`local t = {} for _, lib in ipairs{"redis", "string", "table", "math", "bit", "struct", "coroutine"} do
			for k, v in pairs(_G[lib]) do t[#t + 1] = lib .. "." .. k .. ":" .. type(v) end end table.sort(t) return t`,
		`return {next({}), type(next(redis))}`, `return type(newproxy)`,
		`local t = {} t.x = 1 t[1] = 2 return t.x + t[1]`, `local goto_ = 1 return goto_`,
		`return {redis.REDIS_VERSION_NUM > 458751, redis.LOG_WARNING, redis.REPL_ALL}`,
		`local function f(...) return select("#", ...), arg.n end return {f(1, nil, 3)}`,
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
		`return string.format("%5s|%-5s|%05d|%+d|%x|%X|%e|%.3s|%%|%5.1f|% d|%i", "ab", "cd", 42, 7, 255, 255, 12345.678, "abcdef", 3.14159, 5, 6)`,
		`return string.format("%x %X", -1, 2^64)`, `return string.format("%g %g %g %g %g %.3g", 100000, 1000000, 1e15, 0.0001, 0.00001, 1234.5)`,
		`return string.format("%f %e %g %5.1f|%-8.2f|%08.2f|%+.1e|% .2f", 1/3, 1/3, 1/3, 2.25, 2.255, -2.5, 12345, 1)`,
		`return string.format("%f %g %e %5.1f|%05f|%-6f|%+f", 1/0, -1/0, 0/0, 1/0, 1/0, 1/0, 1/0)`,
		`return string.format("%d %d %d", 3.7, -3.7, "42")`,
		`return string.format("%d %d %d %d", 1732100000123456, 2^53, 2^63, -2^63)`,
		`return string.format("%d %d", 0/0, 1/0)`,
		`return string.format("%.0f %.0f %.0f %.0f %.0f", 1732100000123456, 0.5, 1.5, 2.5, 1e22)`,
		`return string.format("%s %s", 1732100000123456, 0.1)`,
		`return string.format("%.14g %.17g %.16g %.15g", 0.1, 0.1, 0.1, 2/3)`,
		`return string.format("%5d|%-5d|%05d|%.3d|%5.3d|%+5d|%.0d|", 42, 42, -42, 7, 7, 7, 0)`,
		`return string.format("%s", "a\0b") .. "|" .. string.format("%s", ("x"):rep(99) .. "\0b") .. "|" .. string.format("%5s", "a\0b")`,
		`return string.format("%s", ("x"):rep(100) .. "\0b")`,
		`return string.format("%.2s|%10.2s|%-10s|%.0s|", "abcdef", "abcdef", "abc", "x")`,
		`return string.format("%s", nil)`,
		`return string.format("%s", true)`, `return string.format("%s", {})`, `return string.format("%d", nil)`,
		`return string.format("%d")`,
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
		`return redis.log(9, "a")`, `return redis.replicate_commands()`,
		`return #redis.call("time")`, `return redis.call("TiMe")[1] + 0 > 0`,
	}},
	{"struct", []string{
		`return struct.pack(">I8I4", 1732100000123456, 7)`, `return struct.pack("<I4>I4I4", 1, 2, 3)`,
		`return {struct.unpack(">I8I4", struct.pack(">I8I4", 1732100000123456, 7))}`,
		`return struct.pack("bBhHlLiI", -1, 255, -2, 65535, -3, 4, -5, 6)`,
		`return {struct.unpack("bBhHlLiI", struct.pack("bBhHlLiI", -1, 255, -2, 65535, -3, 4, -5, 6))}`,
		`return {struct.unpack("c3", "abcdef"), struct.unpack("Bc0", "\3abcdef"), struct.unpack("c", "xyz"), struct.pack("c5c0", "hello world", "all")}`,
		`return struct.pack(">I4", 2^32 + 5)`, `return struct.pack(">I4", -1)`, `return struct.pack(">I4", 3.99)`,
		`return struct.pack(">i4", -3.99)`, `return struct.pack(">I8", 2^63)`, `return struct.pack(">I8", 2^64)`,
		`return struct.pack(">I8", 2^63 + 2^62)`, `return struct.pack(">I8I8I8I8", 0/0, 1/0, -1/0, -2^63)`,
		`return struct.pack(">I4", "77")`, `return struct.pack(">I3I5I7", 1, 2, 3)`,
		`return {struct.unpack(">I3", "\1\2\3"), struct.unpack("<i3", "\255\255\255"), struct.unpack(">i3", "\128\0\0")}`,
		`return tostring(struct.unpack(">I8", "\255\255\255\255\255\255\255\255")) .. tostring(struct.unpack(">i8", "\255\255\255\255\255\255\255\255"))`,
		`return struct.pack("c5", "abc")`, `return struct.pack("c5", 12345678)`,
		`return {struct.unpack("c0", "abcd")}`,
		`return {struct.unpack("Bc0", "\9abcd")}`, `return {struct.unpack("c5", "abcd")}`,
		`return {struct.unpack(">I4", "abc")}`, `return {struct.unpack(">I4", "")}`,
		`return {struct.unpack(">I2", "abcd", 3)}`, `return {struct.unpack(">I2", "abcd", 4)}`,
		`return {struct.unpack(">I2", "abcd", 0)}`, `return {struct.unpack(">I2", "abcd", -1)}`,
		`return {struct.unpack("", "abcd", 3)}`,
		`return struct.pack("I2147483648", 1)`, `return struct.pack("I4")`, `return struct.pack("I4", nil)`,
		`return struct.pack("I4", "x")`, `return struct.pack("I4", {})`,
		`return struct.pack()`, `return struct.unpack("I4")`,
		`return struct.unpack("I4", "\1\0\0\0\0\0\0\0", 1.9)`, `return struct.pack("I4", 1, 2, 3)`,
		`return #{struct.unpack(("B"):rep(7990), ("x"):rep(7990))}`,
		`return #{struct.unpack(("B"):rep(8000), ("x"):rep(8000))}`,
	}},
	// Each draws its cases from the generator below, so both sides see the same ones.
	{"drawn", []string{
		generator + `for i = 1, 3000 do
			local d = double()
			out[i] = tostring(d) .. "|" .. string.format("%.17g|%g|%.3f|%e|%d|%x|%5.1f", d, d, d, d, d, d, d)
		end return out`,
		generator + `for i = 1, 3000 do
			local a, b = small(), small()
			out[i] = tostring(a % b) .. "|" .. tostring(a / b) .. "|" .. a * b .. "|" .. tostring(math.fmod(a, b)) .. "|" .. tostring(math.floor(a)) .. "|" .. tostring(-a)
		end return out`,
		generator + `for i = 1, 3000 do
			local s = text("0123456789.eExX+- infa\0pP_", 8)
			out[i] = s .. "=" .. tostring(tonumber(s))
		end return out`,
		generator + `for i = 1, 6000 do
			local subject, pattern = text("ab(1.%", 12), text("ab1.*+-?^$]", 7)
			local ok, from, to, one, two = pcall(string.find, subject, pattern, below(4) - 2)
			local fine, replaced, n = pcall(string.gsub, subject, pattern, "<%0>")
			out[i] = subject .. " ~ " .. pattern .. ": " .. tostring(ok) .. tostring(from) .. tostring(to) .. tostring(one) .. tostring(two) .. " " .. tostring(fine) .. tostring(replaced) .. tostring(n)
		end return out`,
		generator + `for i = 1, 3000 do
			local format = "%" .. text("-+ 0", 3) .. text("123", 2) .. ({"", ".", ".0", ".5", ".50"})[below(5) + 1] .. ("dixXefgs"):sub(i % 8 + 1, i % 8 + 1)
			local ok, s = pcall(string.format, format, small())
			out[i] = format .. ": " .. tostring(s)
		end return out`,
		generator + `for i = 1, 2000 do
			local format = text("<>bBhHiIlL", 5) .. ({"i1", "I2", "i3", "I7", "i8", "c3"})[below(6) + 1]
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
