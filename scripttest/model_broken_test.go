package scripttest_test

import (
	"strings"
	"testing"
)

// broken are scripts with one thing wrong in each, which random sequences must find.
var broken = []struct {
	script, fault string
	right, wrong  string // what is replaced
}{
	{"list_log", "the window holds both of its edges", "now - window -- ", "now - window - 1 -- "},
	{"list_log", "the window loses a microsecond", "blocker + window or", "blocker + window - 1 or"},
	{"list_log", "void a microsecond early", "newest > now + window + 120000000", "newest >= now + window + 120000000"},
	{"list_log", "void a microsecond late", "newest > now + window + 120000000", "newest > now + window + 120000001"},
	{"list_log", "never void", "newest > now + window + 120000000", "false"},
	{"list_log", "lets callers in before those who booked", "math.max(now, newest, blocker and", "math.max(now, blocker and"},
	{"list_log", "waits a microsecond more than max_wait", "due - now <= max_wait", "due - now <= max_wait + 1"},
	{"list_log", "a void log is added to", `if tail and not newest then redis.call("UNLINK", log) end`, ""},
	{"list_log", "trims one too few", "LTRIM\", log, left,", "LTRIM\", log, left - 1,"},
	{"list_log", "waits for the oldest, not for the last wanted", "wanted - limit - 1", "-limit"},
	{"list_log", "expires a window after now, not after the booking", "(due + window) / 1000", "(now + window) / 1000"},
	{"list_log", "expires in milliseconds rounded down", "math.ceil((due + window) / 1000)", "math.floor((due + window) / 1000)"},
	{"list_log", "a look writes", "if due - now <= max_wait then granted = permits end", "if due - now <= max_wait then granted = wanted end"},

	{"zset_log", "the window holds both of its edges", "now - window -- ", "now - window - 1 -- "},
	{"zset_log", "void a microsecond early", "newest > now + window + 120000000", "newest >= now + window + 120000000"},
	{"zset_log", "lets callers in before those who booked", "math.max(now, newest, blocker and", "math.max(now, blocker and"},
	{"zset_log", "an id is live for a microsecond too long", "booked <= expired", "booked < expired"},
	{"zset_log", "an id that has left the window is live", "if booked and booked <= expired then booked = nil end", ""},
	{"zset_log", "an id is charged again", "granted, due = permits, math.max(booked, now)", "granted, booked = permits, nil"},
	{"zset_log", "an id may ask for fewer", "or beyond == score_of_id", ""},
	{"zset_log", "an id may ask for more", "last ~= score_of_id or", ""},
	{"zset_log", "asked again, the wait of now", "granted, due = permits, math.max(booked, now)", "granted = permits"},
	{"zset_log", "a booking that has begun says it is past", "math.max(booked, now)", "booked"},
	{"zset_log", "names begin again at 1", "then k = last_k(score) end", "then k = 0 end"},
	{"zset_log", "names count the members", "then k = last_k(score) end", "then k = live end"},
	{"zset_log", "names do not sort by k", `.. #digits .. digits or`, `.. "1" .. digits or`},
	{"zset_log", "a look at an id", `if permits > 0 and id ~= ""`, `if id ~= ""`},
	{"zset_log", "removes what is live", "math.min(left, granted + 100) - 1", "math.min(left, granted + 100)"},
	{"zset_log", "removes too few of what has left", "math.min(left, granted + 100) - 1", "math.min(left, granted + 50) - 1"},

	{"gcra", "rounds the emission interval", "return k * whole + (k * rest - numerator) / limit, numerator", "return k * whole + (k * rest - numerator) / limit, 0"},
	{"gcra", "forgets a fraction that passes a microsecond", "if part >= limit then ahead, part = ahead + 1, part - limit end", ""},
	{"gcra", "rounds a wait down", "math.ceil((part - depth_part + cost_part) / limit)", "math.floor((part - depth_part + cost_part) / limit)"},
	{"gcra", "rounds the reset down", "if part > 0 then reset_after", "if part < 0 then reset_after"},
	{"gcra", "a changed limit loses a fraction", "if part > 0 then ahead = ahead + 1 end", ""},
	{"gcra", "void a microsecond early", "written <= now + window", "written < now + window"},
	{"gcra", "void a microsecond late", "written <= now + window + 60000000", "written <= now + window + 60000001"},
	{"gcra", "void by when it is full", "if written <= now", "if stored_tat <= now"},
	{"gcra", "one remaining too many", "then remaining = remaining - 1 end", "then remaining = remaining end"},
	{"gcra", "one remaining too few", "used > left or (used == left", "used >= left or (used == left"},
	{"gcra", "is written when it is full", "part, limit, now)", "part, limit, now + ahead)"},
	{"gcra", "expires in milliseconds rounded down", "math.ceil(reset_after / 1000)", "math.max(math.floor(reset_after / 1000), 1)"},

	{"slice_ring", "the gap is not cleared", "if current > last then clear_gap() end", ""},
	{"slice_ring", "the gap is one slice short", "math.min(current - last, size)", "math.min(current - last - 1, size)"},
	{"slice_ring", "the gap stops at the ring's end", "if gap > behind then", "if false then"},
	{"slice_ring", "a window is a slice too long", "moved - window.slices + 1", "moved - window.slices"},
	{"slice_ring", "a window is a slice too short", "moved - window.slices + 1", "moved - window.slices + 2"},
	{"slice_ring", "void a microsecond early", "stored_last * slice <= now + ahead", "stored_last * slice < now + ahead"},
	{"slice_ring", "void by the call's windows alone", "math.max(stored_size, widest) * slice", "widest * slice"},
	{"slice_ring", "void by the ring's windows alone", "math.max(stored_size, widest) * slice", "stored_size * slice"},
	{"slice_ring", "fresh a slice late", "current - stored_last < stored_size", "current - stored_last <= stored_size"},
	{"slice_ring", "a clock behind counts in its own slice", "current = math.max(current, last)", "last = math.min(current, last)"},
	{"slice_ring", "a longer ring forgets", "totals = lengthened(totals)", "totals = string.rep(six_bytes(total), widest)"},
	{"slice_ring", "a longer ring is not turned", "return string.sub(line, turn + 1) .. string.sub(line, 1, turn)", "return line"},
	{"slice_ring", "waits for the last window alone", "math.max(moves, moves_until_room(window))", "moves_until_room(window)"},
	{"slice_ring", "waits a slice too long", "return low + 1", "return low + 2"},
	{"slice_ring", "expires as the first slice leaves", "(current + size) * slice", "(current + 1) * slice"},
	{"slice_ring", "expires as it did", "if totals or current > last then", "if totals then"},

	{"slice_ring_return", "returns what the slice does not hold", "math.min(permits, (after - number_at(totals, 0)) % wrap)", "permits"},
	{"slice_ring_return", "lowers the slice's own total", "{string.sub(totals, 1, 6)}", "{six_bytes((number_at(totals, 0) - returned) % wrap)}"},
	{"slice_ring_return", "the total of all stays", "(total - returned) % wrap", "total"},
	{"slice_ring_return", "a total short", "for i = 1, later do", "lowered[later + 1] = string.sub(totals, -6)\nfor i = 1, later - 1 do"},
	{"slice_ring_return", "stops at the ring's end", "if behind <= later then redis.call", "if false then redis.call"},
	{"slice_ring_return", "a slice further back than the ring", "later >= size", "later > size"},
	{"slice_ring_return", "into a slice to come", "later < 0 or", ""},

	{"token_bucket", "the interval holds both of its edges", "now - interval -- ", "now - interval - 1 -- "},
	{"token_bucket", "void a microsecond early", "newest.at > now + interval + 120000000", "newest.at >= now + interval + 120000000"},
	{"token_bucket", "void without a booking", "newest.at > now + interval + 120000000", "newest.at > now + interval + 60000000"},
	{"token_bucket", "lets callers in before those who booked", "math.max(now, newest.at), newest.after", "now, newest.after"},
	{"token_bucket", "the arguments win over the config", `rate = integer(stored[1] or "", 1, 1000000)`, "rate = rate"},
	{"token_bucket", "the config is that of the last call", "  if configured then\n    ttl =", "  if false then\n    ttl ="},
	{"token_bucket", "a config that was set expires", "if ttl >= 0 and", "if"},
	{"token_bucket", "a config expires with the last grant, however short", "if ttl >= 0 and (math.floor(now / 1000) + ttl <= expire_at or ttl * 1000 > 2 * interval + 121000000)", "if ttl >= 0"},
	{"token_bucket", "a config keeps its first TTL", "ttl >= 0 and", "ttl == 0 and"},
	{"token_bucket", "totals begin again", "before = newest.after", "before = newest.before"},
	{"token_bucket", "waits for the oldest", "entry_of(newest.after + wanted - rate)", "oldest"},
	{"token_bucket", "waits for one permit too many", "entry_of(newest.after + wanted - rate)", "entry_of(math.min(newest.after + wanted - rate + 1, newest.after))"},
	{"token_bucket", "a client's permits count for all", "scope == 0 and all or by_client", "all"},
	{"token_bucket", "removes what is live", "math.min(gone, 100) - 1", "math.min(gone, 100)"},
	{"token_bucket", "more permits than the rate in force", `if permits > rate then return redis.error_reply("BADARG permits: want up to rate") end`, ""},
}

