package scripttest_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/layout"
	"github.com/sluice-redis/sluice/scripttest"
)

// ttl permits slice_1 size_1 limit_1 ... -> granted remaining wait reset_after count_1 ...
var budgetV1 = table{
	script: &budgetV1Script,
	keys:   []string{"t:x:{u}:sr1", "t:x:{u}:bg1:a"},
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
			{"", "!GET $2", "charge:@0s:60:0"},
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
			{"0s", "1h 0 1s 5 100 1s 1 60", "0 0 1s 5s 60 60"},
			{"0s", "budget_settle 1h 10 0 1s 5", "1 10"},
			{"0s", "1h 0 1s 5 100 1s 1 60", "0 50 0 5s 10 10"},
			{"0s", "!RPUSH $2b x", "1"},
			{"0s", "#b 1h 0 1s 5 100", "0 90 0 5s 10"},
		}},
		{"asked again when the ring was evicted", []line{
			{"0s", "1h 60 1s 5 100", "60 40 0 5s 60"},
			{"", "!DEL $1", "1"},
			{"1s", "1h 60 1s 5 100", "60 100 0 0 0"},
			{"", "!EXISTS $1", "0"},
			{"1s", "#b 1h 60 1s 5 100", "60 40 0 5s 60"},
		}},
		{"asked again when the id is no longer known", []line{
			{"0s", "1h 40 1s 5 100", "40 60 0 5s 40"},
			{"", "!DEL $2", "1"},
			{"0s", "1h 40 1s 5 100", "40 20 0 5s 80"},
		}},
		{"slice_ring looks at and charges the same counts", []line{
			{"0s", "1h 60 1s 5 100", "60 40 0 5s 60"},
			{"0s", "slice_ring 30 1s 5 100", "30 10 0 5s 90"},
			{"0s", "#b 1h 11 1s 5 100", "0 10 5s 5s 90"},
			{"1s", "#b 1h 10 1s 5 100", "10 0 0 5s 100"},
			{"1s", "slice_ring 1 1s 5 100", "0 0 4s 5s 100"},
			{"1s", "slice_ring_return @0s 20", "20"},
			{"1s", "#c 1h 20 1s 5 100", "20 0 0 5s 100"},
			{"2s", "slice_ring 10 1s 7 110", "10 0 0 7s 110"},
			{"6s", "#d 1h 0 1s 5 100 1s 7 110", "0 0 2s 3s 10 110"},
		}},
		{"a debt: denied until enough of it has left", []line{
			{"0s", "1h 10 1s 3 100", "10 90 0 3s 10"},
			{"1s", "budget_settle 1h 250 0 1s 3", "1 250"},
			{"1s", "#b 1h 1 1s 3 100", "0 0 3s 3s 250"},
			{"1s", "#b 1h 100 1s 3 100", "0 0 3s 3s 250"},
			{"1s", "slice_ring 1 1s 3 100", "0 0 3s 3s 250"},
			{"1s", "slice_ring 0 1s 3 100 1s 1 100 1s 2 100", "0 0 3s 3s 250 240 250"},
			{"3.999999s", "#b 1h 1 1s 3 100", "0 0 1us 1us 240"},
			{"3.999999s", "slice_ring 1 1s 3 100", "0 0 1us 1us 240"},
			{"4s", "#b 1h 100 1s 3 100", "100 0 0 3s 100"},
		}},
		{"a debt in several slices is waited for in parts", []line{
			{"0s", "1h 10 1s 4 100", "10 90 0 4s 10"},
			{"0s", "#b 1h 10 1s 4 100", "10 80 0 4s 20"},
			{"0s", "budget_settle 1h 100 0 1s 4", "1 100"},
			{"2s", "budget_settle #b 1h 100 0 1s 4", "1 100"},
			{"2s", "#c 1h 1 1s 4 100", "0 0 2s 4s 200"},
			{"2s", "#c 1h 11 1s 4 100", "0 0 4s 4s 200"},
			{"2s", "slice_ring 10 1s 4 100", "0 0 2s 4s 200"},
			{"2s", "slice_ring 11 1s 4 100", "0 0 4s 4s 200"},
			{"4s", "#c 1h 10 1s 4 100", "10 0 0 4s 100"},
		}},
		{"a debt lasts one window, however large, in each window of its own", []line{
			{"0s", "1h 1 1s 2 10 1s 6 20", "1 9 0 6s 1 1"},
			{"0s", "budget_settle 1h 1000000000 0 1s 6", "1 1000000000"},
			{"0s", "#b 1h 1 1s 2 10 1s 6 20", "0 0 6s 6s 1000000000 1000000000"},
			{"0s", "#b 1h 1 1s 2 10", "0 0 2s 2s 1000000000"},
			{"2s", "#b 1h 1 1s 2 10", "1 9 0 2s 1"},
			{"5s", "#c 1h 1 1s 2 10 1s 6 20", "0 0 1s 3s 0 1000000001"},
			{"6s", "#c 1h 1 1s 2 10 1s 6 20", "1 9 0 6s 1 2"},
		}},
		{"a window of one slice is free when the next begins", []line{
			{"0.25s", "1h 9 1s 1 9", "9 0 0 750ms 9"},
			{"0.25s", "budget_settle 1h 900 0 1s 1", "1 900"},
			{"0.5s", "#b 1h 1 1s 1 9", "0 0 500ms 500ms 900"},
			{"1s", "#b 1h 9 1s 1 9", "9 0 0 1s 9"},
		}},
		{"the clock is behind: counted in the last slice, and settled there", []line{
			{"5s", "1h 20 1s 4 100", "20 80 0 4s 20"},
			{"2s", "#b 1h 30 1s 4 100", "30 50 0 7s 50"},
			{"", "!GET $2b", "charge:@5s:30:0"},
			{"2s", "budget_settle #b 1h 10 0 1s 4", "1 10"},
			{"2s", "#c 1h 0 1s 4 100", "0 70 0 7s 30"},
			{"8s", "#c 1h 0 1s 4 100 1s 3 100", "0 70 0 1s 30 0"},
		}},
		{"a ring of another type is left alone", []line{
			{"0s", "!RPUSH $1 x", "1"},
			{"0s", "1h 1 1s 3 2", wrongType},
			{"", "!EXISTS $2", "0"},
		}},
		{"an id of another type is left alone", []line{
			{"0s", "!RPUSH $2 x", "1"},
			{"0s", "1h 1 1s 3 2", wrongType},
			{"", "!LRANGE $2 0 -1", "[x]"},
			{"", "!EXISTS $1", "0"},
		}},
		{"an unreadable id", []line{
			{"0s", `!SET $2 ""`, "OK"},
			{"0s", "1h 1 1s 3 2", "BADSTATE id: want a time and permits"},
			{"0s", "!SET $2 xxxxxxxxx", "OK"},
			{"0s", "1h 1 1s 3 2", "BADSTATE id: want a time and permits"},
			{"0s", "!SET $2 charge:@0s:1000000001:0", "OK"},
			{"0s", "1h 1 1s 3 2", "BADSTATE id: want a time and permits"},
			{"0s", "!SET $2 charge:@0s:1000000000:1", "OK"},
			{"0s", "1h 1 1s 3 2", "BADARG id: want one that is not settled"},
			{"0s", "!SET $2 charge:@0s:1000000000:0", "OK"},
			{"0s", "1h 1000000000 1s 3 1000000000", "1000000000 1000000000 0 0 0"},
			{"0s", "!SET $2 " + layout.Budget(epoch, 1, false) + "x", "OK"},
			{"0s", "1h 1 1s 3 2", "BADSTATE id: want a time and permits"},
		}},
		{"an unreadable ring is told before the id", []line{
			{"0s", "!SET $1 x", "OK"},
			{"0s", "!SET $2 x", "OK"},
			{"0s", "1h 1 1s 3 2", "BADSTATE ring: want 1..8 sections"},
		}},
		{"a wait that reads a ring that ends too soon", []line{
			{"0s", "!SET $1 " + cut(ringOf(3, 0, 1, 1, 0, 0)), "OK"},
			{"0s", "1h 1 1s 3 1", "BADSTATE ring: want a cell for each slice"},
			{"", "!EXISTS $2", "0"},
		}},
		{"what is stored of an id", []line{
			{"1.5s", "1h 1000000000 1s 3 1000000000", "1000000000 0 0 2.5s 1000000000"},
			{"", "!GET $2", layout.Integer(7, epoch+1.5e6) + layout.Integer(4, 2e9)},
			{"1.5s", "budget_settle 1h 999999999 0 1s 3", "1 999999999"},
			{"", "!GET $2", layout.Integer(7, epoch+1.5e6) + layout.Integer(4, 2e9-1)},
		}},
	}, asBudget(sliceRingV1.timelines)...),
}

