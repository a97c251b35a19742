package scripttest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice/internal/layout"
)

// rate interval scope permits max_wait -> granted remaining wait reset_after rate interval
var tokenBucketV1 = table{
	script: &tokenBucketV1Script,
	keys:   []string{"t:x:{u}:tb1", "t:x:{u}:tb1:all", "t:x:{u}:tb1:by:c"},
	timelines: append(append(asBucket(logTimelines("")), tokenBucketV1Edges...), []timeline{
		{"the first grant stores the config, a look and a denial do not", []line{
			{"0s", "3 10s 0 0 0", "0 3 0 0 3 10s"},
			{"", "!EXISTS $1", "0"},
			{"0s", "3 10s 0 1 0", "1 2 0 10s 3 10s"},
			{"", "!HMGET $1 rate interval scope", "[3 10000000 0]"},
		}},
		{"a stored config wins over the arguments", []line{
			{"0s", "!HSET $1 rate 2 interval 5000000 scope 0", "3"},
			{"0s", "100 1s 1 2 0", "2 0 0 5s 2 5s"},
			{"1s", "100 1s 1 1 0", "0 0 4s 4s 2 5s"},
			{"1s", "1 1s 1 2 0", "0 0 4s 4s 2 5s"},
			{"1s", "100 1s 1 3 0", "BADARG permits: want up to rate"},
			{"", "!EXISTS $2 $3", "1"},
		}},
		{"permits above the rate of the arguments, without a config", []line{
			{"0s", "2 1s 0 3 0", "BADARG permits: want up to rate"},
			{"", "!EXISTS $1 $2 $3", "0"},
		}},
		{"scope 0: all clients together, scope 1: each by itself", []line{
			{"0s", "1 10s 0 1 0", "1 0 0 10s 1 10s"},
			{"", "!EXISTS $2", "1"},
			{"", "!EXISTS $3", "0"},
			{"", "!HSET $1 scope 1", "0"},
			{"0s", "1 10s 0 1 0", "1 0 0 10s 1 10s"},
			{"", "!EXISTS $3", "1"},
			{"0s", "1 10s 0 1 0", "0 0 10s 10s 1 10s"},
		}},
		{"an entry is a packed time and running total", []line{
			{"0s", "900 10s 0 258 0", "258 642 0 10s 900 10s"},
			{"1s", "900 10s 0 2 0", "2 640 0 10s 900 10s"},
			{"", "!LLEN $2", "2"},
			{"", "!LINDEX $2 0", "entry:@0s:0:258"},
			{"", "!LINDEX $2 1", "entry:@1s:258:2"},
		}},
		{"the wait for n permits is that of the entry that holds the last of them", []line{
			{"0s", "10 10s 0 1 0", "1 9 0 10s 10 10s"},
			{"1s", "10 10s 0 2 0", "2 7 0 10s 10 10s"},
			{"2s", "10 10s 0 3 0", "3 4 0 10s 10 10s"},
			{"3s", "10 10s 0 4 0", "4 0 0 10s 10 10s"},
			{"4s", "10 10s 0 1 0", "0 0 6s 9s 10 10s"},
			{"4s", "10 10s 0 2 0", "0 0 7s 9s 10 10s"},
			{"4s", "10 10s 0 3 0", "0 0 7s 9s 10 10s"},
			{"4s", "10 10s 0 4 0", "0 0 8s 9s 10 10s"},
			{"4s", "10 10s 0 6 0", "0 0 8s 9s 10 10s"},
			{"4s", "10 10s 0 7 0", "0 0 9s 9s 10 10s"},
			{"4s", "10 10s 0 10 0", "0 0 9s 9s 10 10s"},
			{"11.5s", "10 10s 0 4 0", "0 3 500ms 1.5s 10 10s"},
			{"12s", "10 10s 0 6 0", "6 0 0 10s 10 10s"},
		}},
		{"a lowered rate waits for as many as are too many", []line{
			{"0s", "6 10s 0 1 0", "1 5 0 10s 6 10s"},
			{"1s", "6 10s 0 1 0", "1 4 0 10s 6 10s"},
			{"2s", "6 10s 0 1 0", "1 3 0 10s 6 10s"},
			{"3s", "6 10s 0 1 0", "1 2 0 10s 6 10s"},
			{"4s", "6 10s 0 1 0", "1 1 0 10s 6 10s"},
			{"", "!HSET $1 rate 2", "0"},
			{"5s", "6 10s 0 1 0", "0 0 8s 9s 2 10s"},
			{"5s", "6 10s 0 2 0", "0 0 9s 9s 2 10s"},
		}},
		{"LREM of an entry in the middle keeps the count", []line{
			{"0s", "9 10s 0 1 0", "1 8 0 10s 9 10s"},
			{"1s", "9 10s 0 1 0", "1 7 0 10s 9 10s"},
			{"2s", "9 10s 0 1 0", "1 6 0 10s 9 10s"},
			{"", "!LREM $2 0 entry:@1s:1:1", "1"},
			{"3s", "9 10s 0 0 0", "0 6 0 9s 9 10s"},
			{"3s", "9 10s 0 8 0", "0 6 9s 9s 9 10s"},
		}},
		{"one key lost: a lost config is the arguments again, lost permits are free", []line{
			{"0s", "2 10s 0 2 0", "2 0 0 10s 2 10s"},
			{"", "!DEL $1", "1"},
			{"1s", "3 10s 0 1 0", "1 0 0 10s 3 10s"},
			{"", "!DEL $2", "1"},
			{"2s", "2 10s 0 3 0", "3 0 0 10s 3 10s"},
		}},
		{"equal calls at the same time all come back", []line{
			{"0s", "2 10s 0 1 0", "1 1 0 10s 2 10s"},
			{"0s", "2 10s 0 1 0", "1 0 0 10s 2 10s"},
			{"11s", "2 10s 0 1 0", "1 1 0 10s 2 10s"},
			{"11s", "2 10s 0 1 0", "1 0 0 10s 2 10s"},
		}},
		{"a key beside the entries is lost: nothing extra", []line{
			{"0s", "2 10s 0 1 0", "1 1 0 10s 2 10s"},
			{"", "!DEL $3", ""},
			{"1s", "2 10s 0 2 0", "0 1 9s 9s 2 10s"},
		}},
		{"the entries are lost: open again, not shut for ever", []line{
			{"0s", "2 10s 0 2 0", "2 0 0 10s 2 10s"},
			{"", "!DEL $2", "1"},
			{"3600s", "2 10s 0 2 0", "2 0 0 10s 2 10s"},
		}},
		{"a key of another type is left alone", []line{
			{"0s", "!SET $1 x", "OK"},
			{"0s", "2 10s 0 1 0", wrongType},
			{"", "!GET $1", "x"},
			{"", "!DEL $1", "1"},
			{"", "!SET $2 x", "OK"},
			{"0s", "2 10s 0 1 0", wrongType},
			{"0s", "2 10s 0 0 0", wrongType},
			{"0s", "2 10s 1 1 0", "1 1 0 10s 2 10s"},
			{"", "!DEL $1 $3", "2"},
			{"", "!SET $3 x", "OK"},
			{"0s", "2 10s 1 1 0", wrongType},
			{"", "!EXISTS $1", "0"},
		}},
		unreadableConfig,
		{"unreadable permits", []line{
			{"0s", "!RPUSH $2 x", "1"},
			{"0s", "2 10s 0 1 0", badAll},
			{"", "!DEL $2", "1"},
			{"", "!RPUSH $2 0123456789012345678", "1"},
			{"0s", "2 10s 0 1 0", badAll},
			{"", "!DEL $2", "1"},
			{"", "!RPUSH $2 012345678901234567890", "1"},
			{"0s", "2 10s 0 1 0", badAll},
			{"", "!DEL $2", "1"},
			{"", "!RPUSH $2 x entry:@0s:0:1", "2"},
			{"0s", "3 10s 0 1 0", badAll},
			{"0s", "3 10s 0 0 0", badAll},
			{"20s", "3 10s 0 1 0", "1 2 0 10s 3 10s"},
			{"", "!DEL $1 $2", "2"},
			{"", "!RPUSH $3 x", "1"},
			{"20s", "3 10s 1 1 0", strings.Replace(badAll, "all", "by_client", 1)},
		}},
		{"running totals that fall, count nothing or are past 2^53", []line{
			{"0s", "!RPUSH $2 entry:@-2s:50:8 entry:@-1s:0:1", "2"},
			{"0s", "10 10s 0 10 0", badAll},
			{"0s", "10 10s 0 0 0", badAll},
			{"", "!DEL $2", "1"},
			{"0s", "!RPUSH $2 entry:@-1s:0:0", "1"},
			{"0s", "10 10s 0 1 0", badAll},
			{"", "!DEL $2", "1"},
			{"0s", "!RPUSH $2 entry:@-1s:9007199254740991:1", "1"},
			{"0s", "10 10s 0 1 0", badAll},
		}},
		{"running totals that overlap", []line{
			{"0s", "!RPUSH $2 entry:@-2s:0:65 entry:@-1s:48:1", "2"},
			{"0s", "10 10s 0 1 0", badAll},
			{"", "!DEL $2", "1"},
			{"0s", "!RPUSH $2 entry:@-3s:0:1 entry:@-2s:0:8 entry:@-1s:1:2", "3"},
			{"0s", "3 10s 0 3 0", badAll},
		}},
		{"a clock three years back keeps the config", []line{
			{"0s", "2 10s 0 1 0", "1 1 0 10s 2 10s"},
			{"-26280h", "2 10s 0 1 0", "1 1 0 10s 2 10s"},
			{"", "!HMGET $1 rate interval scope", "[2 10000000 0]"},
		}},
	}...),
}

