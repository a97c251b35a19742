package scripttest_test

import (
	"strings"
	"testing"
)

// fault is one thing that is wrong in a script.
type fault struct {
	script, fault string
	right, wrong  string // what is replaced
}

// broken are scripts with one fault each, which random sequences must find.
var broken = []fault{
	{"list_log", "the window holds both of its edges", "now - window -- ", "now - window - 1 -- "},
	{"list_log", "the window loses a microsecond", "due = blocker + window\n", "due = blocker + window - 1\n"},
	{"list_log", "void early", "newest > now + newest_window + slack", "newest > now + newest_window + slack - 1000000"},
	{"list_log", "void by the call's window", "newest > now + newest_window + slack", "true"},
	{"list_log", "never void", "newest > now + window + slack", "false"},
	{"list_log", "lets callers in before those who booked", "if newest > due then due = newest end", ""},
	{"list_log", "waits a microsecond more than max_wait", "if due - now <= max_wait", "if due - now <= max_wait + 1"},
	{"list_log", "a void log is added to", `redis.call("UNLINK", log)`, ""},
	{"list_log", "trims one too few", "math.min(gone, granted + 100)", "math.min(gone - 1, granted + 100)"},
	{"list_log", "waits for the oldest, not for the last wanted", "length + wanted - limit", "length + 1 - limit"},
	{"list_log", "expires a window after now, not after the booking", "(due + window) / 1000", "(now + window) / 1000"},
	{"list_log", "expires in milliseconds rounded down", "math.ceil((due + window) / 1000)",
		"math.floor((due + window) / 1000)"},
	{"list_log", "a look writes", "then granted = permits end", "then granted = wanted end"},

	{"list_log_many", "the keys in another order", "decide(KEYS[i])", "decide(KEYS[#KEYS + 1 - i])"},
	{"list_log_many", "one damaged key ends the call", `code ~= "BADSTATE"`, "true"},
	{"slice_ring_many", "the first window's count for all", "counts[j] or 0", "counts[1] or 0"},
	{"slice_ring_many", "the keys in another order", "decide(KEYS[i])", "decide(KEYS[#KEYS + 1 - i])"},
	{"gcra_many", "every key is the first", "decide(KEYS[i])", "decide(KEYS[1])"},
	{"gcra_many", "a key of another type passes for damaged", `"BADSTATE" and -1 or -2`, "code and -1 or -2"},

	{"zset_log", "the window holds both of its edges", "now - window -- ", "now - window - 1 -- "},
	{"zset_log", "void early", "newest > now + newest_window + slack", "newest > now + newest_window + slack - 1000000"},
	{"zset_log", "lets callers in before those who booked", "elseif newest and newest > due then\n  due = newest\nend",
		"end"},
	{"zset_log", "an id is live for a microsecond too long", "held <= window_start then", "held < window_start then"},
	{"zset_log", "an id that has left the window is live", "elseif score and held <= window_start then",
		"elseif false then"},
	{"zset_log", "an id is charged again", "granted, due = permits, math.max(held, now)", "granted, held = permits, nil"},
	{"zset_log", "an id may ask for fewer",
		`if last ~= score or redis.call("ZSCORE", log, id .. "||" .. (permits + 1)) == score then`, "if last ~= score then"},
	{"zset_log", "an id may ask for more", "last ~= score or", ""},
	{"zset_log", "asked again, the wait of now", "permits, math.max(held, now)", "permits, due"},
	{"zset_log", "a booking that has begun says it is past", "math.max(held, now)", "held"},
	{"zset_log", "a look at an id", `if permits > 0 and card > 0 then`, `if card > 0 then`},
	{"zset_log", "removes what is live", "math.min(gone, granted + 100) - 1", "math.min(gone, granted + 100)"},
	{"zset_log", "removes too few of what has left", "math.min(gone, granted + 100) - 1",
		"math.min(gone, granted + 50) - 1"},

	{"gcra", "rounds the emission interval", "return k * whole + (k * part - numerator) / limit, numerator",
		"return k * whole + (k * part - numerator) / limit, 0"},
	{"gcra", "forgets a fraction that passes a microsecond",
		"if after_part >= limit then after, after_part = after + 1, after_part - limit end", ""},
	{"gcra", "rounds a wait down", "if after_part > depth_part then wait = wait + 1 end", ""},
	{"gcra", "rounds the reset down", "if part > 0 then reset_after", "if part < 0 then reset_after"},
	{"gcra", "a changed limit loses a fraction", "ahead, part = ahead + 1, 0 end", "part = 0 end"},
	{"gcra", "void a microsecond early", "now >= written - widest - slack", "now > written - widest - slack"},
	{"gcra", "void a microsecond late", "written - widest - slack", "written - widest - slack - 1"},
	{"gcra", "void by the call's window", "now >= written - widest", "now >= written - window"},
	{"gcra", "void by the last grant's window", "or window >= widest then", "or true then"},
	{"gcra", "the widest window for ever",
		"if next_widest and now >= drained then widest, next_widest = next_widest, nil end", ""},
	{"gcra", "the widest window a microsecond less", "now >= drained", "now > drained"},
	{"gcra", "the windows of a bucket that is full", "if before + before_part == 0 or", "if widest == nil or"},
	{"gcra", "the last of the narrower windows", "next_widest = math.max(next_widest, window)", "next_widest = window"},
	{"gcra", "drained with the grant behind", "next_widest, drained = window, now + before",
		"next_widest, drained = window, now + ahead"},
	{"gcra", "drained rounded down", "if before_part > 0 then drained = drained + 1 end", ""},
	{"gcra", "one remaining too many", "then remaining = remaining - 1 end", "then remaining = remaining end"},
	{"gcra", "one remaining too few", "used > left or used == left", "used >= left or used == left"},
	{"gcra", "written when it is full", "part, limit, now, widest)", "part, limit, now + ahead, widest)"},
	{"gcra", "expires in milliseconds rounded down", "math.ceil(reset_after / 1000)",
		"math.max(math.floor(reset_after / 1000), 1)"},

	{"slice_ring", "the gap is not cleared", `string.rep(cell, to_end))`, `"")`},
	{"slice_ring", "the gap is one slice short", "local gap = current - last", "local gap = current - last - 1"},
	{"slice_ring", "the gap stops at the ring's end", "if gap > to_end then", "if false then"},
	{"slice_ring", "a window is a slice too long", "current - slices[i] + 1", "current - slices[i]"},
	{"slice_ring", "a window is a slice too short", "current - slices[i] + 1", "current - slices[i] + 2"},
	{"slice_ring", "void a microsecond early", "(ahead <= stored_size * slice or ahead <= widest * slice)",
		"(ahead < stored_size * slice or ahead < widest * slice)"},
	{"slice_ring", "void by the call's windows alone", "ahead <= stored_size * slice or", ""},
	{"slice_ring", "void by the ring's windows alone", " or ahead <= widest * slice", ""},
	{"slice_ring", "fresh a slice late", "current - stored_last < stored_size", "current - stored_last <= stored_size"},
	{"slice_ring", "a clock behind counts in its own slice", "if current < last then current = last end",
		"last = math.min(current, last)"},
	{"slice_ring", "a longer ring forgets",
		"string.rep(oldest, widest - size) .. string.sub(cells, from + 1) .. string.sub(cells, 1, from)",
		"string.rep(oldest, widest)"},
	{"slice_ring", "a longer ring is not turned", "cells = string.sub(cells, turn + 1) .. string.sub(cells, 1, turn)", ""},
	{"slice_ring", "waits for the last window alone", "wait_slices = math.max(wait_slices, free - start)",
		"wait_slices = free - start"},
	{"slice_ring", "waits a slice too long", "wait_slices = math.max(wait_slices, free - start)",
		"wait_slices = math.max(wait_slices, free - start + 1)"},
	{"slice_ring", "a new ring expires as the first slice leaves", "\"PX\", string.format(\"%.0f\", expires -",
		"\"PX\", string.format(\"%.0f\", expires - (size - 1) * slice / 1000 -"},
	{"slice_ring", "expires as the first slice leaves", "local ms = expires % 1000",
		"expires = math.ceil((current + 1) * slice / 1000) + 1\n local ms = expires % 1000"},
	{"slice_ring", "expires as it did",
		`redis.call("PEXPIREAT", ring, string.format("%d%03d", (expires - ms) / 1000, ms))`, ""},
	{"slice_ring", "a link says too much", "full = probe + (high % 16 * 256 + low - probe) % 4096",
		"full = probe + (high % 16 * 256 + low - probe) % 4096 + 1"},
	{"slice_ring", "what is behind a link is taken for free", "full = probe + (high % 16 * 256 + low - probe) % 4096\n",
		"full = probe + (high % 16 * 256 + low - probe) % 4096\n      free = full + 1\n"},
	{"slice_ring", "a link is the last slice that fits", "full = probe + (high % 16 * 256 + low - probe) % 4096\n",
		"full = last - (last - low) % 4096\n"},
	{"slice_ring", "the gap links to the slice before it", "local link = current % 4096", "local link = last % 4096"},

	{"slice_ring_return", "returns what the slice does not hold", "math.min(permits, taken_there)", "permits"},
	{"slice_ring_return", "lowers the slice's own total", "{cells:sub(1, 7)}",
		"{struct.pack(\">I6\", (struct.unpack(\">I6\", cells, 1) - 16 * returned) % (16 * wrap)) .. cells:sub(7, 7)}"},
	{"slice_ring_return", "the total of all stays", "(total - returned) % wrap", "total"},
	{"slice_ring_return", "a total short", "for i = 1, later do",
		"lowered[later + 1] = string.sub(cells, -7)\nfor i = 1, later - 1 do"},
	{"slice_ring_return", "stops at the ring's end", "if to_end <= later then redis.call", "if false then redis.call"},
	{"slice_ring_return", "a slice further back than the ring", "later >= size", "later > size"},
	{"slice_ring_return", "the links are lost", "cells, 7 * i + 1)\n  lowered",
		"cells, 7 * i + 1)\n  high = high - high % 16\n  lowered"},
	{"slice_ring_return", "a part of the links is lost", "(16 * wrap), low)", "(16 * wrap), 0)"},
	{"slice_ring_return", "into a slice to come", "later < 0 or", ""},

	{"list_log_return", "halves one too short", "  return least\n", "  return math.max(least - 1, 0)\n"},
	{"list_log_return", "a microsecond before as well", "later_than(moment - 1, later", "later_than(moment - 2, later"},
	{"list_log_return", "more than it was asked to", "math.min(later + permits, length)", "length"},
	{"list_log_return", "all of that moment", `"LREM", log, -found, entry`, `"LREM", log, 0, entry`},
	{"list_log_return", "the newest, whatever the moment", `"LINDEX", log, -later - found`, `"LINDEX", log, -1`},
	{"list_log_return", "the expiry stays", "if fall > 0 then expires_in", "if false then expires_in"},
	{"list_log_return", "the expiry falls down to the oldest", "time_from_end(found + 1)", "time_from_end(length)"},
	{"list_log_return", "the expiry falls by milliseconds rounded up",
		"math.floor((moment - time_from_end(found + 1)) / 1000)", "math.ceil((moment - time_from_end(found + 1)) / 1000)"},
	{"list_log_return", "the key goes where the expiry would pass", "math.max(expires_in - fall, 1)", "expires_in - fall"},

	{"zset_log_return", "the lowest numbers first", "for k = held, held - returned + 1, -1 do", "for k = 1, returned do"},
	{"zset_log_return", "more than it was asked to", "local returned = math.min(permits, held)", "local returned = held"},
	{"zset_log_return", "the expiry stays", "if fall > 0 then expires_in", "if false then expires_in"},
	{"zset_log_return", "the expiry falls down to one further before", "local rank = -returned - 1",
		"local rank = -returned - 2"},
	{"zset_log_return", "the expiry falls by milliseconds rounded up", "math.floor((moment - time_before) / 1000)",
		"math.ceil((moment - time_before) / 1000)"},
	{"zset_log_return", "the key goes where the expiry would pass", "math.max(expires_in - fall, 1)", "expires_in - fall"},

	{"concurrency", "a lease is live in the microsecond of its end", `"(" .. clock[1]`, "clock[1]"},
	{"concurrency", "a lease that has ended is renewed", "if held and held <= now then held = nil end", ""},
	{"concurrency", "a renewal revives a lease", "renew == 0 and live < limit", "(renew == 0 or score) and live < limit"},
	{"concurrency", "a renewal takes a slot", "renew == 0 and live < limit", "live < limit"},
	{"concurrency", "a live id is refused under a lowered limit", "(held or renew == 0 and live < limit)",
		"live < limit and (held or renew == 0)"},
	{"concurrency", "a live id takes a second slot", "if not held then live = live + 1 end", "live = live + 1"},
	{"concurrency", "one slot too many", "renew == 0 and live < limit", "renew == 0 and live <= limit"},
	{"concurrency", "a renewal shortens", "if granted == 1 and not (held and held >= ends) then", "if granted == 1 then"},
	{"concurrency", "a look takes a slot", `if id ~= "" and (held`, "if (held"},
	{"concurrency", "waits for the first of several that must end", `"ZRANGE", holders, -limit, -limit,`,
		`"ZRANGE", holders, -live, -live,`},
	{"concurrency", "waits for the last", "if limit > 1 then blocker", "if limit < 1 then blocker"},
	{"concurrency", "removes what is live", "math.min(gone, 100) - 1", "math.min(gone, 100)"},
	{"concurrency", "expires with this lease, not with the last", "math.ceil(last / 1000)", "math.ceil(ends / 1000)"},
	{"concurrency", "expires in milliseconds rounded down", "math.ceil(last / 1000)", "math.floor(last / 1000)"},
	{"concurrency", "no TTL",
		`redis.pcall("PEXPIREAT", holders, string.format("%d%03d", (expires - ms) / 1000, ms))`, "1"},
	{"concurrency", "the reset of the call's own lease", "last = math.max(last, ends)", "last = ends"},

	{"concurrency_release", "releases what has ended", "if ends <= now then return {0} end", ""},
	{"concurrency_release", "keeps a lease for its last microsecond", "if ends <= now", "if ends <= now + 1"},
	{"concurrency_release", "the expiry stays", `redis.call("PEXPIREAT", holders, milliseconds(last))`, ""},
	{"concurrency_release", "the expiry moves with any lease", "latest[3] == id and", "latest[4] and"},
	{"concurrency_release", "expires before it ends", "math.ceil(time / 1000)", "math.floor(time / 1000)"},
	{"concurrency_release", "ended leases keep the key", "last = now + 1000", "last = ends"},
	{"concurrency_release", "the slot stays", `redis.pcall("ZREM", holders, id)`, "1"},

	{"budget", "asked again, it is charged again", "again = true", "again = false"},
	{"budget", "asked again, it is denied", "if again then granted, wait = permits, 0 end", ""},
	{"budget", "asked again for more", "if state ~= 2 * permits then", "if state > 2 * permits then"},
	{"budget", "asked again for less", "if state ~= 2 * permits then", "if state < 2 * permits then"},
	{"budget", "a settled id may be used again", "if state % 2 == 1 then", "if false then"},
	{"budget", "a look asks for its id", "if permits > 0 then\n  local charged", "do\n  local charged"},
	{"budget", "a clock behind counts for its own slice", `struct.pack(">I6I4", current,`,
		`struct.pack(">I6I4", (now - now % slice) / slice,`},
	{"budget", "the id outlives its ttl", "math.ceil(ttl / 1000)", "math.ceil(ttl / 1000) + 1"},
	{"budget", "the id lives as long as the ring", "math.ceil(ttl / 1000)", "math.ceil(widest * slice / 1000)"},
	{"budget", "a denied id is known", `if permits > 0 and wait_slices == 0 and not again then`,
		`if wait_slices > 0 and permits > 0 and not again then
  redis.call("SET", id, struct.pack(">I6I4", current, 2 * permits), "PX", 1000)
end
if permits > 0 and wait_slices == 0 and not again then`},

	{"budget_settle", "charged to the slice of the estimate", "-- what is added to the ring, named as in slice_ring",
		"\nif granted > 0 and slice_taken > current then current = slice_taken end"},
	{"budget_settle", "settled again", "if state % 2 == 1 then return {0, estimate, now} end", ""},
	{"budget_settle", "an unknown id is charged unasked", "elseif unknown == 0 then", "elseif false then"},
	{"budget_settle", "an unknown id is not charged", "elseif unknown == 0 then", "elseif true then"},
	{"budget_settle", "the whole cost is charged", "permits - estimate -- what", "permits -- what"},
	{"budget_settle", "nothing is given back", "if granted < 0 and not fresh and", "if false and"},
	{"budget_settle", "given back what the slice does not hold", "math.min(-granted, taken_there)", "-granted"},
	{"budget_settle", "given back to a slice that has left", "later < size and", ""},
	{"budget_settle", "given back to a slice to come", "later >= 0 and", ""},
	{"budget_settle", "given back to the ring of a wrong clock", "and not fresh and later", "and later"},
	{"budget_settle", "a refund that was not possible is not charged for", "math.floor(estimate - returned)", "permits"},
	{"budget_settle", "the total of all stays", "(total - returned) % wrap", "total"},
	{"budget_settle", "a refund stops at the ring's end", "if to_end <= later then redis.call",
		"if false then redis.call"},
	{"budget_settle", "the links of a refund are lost", "(16 * wrap), low)", "(16 * wrap), 0)"},
	{"budget_settle", "no mark", "2 * in_all + 1", "2 * in_all"},
	{"budget_settle", "the gap is not cleared", `string.rep(cell, to_end))`, `"")`},
	{"budget_settle", "a longer ring is not turned", "cells = string.sub(cells, turn + 1) .. string.sub(cells, 1, turn)",
		""},
	{"budget_settle", "the ring is no longer than it was", "if fresh or widest > size then", "if fresh then"},
	{"budget_settle", "a clock behind counts in its own slice", "if current < last then current = last end",
		"last = math.min(current, last)"},

	{"token_bucket", "the interval holds both of its edges", "now - interval -- ", "now - interval - 1 -- "},
	{"token_bucket", "void early", "newest > now + newest_window + slack",
		"newest > now + newest_window + slack - 1000000"},
	{"token_bucket", "void without a booking", "newest > now + newest_window + slack",
		"newest > now + newest_window + 60000000"},
	{"token_bucket", "lets callers in before those who booked", "if newest > due then due = newest end", ""},
	{"token_bucket", "the arguments win over the config", `rate = integer(stored[1] or "", 1, 1000000)`, "rate = rate"},
	{"token_bucket", "the TTL of the config is that of the last call", `configured and redis.call("PTTL", config)`, "0"},
	{"token_bucket", "a config that was set expires", "or ttl >= 0 and (", "or ("},
	{"token_bucket", "a config expires with the last grant, however short",
		"ttl >= 0 and (math.floor(now / 1000) + ttl <= expires or ttl * 1000 > 2 * interval + slack + spare)", "ttl >= 0"},
	{"token_bucket", "a config is put off by every grant", "(math.floor(now / 1000) + ttl <= expires or",
		"(math.floor(now / 1000) + ttl <= expires + 99 or"},
	{"token_bucket", "a config keeps its first TTL", "ttl >= 0 and", "ttl == 0 and"},
	{"token_bucket", "totals begin again", "if not newest then total = 0 end", "if not newest then total = 1 end"},
	{"token_bucket", "waits for the oldest", "local blocker = total + wanted - rate", "local blocker = total - rate + 1"},
	{"token_bucket", "waits for one permit too many", "local blocker = total + wanted - rate",
		"local blocker = math.min(total + wanted - rate + 1, total)"},
	{"token_bucket", "a client's permits count for all", "scope == 0 and all or by_client", "all"},
	{"token_bucket", "removes what is live", "math.min(gone, 10000)", "math.min(gone, 10000) + 1"},
	{"token_bucket", "more permits than the rate in force",
		`if permits > rate then return redis.error_reply("BADARG permits: want up to rate") end`, ""},
}

