package scripttest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice"
)

// The scripts for many keys are made from those for one. So are their tables: every timeline of the script for one key,
// with the errors as numbers, and timelines about several keys.

// now granted remaining wait reset_after granted ..
var (
	gcraManyV1 = manyOf(gcraV1, &gcraManyV1Script, []timeline{
		{"each key by itself, in their order", []line{
			{"0s", "$2 2 10s 2 1 0", "1 1 0 5s"},
			{"0s", "$1 $2 $3 2 10s 2 0 0", "0 2 0 0 0 1 0 5s 0 2 0 0"},
			{"0s", "$3 $2 $1 2 10s 2 1 0", "1 1 0 5s 1 0 0 10s 1 1 0 5s"},
			{"0s", "$1 $2 2 10s 2 1 0", "1 0 0 10s 0 0 5s 10s"},
		}},
		{"a key that is named twice is decided twice", []line{
			{"0s", "$1 $2 $1 $1 2 10s 2 1 0", "1 1 0 5s 1 1 0 5s 1 0 0 10s 0 0 5s 10s"},
			{"0s", "$2 $2 2 10s 2 0 0", "0 1 0 5s 0 1 0 5s"},
		}},
		{"bookings of several keys", []line{
			{"0s", "$1 $2 2 10s 2 2 10s", "2 0 0 10s 2 0 0 10s"},
			{"0s", "$1 $2 $1 2 10s 2 2 10s", "2 0 10s 20s 2 0 10s 20s 0 0 20s 20s"},
			{"0s", "$3 $1 2 10s 2 1 0", "1 1 0 5s 0 0 15s 20s"},
		}},
		{"buckets that cannot be read", []line{
			{"0s", "!SET $2 x", "OK"},
			{"0s", "!RPUSH $3 x", "1"},
			{"0s", "$1 $2 $3 $1 2 10s 2 1 0", "1 1 0 5s -1 0 0 0 -2 0 0 0 1 0 0 10s"},
			{"", "!GET $2", "x"},
			{"0s", "$3 $2 2 10s 2 1 0", "-2 0 0 0 -1 0 0 0"},
		}},
		{"a narrower window of one key is none of another's", []line{
			{"0s", "$1 10 1h 10 1 0", "1 9 0 6m"},
			{"0s", "$2 $1 10 10s 10 1 0", "1 9 0 1s 0 0 351s 6m"},
			{"0s", "$2 $1 100 10m 100 1 0", "1 98 0 7s 1 39 0 366s"},
			{"", "!GET $2", "bucket:@7s:0:100:@0s:10m"},
			{"", "!GET $1", "bucket:@366s:0:100:@0s:1h:10m:@6m"},
		}},
	})
	listLogManyV1 = manyOf(listLogV1, &listLogManyV1Script, []timeline{
		{"each key by itself, in their order", []line{
			{"0s", "$2 2 10s 1 0", "1 1 0 10s"},
			{"0s", "$1 $2 $3 2 10s 0 0", "0 2 0 0 0 1 0 10s 0 2 0 0"},
			{"0s", "$3 $2 $1 2 10s 1 0", "1 1 0 10s 1 0 0 10s 1 1 0 10s"},
			{"1s", "$1 $2 2 10s 1 0", "1 0 0 10s 0 0 9s 9s"},
		}},
		{"a key that is named twice is decided twice", []line{
			{"0s", "$1 $2 $1 $1 2 10s 1 0", "1 1 0 10s 1 1 0 10s 1 0 0 10s 0 0 10s 10s"},
			{"0s", "$2 $2 2 10s 0 0", "0 1 0 10s 0 1 0 10s"},
		}},
		{"bookings of several keys", []line{
			{"0s", "$1 $2 2 10s 2 10s", "2 0 0 10s 2 0 0 10s"},
			{"0s", "$1 $2 $1 2 10s 2 10s", "2 0 10s 20s 2 0 10s 20s 0 0 20s 20s"},
			{"0s", "$3 $1 2 10s 1 0", "1 1 0 10s 0 0 20s 20s"},
		}},
		{"logs that cannot be read", []line{
			{"0s", "!RPUSH $2 x @0s", "2"},
			{"0s", "!SET $3 x", "OK"},
			{"0s", "$1 $2 $3 $1 2 10s 1 0", "1 1 0 10s -1 0 0 0 -2 0 0 0 1 0 0 10s"},
			{"", "!LRANGE $2 0 -1", "[x @0s]"},
			{"0s", "$3 $2 2 10s 1 0", "-2 0 0 0 -1 0 0 0"},
		}},
		{"a thousand permits together", []line{
			{"0s", "$1 $2 1000 10s 501 0", "BADARG permits: want keys * permits up to 1000"},
			{"0s", "$1 $1 $1 $1 $1 $1 $1 1000 10s 143 0", "BADARG permits: want keys * permits up to 1000"},
			{"0s", "$1 $2 1000 10s 500 0", "500 500 0 10s 500 500 0 10s"},
			{"0s", "$1 $2 100 10s 501 0", "BADARG permits: want up to limit"},
		}},
	})
	sliceRingManyV1 = manyOf(sliceRingV1, &sliceRingManyV1Script, []timeline{
		{"each subject by itself, in their order", []line{
			{"0s", "$2 1 0 1s 3 2", "1 1 0 3s 1"},
			{"0s", "$1 $2 $3 0 0 1s 3 2", "0 2 0 0 0 0 1 0 3s 1 0 2 0 0 0"},
			{"0s", "$3 $2 $1 1 0 1s 3 2", "1 1 0 3s 1 1 0 0 3s 2 1 1 0 3s 1"},
			{"1s", "$1 $2 1 0 1s 3 2", "1 0 0 3s 2 0 0 2s 2s 2"},
		}},
		{"a subject that is named twice is decided twice", []line{
			{"0s", "$1 $2 $1 $1 1 0 1s 3 2", "1 1 0 3s 1 1 1 0 3s 1 1 0 0 3s 2 0 0 3s 3s 2"},
			{"1s", "$2 $2 0 0 1s 3 2", "0 1 0 2s 1 0 1 0 2s 1"},
			{"1s", "$2 $2 0 3 1s 3 2", "0 0 3s 3s 4 0 0 3s 3s 7"},
		}},
		{"several windows of several subjects", []line{
			{"0s", "$1 $2 1 0 1s 1 1 1s 4 2", "1 0 0 4s 1 1 1 0 0 4s 1 1"},
			{"1s", "$1 1 0 1s 1 1 1s 4 2", "1 0 0 4s 1 2"},
			{"1s", "$2 $1 $3 1 0 1s 4 2 1s 1 1", "1 0 0 4s 2 1 0 0 3s 4s 2 1 1 0 0 4s 1 1"},
		}},
		{"reports for all subjects", []line{
			{"0s", "$1 $2 1 3 1s 3 4", "1 0 0 3s 4 1 0 0 3s 4"},
			{"0s", "$3 $2 1 3 1s 3 4", "1 0 0 3s 4 0 0 3s 3s 7"},
			{"1s", "$1 $2 $3 0 0 1s 3 4", "0 0 2s 2s 4 0 0 2s 2s 7 0 0 2s 2s 4"},
		}},
		{"rings that cannot be read", []line{
			{"0s", "!SET $2/1sx1 x", "OK"},
			{"0s", "!RPUSH $3/1sx3 x", "1"},
			{"0s", "$1 $2 $3 $1 1 0 1s 3 2 1s 1 2", "1 1 0 3s 1 1 -1 0 0 0 0 0 -2 0 0 0 0 0 1 0 0 3s 2 2"},
			{"", "!GET $2/1sx1", "x"},
			{"", "!EXISTS $2/1sx3 $3/1sx1", "0"},
			{"0s", "$3 $2 1 0 1s 1 2 1s 3 2", "-2 0 0 0 0 0 -1 0 0 0 0 0"},
			{"0s", "$3 $2 1 0 1s 4 2", "1 1 0 4s 1 1 1 0 4s 1"},
		}},
		{"the clock is behind the last slice of one subject only", []line{
			{"5s", "$1 1 0 1s 3 9", "1 8 0 3s 1"},
			{"3s", "$1 $2 1 0 1s 3 9", "1 7 0 5s 2 1 8 0 3s 1"},
			{"3s", "$2 $1 0 0 1s 3 9", "0 8 0 3s 1 0 7 0 5s 2"},
		}},
		{"as many keys as there may be, and one more", []line{
			{"0s", "$1 $2 1 0 1s 1 9 1s 2 9 1s 3 9 1s 4 9 1s 5 9 1s 6 9 1s 7 9 1s 8 9",
				"1 8 0 8s 1 1 1 1 1 1 1 1 1 8 0 8s 1 1 1 1 1 1 1 1"},
			{"0s", "$1 $2 $3 1 0 1s 1 9 1s 2 9 1s 3 9 1s 4 9 1s 5 9 1s 6 9", "BADARG KEYS: want 1 to 16"},
			{"0s", "$1 $2 $3 1 0 1s 1 9 1s 2 9 1s 3 9 1s 4 9 1s 5 9",
				"1 7 0 5s 2 2 2 2 2 1 7 0 5s 2 2 2 2 2 1 8 0 5s 1 1 1 1 1"},
		}},
	})
)

