// Package scripttest runs a Redis Lua script off the server as Redis 7.0 would: its numbers, its errors,
// its conversions, its libraries. Data lives in a miniredis in the same process, and the clock is the
// test's own. Only the scripts of this module need it: unlike them it has no promise of compatibility.
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
// it cost, NeverExpire runs it on a server that forgets to expire, and Refuse withholds commands from it. A
// script that does not end fails with a *BudgetError; one that needs what is not emulated fails with an
// *UnsupportedError. Neither can be caught by the script. A run costs some 20 us plus its commands and 50 ns
// an instruction.
//
// Whether the tests reach every line and branch, and notice every small fault, takes ten lines more. Put
// the tests into a function of the script, check here, which makes a server, sets its clock and runs it:
//
//	func TestLimiterTests(t *testing.T) {
//		var cov scripttest.Coverage
//		script, err := cov.Compile("limiter.lua", source)
//		if err != nil {
//			t.Fatal(err)
//		}
//		check(t, script)
//		for _, missing := range cov.Missing() {
//			t.Error(missing) // limiter.lua:3:4: never false: n > limit
//		}
//		for m := range script.Mutants() {
//			if mutant, err := m.Compile(); err != nil || scripttest.Failure(t, func(t testing.TB) { check(t, mutant) }) == "" {
//				t.Errorf("survives: %v", m) // survives: limiter.lua:3:6: > -> >=
//			}
//		}
//	}
//
// Coverage says what counts as covered and writes it as a table and as a page of HTML, Mutants says what
// the faults are. LikeMiniredis tests what a script does where there is no struct library.
//
// What a plain gopher-lua or miniredis gets wrong is made right: numbers become strings with 14 digits
// (tostring, .., table.concat, string functions), tonumber and arithmetic read what strtod reads,
// % rounds as Lua 5.1's, locals are shared with closures after a caught error, "local f = function" does not
// see f, unpack stops at 7999 values, struct is there, globals are protected, scores have 17 digits, expiry
// times are absolute and a key outlives its TTL by a millisecond.
//
// Where Lua itself promises nothing, results may differ from Redis's: the order of pairs and next over a table with
// several names, # of an array with holes, the order of equal elements after table.sort. Error texts do
// not name the variable ("attempt to index a nil value"), and name the first line of an expression of several lines.
//
// # What is refused
//
// What cannot be told ends the run, or Compile, with an *UnsupportedError:
//
//   - Where Redis itself may answer otherwise the next time: error() with a table without err (Redis 7.0 crashes),
//     pcall() without a function.
//   - Where the C library decides the last digit: math.exp, math.log, math.sin and the like.
//   - What limiters do without: cjson, cmsgpack, bit, metatables, xpcall, math.random, math.frexp, math.ldexp,
//     math.modf, math.deg, math.rad, table.foreach, table.getn, table.maxn, tonumber with a base, load, loadstring,
//     collectgarbage, gcinfo, struct.size; of struct other formats than < > b B h H l L i I c, and integers of more
//     than 8 bytes; of string.format other verbs than d i s f e g x X; and in patterns %b, %f and %1, or what is
//     wrong or may search for long.
//   - Stack overflows. Here calls nest to 4096, and to 190 those through library functions (pcall, sort, gsub).
//   - Coroutines, string.dump, ... outside a function, a first line that begins with #, replies of RESP3, redis.setresp
//     and set_repl, strings beyond 256 MB, chunks that need more registers than gopher-lua has.
//   - Commands that miniredis does not have, and what it would get wrong: streams, HyperLogLogs, INCRBYFLOAT,
//     HINCRBYFLOAT, other databases, TTLs of more than 290 years.
//
// A script that Redis does not compile is refused by Compile too, in the words of another parser.
//
// # What is the server's own affair
//
// TIME stands still within a run, as from Redis 7.2 on, since the clock is the test's. The addresses in
// tostring({}) are other ones, as they are on every server. Commands and options beyond those that the tests
// here compare with a server are miniredis's; so is the order of what has none, such as SMEMBERS.
package scripttest