// foundBy is the sequence that found a fault for which many are needed. It is played first.
var foundBy = map[string]int{
	"budget_settle: a longer ring is not turned":                       31,
	"budget_settle: a refund that was not possible is not charged for": 41,
	"budget_settle: given back to a slice that has left":               169,
	"budget_settle: given back to the ring of a wrong clock":           604,
	"budget_settle: given back what the slice does not hold":           41,
	"concurrency_release: ended leases keep the key":                   158,
	"concurrency_release: keeps a lease for its last microsecond":      492,
	"gcra: drained rounded down":                                       179,
	"gcra: the last of the narrower windows":                           515,
	"gcra: void a microsecond early":                                   43,
	"gcra: void a microsecond late":                                    115,
	"list_log: waits a microsecond more than max_wait":                 67,
	"list_log_return: the expiry falls by milliseconds rounded up":     106,
	"list_log_return: the expiry falls down to the oldest":             61,
	"list_log_return: the key goes where the expiry would pass":        89,
	"slice_ring_return: a part of the links is lost":                   27,
	"slice_ring_return: a total short":                                 27,
	"slice_ring_return: stops at the ring's end":                       420,
	"slice_ring_return: the links are lost":                            110,
	"zset_log: removes too few of what has left":                       76,
	"zset_log_return: the key goes where the expiry would pass":        303,
}

