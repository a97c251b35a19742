package scripttest_test

import "github.com/sluice-redis/sluice"

const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"

// limit window permits max_wait -> granted remaining wait reset_after
var listLogV1 = table{
	script: &sluice.ListLogV1,
	keys:   []string{"t:x:{u}:ll1"},
	timelines: append(append(logTimelines(""), listLogV1Edges...), []timeline{
		{"one entry a permit, oldest first, and no more than are live", []line{
			{"0s", "3 10s 2 0", "2 1 0 10s"},
			{"1s", "3 10s 1 0", "1 0 0 10s"},
			{"2s", "3 10s 1 60s", "1 0 8s 18s"},
			{"", "!LRANGE $1 0 -1", "[@0s @0s @1s @10s]"},
			{"15s", "3 10s 1 0", "1 1 0 10s"},
			{"", "!LRANGE $1 0 -1", "[@10s @15s]"},
			{"30s", "3 10s 3 0", "3 0 0 10s"},
			{"", "!LRANGE $1 0 -1", "[@30s @30s @30s]"},
		}},
		{"a void log is unlinked by the next grant, not by a look", []line{
			{"0s", "3 10s 2 0", "2 1 0 10s"},
			{"-1h", "3 10s 0 0", "0 3 0 0"},
			{"", "!LLEN $1", "2"},
			{"-1h", "3 10s 1 0", "1 2 0 10s"},
			{"", "!LRANGE $1 0 -1", "[@-1h0m0s]"},
		}},
		{"a key of another type is left alone", []line{
			{"0s", "!SET $1 x", "OK"},
			{"0s", "2 10s 1 0", wrongType},
			{"0s", "2 10s 0 0", wrongType},
			{"", "!GET $1", "x"},
		}},
		{"an unreadable newest entry", []line{
			{"0s", "!RPUSH $1 x", "1"},
			{"0s", "2 10s 1 0", "BADSTATE log: want times in microseconds"},
			{"", "!RPUSH $1 1.5", "2"},
			{"0s", "2 10s 1 0", "BADSTATE log: want times in microseconds"},
			{"", "!RPUSH $1 -1", "3"},
			{"0s", "2 10s 1 0", "BADSTATE log: want times in microseconds"},
			{"", "!RPUSH $1 9007199254740992", "4"},
			{"0s", "2 10s 0 0", "BADSTATE log: want times in microseconds"},
		}},
		{"an unreadable entry that decides", []line{
			{"0s", "!RPUSH $1 x @0s", "2"},
			{"0s", "2 10s 1 0", "BADSTATE log: want times in microseconds"},
			{"0s", "3 10s 1 0", "BADSTATE log: want times in microseconds"},
			{"0s", "3 10s 0 0", "BADSTATE log: want times in microseconds"},
		}},
		{"an unreadable entry that decides behind the oldest, the limit being lower than before", []line{
			{"0s", "!RPUSH $1 @0s x @0s", "3"},
			{"0s", "2 10s 1 0", "BADSTATE log: want times in microseconds"},
			{"", "!LLEN $1", "3"},
		}},
	}...),
}
