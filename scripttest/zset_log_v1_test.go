package scripttest_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// limit window permits max_wait id -> granted remaining wait reset_after
var zsetLogV1 = table{
	script: &zsetLogV1Script,
	keys:   []string{"t:x:{u}:zl1"},
	timelines: withIDs(append(append(logTimelines(" *"), zsetLogV1Edges...), []timeline{
		{"a member is the id, and more permits are numbered", []line{
			{"0s", `9 10s 1 0 one`, "1 8 0 10s"},
			{"1s", `9 10s 3 0 three`, "3 5 0 10s"},
			{"", "!ZRANGE $1 0 -1 WITHSCORES", "[one @0s three @1s three||2 @1s three||3 @1s]"},
			{"10s", `9 10s 1 0 %s`, "1 5 0 10s"},
			{"", "!ZRANGE $1 0 -1", "[three three||2 three||3 %s]"},
		}},
		{"permits are not granted without an id", []line{
			{"0s", `9 10s 1 0 ""`, "BADARG id: want 1 to 128 bytes without |"},
			{"0s", `9 10s 2 60s ""`, "BADARG id: want 1 to 128 bytes without |"},
			{"0s", `9 10s 10 0 ""`, "BADARG id: want 1 to 128 bytes without |"},
			{"", "!EXISTS $1", "0"},
			{"0s", `9 10s 0 0 ""`, "0 9 0 0"},
			{"0s", `9 10s 2 0 a`, "2 7 0 10s"},
			{"1s", `9 10s 0 0 ""`, "0 7 0 9s"},
			{"1s", `9 10s 1 0 ""`, "BADARG id: want 1 to 128 bytes without |"},
			{"", "!ZCARD $1", "2"},
		}},
		{"asking again with a live id charges nothing", []line{
			{"0s", `3 10s 2 0 a`, "2 1 0 10s"},
			{"1s", `3 10s 2 0 a`, "2 1 0 9s"},
			{"2s", `3 10s 1 0 b`, "1 0 0 10s"},
			{"3s", `3 10s 2 0 a`, "2 0 0 9s"},
			{"9.999999s", `3 10s 2 0 a`, "2 0 0 2.000001s"},
			{"", "!ZRANGE $1 0 -1 WITHSCORES", "[a @0s a||2 @0s b @2s]"},
			{"10s", `3 10s 2 0 a`, "2 0 0 10s"},
			{"", "!ZRANGE $1 0 -1 WITHSCORES", "[b @2s a @10s a||2 @10s]"},
		}},
		{"asking again for a booking: what is left of its wait", []line{
			{"0s", `1 10s 1 0 a`, "1 0 0 10s"},
			{"1s", `1 10s 1 60s b`, "1 0 9s 19s"},
			{"4s", `1 10s 1 60s b`, "1 0 6s 16s"},
			{"4s", `1 10s 1 0 b`, "1 0 6s 16s"},
			{"12s", `1 10s 1 0 b`, "1 0 0 8s"},
			{"", "!ZCARD $1", "2"},
		}},
		{"a live id with other permits", []line{
			{"0s", `9 10s 2 0 a`, "2 7 0 10s"},
			{"1s", `9 10s 1 0 a`, "BADARG id: want the permits it was granted before"},
			{"1s", `9 10s 3 0 a`, "BADARG id: want the permits it was granted before"},
			{"1s", `9 10s 0 0 a`, "0 7 0 9s"},
			{"10s", `9 10s 3 0 a`, "3 6 0 10s"},
			{"", "!ZCARD $1", "3"},
		}},
		{"an id that was used before with more permits", []line{
			{"0s", "!ZADD $1 @0s a @0s a||2 @0s a||3", "3"},
			{"10s", `500 10s 400 0 b`, "400 100 0 10s"},
			{"10s", "!ZADD $1 @0s a @0s a||2 @0s a||3", ""},
			{"11s", `500 10s 2 0 a`, "2 98 0 10s"},
			{"11s", "!ZADD $1 @0s a||3", ""},
			{"12s", `500 10s 2 0 a`, "2 98 0 9s"},
			{"12s", `500 10s 3 0 a`, "BADARG id: want the permits it was granted before"},
		}},
		{"a denied id is not known afterwards", []line{
			{"0s", `1 10s 1 0 a`, "1 0 0 10s"},
			{"1s", `1 10s 1 0 b`, "0 0 9s 9s"},
			{"10s", `1 10s 1 0 b`, "1 0 0 10s"},
		}},
		{"ZREM of an id's members gives its permits back", []line{
			{"0s", `3 10s 3 0 a`, "3 0 0 10s"},
			{"1s", `3 10s 1 0 b`, "0 0 9s 9s"},
			{"", "!ZREM $1 a a||2 a||3", "3"},
			{"1s", `3 10s 1 0 b`, "1 2 0 10s"},
		}},
		{"the longest id, and an id of a space's neighbours", []line{
			{"0s", `9 10s 1 0 ` + strings.Repeat("i", 128), "1 8 0 10s"},
			{"0s", `9 10s 1 0 ` + strings.Repeat("i", 129), "BADARG id: want 1 to 128 bytes without |"},
			{"0s", `9 10s 1 0 a|b`, "BADARG id: want 1 to 128 bytes without |"},
			{"0s", `9 10s 1 0 |`, "BADARG id: want 1 to 128 bytes without |"},
			{"0s", `9 10s 2 0 %d%s`, "2 6 0 10s"},
			{"1s", `9 10s 2 0 %d%s`, "2 6 0 9s"},
		}},
		{"a void log is unlinked by the next grant, and its ids are not live", []line{
			{"0s", `3 10s 2 0 a`, "2 1 0 10s"},
			{"-1h", `3 10s 0 0 a`, "0 3 0 0"},
			{"", "!ZCARD $1", "2"},
			{"-1h", `3 10s 1 0 a`, "1 2 0 10s"},
			{"", "!ZRANGE $1 0 -1 WITHSCORES", "[a @-1h0m0s]"},
		}},
		{"a key of another type is left alone", []line{
			{"0s", "!SET $1 x", "OK"},
			{"0s", `2 10s 1 0 *`, wrongType},
			{"0s", `2 10s 0 0 *`, wrongType},
			{"", "!GET $1", "x"},
		}},
		{"an unreadable newest score", []line{
			{"0s", "!ZADD $1 inf x", "1"},
			{"0s", `2 10s 1 0 *`, "BADSTATE log: want scores in microseconds"},
			{"", "!ZADD $1 1.5 x", "0"},
			{"0s", `2 10s 0 0 *`, "BADSTATE log: want scores in microseconds"},
			{"0s", `1 10s 1 0 *`, "BADSTATE log: want scores in microseconds"},
			{"", "!ZADD $1 -1 x", "0"},
			{"0s", `2 10s 0 0 *`, "BADSTATE log: want scores in microseconds"},
		}},
		{"an unreadable newest score that is before now and decides nothing", []line{
			{"0s", "!ZADD $1 1.5 x", "1"},
			{"0s", `2 10s 1 0 *`, "1 1 0 10s"},
			{"", "!ZRANGE $1 0 -1", "[r2]"},
		}},
		{"an unreadable score that decides", []line{
			{"0s", "!ZADD $1 1.5 x @0s y", "2"},
			{"0s", `2 10s 1 0 *`, "BADSTATE log: want scores in microseconds"},
			{"0s", `3 10s 1 0 x`, "BADSTATE log: want scores in microseconds"},
		}},
	}...)),
}

