// Package sluice holds versioned Redis Lua scripts that decide rate limits, byte for byte as
// they lie in scripts/, and describes each as its header does: its keys, arguments, reply,
// errors and the commands it calls. Package loader calls them from Go, by typed functions.
// Other languages take the files and scripts/manifest.json, which says the same as [All].
//
// # The model
//
// A call decides about one subject: a user, an address, a route. It takes the limit with its
// arguments, and the state from Redis; it grants all the permits asked for or none, and writes
// only when it grants. A window is a length of time that may begin at any moment, never a
// calendar minute. The scripts differ in what they count:
//
//   - [ListLogV1] never grants more than the limit in any window, to the microsecond, and
//     takes about 10 bytes a permit. It is the one to begin with.
//   - [ZSetLogV1] grants the same, and takes a request id: asking again with it is free, and
//     permits can be given back. It is for limits up to 10000.
//   - [SliceRingV1] counts by slice of time, for several windows at once and limits up to 10^9;
//     [SliceRingReturnV1] gives back what was taken and not used.
//   - [GCRAV1] gives permits back one by one, a smooth rate with a burst, in one small string.
//   - [TokenBucketV1] keeps its limit in Redis, where [TokenBucketSetV1] changes it for every
//     caller at once.
//
// # Guarantees
//
// Of every script that grants permits:
//
//   - Time is the server's, in whole microseconds; no caller's clock is read.
//   - The reply begins with the permits granted, those remaining, how long to wait, how long
//     until the limiter is as new, and the server's clock. Scripts append to it, never insert.
//   - A denied call writes nothing. Neither does a call for 0 permits, which only looks, and
//     may run on a read-only replica.
//   - max_wait above 0 books permits ahead, first come, first served: the reply says when they
//     may be used. While permits are booked ahead, callers that do not wait are denied.
//   - Every key expires when it no longer matters, and correctness never rests on that. A
//     config that an operator has set stays.
//   - No call does unbounded work, however long the limiter slept.
//   - A clock that steps back by up to a window and 60 s lets nothing extra through. One that
//     steps on, or state written by a clock further ahead than that, costs one limit at most.
//   - The limit may differ from call to call, and keeps the state.
//   - Wrong arguments are refused before anything is written: an error BADARG names the
//     argument and its range. Stored values of another type (WRONGTYPE), or that the script did
//     not write (BADSTATE), are refused and never overwritten.
//
// # Keys
//
// A key is <prefix>:<limiter>:{<subject>}:<state>, as in sluice:send-code:{ada@example.com}:ll1;
// the patterns are in [Script.Keys]. The keys of one call share their hash tag, so that every
// script runs on Redis Cluster. Prefix and limiter are of letters, digits, ".", "_" and "-", the
// limiter of "/" too;
// in a subject "%", "{" and "}" are written %25, %7B and %7D, and it is never empty.
//
// # Compatibility
//
// The version of a script is part of its name, and a released script never changes, not even
// its comments: its SHA1 is for good, and a change is a new file under the next version. So an
// update of this module adds scripts and never changes what a deployed one does.
//
// [Script.State] numbers the layout of what is stored. Versions of a script with the same State
// may work on the same keys at the same time, as they do during a rolling deployment; another
// State has other keys, and starts afresh.
//
// The scripts are Lua 5.1 without what differs between servers. They run unchanged on Redis 5.0
// to 8 and Valkey 7.2 to 9, and on miniredis in tests; numbers stay exact in the Lua of each.
package sluice

// A Script is one version of one script, as its header describes it.
type Script struct {
	Name    string // "gcra"
	Version int    // 1
	File    string // "gcra_v1.lua", in scripts/
	SHA1    string // of Source: what EVALSHA takes and sha1sum prints
	Source  string // the file, byte for byte
	About   string // what it is and guarantees

	Keys  []Key
	Args  []Field // those that Group repeats come last
	Group *Group  // nil where nothing is repeated
	Reply []Field // that which Group repeats comes last

	Errors     []Error
	Commands   []string // what it calls, sorted: an ACL must allow these besides EVALSHA
	State      string   // "gcra/1"
	Layout     string   // what it stores, and when that expires
	Complexity string   // "O(1)"
	Cost       string   // what a call does for that
	Redis      string   // the least version of Redis that runs it, "5.0"
}

// A Key is one of KEYS.
type Key struct {
	Name    string
	Pattern string // "<prefix>:<limiter>:{<subject>}:gcra1"
}

// A Field is one of ARGV or of the reply.
type Field struct {
	Name string

	// Type is "int"; "us", a length of time in microseconds; "time", a moment in microseconds
	// since 1970 by the server's clock; or "str", in arguments. As arguments, numbers are 1 to 16
	// decimal digits and nothing else.
	Type string

	// Min and Max bound the number, or the length of a str in bytes; Max is -1 where there is
	// no bound.
	Min, Max int64

	Text string

	// Repeated fields come once for each of Group: all of the first, then all of the second.
	// Their names end in _i, for which errors have the number: BADARG slices_2.
	Repeated bool
}

// A Group says how often the repeated fields come.
type Group struct {
	Name     string
	Min, Max int
}

// An Error is one that a script replies with.
type Error struct {
	Code string // its first word: BADARG, WRONGTYPE or BADSTATE
	Text string // what it means
}
