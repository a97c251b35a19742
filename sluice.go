// Package sluice holds versioned Redis Lua scripts for rate limits, and describes each one: its keys, arguments,
// reply, errors and commands. Use package loader to call them from Go. Use this package for tools that load, list or
// check the scripts. For other languages take the files in scripts/ and scripts/manifest.json, which has the same
// content as [All].
//
// # The model
//
// A call decides about one subject: a user, an address, a route. The limit is in its arguments, the state is in Redis.
// A call grants all permits that it asks for, or none. It writes only if it grants, or if it reports permits to
// slice_ring, which are charged in any case. A window is a length of time that may begin at any time; it is never a
// calendar minute. The scripts count in different ways:
//
//   - [ListLogV1] never grants more than the limit in any window, to the microsecond. It stores about 10 bytes for
//     each permit. Begin with this one. [ListLogReturnV1] gives back permits that were not used.
//   - [ZSetLogV1] guarantees the same and takes a request ID. A repeated request with the same ID is not charged
//     again, and [ZSetLogReturnV1] gives permits back by it. Its limits go up to 10000.
//   - [SliceRingV1] counts by slices of time. It checks several windows at once and allows limits up to 10^9. Each
//     window is a ring in a key of its own; one that is new to a subject begins empty. [SliceRingReturnV1] gives back
//     permits that were not used.
//   - [BudgetV1] charges such rings with an estimate under an ID, and [BudgetSettleV1] corrects it when the cost is
//     known.
//   - [GCRAV1] grants a smooth rate with a burst. It stores one small string.
//   - [TokenBucketV1] stores its limit in Redis. [TokenBucketSetV1] changes it for one subject.
//   - [GCRAManyV1], [ListLogManyV1] and [SliceRingManyV1] decide about many subjects of one limiter in one call.
//
// # Guarantees
//
// These hold for every script that grants permits:
//
//   - Time is the server's clock in whole microseconds. No caller's clock is read.
//   - The reply begins with five fields: permits granted, permits remaining, how long to wait, how long until the
//     limiter is full again, and the server's time. Scripts append fields to these, and insert none. (A script for many
//     subjects replies with the server's time, and then the other fields for each subject.)
//   - A denied call writes nothing, unless it reports. A call for 0 permits only looks: it writes nothing and may run
//     on a replica.
//   - max_wait above 0 books permits ahead, first come, first served. The reply says when they may be used. While
//     permits are booked ahead, callers that do not wait are denied.
//   - Every key expires when it is no longer needed. Correctness does not depend on expiry. A config that an operator
//     has set does not expire.
//   - The work of a call is bounded. It does not grow with the time since the last call.
//   - If the clock steps back by up to a window and 60 s, nothing extra is granted. A larger step back or a step
//     forward costs one extra limit at most.
//   - The limit may differ from call to call. The stored state stays valid.
//   - Wrong arguments are refused before anything is written: the error BADARG names the argument and its range.
//     Stored values of another type (WRONGTYPE), or that the script did not write (BADSTATE), are refused and never
//     overwritten.
//
// # Keys
//
// A key is <prefix>:<limiter>:{<subject>}:<state>, for example sluice:send-code:{ada@example.com}:ll1. The patterns are
// in [Script.Keys]. The keys of one call share their hash tag, so every script runs on Redis Cluster. (Those of a
// script for many subjects share it only where the subjects do.) Prefix and limiter consist of letters, digits, ".",
// "_" and "-"; a limiter may have "/" too. A subject is never empty; in it "%", "{" and "}" are written as %25, %7B and
// %7D.
//
// # Compatibility
//
// The version of a script is part of its name. A released script never changes, not even its comments, so its SHA1
// stays the same. A change is a new file with the next version. An update of this module may add scripts, but never
// changes what a deployed script does.
//
// [Script.State] numbers the layout of the stored state. Versions of a script with the same State may use the same
// keys at the same time, for example during a rolling deployment. A version with another State uses other keys and
// starts with empty limiters.
//
// The scripts use only what is the same on all servers. They run unchanged on Redis 5.0 to 8, on Valkey 7.2 to 9, and
// on miniredis in tests. Numbers are exact in the Lua of each.
package sluice

// A Script is one version of a script, with what its header says about it.
type Script struct {
	Name    string // "gcra"
	Version int    // 1
	File    string // "gcra_v1.lua", in scripts/
	SHA1    string // hexadecimal SHA1 of Source, for EVALSHA
	Source  string // the bytes of the file
	About   string // what it is and what it guarantees

	Keys     []Key   // those of Group come first
	Group    *Group  // nil if nothing is repeated for each window
	KeyGroup *Group  // nil if the script decides about one subject
	Args     []Field // those of Group come last
	Reply    []Field // those of each subject come last, and those of Group behind them

	Errors     []ErrorReply
	Commands   []string // commands it calls, sorted; an ACL must allow these and EVALSHA
	State      string   // name and number of the stored layout, "gcra/1"; of several, "sr/1, bg/1"
	Layout     string   // what is stored and when it expires; of several, in the order of State
	Complexity string   // "O(1)"
	Cost       string   // the commands of a call
	Redis      string   // lowest version of Redis that runs it, "5.0"
}

// A Key is one of KEYS.
type Key struct {
	Name    string
	Pattern string // "<prefix>:<limiter>:{<subject>}:gcra1"

	// A repeated key occurs once for each member of Group, of KeyGroup, or of Group for each member of KeyGroup. The
	// name of a key of Group ends in _i.
	Repeated bool
}

// A Field is an argument or a field of the reply.
type Field struct {
	Name string

	// Type is one of:
	//   - "int": an integer
	//   - "us": a duration in microseconds
	//   - "time": a time of the server's clock, in microseconds since 1970
	//   - "str": a text (arguments only)
	//
	// Numbers in arguments are 1 to 16 decimal digits.
	Type string

	// Min and Max bound the number, or the length of a str in bytes. Max is -1 if there is no upper bound.
	Min, Max int64

	Text string

	// Repeated fields occur once for each member of Group: first all fields of the first member, then of the second.
	// Their names end in _i. In errors a number replaces the letter: BADARG slice_2.
	Repeated bool

	// Each is set on replies that occur once for each member of KeyGroup. Those of Group follow the others of a subject.
	Each bool
}

// A Group says how many windows or subjects a call may have. KeyGroup.Max is the largest number of keys.
type Group struct {
	Name     string
	Min, Max int
}

// An ErrorReply is an error reply of a script.
type ErrorReply struct {
	Code string // first word of the reply: BADARG, WRONGTYPE or BADSTATE
	Text string // what it means
}

// A Library holds scripts as Redis Functions (Redis 7.0 and later): each under the name of its File, without ".lua".
type Library struct {
	Name   string // "sluice_v1"
	File   string // "functions/sluice_v1.lua", in scripts/
	SHA1   string // hexadecimal SHA1 of Source
	Source string // the bytes of the file, for FUNCTION LOAD
}
