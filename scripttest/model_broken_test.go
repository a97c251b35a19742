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

// broken are scripts with one fault each, which random sequences must find: in the decision, in what is stored, and in
// when it expires. The fast tests find all small faults: see TestMutants.
var broken = []fault{
	{"list_log", "the window holds both of its edges", "now - window -- ", "now - window - 1 -- "},
	{"list_log", "void early", "newest > now + newest_window + slack", "newest > now + newest_window + slack - 1000000"},
	{"list_log", "lets callers in before those who booked", "if newest > due then due = newest end", ""},
	{"list_log", "expires in milliseconds rounded down", "math.ceil((due + window) / 1000)",
		"math.floor((due + window) / 1000)"},
	{"list_log", "a look writes", "then granted = permits end", "then granted = wanted end"},
	{"list_log_many", "the keys in another order", "decide(KEYS[k])", "decide(KEYS[#KEYS + 1 - k])"},
	{"list_log_many", "one damaged key ends the call", `code ~= "BADSTATE"`, "true"},
	{"slice_ring_many", "the first window's count for all", "counts[i] or 0", "counts[1] or 0"},
	{"gcra_many", "every key is the first", "decide(KEYS[k])", "decide(KEYS[1])"},
	{"zset_log", "an id that has left the window is live", "elseif score and held <= window_start then",
		"elseif false then"},
	{"zset_log", "an id is charged again", "granted, due = permits, math.max(held, now)", "granted, held = permits, nil"},
	{"zset_log", "removes what is live", "math.min(gone, granted + 100) - 1", "math.min(gone, granted + 100)"},
	{"gcra", "rounds the emission interval", "return k * whole + (k * part - numerator) / limit, numerator",
		"return k * whole + (k * part - numerator) / limit, 0"},
	{"gcra", "void by the call's window", "now >= written - widest", "now >= written - window"},
	{"gcra", "written when it is full", "part, limit, now, widest)", "part, limit, now + ahead, widest)"},
	{"quota", "an ended period counts", "if begin < chosen or begin > at then", "if begin > at then"},
	{"quota", "the clock does not stand still", "begin > now + step_back and now or math.max(begin, now)", "now"},
	{"quota_return", "permits of another period", "stored_begin ~= begin or returned == 0", "returned == 0"},
	{"slice_ring", "the gap is one slice short", "local to_end = math.min(gap, size - index)",
		"local to_end = math.min(gap - 1, size - index)"},
	{"slice_ring", "the oldest cell is another's", "19 + 6 * ((current + 1) % size)", "19 + 6 * (current % size)"},
	{"slice_ring", "what has left counts", "if gap >= size then --", "if gap > size then --"},
	{"slice_ring", "waits a slice too long", "(free + size - 1) * slice - now", "(free + size) * slice - now"},
	{"slice_ring", "waits for the first full window", "wait = math.max(wait, ", "wait = wait > 0 and wait or (0 + "},
	{"slice_ring", "waits a slice too long for a report", "max_count), current, current + 1",
		"max_count), current, current + 2"},
	{"slice_ring", "expires as it did", `redis.call("PEXPIREAT", rings[i]`, `redis.call("PTTL", rings[i]`},
	{"slice_ring", "totals do not wrap", "(oldest + count) % wrap, oldest)",
		"math.min(oldest + counts[i], wrap - 1), oldest)"},
	{"slice_ring", "a report that leaves no room is forgotten", "local charge = reported + granted",
		"local charge = granted > 0 and reported + granted or 0"},
	{"slice_ring", "decided before the report", "local max, left = limits[i] - wanted,",
		"local max, left = limits[i] - wanted + reported,"},
	{"slice_ring", "void by another window", "time - now > size * slice + step_back",
		"time - now > slices[1] * sizes[1] + step_back"},
	{"slice_ring_return", "lowers the slice's own total", "{string.sub(cells, 1, 6)}",
		"{struct.pack(\">I6\", (struct.unpack(\">I6\", cells, 1) - fewer) % wrap)}"},
	{"slice_ring_return", "the total of all stays", `i, "7", struct.pack(">I6", (total - fewer) % wrap)`,
		`i, "7", struct.pack(">I6", total)`},
	{"slice_ring_return", "a slice that has left", "later >= 0 and later < size", "later >= 0 and later <= size"},
	{"list_log_return", "all of that moment", `"LREM", log, -found, entry`, `"LREM", log, 0, entry`},
	{"list_log_return", "the expiry stays", "if fall > 0 then expires_in", "if false then expires_in"},
	{"zset_log_return", "the lowest numbers first", "for k = held, held - returned + 1, -1 do", "for k = 1, returned do"},
	{"zset_log_return", "the expiry stays", "if fall > 0 then expires_in", "if false then expires_in"},
	{"concurrency", "a lease that has ended is renewed", "if held and held <= now then held = nil end", ""},
	{"concurrency", "a renewal shortens", "if granted == 1 and not (held and held >= ends) then", "if granted == 1 then"},
	{"concurrency", "expires with this lease, not with the last", "math.ceil(last / 1000)", "math.ceil(ends / 1000)"},
	{"concurrency_release", "releases what has ended", "if ends <= now then return {0} end", ""},
	{"concurrency_release", "the expiry stays", `redis.call("PEXPIREAT", holders, milliseconds(last))`, ""},
	{"budget", "asked again, it is charged again", "if known then\n  granted", "if false then\n  granted"},
	{"budget", "the id outlives its ttl", "math.ceil(ttl / 1000)", "math.ceil(ttl / 1000) + 1"},
	{"budget", "a denied id is known", "elseif granted > 0 then", "elseif permits > 0 then"},
	{"budget", "the id names the first window only", "for i = 1, #slices do mark", "for i = 1, 1 do mark"},
	{"budget_settle", "settled again", "if twice % 2 == 1 then return {0, estimate, now} end", ""},
	{"budget_settle", "the total of all stays", `i, "7", struct.pack(">I6", (total - fewer) % wrap)`,
		`i, "7", struct.pack(">I6", total)`},
	{"budget_settle", "a refund to windows that were not charged", "if not named then sizes[i] = 0 end", ""},
	{"budget_settle", "the gap is not cleared", "string.rep(cell, to_end)", `""`},
	{"token_bucket", "a config that was set expires", "or ttl >= 0 and (", "or ("},
	{"token_bucket", "totals begin again", "if not newest then total = 0 end", "if not newest then total = 1 end"},
	{"token_bucket", "waits for the oldest", "local blocker = total + wanted - rate", "local blocker = total - rate + 1"},
}

// maxSequences is how many sequences may pass before a fault is found.
const maxSequences = 500

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
