// Package scripttest runs a Redis Lua script off the server as Redis 7.0 would: its numbers, its errors,
// its conversions, its libraries. Data lives in a miniredis in the same process, and the clock is the
// test's own.
//
//	func TestLimiter(t *testing.T) {
//		redis := scripttest.Start(t)
//		script, err := scripttest.Compile("limiter", source)
//		if err != nil {
//			t.Fatal(err)
//		}
//		redis.SetTime(1_732_100_000_123_456)               // microseconds; TIME and TTLs follow
//		got := script.Run(redis, []string{"key"}, []string{"10", "60000000"})
//		if got.Err != nil || got.Reply.([]any)[0] != int64(1) {
//			t.Errorf("first call: %v, %v", got.Reply, got.Err)
//		}
//	}
//
// Snapshot tells whether a call wrote anything, Result.Commands what it called, Result.Instructions what
// it cost, and NeverExpire runs it on a server that forgets to expire. A script that does not end fails
// with a *BudgetError; one that needs what is not emulated fails with an *UnsupportedError. Neither can
// be caught by the script. A run costs some 20 us plus its commands and 50 ns an instruction.
//
// What a plain gopher-lua or miniredis gets wrong is made right: numbers become strings with 14 digits
// (tostring, .., table.concat, string functions, cjson), tonumber and arithmetic read what strtod reads,
// % rounds as Lua 5.1's, locals are shared with closures after a caught error, unpack stops at 7999
// values, struct, bit and cmsgpack are there, globals are protected, scores have 17 digits, expiry times
// are absolute and a key outlives its TTL by a millisecond.
//
// # What is refused
//
// With an *UnsupportedError: a first line that begins with #, redis.setresp(3), changing cjson's settings,
// string.dump, error() with a table without err (Redis 7.0 crashes), commands that miniredis does not
// have, and streams, HyperLogLogs and TTLs of more than 290 years, which its snapshots or its clock would
// get wrong. As a syntax error: a variable named goto, and ... outside of a function.
//
// # What differs
//
//   - Error texts do not name the variable: "attempt to index a nil value" where Redis says "attempt to
//     index local 'x' (a nil value)". In a call by s:method() a bad argument's number counts s. Syntax
//     errors are worded by gopher-lua's parser. A stack overflow comes at 4096 calls and has no line.
//   - pairs goes through a table in the order of insertion, and # of an array with holes may differ.
//   - ^, math.exp, math.sin and the like may differ in the last digit where the result is not exact.
//   - math.random begins every run with the same seed, and a literal -0 keeps its sign.
//   - collectgarbage and gcinfo say 0, getmetatable(_G) nil, tostring of tables shows other addresses.
//   - Lua runs no yield across pcall or a metamethod, nor a coroutine of a function that is not Lua.
//   - The many commands and options beyond what the tests here compare are miniredis's.
package scripttest