// manyOf is the table of a script for many keys, by that of the script for one.
func manyOf(one table, script *sluice.Script, own []timeline) table {
	many := table{script: script, keys: one.keys, more: []string{one.keys[0] + "2", one.keys[0] + "3"},
		repeated: len(one.timelines)}
	if one.script.Group != nil {
		many.more = []string{"t:y:{u}:sr1:", "t:z:{u}:sr1:"}
	}
	for _, tl := range one.timelines {
		lines := slices.Clone(tl.lines)
		for i := range lines {
			lines[i].want = one.manyWants(lines[i])
		}
		many.timelines = append(many.timelines, timeline{tl.name, lines})
	}
	many.timelines = append(many.timelines, own...)
	return many
}

// manyWants is what a line of this table wants of the script for many keys.
func (tab table) manyWants(l line) string {
	for code, number := range map[string]string{"BADSTATE": "-1", "WRONGTYPE": "-2"} {
		if strings.HasPrefix(l.want, code) && !strings.HasPrefix(l.do, "!") {
			counts := 0
			if tab.script.Group != nil {
				counts = (len(strings.Fields(l.do)) - 2) / 3
			}
			return number + strings.Repeat(" 0", 3+counts)
		}
	}
	return l.want
}

// asked are the keys and the arguments of a call that a line makes of the table's own script.
func (tab table) asked(do string) (keys, args []string) {
	tab, do = tab.called(do)
	args = tab.arguments(do)
	return tab.keysOf(args), args
}

