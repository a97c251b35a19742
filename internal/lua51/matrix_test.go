package lua51

import (
	"fmt"
	"testing"
)

// matrix are the rows of what a script can get wrong off the server: expressions, each of which fills every column. No
// value is a function or a table with an address that would show.
var matrix = []struct {
	row         string
	expressions []string
}{
	{"number formatting and conversion", []string{
		`1732100000123456`, `99999999999999`, `1e15`, `0.1`, `1/3`, `-2.5`, `3.99`, `2^53 + 1`, `2^63`, `-2^63`,
		`1e300`, `0/0`, `1/0`, `-1/0`, `tonumber("0x10")`, `tonumber("1e3")`, `tonumber("nan")`, `tonumber(" 12 ")`,
		`tonumber("")`, `"10" * 2`, `1 .. ""`, `1732100000123456 .. "|"`, `tostring(1e100)`,
		`7 % -3`, `-7 % 3`, `string.format("%.0f", 1732100000123456)`, `string.format("%d", 3.99)`,
		`string.format("%5.1f|%g", 2.25, 1e20)`,
	}},
	{"struct in every format", []string{
		`struct.pack(">I8I4", 1099511627776, 7)`, `struct.pack("<I8I4", 1099511627776, 7)`,
		`struct.unpack(">I8", "\0\0\1\0\0\0\0\0")`, `struct.pack("bBhHlLiI", -1, 255, -2, 65535, -3, 3, -4, 4)`,
		`struct.pack("c3", "abcdef")`, `struct.pack("Bc0", 3, "abc")`,
		`struct.unpack("Bc0", "\3abcd")`,
		`select("#", struct.unpack(">I2I2", "\0\1\0\2"))`, `struct.pack(">I4", 2^32 + 1)`,
		`struct.unpack(">i2", "\255\254")`, `struct.unpack(">I8", "short")`,
		`struct.pack(">I4", "x")`,
	}},
	{"strings and patterns", []string{
		`("12 0x"):find("^%d+$")`, `("1234567890123456"):find("^%d+$")`, `("a,b,c"):gsub(",", ";")`,
		`("key=value"):match("(%w+)=(%w+)")`, `("  x "):match("^%s*(.-)%s*$")`, `("THE (quick) fox"):find("%((%a+)%)")`, `("x"):rep(3)`, `("abc"):byte(-1)`, `string.char(0, 255, 65)`,
		`("abc"):sub(-2)`, `("%d"):format(1)`, `("%5s|%-5s|%.2s"):format("a", "b", "cde")`,
		`("a\0b"):len()`, `("abc"):reverse():upper()`, `("hello"):gsub("l", {l = "L"})`, `("abc"):gsub("%w", "%0%0")`,
		`("x"):rep(-1)`, `string.char(256)`,
		`("x"):format()`, `string.format("%d", "x")`,
	}},
	{"tables, sort, unpack", []string{
		`#{1, 2, nil}`, `table.concat({1, 2.5, "x"}, ",")`, `table.concat({1732100000123456, 0.1}, " ")`,
		`(function() local t = {3, 1, 2} table.sort(t) return table.concat(t) end)()`,
		`(function() local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return table.concat(t) end)()`,
		`(function() local t = {1, 2} table.insert(t, 1, 0) return table.concat(t) end)()`,
		`table.remove({1, 2, 3}, 1)`, `table.remove({})`, `select("#", unpack({1, 2, nil, 4}, 1, 4))`,
		`select("#", unpack({}, 1, 7999))`, `select("#", unpack({}, 1, 8000))`, `next({})`, `rawequal({}, {})`, `rawget({a = 1}, "a")`, `type(ipairs({}))`,
		`table.concat({1, {}, 3})`, `table.concat({1}, ",", 1, 2)`, `table.sort({1, "a"})`, `table.insert({}, 1, 2, 3)`,
		`({}).a.b`,
	}},
	{"pcall and errors", []string{
		`pcall(function() return 1 end)`, `select(2, pcall(error, "plain"))`, `select(2, pcall(error, "level", 0))`,
		`select(2, pcall(function() error("where") end))`, `select(2, pcall(function() return (nil).x end))`,
		`select(2, pcall(function() return 1 + {} end))`, `select(2, pcall(function() return {} .. "x" end))`,
		`select(2, pcall(function() return 1 < "2" end))`, `select(2, pcall(function() return #5 end))`,
		`select(2, pcall(nil))`,
		`select("#", pcall(error))`, `redis.pcall("nope").err`, `redis.pcall("SET", "k1").err`,
		`redis.pcall("INCR", "k1", 2).err`,
		`(function() redis.call("RPUSH", "k2", 1) return redis.pcall("GET", "k2").err end)()`, `assert(1, "unused")`,
		`assert(false, "asserted")`, `assert(nil)`, `redis.call("nope")`, `redis.call()`, `redis.call("GET", {})`,
		`error("thrown")`, `error("thrown", 0)`,
	}},
	{"protected globals", []string{
		`rawget(_G, "undefined")`, `rawget(_G, "struct") ~= nil`, `type(_G)`, `type(redis)`, `type(rawget(_G, "os"))`,
		`type(rawget(_G, "io"))`, `type(rawget(_G, "print"))`, `type(rawget(_G, "debug"))`, `_VERSION`, `KEYS[1]`, `KEYS[3]`, `#ARGV`, `ARGV[3] + 1`,
		`redis.REDIS_VERSION ~= nil`, `redis.LOG_WARNING`, `undefined`, `undefined.field`,
		`(function() created = 1 end)()`, `(function() _G.created = 1 end)()`, `(function() string.added = 1 end)()`,
		`(function() redis.call = nil end)()`, `(function() rawset(_G, "x", 1) end)()`,
	}},
}

// columns say where a value goes. %s is the expression.
var columns = []struct{ column, fragment string }{
	{"computed", `local function show(v)
	if type(v) ~= "table" then return type(v) .. " " .. tostring(v) end
	local words = {}
	for i, item in ipairs(v) do words[i] = show(item) end
	return "{" .. table.concat(words, ", ") .. "}"
end
local values = {n = select("#", %[1]s), %[1]s}
local words = {tostring(values.n)}
for i = 1, values.n do words[i + 1] = show(values[i]) end
return words`},
	{"as an argument", `redis.call("SET", "k1", (%s)) return {redis.call("GET", "k1"), redis.call("STRLEN", "k1")}`},
	{"as a reply", `return {%s, "end"}`},
	{"as the whole reply", `return (%s)`},
	{"as an error reply", `local v = (%s) return redis.error_reply(type(v) == "string" and v or "VALUE " .. tostring(v))`},
	{"as an error raised", `local v = (%s) error(type(v) == "string" and v or "VALUE " .. tostring(v))`},
}

// TestServerMatrix fills every cell of matrix x columns here and on a real Redis 7.0, and compares.
func TestServerMatrix(t *testing.T) {
	server := dialRedis(t, redis70(t).Addr)
	emulated := Start(t)
	fragments := 0
	for _, rows := range matrix {
		for _, column := range columns {
			t.Run(rows.row+"/"+column.column, func(t *testing.T) {
				for _, expression := range rows.expressions {
					fragments++
					compareWith(t, server, emulated, fmt.Sprintf(column.fragment, expression))
				}
			})
		}
	}
	t.Logf("%d fragments in %d cells compared", fragments, len(matrix)*len(columns))
}