// maxSequences is how many sequences may pass before a fault is found.
const maxSequences = 1500

func TestModelFindsBrokenScripts(t *testing.T) {
	for _, b := range broken {
		t.Run(b.script+"/"+strings.ReplaceAll(b.fault, " ", "_"), func(t *testing.T) {
			s := subjectOf(t, b.script)
			switch {
			case s.script.Name == b.script:
				s.script = edited(t, s.script, b.right, b.wrong)
			case s.settle != nil && s.settle.Name == b.script:
				s.settle = edited(t, s.settle, b.right, b.wrong)
			default:
				s.back = edited(t, s.back, b.right, b.wrong)
			}
			on := modelHarness{startHarness(t, false)}
			sequences, kinds := s.sequences(epoch), map[string]int{}
			for i := range maxSequences {
				i = (foundBy[b.script+": "+b.fault] + i) % maxSequences
				if failed := s.play(on, sequences.Example(i), kinds); failed != "" {
					t.Logf("found by sequence %d, in step %d:\n%s", i, total(kinds)+1, failed[strings.LastIndex(failed, "\n{")+1:])
					return
				}
			}
			t.Errorf("not found in %d steps", total(kinds))
		})
	}
}

func subjectOf(t *testing.T, script string) subject {
	for _, s := range subjects {
		if s.script.Name == script || s.back != nil && s.back.Name == script ||
			s.settle != nil && s.settle.Name == script {
			return s
		}
	}
	t.Fatalf("no subject %s", script)
	return subject{}
}
