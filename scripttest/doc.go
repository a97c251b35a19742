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
// (tostring, .., table.concat, string functions, cjson), tonumber and arithmetic read what strtod reads,
// % rounds as Lua 5.1's, locals are shared with closures after a caught error, "local f = function" does not
// see f, unpack stops at 7999 values, struct, bit and cmsgpack are there, globals are protected, scores have
// 17 digits, expiry times are absolute and a key outlives its TTL by a millisecond.
//
// Where Lua itself promises nothing, results may differ from Redis's: the order of pairs, next, cjson and cmsgpack over a
// table with several names, # of an array with holes, the order of equal elements after table.sort. Error texts do not
// name the variable ("attempt to index a nil value"), and name the first line of an expression of several lines.
//
// # What is refused
//
// What cannot be told ends the run, or Compile, with an *UnsupportedError:
//
//   - Where Redis itself may answer otherwise the next time: math.random before math.randomseed, weak tables, error()
//     with a table without err (Redis 7.0 crashes), pcall() without a function, what collectgarbage and gcinfo tell of
//     memory.
//   - Where the C library decides the last digit: math.exp, math.log, math.sin and the like.
//   - Stack overflows, and errors in the handler of xpcall. Here calls nest to 4096, and to 190 those through
//     library functions (pcall, sort, gsub) and all calls of a script that sets metatables.
//   - Coroutines, the text of loadstring's errors, string.dump, ... outside a function, a first line that begins
//     with #, redis.setresp(3), changing cjson's settings, strings beyond 256 MB, chunks that need more registers
//     than gopher-lua has.
//   - Commands that miniredis does not have, and what it would get wrong: streams, HyperLogLogs, INCRBYFLOAT,
//     HINCRBYFLOAT, TTLs of more than 290 years.
//
// A script that Redis does not compile is refused by Compile too, in the words of another parser.
//
// # What is the server's own affair
//
// TIME stands still within a run, as from Redis 7.2 on, since the clock is the test's. The addresses in
// tostring({}) are other ones, as they are on every server. Commands and options beyond those that the tests
// here compare with a server are miniredis's; so is the order of what has none, such as SMEMBERS.
//
// # The faults of the scripts that are often copied
//
// Sluice grew from five systems, S0 to S4: a time-slice ring in a list, a sliding window behind an
// annotation, a global limit of 5 a second, a limit per user and action, and Redisson's RRateLimiter. S5 are
// semaphores on Redis.
// Each of their faults has a test in which the faulty way fails and ours passes, or a figure of `make bench`.
// A faulty script is testdata/faulty/<name>.lua, or one that the playground shows, and TestFaultyScriptsFail shows it
// failing where no other test is named.
//
//	S0  the walk over skipped slices never ends   s0_walk_never_meets, TestChecks/slice_ring/gaps
//	S0  idle for a lap, old counts are current    s0_lap_of_counts, TestChecks/slice_ring/gaps
//	S0  each process keeps the last index         s0_process_index, TestFaultProcessKeepsTheIndex
//	S0  initialisation races                      TestFaultInitialisationRaces
//	S0  two keys without a common hash tag        TestKeysOfACallShareTheirSlot
//	S0  two windows cannot be checked together    TestFaultWindowsOneByOne
//	S0  counting and limiting are separate        TestFaultCheckThenAdd
//	S0  S1  an idle key stays for ever            s1_no_expiry, TestFaultNoExpiry, TestChecks/list_log/expiry
//	S0  S1  S2  S4  the clock is the client's     clients_clock, TestFaultClientsClock
//	S1  the timestamp is the member               s1_member_is_time
//	S1  the check and the add are separate        TestFaultCheckThenAdd
//	S1  S3  a refused call is recorded            s1_refused_recorded
//	S1  the count includes both edges             s1_both_edges
//	S1  S2  nothing says how long to wait         s1_no_wait
//	S1  open on failure is the only policy        TestFaultOpenOnFailure
//	S2  polling: capacity, calls, fairness        TestFaultPolling
//	S2  a refusal is a nil reply                  s2_false_is_nil
//	S2  one permit a call                         s2_one_permit
//	S2  a UUID a permit, 145 bytes                make bench
//	S3  twice the limit across a window's edge    s3_fixed_window
//	S3  the member is the millisecond             s3_member_is_millisecond
//	S3  counts before it trims                    s3_count_before_trim
//	S3  expiry in whole seconds                   s3_whole_second_expiry
//	S4  check, set and acquire race               TestFaultCheckSetAcquire
//	S4  equal random numbers are one member       s4_random_member
//	S4  counter and entries disagree              s4_counter_beside_entries
//	S4  too many results to unpack                s4_unpack_expired, TestServerFaultUnpackExpired
//	S4  1.2 s of blocked server at a million      make bench
//	S4  the wait of the oldest for n permits      s4_wait_of_oldest
//	S4  assert() on a caller's mistake            s4_assert, TestChecks/token_bucket/malformed_calls
//	S4  five keys a limiter                       TestKeysOfACallShareTheirSlot
//	S4  a changed rate clears the state           s4_rate_change_clears
//	S5  stuck when holders die                    s5_counter
//	S5  an empty state is read as a missing one   s5_empty_is_missing
//	S5  a key without TTL, or with this call's    s5_expires_with_the_call, TestChecks/concurrency/TTL
//	S5  a renewal takes a slot that was lost      s5_renewal_takes
//	S5  an expired permit is released twice       s5_release_of_what_ended
//	S5  check, then set                           TestServerHammerSlots
package scripttest