// asBudget are timelines of slice_ring in which each call is one of budget with an id of its own.
func asBudget(timelines []timeline) []timeline {
	return eachRingCall(timelines, func(l line, id int) []line {
		l.do = fmt.Sprintf("#%d 1h %s", id, l.do)
		return []line{l}
	})
}

// eachRingCall rewrites the calls of slice_ring in its timelines.
func eachRingCall(timelines []timeline, rewrite func(l line, i int) []line) (rewritten []timeline) {
	for _, tl := range timelines {
		other := timeline{name: "slice_ring: " + tl.name}
		for i, l := range tl.lines {
			if strings.HasPrefix(l.do, "!") || strings.HasPrefix(l.do, "slice_ring") {
				other.lines = append(other.lines, l)
			} else {
				other.lines = append(other.lines, rewrite(l, i)...)
			}
		}
		rewritten = append(rewritten, other)
	}
	return rewritten
}

// An id lives as long as its last writer says, rounded up to a millisecond; the ring lives by itself.
func checkIDExpires(t testing.TB) {
	r := scripttest.Start(t)
	r.SetTime(epoch)
	budget := compile(t, budgetV1Script.File, budgetV1Script.Source)
	settle := compile(t, budgetSettleV1Script.File, budgetSettleV1Script.Source)
	ring, id := budgetV1.keys[0], budgetV1.keys[1]

	budget.Run(r, budgetV1.keys, []string{"9000001", "5", "1000000", "3", "100"})
	assertTTL(t, r, id, 9001)
	assertTTL(t, r, ring, 3000)
	r.SetTime(epoch + 500_000)
	budget.Run(r, budgetV1.keys, []string{"9000000", "5", "1000000", "3", "100"}) // again
	assertTTL(t, r, id, 8501)
	for _, unknown := range []string{"0", "1"} {
		for _, permits := range []string{"5", "4", "6"} {
			_, _ = r.Do("SET", id, layout.Budget(epoch, 5, false))
			settle.Run(r, budgetV1.keys, []string{"1000", permits, unknown, "1000000", "3"})
			assertTTL(t, r, id, 1)
			settle.Run(r, budgetV1.keys, []string{"9000000", permits, unknown, "1000000", "3"}) // again
			assertTTL(t, r, id, 1)
		}
	}
	_, _ = r.Do("DEL", id)
	settle.Run(r, budgetV1.keys, []string{"31622400000000", "0", "1", "1000000", "3"})
	assertTTL(t, r, id, 31_622_400_000)
	assertTTL(t, r, ring, 2500)
}

