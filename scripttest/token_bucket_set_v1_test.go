package scripttest_test

import ()

// rate interval scope -> rate interval scope
var tokenBucketSetV1 = table{
	script: &tokenBucketSetV1Script,
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
