// Package model computes what every script must answer, in the simplest way that follows its header. Permits are a
// slice of the times for which they were granted, counted again in every call; gcra uses exact fractions. The code is
// slow on purpose and shares nothing with the scripts except the ranges of their arguments.
//
// Tests compare the scripts with it, on random sequences of calls and in the vectors of scripttest.
package model

import (
	"slices"

	"github.com/sluice-redis/sluice"
)

// An Outcome is what a call must answer and what it must store.
type Outcome struct {
	Reply []int64
	Err   string // the whole error reply; Reply is empty then
	After Store  // the store afterwards; unchanged after an error

	// Or is an error that is also correct: the store holds something unreadable, and a script
	// need not look at all of it.
	Or string

	// Any means that the stored values are readable but inconsistent: every reply within the ranges is correct,
	// and so is Or.
	Any bool
}

// Call is one call of a script at the time now, in microseconds since 1970.
func Call(script *sluice.Script, store Store, now int64, keys, args []string) Outcome {
	if script.KeyGroup != nil {
		return many(script, store, now, keys, args)
	}
	c := call{store: store, now: now, keys: keys}
	var bad string
	if c.args, bad = read(script, keys, args); bad != "" {
		return c.fails(bad)
	}
	switch script.Name {
	case "list_log_return":
		return listLogReturn(c)
	case "zset_log_return":
		return zsetLogReturn(c)
	case "list_log":
		return listLog(c)
	case "zset_log":
		return zsetLog(c)
	case "slice_ring":
		return sliceRing(c)
	case "slice_ring_return":
		return sliceRingReturn(c)
	case "budget":
		return budget(c)
	case "budget_settle":
		return budgetSettle(c)
	case "token_bucket":
		return tokenBucket(c)
	case "token_bucket_set":
		return tokenBucketSet(c)
	case "gcra":
		return gcra(c)
	case "quota":
		return quota(c)
	case "quota_return":
		return quotaReturn(c)
	case "concurrency":
		return concurrency(c)
	case "concurrency_release":
		return concurrencyRelease(c)
	}
	return c.fails("no model of " + script.Name)
}

// call is a call with every argument in its range.
type call struct {
	store Store
	now   int64
	keys  []string
	args  arguments
}

const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"

func (c call) fails(err string) Outcome { return Outcome{Err: err, After: c.store} }

// holds returns the value of a key if it has the wanted type or is absent.
func (c call) holds(key, kind string) (value Value, ok bool) {
	value = c.store[key]
	return value, value.Type == "" || value.Type == kind
}

// milliseconds converts the time at which a key may expire, or how long it is kept, to milliseconds: rounded up, and
// 1 ms more, for servers whose clock for expiry is behind.
func milliseconds(us int64) int64 { return (us+999)/1000 + 1 }

// maxTime is the latest time that a Lua number holds exactly.
const maxTime = 1<<53 - 1

// unreadable reports which entries cannot be read: the newest, or an earlier one.
func unreadable(readable []bool) (newest, another bool) {
	if len(readable) == 0 {
		return false, false
	}
	last := len(readable) - 1
	return !readable[last], slices.Contains(readable[:last], false)
}
