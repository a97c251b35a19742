package scripttest_test

import (
	"fmt"
	"strings"
	"testing"
)

const badID = "BADSTATE id: want a time, permits and windows"

// ttl permits slice_1 size_1 limit_1 ... -> granted remaining wait reset_after count_1 ...
var budgetV1 = table{
	script: &budgetV1Script,
	keys:   []string{ringSubject, "t:x:{u}:bg1:a"},
	timelines: append([]timeline{
		{"an estimate, settled lower, and one that takes what is left", []line{
			{"0s", "1h 60 1s 5 100", "60 40 0 5s 60"},
			{"0s", "#b 1h 60 1s 5 100", "0 40 5s 5s 60"},
			{"1s", "budget_settle 1h 30 0 1s 5", "1 30"},
			{"1s", "#b 1h 60 1s 5 100", "60 10 0 5s 90"},
		}},
		{"asked again before it is settled: granted, and charged nothing", []line{
			{"0s", "1h 60 1s 5 100", "60 40 0 5s 60"},
			{"0s", "1h 60 1s 5 100", "60 40 0 5s 60"},
			{"0s", "#b 1h 40 1s 5 100", "40 0 0 5s 100"},
			{"1s", "1h 60 1s 5 100", "60 0 0 4s 100"},
			{"1s", "#c 1h 1 1s 5 100", "0 0 4s 4s 100"},
			{"4.999999s", "1h 60 1s 5 100", "60 0 0 1us 100"},
			{"5s", "1h 60 1s 5 100", "60 100 0 0 0"},
			{"5s", "1h 60 1s 5 60 1s 2 70", "60 60 0 0 0 0"},
			{"", "!GET $2", "charge:@0s:60:1s:5"},
		}},
		{"asked again with other permits", []line{
			{"0s", "1h 60 1s 5 100", "60 40 0 5s 60"},
			{"0s", "1h 59 1s 5 100", "BADARG id: want the permits it was granted before"},
			{"0s", "1h 61 1s 5 100", "BADARG id: want the permits it was granted before"},
			{"0s", "1h 60 1s 5 59", "BADARG permits: want up to every limit"},
			{"0s", "1h 60 1s 5 60", "60 0 0 5s 60"},
		}},
		{"asked again when it is settled", []line{
			{"0s", "1h 60 1s 5 100", "60 40 0 5s 60"},
			{"0s", "budget_settle 1h 60 0 1s 5", "1 60"},
			{"0s", "1h 60 1s 5 100", "BADARG id: want one that is not settled"},
			{"0s", "1h 1 1s 5 100", "BADARG id: want one that is not settled"},
			{"9s", "1h 60 1s 5 100", "BADARG id: want one that is not settled"},
			{"9s", "#b 1h 60 1s 5 100", "60 40 0 5s 60"},
		}},
		{"denied, then granted under the same id", []line{
			{"0s", "1h 60 1s 5 100", "60 40 0 5s 60"},
			{"1s", "#b 1h 50 1s 5 100", "0 40 4s 4s 60"},
			{"", "!EXISTS $2b", "0"},
			{"1s", "#b 1h 40 1s 5 100", "40 0 0 5s 100"},
		}},
		{"a look asks nothing of its id", []line{
			{"0s", "1h 0 1s 5 100", "0 100 0 0 0"},
			{"", "!EXISTS $2", "0"},
			{"0s", "1h 60 1s 5 100", "60 40 0 5s 60"},
			{"0s", "1h 0 1s 5 60", "0 0 5s 5s 60"},
			{"0s", "budget_settle 1h 10 0 1s 5", "1 10"},
			{"0s", "1h 0 1s 5 100", "0 90 0 5s 10"},
			{"0s", "!RPUSH $2b x", "1"},
			{"0s", "#b 1h 0 1s 5 100", "0 90 0 5s 10"},
		}},
		{"asked again when the ring was evicted", []line{
			{"0s", "1h 60 1s 5 100", "60 40 0 5s 60"},
			{"", "!DEL $1/1sx5", "1"},
			{"1s", "1h 60 1s 5 100", "60 100 0 0 0"},
			{"", "!EXISTS $1/1sx5", "0"},
			{"1s", "#b 1h 60 1s 5 100", "60 40 0 5s 60"},
		}},
		{"lost: an id whose ttl ends unsettled stays charged", []line{
			{"0s", "1h 40 1s 5 100", "40 60 0 5s 40"},
			{"", "!DEL $2", "1"}, // its ttl has ended
			{"0s", "1h 40 1s 5 100", "40 20 0 5s 80"},
		}},
		{"slice_ring looks at and charges the same counts", []line{
			{"0s", "1h 60 1s 5 100", "60 40 0 5s 60"},
			{"0s", "slice_ring 30 0 1s 5 100", "30 10 0 5s 90"},
			{"0s", "#b 1h 11 1s 5 100", "0 10 5s 5s 90"},
			{"1s", "#b 1h 10 1s 5 100", "10 0 0 5s 100"},
			{"1s", "slice_ring 1 0 1s 5 100", "0 0 4s 5s 100"},
			{"1s", "slice_ring_return @0s 20 1s 5", "20"},
			{"1s", "#c 1h 20 1s 5 100", "20 0 0 5s 100"},
			{"1s", "slice_ring 0 7 1s 5 100", "0 0 4s 5s 107"},
			{"1s", "#d 1h 0 1s 5 100", "0 0 4s 5s 107"},
		}},
		{"a debt: denied until enough of it has left", []line{
			{"0s", "1h 10 1s 3 100", "10 90 0 3s 10"},
			{"1s", "budget_settle 1h 250 0 1s 3", "1 250"},
			{"1s", "#b 1h 1 1s 3 100", "0 0 3s 3s 250"},
			{"1s", "#b 1h 100 1s 3 100", "0 0 3s 3s 250"},
			{"1s", "slice_ring 1 0 1s 3 100", "0 0 3s 3s 250"},
			{"3.999999s", "#b 1h 1 1s 3 100", "0 0 1us 1us 240"},
			{"3.999999s", "slice_ring 1 0 1s 3 100", "0 0 1us 1us 240"},
			{"4s", "#b 1h 100 1s 3 100", "100 0 0 3s 100"},
		}},
		{"a debt in several slices is waited for in parts", []line{
			{"0s", "1h 10 1s 4 100", "10 90 0 4s 10"},
			{"0s", "#b 1h 10 1s 4 100", "10 80 0 4s 20"},
			{"0s", "budget_settle 1h 100 0 1s 4", "1 100"},
			{"2s", "budget_settle #b 1h 100 0 1s 4", "1 100"},
			{"2s", "#c 1h 1 1s 4 100", "0 0 2s 4s 200"},
			{"2s", "#c 1h 11 1s 4 100", "0 0 4s 4s 200"},
			{"2s", "slice_ring 10 0 1s 4 100", "0 0 2s 4s 200"},
			{"2s", "slice_ring 11 0 1s 4 100", "0 0 4s 4s 200"},
			{"4s", "#c 1h 10 1s 4 100", "10 0 0 4s 100"},
		}},
		{"a debt lasts one window, however large, in each window of its own", []line{
			{"0s", "1h 1 1s 2 10 1s 6 20", "1 9 0 6s 1 1"},
			{"0s", "budget_settle 1h 1000000000 0 1s 2 1s 6", "1 1000000000"},
			{"0s", "#b 1h 1 1s 2 10 1s 6 20", "0 0 6s 6s 1000000000 1000000000"},
			{"0s", "#b 1h 1 1s 2 10", "0 0 2s 2s 1000000000"},
			{"2s", "#b 1h 1 1s 2 10", "1 9 0 2s 1"},
			{"5s", "#c 1h 1 1s 2 10 1s 6 20", "0 0 1s 1s 0 1000000000"},
			{"6s", "#c 1h 1 1s 2 10 1s 6 20", "1 9 0 6s 1 1"},
		}},
		{"the clock is behind: counted in the last slice, and settled in that of the clock", []line{
			{"5s", "1h 20 1s 4 100", "20 80 0 4s 20"},
			{"2s", "#b 1h 30 1s 4 100", "30 50 0 7s 50"},
			{"", "!GET $2b", "charge:@2s:30:1s:4"},
			{"2s", "budget_settle #b 1h 10 0 1s 4", "1 30"},
			{"2s", "#c 1h 0 1s 4 100", "0 50 0 7s 50"},
			{"8s", "#c 1h 0 1s 4 100", "0 50 0 1s 50"},
		}},
		{"a ring of another type is left alone", []line{
			{"0s", "!RPUSH $1/1sx3 x", "1"},
			{"0s", "1h 1 1s 4 2 1s 3 2", wrongType},
			{"", "!EXISTS $2 $1/1sx4", "0"},
		}},
		{"an id of another type is left alone", []line{
			{"0s", "!RPUSH $2 x", "1"},
			{"0s", "1h 1 1s 3 2", wrongType},
			{"", "!LRANGE $2 0 -1", "[x]"},
			{"", "!EXISTS $1/1sx3", "0"},
		}},
		{"an unreadable id", []line{
			{"0s", `!SET $2 ""`, "OK"},
			{"0s", "1h 1 1s 3 2", badID},
			{"0s", "!SET $2 xxxx", "OK"},
			{"0s", "1h 1 1s 3 2", badID},
			{"0s", "!SET $2 " + packed("settled:1:1") + "x", "OK"},
			{"0s", "1h 1 1s 3 2", badID},
			{"0s", "!SET $2 " + packed("charge:1:1:1000:1") + "xxxxxx", "OK"},
			{"0s", "1h 1 1s 3 2", badID},
			{"0s", "!SET $2 charge:@0s:1000000001:1s:3", "OK"},
			{"0s", "1h 1 1s 3 2", badID},
			{"0s", "!SET $2 settled:@0s:1000000000", "OK"},
			{"0s", "1h 1 1s 3 2", "BADARG id: want one that is not settled"},
			{"0s", "!SET $2 charge:@0s:1000000000:1s:3", "OK"},
			{"0s", "1h 1000000000 1s 3 1000000000", "1000000000 1000000000 0 0 0"},
			{"", "!EXISTS $1/1sx3", "0"},
		}},
		{"an unreadable ring is told before the id", []line{
			{"0s", "!SET $1/1sx3 x", "OK"},
			{"0s", "!SET $2 x", "OK"},
			{"0s", "1h 1 1s 3 2", badRing},
		}},
		{"what is stored of an id", []line{
			{"1.5s", "1h 1000000000 1s 3 1000000000 24h 1000 1000000000", "1000000000 0 0 86399998.5s 1000000000 1000000000"},
			{"", "!GET $2", "charge:@1.5s:1000000000:1s:3:24h:1000"},
			{"1.5s", "budget_settle 1h 999999999 0 1s 3 24h 1000", "1 999999999"},
			{"", "!GET $2", "settled:@1.5s:999999999"},
		}},
	}, asBudget(sliceRingV1.timelines)...),
}

