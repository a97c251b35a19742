package scripttest_test

import (
	"fmt"
	"strings"
)

const badZSetLog = "BADSTATE log: want scores in microseconds"

// id permits -> returned
var zsetLogReturnV1 = table{
	script: &zsetLogReturnV1Script,
	keys:   []string{"t:x:{u}:zl1"},
	timelines: []timeline{
		{"what is given back can be granted again, to the same id as well", []line{
			{"0s", "zset_log 3 10s 3 0 a", "3 0 0 10s"},
			{"1s", "zset_log 3 10s 1 0 b", "0 0 9s 9s"},
			{"1s", "a 3", "3"},
			{"", "!EXISTS $1", "0"},
			{"1s", "zset_log 3 10s 1 0 b", "1 2 0 10s"},
			{"2s", "zset_log 3 10s 2 0 a", "2 0 0 10s"},
		}},
		{"the highest numbers first", []line{
			{"0s", "zset_log 9 10s 5 0 a", "5 4 0 10s"},
			{"1s", "a 1", "1"},
			{"", "!ZRANGE $1 0 -1", "[a a||2 a||3 a||4]"},
			{"1s", "a 2", "2"},
			{"", "!ZRANGE $1 0 -1", "[a a||2]"},
			{"1s", "a 9", "2"},
			{"1s", "a 1", "0"},
			{"1s", "zset_log 9 10s 0 0 *", "0 9 0 0"},
		}},
		{"of one id, and no other", []line{
			{"0s", "zset_log 9 10s 2 0 a", "2 7 0 10s"},
			{"0s", "zset_log 9 10s 2 0 aa", "2 5 0 10s"},
			{"0s", "zset_log 9 10s 1 0 2", "1 4 0 10s"},
			{"0s", "b 1", "0"},
			{"0s", "a 500", "2"},
			{"", "!ZRANGE $1 0 -1", "[2 aa aa||2]"},
			{"0s", "aa 1", "1"},
			{"", "!ZRANGE $1 0 -1", "[2 aa]"},
		}},
		{"sent again: all of them charge nothing more, some are taken anew", []line{
			{"0s", "zset_log 9 10s 3 0 a", "3 6 0 10s"},
			{"1s", "a 3", "3"},
			{"1s", "a 3", "0"},
			{"2s", "zset_log 9 10s 3 0 a", "3 6 0 10s"},
			{"2s", "a 1", "1"},
			{"2s", "a 1", "1"},
			{"2s", "zset_log 9 10s 0 0 *", "0 8 0 10s"},
		}},
		{"an id of which some were given back cannot ask for as many as before", []line{
			{"0s", "zset_log 9 10s 3 0 a", "3 6 0 10s"},
			{"1s", "a 1", "1"},
			{"1s", "zset_log 9 10s 3 0 a", "BADARG id: want the permits it was granted before"},
			{"1s", "zset_log 9 10s 2 0 a", "2 7 0 9s"},
			{"10s", "zset_log 9 10s 3 0 a", "3 6 0 10s"},
		}},
		{"every number of permits that steps of two reach or miss", numbered(1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31)},
		{"an id that was used before with more permits", []line{
			{"0s", "!ZADD $1 @0s a @0s a||2 @0s a||3 @0s a||4", "4"},
			{"10s", "!ZADD $1 @10s a @10s a||2", ""},
			{"11s", "a 4", "2"},
			{"", "!ZRANGE $1 0 -1", "[a||3 a||4]"},
			{"11s", "a 1", "0"},
			{"11s", "zset_log 9 10s 0 0 *", "0 9 0 0"},
		}},
		{"the last booking opens the limiter, one before it leaves a hole", []line{
			{"0s", "zset_log 1 10s 1 0 a", "1 0 0 10s"},
			{"1s", "zset_log 1 10s 1 60s b", "1 0 9s 19s"},
			{"1s", "zset_log 1 10s 1 60s c", "1 0 19s 29s"},
			{"2s", "b 1", "1"},
			{"2s", "zset_log 1 10s 0 60s *", "0 0 28s 28s"},
			{"12s", "zset_log 1 10s 1 0 *", "0 0 18s 18s"},
			{"12s", "c 1", "1"},
			{"12s", "zset_log 1 10s 1 0 *", "1 0 0 10s"},
		}},
		// What has left the window may go as well: it frees nothing.
		{"what has left the window", []line{
			{"0s", "zset_log 3 10s 1 0 a", "1 2 0 10s"},
			{"9s", "zset_log 3 10s 1 0 b", "1 1 0 10s"},
			{"10s", "zset_log 3 10s 0 0 *", "0 2 0 9s"},
			{"10s", "a 1", "1"},
			{"10s", "zset_log 3 10s 0 0 *", "0 2 0 9s"},
			{"", "!ZRANGE $1 0 -1", "[b]"},
		}},
		{"the clock steps back: what was granted before and after the step", []line{
			{"10s", "zset_log 2 10s 1 0 a", "1 1 0 10s"},
			{"5s", "zset_log 2 10s 1 5s b", "1 0 5s 15s"},
			{"5s", "b 1", "1"},
			{"5s", "zset_log 2 10s 1 0 *", "0 0 5s 15s"},
			{"5s", "a 1", "1"},
			{"5s", "zset_log 2 10s 1 0 *", "1 1 0 10s"},
		}},
		{"the clock steps back behind what is given back: the permits before it still count", []line{
			{"0s", "zset_log 2 10s 1 0 a", "1 1 0 10s"},
			{"5s", "zset_log 2 10s 1 0 b", "1 0 0 10s"},
			{"-60s", "b 1", "1"},
			{"-60s", "zset_log 2 10s 2 0 *", "0 0 70s 70s"},
			{"9s", "zset_log 2 10s 2 0 *", "0 1 1s 1s"},
		}},
		{"granted by a clock that was hours ahead", []line{
			{"1h", "zset_log 2 10s 2 0 a", "2 0 0 10s"},
			{"0s", "a 1", "1"},
			{"0s", "zset_log 2 10s 0 0 *", "0 2 0 0"},
			{"0s", "zset_log 2 10s 1 0 b", "1 1 0 10s"},
			{"0s", "a 1", "0"},
			{"0s", "zset_log 2 10s 0 0 *", "0 1 0 10s"},
		}},
		{"the newest goes, a millisecond behind another", []line{
			{"0s", "zset_log 3 10s 1 0 a", "1 2 0 10s"},
			{"1ms", "zset_log 3 10s 1 0 b", "1 1 0 10s"},
			{"1ms", "b 1", "1"},
		}},
		{"a log that an operator made to stay", []line{
			{"0s", "zset_log 3 10s 1 0 a", "1 2 0 10s"},
			{"5s", "zset_log 3 10s 1 0 b", "1 1 0 10s"},
			{"", "!PERSIST $1", "1"},
			{"5s", "b 1", "1"},
			{"", "!PTTL $1", "-1"},
			{"5s", "zset_log 3 10s 1 0 *", "1 1 0 10s"},
		}},
		{"a round time, which some servers print with an exponent", []line{
			{"-2102444800s", "zset_log 9 10s 2 0 a", "2 7 0 10s"},
			{"-2102444800s", "zset_log 9 10s 1 60s b", "1 6 0 10s"},
			{"-2102444799s", "zset_log 9 10s 1 0 c", "1 5 0 10s"},
			{"-2102444799s", "c 1", "1"},
			{"-2102444799s", "a 2", "2"},
			{"-2102444799s", "zset_log 9 10s 0 0 *", "0 8 0 9s"},
		}},
		{"the first and the last time that a member may have", []line{
			{"0s", "!ZADD $1 0 x 9007199254740991 y", "2"},
			{"0s", "y 1", "1"},
			{"0s", "x 1", "1"},
			{"", "!EXISTS $1", "0"},
		}},
		{"the longest id, and an id of a space's neighbours", []line{
			{"0s", "zset_log 9 10s 2 0 " + strings.Repeat("i", 128), "2 7 0 10s"},
			{"0s", "zset_log 9 10s 2 0 %d%s", "2 5 0 10s"},
			{"0s", strings.Repeat("i", 128) + " 2", "2"},
			{"0s", "%d%s 1", "1"},
			{"", "!ZRANGE $1 0 -1", "[%d%s]"},
		}},
		{"a key of another type is left alone", []line{
			{"0s", "!SET $1 x", "OK"},
			{"0s", "a 1", wrongType},
			{"", "!GET $1", "x"},
		}},
		{"an unreadable score of the id", []line{
			{"0s", "!ZADD $1 1.5 a 1 b 3 c", "3"},
			{"0s", "a 1", badZSetLog},
			{"", "!ZADD $1 -1 a", "0"},
			{"0s", "a 1", badZSetLog},
			{"", "!ZADD $1 inf a", "0"},
			{"0s", "a 1", badZSetLog},
			{"", "!ZADD $1 9007199254740992 a", "0"},
			{"0s", "a 1", badZSetLog},
			{"0s", "b 1", "1"},
			{"", "!ZCARD $1", "2"},
		}},
		{"an unreadable score before the newest", []line{
			{"0s", "!ZADD $1 1.5 x @0s a @0s a||2", "3"},
			{"0s", "a 1", "1"},
			{"0s", "a 1", badZSetLog},
			{"0s", "x 1", badZSetLog},
			{"", "!ZCARD $1", "2"},
		}},
	},
}

// numbered grants so many permits to an id, and gives them back: first all but one, which must leave the id itself.
func numbered(counts ...int) (lines []line) {
	for _, n := range counts {
		lines = append(lines,
			line{"0s", fmt.Sprintf("zset_log 500 10s %d 0 a", n), fmt.Sprintf("%d %d 0 10s", n, 500-n)},
			line{"0s", fmt.Sprintf("a %d", max(n-1, 1)), fmt.Sprint(max(n-1, 1))},
			line{"", "!ZRANGE $1 0 -1", map[bool]string{true: "[]", false: "[a]"}[n == 1]},
			line{"0s", "a 500", map[bool]string{true: "0", false: "1"}[n == 1]},
		)
	}
	return lines
}
