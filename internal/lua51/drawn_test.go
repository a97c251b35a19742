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

// drawn are fragments that draw their cases from the generator, so both sides see the same ones, and those of commands.
var drawn = []group{
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