// asBudget are timelines of slice_ring in which each call that reports nothing is one of budget, with an id of its own.
func asBudget(timelines []timeline) []timeline {
	return eachRingCall(timelines, func(l line, permits, windows string, id int) line {
		return line{l.at, fmt.Sprintf("#%d 1h %s %s", id, permits, windows), l.want}
	})
}

// eachRingCall rewrites the calls of slice_ring that report nothing in its timelines.
func eachRingCall(timelines []timeline, rewrite func(l line, permits, windows string, i int) line) (all []timeline) {
	for _, tl := range timelines {
		other := timeline{name: "slice_ring: " + tl.name}
		for i, l := range tl.lines {
			words := strings.SplitN(l.do, " ", 3)
			switch {
			case strings.HasPrefix(l.do, "!") || strings.HasPrefix(l.do, "slice_ring"):
				other.lines = append(other.lines, l)
			case words[1] != "0":
				other.lines = append(other.lines, line{l.at, "slice_ring " + l.do, l.want})
			default:
				other.lines = append(other.lines, rewrite(l, words[0], words[2], i))
			}
		}
		all = append(all, other)
	}
	return all
}

// A charge whose id Redis refuses goes back, but not in reset_after: the ring stays moved on.
func checkRefusedID(t testing.TB) {
	for _, c := range []struct {
		tab table
		do  string
	}{{budgetV1, "1h 2 1s 4 9"}, {budgetSettleV1, "1h 2 1 1s 4"}} {
		h := startHarness(t, true)
		budgetV1.play(h, timeline{lines: after("0s #b 1h 2 1s 4 9")})
		h.setTime(epoch + 2_000_000)
		keys, args := c.tab.asked(c.do)
		h.withhold("SET")
		_, failed := h.call(c.tab.script, false, keys, args)
		h.withhold()
		left := sliceRingV1.play(h, timeline{lines: []line{{"2s", "0 0 1s 4 9", "0 7 0 4s 2"}}})
		if !refusal.MatchString(failed) || len(left) > 0 {
			t.Errorf("%s: %q, then %v", c.tab.script.Name, failed, left)
		}
	}
}