// first is the reply for the first key, in the shape of the script for one; of a script for many, without the counts.
func (tab table) first(reply []int64) []int64 {
	if tab.script.KeyGroup == nil || len(reply) == 0 {
		return reply
	}
	return append(slices.Clone(reply[1:5]), reply[0])
}

var (
	gcraManyV1Costs = append(gcraV1Costs,
		cost{"three keys", after("0s $2 1 1s 1 1 0"), line{"0s", "$1 $2 $3 1 1s 1 1 0", "TIME GET SET GET*2 SET"}})
	listLogManyV1Costs = append(listLogV1Costs,
		cost{"three keys", after("0s $2 1 10s 1 0"),
			line{"0s", "$1 $2 $3 1 10s 1 0",
				"TIME LINDEX RPUSH PEXPIREAT LINDEX LLEN LINDEX*2 RPUSH PEXPIREAT"}})
	sliceRingManyV1Costs = append(sliceRingV1Costs,
		cost{"three subjects", after("0s $2 1 0 1s 3 1"),
			line{"0s", "$1 $2 $3 1 0 1s 3 1",
				"TIME GETRANGE SETRANGE PEXPIREAT SETRANGE GETRANGE*3 SETRANGE PEXPIREAT SETRANGE"}})
)

// checkMostKeys asks about as many keys as a call may have.
func (tab table) checkMostKeys(t testing.TB) {
	h := startHarness(t, false)
	h.setTime(epoch)
	keys := make([]string, tab.script.KeyGroup.Max)
	for i := range keys {
		keys[i] = fmt.Sprint(tab.keys[0], i)
	}
	tab.keys = keys
	reply, failed := h.call(tab.script, false, tab.keysOf(tab.valid(1)), tab.valid(1))
	each := len(tab.script.Reply) - 1 // of one window
	if failed != "" || len(reply) != 1+each*len(keys) {
		t.Fatalf("%d numbers, %s; want %d for each of %d keys", len(reply), failed, each, len(keys))
	}
	for one := range oneByOne(tab.script, len(keys), reply) {
		if one[0] != 1 {
			t.Errorf("%v, want a grant", one)
		}
	}
}

// After 256 entries were read, the keys that are left are not decided: nothing is read or written for them.
func checkLongSearchesEnd(t testing.TB) {
	h := startHarness(t, true)
	// A look reads 7, 5, 4 and 2 entries of logs in which so many have left, and one has not.
	reads := map[int]int{7: 7, 3: 5, 2: 4, 0: 2}
	for left := range reads {
		for range left {
			h.do("RPUSH", logThatLeft(left), fmt.Sprint(epoch))
		}
		h.do("RPUSH", logThatLeft(left), fmt.Sprint(epoch+9_000_000))
	}
	h.setTime(epoch + 10_000_000)
	for _, c := range []struct {
		long int   // logs in which 7 have left
		then []int // in the logs behind them
		sum  int   // reads up to there
		more []int64
	}{
		{35, []int{3, 3}, 255, []int64{0, 99, 0, 9_000_000, -3, 0, 0, 0, -3, 0, 0, 0}},
		{36, []int{2}, 256, []int64{-3, 0, 0, 0, -3, 0, 0, 0, -3, 0, 0, 0}},
	} {
		sum, keys := c.long*reads[7], slices.Repeat([]string{logThatLeft(7)}, c.long)
		for _, left := range c.then {
			sum, keys = sum+reads[left], append(keys, logThatLeft(left))
		}
		if sum != c.sum {
			t.Fatalf("%d reads, want %d", sum, c.sum)
		}
		decided := len(keys)
		for range 3 {
			keys = append(keys, logThatLeft(0))
		}
		reply, failed := h.call(&listLogManyV1Script, true, keys, []string{"100", "10000000", "0", "0"})
		if failed != "" || reply[1+4*(decided-1)] != 0 || !slices.Equal(reply[1+4*decided:], c.more) {
			t.Errorf("behind %d reads: %v, %s; want it to end in %v", c.sum, reply, failed, c.more)
		}
	}
}

func logThatLeft(entries int) string { return fmt.Sprintf("t:x:{%d}:ll1", entries) }