const badAll = "BADSTATE all: want times and packed running totals"

var unreadableConfig = timeline{"an unreadable config is left alone", func() (lines []line) {
	for _, fields := range []string{
		"rate 2", "rate 2 interval 1000", "interval 1000 scope 0", "rate 0 interval 1000 scope 0",
		"rate 1000001 interval 1000 scope 0", "rate 2 interval 999 scope 0", "rate 2 interval 1000 scope 2",
		"rate 2 interval 1000 scope x", "rate 2.0 interval 1000 scope 0", "rate 2 interval -1000 scope 0", "other 1",
	} {
		lines = append(lines,
			line{"0s", "!DEL $1", ""},
			line{"0s", "!HSET $1 " + fields, ""},
			line{"0s", "2 10s 0 1 0", "BADSTATE config: want rate, interval and scope in their ranges"},
			line{"0s", "2 10s 0 0 0", "BADSTATE config: want rate, interval and scope in their ranges"},
		)
	}
	return lines
}()}

// asBucket turns the timelines of the logs into those of a bucket: a changed limit or window is one that an operator
// has set in the config.
func asBucket(logs []timeline) []timeline {
	for l := range logs {
		var lines []line
		var rate, interval string
		for _, step := range logs[l].lines {
			if strings.HasPrefix(step.do, "!") {
				lines = append(lines, line{step.at, strings.ReplaceAll(step.do, "$1", "$2"), step.want})
				continue
			}
			words := strings.Fields(step.do) // limit window permits max_wait
			if rate != "" && (words[0] != rate || words[1] != interval) {
				lines = append(lines,
					line{"", "!HSET $1 rate " + words[0] + " interval " + inMicroseconds(words[1]) + " scope 0", ""})
			}
			rate, interval = words[0], words[1]
			lines = append(lines, line{
				step.at,
				strings.Join([]string{rate, interval, "0", words[2], words[3]}, " "),
				step.want + " " + rate + " " + interval,
			})
		}
		logs[l].lines = lines
	}
	return logs
}