// mostSequences is how many sequences may pass before a fault is found.
const mostSequences = 1500

func TestModelFindsBrokenScripts(t *testing.T) {
	for _, b := range broken {
		t.Run(b.script+"/"+strings.ReplaceAll(b.fault, " ", "_"), func(t *testing.T) {
			s := subjectOf(t, b.script)
			if s.script.Name == b.script {
				s.script = edited(t, s.script, b.right, b.wrong)
			} else {
				s.back = edited(t, s.back, b.right, b.wrong)
			}
			on := modelHarness{startHarness(t, false)}
			sequences, kinds := s.sequences(epoch), map[string]int{}
			for i := range mostSequences {
				if failed := s.play(on, sequences.Example(i), kinds); failed != "" {
					t.Logf("found in step %d:\n%s", total(kinds)+1, lastOf(failed))
					return
				}
			}
			t.Errorf("not found in %d steps", total(kinds))
		})
	}
}

// lastOf is the step that failed, and how.
func lastOf(failed string) string {
	return failed[strings.LastIndex(failed, "\n{")+1:]
}

func subjectOf(t *testing.T, script string) subject {
	for _, s := range subjects {
		if s.script.Name == script || s.back != nil && s.back.Name == script {
			return s
		}
	}
	t.Fatalf("no subject %s", script)
	return subject{}
}