// zset_log takes an id with every request. Timelines of what does not depend on ids say * for one of its own: r1 in the
// first line, r2 in the second and so on.
func withIDs(timelines []timeline) []timeline {
	with := make([]timeline, len(timelines))
	for i, tl := range timelines {
		with[i] = timeline{tl.name, linesWithIDs(tl.lines)}
	}
	return with
}

func linesWithIDs(lines []line) []line {
	with := make([]line, len(lines))
	for i, l := range lines {
		if do, more := strings.CutSuffix(l.do, " *"); more {
			l.do = fmt.Sprintf("%s r%d", do, i+1)
		}
		with[i] = l
	}
	return with
}

func costsWithIDs(costs []cost) []cost {
	with := make([]cost, len(costs))
	for i, c := range costs {
		lines := linesWithIDs(append(c.before[:len(c.before):len(c.before)], c.call))
		with[i] = cost{c.name, lines[:len(lines)-1], lines[len(lines)-1]}
	}
	return with
}

var idsGiven atomic.Int64

// freshID is an id that no call had before.
func freshID() string { return fmt.Sprintf("fresh-%d", idsGiven.Add(1)) }

var zsetLogV1Edges = []timeline{
	{"permits above the limit can never be granted", []line{
		{"0s", `2 10s 3 60s *`, "BADARG permits: want up to limit"},
		{"0s", `2 10s 2 0 *`, "2 0 0 10s"},
	}},
	{"the first and the last time that a member may have", []line{
		{"0s", "!ZADD $1 0 x", "1"},
		{"0s", `2 10s 0 0 *`, "0 2 0 0"},
		{"0s", `2 10s 1 0 *`, "1 1 0 10s"},
		{"", "!ZRANGE $1 0 -1", "[r3]"},
		{"", "!ZADD $1 9007199254740991 x", "1"},
		{"0s", `2 10s 1 0 *`, "1 1 0 10s"},
		{"", "!ZRANGE $1 0 -1", "[r6]"},
		{"", "!ZADD $1 9007199254740992 x", "1"},
		{"0s", `2 10s 1 0 *`, "BADSTATE log: want scores in microseconds"},
	}},
	{"a round time, which some servers print with an exponent", []line{
		{"-2102444800s", `3 10s 1 0 *`, "1 2 0 10s"},
		{"-2102444800s", `3 10s 1 0 *`, "1 1 0 10s"},
		{"-2102444799s", `3 10s 2 0 *`, "0 1 9s 9s"},
		{"-2102444799s", `3 10s 1 0 a`, "1 0 0 10s"},
		{"", "!ZCARD $1", "3"},
	}},
	{"a booking of one permit trims what has left", []line{
		{"0s", `2 10s 1 0 *`, "1 1 0 10s"},
		{"5s", `2 10s 1 0 *`, "1 0 0 10s"},
		{"12s", `1 10s 1 60s *`, "1 0 3s 13s"},
		{"", "!ZRANGE $1 0 -1", "[r2 r3]"},
	}},
	{"a booking under a lowered limit trims no more than what has left", []line{
		{"0s", `4 10s 1 0 *`, "1 3 0 10s"},
		{"5s", `4 10s 1 0 *`, "1 2 0 10s"},
		{"6s", `4 10s 1 0 *`, "1 1 0 10s"},
		{"12s", `1 10s 1 60s *`, "1 0 4s 14s"},
		{"", "!ZRANGE $1 0 -1", "[r2 r3 r4]"},
	}},
}

// A grant removes a bounded number of what has expired, and more than it adds.
func checkGrantsRemoveABoundedNumber(t testing.TB) {
	h := startHarness(t, true)
	h.setTime(epoch)
	key := zsetLogV1.keys[0]
	for _, id := range []string{"a", "b"} {
		h.call(&zsetLogV1Script, false, []string{key}, []string{"1000", "10000000", "500", "0", id})
	}
	h.setTime(epoch + 9_999_999)
	h.call(&zsetLogV1Script, false, []string{key}, []string{"2000", "10000000", "1", "0", "c"})
	h.setTime(epoch + 10_000_000)
	for i, c := range []struct {
		permits string
		want    string // members afterwards
	}{
		{"1", "901"},   // 1001 - 101 + 1
		{"300", "801"}, // 901 - 400 + 300
		{"1", "701"},
		{"500", "803"}, // the last 398 expired ones, and no live one
		{"1", "804"},
	} {
		h.call(&zsetLogV1Script, false, []string{key}, []string{"2000", "10000000", c.permits, "0", "r" + strconv.Itoa(i)})
		if members := h.do("ZCARD", key); members != c.want {
			t.Errorf("%s members after a grant of %s, want %s", members, c.permits, c.want)
		}
	}
}