var tokenBucketV1Edges = []timeline{
	{"the first and the last values that a config may have", []line{
		{"0s", "!HSET $1 rate 1000000 interval 31622400000000 scope 1", "3"},
		{"0s", "2 10s 0 0 0", "0 1000000 0 0 1000000 31622400000000"},
		{"0s", "2 10s 0 1 0", "1 999999 0 31622400000000 1000000 31622400000000"},
		{"", "!HSET $1 interval 31622400000001", "0"},
		{"0s", "2 10s 0 0 0", "BADSTATE config: want rate, interval and scope in their ranges"},
		{"", "!HSET $1 rate 1 interval 1000 scope 0", "0"},
		{"0s", "2 10s 0 1 0", "1 0 0 1ms 1 1ms"},
	}},
	{"the first and the last time that an entry may have", []line{
		{"0s", "!RPUSH $2 entry:0:0:1", "1"},
		{"0s", "2 10s 0 1 0", "1 1 0 10s 2 10s"},
		{"", "!LLEN $2", "1"},
		{"", "!DEL $2", "1"},
		{"", "!RPUSH $2 entry:9007199254740991:0:2", "1"},
		{"0s", "2 10s 0 1 0", "1 1 0 10s 2 10s"},
		{"", "!LLEN $2", "1"},
		{"", "!DEL $2", "1"},
		{"", "!RPUSH $2 entry:9007199254740992:0:2", "1"},
		{"0s", "2 10s 0 1 0", badAll},
		{"", "!DEL $2", "1"},
		{"", "!RPUSH $2 entry:72057594037927936:0:2", "1"},
		{"0s", "2 10s 0 1 0", badAll},
		{"", "!DEL $2", "1"},
		{"", "!RPUSH $2 entry:18446744073709551615:0:2", "1"},
		{"0s", "2 10s 0 1 0", badAll},
	}},
	{"times and running totals of every size", func() (lines []line) {
		for _, before := range []int64{255, 256, 65535, 1<<24 - 1, 1<<32 + 255, 1<<40 + 3, 1<<48 - 1, 1<<52 + 12345} {
			lines = append(lines,
				line{"0s", fmt.Sprintf("!RPUSH $2 entry:@-1s:%d:65535", before), "1"},
				line{"0s", "1000000 10s 0 511 0", "511 933954 0 10s 1000000 10s"},
				line{"", "!LINDEX $2 -1", fmt.Sprintf("entry:@0s:%d:511", before+65535)},
				line{"", "!DEL $2", "1"},
			)
		}
		return lines
	}()},
	{"the largest running totals, and larger ones", []line{
		{"0s", fmt.Sprintf("!RPUSH $2 entry:@-1s:%d:1", int64(1<<53-2)), "1"},
		{"0s", "9 10s 0 0 0", "0 8 0 9s 9 10s"},
		{"", "!DEL $2", "1"},
		{"", fmt.Sprintf("!RPUSH $2 entry:@-1s:%d:1", int64(1<<56)), "1"},
		{"0s", "9 10s 0 0 0", badAll},
		{"", "!DEL $2", "1"},
		{"", "!RPUSH $2 entry:@-1s:0:16777217", "1"},
		{"0s", "9 10s 0 0 0", "0 0 9s 9s 9 10s"},
		{"", "!DEL $2", "1"},
		{"", "!RPUSH $2 entry:@-1s:0:2147483648", "1"},
		{"0s", "9 10s 0 0 0", "0 0 9s 9s 9 10s"},
	}},
	{"the totals begin at 0 when every permit has come back, not a microsecond before", []line{
		{"0s", "5 10s 0 2 0", "2 3 0 10s 5 10s"},
		{"9.999999s", "5 10s 0 1 0", "1 2 0 10s 5 10s"},
		{"", "!LINDEX $2 -1", "entry:@9.999999s:2:1"},
		{"19.999999s", "5 10s 0 3 0", "3 2 0 10s 5 10s"},
		{"", "!LINDEX $2 -1", "entry:@19.999999s:0:3"},
		{"", "!LLEN $2", "1"},
	}},
	{"a config keeps a TTL that a booking may have set before the clock stepped back, and no longer one", []line{
		{"0s", "!HSET $1 rate 3 interval 10000000 scope 0", "3"},
		{"", "!PEXPIRE $1 141000", "1"},
		{"0s", "3 10s 0 1 0", "1 2 0 10s 3 10s"},
		{"", "!PEXPIRE $1 141001", "1"},
		{"0s", "3 10s 0 1 0", "1 1 0 10s 3 10s"},
	}},
	{"a running total beyond the newest", []line{
		{"0s", "!RPUSH $2 entry:@-3s:0:1 entry:@-2s:1:100 entry:@-1s:2:1", "3"},
		{"0s", "3 10s 0 2 0", badAll},
		{"0s", "3 10s 0 1 0", "0 0 7s 9s 3 10s"},
	}},
	{"an unreadable entry that decides", []line{
		{"0s", "9 10s 0 1 0", "1 8 0 10s 9 10s"},
		{"1s", "!RPUSH $2 unreadable entry:@2s:8:1", "3"},
		{"3s", "9 10s 0 8 0", badAll},
		{"3s", "9 10s 0 1 0", "0 0 7s 9s 9 10s"},
		{"", "!LLEN $2", "3"},
		{"", "!DEL $2", "1"},
		{"10s", "!RPUSH $2 entry:@0s:0:1 unreadable entry:@2s:8:1", "3"},
		{"10s", "9 10s 0 1 0", badAll},
		{"9s", "9 10s 0 1 0", "0 0 1s 3s 9 10s"},
	}},
}

// token_bucket removes a bounded number of entries too, with each grant.
func checkBucketRemovesABoundedNumber(t testing.TB) {
	h := startHarness(t, true)
	key := tokenBucketV1.keys[1]
	for from := 0; from < 25_000; from += 1000 {
		fill := []string{"RPUSH", key}
		for i := range 1000 {
			fill = append(fill, layout.TokenBucketEntry(epoch, uint64(from+i), 1))
		}
		h.do(fill...)
	}
	h.do("RPUSH", key, layout.TokenBucketEntry(epoch+1, 25_000, 3))
	h.setTime(epoch + 10_000_000)
	for i, want := range []string{"15002", "5003", "4", "5"} { // 10000, 10000, 5000 and none of them
		args := []string{"1000", "10000000", "0", "1", "0"}
		reply, failed := h.call(&tokenBucketV1Script, false, tokenBucketV1.keys, args)
		if failed != "" || reply[1] != int64(996-i) {
			t.Errorf("%v, %s; want %d remaining", reply, failed, 996-i)
		}
		if entries := h.do("LLEN", key); entries != want {
			t.Errorf("%s entries after a grant, want %s", entries, want)
		}
	}
}
