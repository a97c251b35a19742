package scripttest_test

import (
	"strings"

	"github.com/sluice-redis/sluice"
)

// rate interval scope permits max_wait -> granted remaining wait reset_after rate interval
var tokenBucketV1 = table{
	script: &sluice.TokenBucketV1,
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
		{"an entry is a packed moment and running total", []line{
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
		{"equal calls in one moment all come back", []line{
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
			{"0s", "2 10s 0 1 0", badPermits},
			{"", "!DEL $2", "1"},
			{"", "!RPUSH $2 0123456789012345678", "1"},
			{"0s", "2 10s 0 1 0", badPermits},
			{"", "!DEL $2", "1"},
			{"", "!RPUSH $2 012345678901234567890", "1"},
			{"0s", "2 10s 0 1 0", badPermits},
			{"", "!DEL $2", "1"},
			{"", "!RPUSH $2 x entry:@0s:0:1", "2"},
			{"0s", "3 10s 0 1 0", badPermits},
			{"0s", "3 10s 0 0 0", badPermits},
			{"20s", "3 10s 0 1 0", "1 2 0 10s 3 10s"},
		}},
		{"running totals that fall, count nothing or are past 2^53", []line{
			{"0s", "!RPUSH $2 entry:@-2s:50:8 entry:@-1s:0:1", "2"},
			{"0s", "10 10s 0 10 0", badPermits},
			{"0s", "10 10s 0 0 0", badPermits},
			{"", "!DEL $2", "1"},
			{"0s", "!RPUSH $2 entry:@-1s:0:0", "1"},
			{"0s", "10 10s 0 1 0", badPermits},
			{"", "!DEL $2", "1"},
			{"0s", "!RPUSH $2 entry:@-1s:9007199254740991:1", "1"},
			{"0s", "10 10s 0 1 0", badPermits},
		}},
		{"running totals that overlap", []line{
			{"0s", "!RPUSH $2 entry:@-2s:0:65 entry:@-1s:48:1", "2"},
			{"0s", "10 10s 0 1 0", badPermits},
			{"", "!DEL $2", "1"},
			{"0s", "!RPUSH $2 entry:@-3s:0:1 entry:@-2s:0:8 entry:@-1s:1:2", "3"},
			{"0s", "3 10s 0 3 0", badPermits},
		}},
		{"a clock three years back keeps the config", []line{
			{"0s", "2 10s 0 1 0", "1 1 0 10s 2 10s"},
			{"-26280h", "2 10s 0 1 0", "1 1 0 10s 2 10s"},
			{"", "!HMGET $1 rate interval scope", "[2 10000000 0]"},
		}},
	}...),
}

const badPermits = "BADSTATE permits: want times and packed running totals"

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

// asBucket turns the time lines of the logs into those of a bucket: a changed limit or window is one that
// an operator has set in the config.
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
				lines = append(lines, line{"", "!HSET $1 rate " + words[0] + " interval " + inMicroseconds(words[1]) + " scope 0", ""})
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

// rate interval scope -> rate interval scope
var tokenBucketSetV1 = table{
	script: &sluice.TokenBucketSetV1,
	keys:   []string{"t:x:{u}:tb1"},
	timelines: []timeline{
		{"sets, and sets again", []line{
			{"0s", "5 10s 0", "5 10s 0"},
			{"", "!HMGET $1 rate interval scope", "[5 10000000 0]"},
			{"1s", "6 1s 1", "6 1s 1"},
			{"", "!HMGET $1 rate interval scope", "[6 1000000 1]"},
			{"", "!PTTL $1", "-1"},
		}},
		{"takes the TTL from a config that was to expire", []line{
			{"0s", "!HSET $1 rate 1 interval 1000 scope 0", "3"},
			{"", "!PEXPIRE $1 60000", "1"},
			{"0s", "5 10s 0", "5 10s 0"},
			{"", "!PTTL $1", "-1"},
		}},
		{"mends an unreadable config", []line{
			{"0s", "!HSET $1 rate x", "1"},
			{"0s", "5 10s 1", "5 10s 1"},
			{"", "!HMGET $1 rate interval scope", "[5 10000000 1]"},
		}},
		{"a key of another type is left alone", []line{
			{"0s", "!SET $1 x", "OK"},
			{"0s", "5 10s 1", wrongType},
			{"", "!GET $1", "x"},
		}},
	},
}
