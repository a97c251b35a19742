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
	{"list_log_many", "the keys in another order", "decide(KEYS[i])", "decide(KEYS[#KEYS + 1 - i])"},
	{"list_log_many", "one damaged key ends the call", `code ~= "BADSTATE"`, "true"},
	{"slice_ring_many", "the first window's count for all", "counts[j] or 0", "counts[1] or 0"},
	{"gcra_many", "every key is the first", "decide(KEYS[i])", "decide(KEYS[1])"},
	{"zset_log", "an id that has left the window is live", "elseif score and held <= window_start then",
		"elseif false then"},
	{"zset_log", "an id is charged again", "granted, due = permits, math.max(held, now)", "granted, held = permits, nil"},
	{"zset_log", "removes what is live", "math.min(gone, granted + 100) - 1", "math.min(gone, granted + 100)"},
	{"gcra", "rounds the emission interval", "return k * whole + (k * part - numerator) / limit, numerator",
		"return k * whole + (k * part - numerator) / limit, 0"},
	{"gcra", "void by the call's window", "now >= written - widest", "now >= written - window"},
	{"gcra", "written when it is full", "part, limit, now, widest)", "part, limit, now + ahead, widest)"},
	{"slice_ring", "the gap is one slice short", "local to_end = math.min(gap, size - index)",
		"local to_end = math.min(gap - 1, size - index)"},
	{"slice_ring", "a new window begins empty", "(count - total) % wrap", "-total % wrap"},
	{"slice_ring", "the oldest cell is that of the last window",
		`oldest = pages[at] or redis.call("GETRANGE", ring, string.format("%d", at), string.format("%d", at + 6))`, ""},
	{"slice_ring", "a window that is not asked for stands still",
		"rewrite = stored ~= #limits --", "rewrite = false --"},
	{"slice_ring", "waits a slice too long",
		"(math.ceil(free * its_slice / slice) + size - 1) * slice - now", "(free + size) * slice - now"},
	{"slice_ring", "expires as it did",
		"if expires_ms > expired_ms then", "if false then"},
	{"slice_ring_report", "a report that leaves no room is forgotten", "if limits[i] < wanted then",
		"if false then"},
	{"slice_ring_report_many", "the first report for all", "all_reported[i]", "all_reported[1]"},
	{"slice_ring_report_many", "what is denied is not reported", "local granted = reported",
		"local granted = permits > fits and 0 or reported"},
	{"slice_ring_return", "lowers the slice's own total", "{string.sub(cells, 1, 7)}",
		"{struct.pack(\">I6\", (struct.unpack(\">I6\", cells, 1) - 16 * fewer) % (16 * wrap)) .. cells:sub(7, 7)}"},
	{"slice_ring_return", "the total of all stays", "(shift - fewer) % wrap", "shift"},
	{"list_log_return", "all of that moment", `"LREM", log, -found, entry`, `"LREM", log, 0, entry`},
	{"list_log_return", "the expiry stays", "if fall > 0 then expires_in", "if false then expires_in"},
	{"zset_log_return", "the lowest numbers first", "for k = held, held - returned + 1, -1 do", "for k = 1, returned do"},
	{"zset_log_return", "the expiry stays", "if fall > 0 then expires_in", "if false then expires_in"},
	{"concurrency", "a lease that has ended is renewed", "if held and held <= now then held = nil end", ""},
	{"concurrency", "a renewal shortens", "if granted == 1 and not (held and held >= ends) then", "if granted == 1 then"},
	{"concurrency", "expires with this lease, not with the last", "math.ceil(last / 1000)", "math.ceil(ends / 1000)"},
	{"concurrency_release", "releases what has ended", "if ends <= now then return {0} end", ""},
	{"concurrency_release", "the expiry stays", `redis.call("PEXPIREAT", holders, milliseconds(last))`, ""},
	{"budget", "asked again, it is charged again", "again = true", "again = false"},
	{"budget", "the id outlives its ttl", "math.ceil(ttl / 1000)", "math.ceil(ttl / 1000) + 1"},
	{"budget", "a denied id is known", `if permits > 0 and wait == 0 and not again then`,
		`if wait > 0 and permits > 0 and not again then
  redis.call("SET", id, struct.pack(">I7I4", time, 2 * permits), "PX", 1000)
end
if permits > 0 and wait == 0 and not again then`},
	{"budget_settle", "settled again", "if twice % 2 == 1 then return {0, estimate, now} end", ""},
	{"budget_settle", "the total of all stays", "(shift - fewer) % wrap", "shift"},
	{"budget_settle", "the gap is not cleared", `string.rep(cell, to_end)}`, `""}`},
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