// A charge in a later slice puts off the ring's expiry, to the millisecond, and a new ring has as much.
func checkChargesProlong(charge func(slice, id string) (*sluice.Script, []string, []string)) func(testing.TB) {
	return func(t testing.TB) {
		for slice, ttl := range map[int64]int64{
			1_500_000: 4500, // at half a second
			1_001_001: (epoch/1001001+1+3)*1001001/1000 + 1 - (epoch+1_499_999)/1000,
		} {
			r := scripttest.Start(t)
			at := epoch + int64(1_499_999)
			if slice == 1_500_000 {
				at = epoch + 2*slice
			}
			for i, now := range []int64{epoch, at} {
				r.SetTime(now)
				script, keys, args := charge(strconv.FormatInt(slice, 10), strconv.Itoa(i))
				compile(t, script.File, script.Source).Run(r, keys, args)
			}
			assertTTL(t, r, budgetV1.keys[0], ttl)
			_, _ = r.Do("DEL", budgetV1.keys[0])
			script, keys, args := charge(strconv.FormatInt(slice, 10), "new")
			compile(t, script.File, script.Source).Run(r, keys, args)
			assertTTL(t, r, budgetV1.keys[0], ttl)
		}
	}
}

func chargeByBudget(slice, id string) (*sluice.Script, []string, []string) {
	return &budgetV1Script, idKeys(id), []string{"9000000", "1", slice, "3", "9"}
}

func chargeBySettle(slice, id string) (*sluice.Script, []string, []string) {
	return &budgetSettleV1Script, idKeys(id), []string{"9000000", "1", "1", slice, "3"}
}

func idKeys(id string) []string { return []string{budgetV1.keys[0], budgetV1.keys[1] + id} }

// Whatever byte of a ring is damaged, both scripts end: with BADSTATE and the bytes as they were, or an answer.
func checkBudgetOfDamagedRingEnds(script *sluice.Script, args ...string) func(testing.TB) {
	return func(t testing.TB) {
		compiled := compile(t, script.File, script.Source)
		sliceRingV1.eachDamagedRing(t, func(name string, r *scripttest.Redis, _ func(slice int64) scripttest.Result) {
			for slice := int64(2); slice < 12; slice += 3 {
				id := "t:x:{u}:bg1:a"
				_, _ = r.Do("SET", id, layout.Budget(uint64(epoch+1000*slice), 2, false))
				before := r.Snapshot()
				result := compiled.Run(r, []string{ringKey, id}, args)
				if _, refused := result.Err.(scripttest.ErrorReply); result.Err != nil && !refused {
					t.Fatalf("%s: %v", name, result.Err)
				}
				if granted(script, nil, result) == 0 && r.Snapshot() != before {
					t.Errorf("%s: %v and the store changed", name, result.Err)
				}
			}
		})
	}
}
