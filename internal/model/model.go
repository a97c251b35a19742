// Package model says what every script must answer, in the plainest way that can be read off its header:
// permits as a slice of the moments they were granted for, counted afresh by every call, and gcra in exact
// fractions. Nothing is fast here and nothing is shared with the scripts but the ranges of their arguments.
//
// Tests hold the scripts against it, on random sequences of calls and in the vectors of scripttest.
package model

import (
	"slices"

	"github.com/sluice-redis/sluice"
)

// An Outcome is what a call must answer, and what it must leave behind.
type Outcome struct {
	Reply []int64
	Err   string // the whole error reply; then there is no Reply
	After Store  // the store afterwards; with an error as it was

	// Or is an error that is right as well as Reply: the store holds something unreadable, and a script
	// need not look at all of it.
	Or string

	// Any says that what is stored is readable and makes no sense, so that every reply within the ranges
	// is right, and so is Or.
	Any bool
}

// Call is one call of a script at the moment now, in microseconds since 1970.
func Call(script *sluice.Script, store Store, now int64, keys, args []string) Outcome {
	c := call{store: store, now: now, keys: keys}
	var bad string
	if c.args, bad = read(script, keys, args); bad != "" {
		return c.fails(bad)
	}
	switch script.Name {
	case "list_log":
		return listLog(c)
	case "zset_log":
		return zsetLog(c)
	case "slice_ring":
		return sliceRing(c)
	case "slice_ring_return":
		return sliceRingReturn(c)
	case "token_bucket":
		return tokenBucket(c)
	case "token_bucket_set":
		return tokenBucketSet(c)
	case "gcra":
		return gcra(c)
	}
	return c.fails("no model of " + script.Name)
}

// call is a call whose arguments are each in their range.
type call struct {
	store Store
	now   int64
	keys  []string
	args  arguments
}

const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"

func (c call) fails(err string) Outcome { return Outcome{Err: err, After: c.store} }

// holds is the value of a key, if it is of the wanted type or absent.
func (c call) holds(key, kind string) (value Value, ok bool) {
	value = c.store[key]
	return value, value.Type == "" || value.Type == kind
}

// milliseconds is the moment us in milliseconds, rounded up.
func milliseconds(us int64) int64 { return (us + 999) / 1000 }

// mostMoment is the last moment that a number of Lua holds exactly.
const mostMoment = 1<<53 - 1

// unreadable reports which of the entries cannot be read: the newest, or another of those before it.
func unreadable(readable []bool) (newest, another bool) {
	if len(readable) == 0 {
		return false, false
	}
	last := len(readable) - 1
	return !readable[last], slices.Contains(readable[:last], false)
}
