package scripttest_test

// Calendars, as arguments: days; days that a caller names whose clock is a day behind; billing periods that begin half
// a day later; a day of 23 hours and one of 25; half days.
const (
	days    = " @-24h @0s @24h @48h"
	behind  = " @-48h @-24h @0s @24h"
	billing = " @-12h @12h @36h @60h"
	summer  = " @-1h @0s @23h @48h"
	halves  = " @-12h @0s @12h @24h"
)

// limit permits reported first second third after -> granted remaining wait reset_after begin ends count
var quotaV1 = table{
	script: &quotaV1Script,
	keys:   []string{"t:x:{u}:qt1"},
	timelines: []timeline{
		{"up to the limit in a period, and as many again from its end on: twice the limit around it", []line{
			{"1h", "10 4 0" + days, "4 6 0 23h @0s @24h 4"},
			{"23h59m59.999999s", "10 6 0" + days, "6 0 0 1us @0s @24h 10"},
			{"23h59m59.999999s", "10 1 0" + days, "0 0 1us 1us @0s @24h 10"},
			{"24h", "10 10 0" + days, "10 0 0 24h @24h @48h 10"},
			{"24h", "10 1 0" + days, "0 0 24h 24h @24h @48h 10"},
		}},
		{"a denied call and a look write nothing; a look is told how long one permit would wait", []line{
			{"0s", "10 0 0" + days, "0 10 0 0 @0s @24h 0"},
			{"", "!EXISTS $1", "0"},
			{"0s", "10 9 0" + days, "9 1 0 24h @0s @24h 9"},
			{"1h", "10 2 0" + days, "0 1 23h 23h @0s @24h 9"},
			{"1h", "10 0 0" + days, "0 1 0 23h @0s @24h 9"},
			{"", "!GET $1", "@0s 9"},
			{"1h", "9 0 0" + days, "0 0 23h 23h @0s @24h 9"},
		}},
		{"the server's clock chooses, whatever the caller's clock says", []line{
			{"-1us", "10 3 0" + days, "3 7 0 1us @-24h @0s 3"},
			{"0s", "10 3 0" + days, "3 7 0 24h @0s @24h 3"},
			{"1s", "10 3 0" + behind, "3 4 0 23h59m59s @0s @24h 6"},
			{"24h", "10 3 0" + days, "3 7 0 24h @24h @48h 3"},
			{"24h", "10 1 0" + behind, noPeriod},
			{"-24h", "10 0 0" + days, "0 10 0 0 @-24h @0s 0"},
			{"-24h0.000001s", "10 1 0" + days, noPeriod},
			{"48h", "10 1 0" + days, noPeriod},
		}},
		{"days of 23 and of 25 hours", []line{
			{"0s", "10 10 0" + summer, "10 0 0 23h @0s @23h 10"},
			{"23h", "10 10 0" + summer, "10 0 0 25h @23h @48h 10"},
		}},
		{"reported: charged whatever the period holds, and what is wanted is decided behind it", []line{
			{"0s", "10 2 7" + days, "2 1 0 24h @0s @24h 9"},
			{"0s", "10 1 7" + days, "0 0 24h 24h @0s @24h 16"},
			{"0s", "10 0 1" + days, "0 0 24h 24h @0s @24h 17"},
			{"24h", "10 0 0" + days, "0 10 0 0 @24h @48h 0"},
		}},
		{"two calendars with one begin: what is charged is kept until the later end", []line{
			{"0s", "10 9 0" + days, "9 1 0 24h @0s @24h 9"},
			{"1h", "10 1 0" + halves, "1 0 0 11h @0s @12h 10"},
			{"13h", "10 1 0" + days, "0 0 11h 11h @0s @24h 10"},
			{"13h", "10 9 0" + halves, "9 1 0 11h @12h @24h 9"},
		}},
		{"a count stops at 10^13", []line{
			{"", "!SET $1 @0s~9999999999999", "OK"},
			{"0s", "1 0 1000000000000" + days, "0 0 24h 24h @0s @24h 10000000000000"},
			{"", "!GET $1", "@0s 10000000000000"},
		}},
		{"the largest count and begin that are read", []line{
			{"", "!SET $1 @0s~10000000000000", "OK"},
			{"0s", "1 0 0" + days, "0 0 24h 24h @0s @24h 10000000000000"},
			{"", "!SET $1 9007199254740991~1", "OK"},
			{"0s", "1 0 0" + days, "0 1 0 0 @0s @24h 0"},
		}},
		{"the limit may differ from call to call", []line{
			{"0s", "10 8 0" + days, "8 2 0 24h @0s @24h 8"},
			{"0s", "5 1 0" + days, "0 0 24h 24h @0s @24h 8"},
			{"0s", "1000000000000 999999999992 0" + days, "999999999992 0 0 24h @0s @24h 1000000000000"},
			{"0s", "10 11 0" + days, "BADARG permits: want up to limit"},
		}},
		{"another calendar: an earlier period is over, a later one that the clock has reached goes on", []line{
			{"6h", "10 8 0" + billing, "8 2 0 6h @-12h @12h 8"},
			{"6h", "10 7 0" + days, "7 3 0 18h @0s @24h 7"},
			{"6h", "10 4 0" + billing, "0 3 6h 6h @0s @12h 7"},
			{"6h", "10 2 0" + billing, "2 1 0 6h @0s @12h 9"},
			{"7h", "10 1 0" + days, "1 0 0 17h @0s @24h 10"},
		}},
		{"the clock steps back over the boundary: up to 60 s it stands still there, further the count is void", []line{
			{"24h", "10 4 0" + days, "4 6 0 24h @24h @48h 4"},
			{"23h59m", "10 4 0" + days, "4 2 0 24h1m @24h @48h 8"},
			{"23h59m", "10 4 0" + days, "0 2 24h1m 24h1m @24h @48h 8"},
			{"23h58m59.999999s", "10 0 0" + days, "0 10 0 0 @0s @24h 0"},
			{"23h58m59.999999s", "10 4 0" + days, "4 6 0 1m0.000001s @0s @24h 4"},
			{"24h", "10 1 0" + days, "1 9 0 24h @24h @48h 1"},
		}},
		{"it steps back over the end of the periods that the caller names: refused, and what counts stays", []line{
			{"24h", "10 4 0" + days, "4 6 0 24h @24h @48h 4"},
			{"23h59m59s", "10 6 0" + behind, noPeriod},
			{"24h", "10 6 0" + days, "6 0 0 24h @24h @48h 10"},
		}},
		{"periods that do not ascend", []line{
			{"0s", "10 1 0 @0s @0s @24h @48h", notAscending},
			{"0s", "10 1 0 @-24h @0s @0s @48h", notAscending},
			{"0s", "10 1 0 @-24h @0s @24h @24h", notAscending},
			{"0s", "10 11 0 @0s @-24h @24h @48h", notAscending},
		}},
		{"what it cannot read is left alone", []line{
			{"", "!RPUSH $1 x", "1"},
			{"0s", "10 1 0" + days, wrongType},
			{"", "!DEL $1", "1"},
			{"", "!SET $1 @0s", "OK"},
			{"0s", "10 1 0" + days, badQuota},
			{"", "!SET $1 @0s~-1", "OK"},
			{"0s", "10 0 0" + days, badQuota},
			{"", "!SET $1 @0s~1~", "OK"},
			{"0s", "10 0 0" + days, badQuota},
			{"", "!SET $1 9007199254740992~1", "OK"},
			{"0s", "10 0 0" + days, badQuota},
			{"", "!SET $1 @0s~10000000000001", "OK"},
			{"0s", "10 0 0" + days, badQuota},
			{"", "!GET $1", "@0s 10000000000001"},
		}},
	},
}

const (
	noPeriod     = "BADARG first: want periods around the server's clock"
	notAscending = "BADARG first: want first < second < third < after"
	badQuota     = "BADSTATE quota: want a begin and a count"
)

// begin permits -> returned
var quotaReturnV1 = table{
	script: &quotaReturnV1Script,
	keys:   []string{"t:x:{u}:qt1"},
	timelines: []timeline{
		{"what is given back can be granted again", []line{
			{"23h59m59.99s", "quota 10 10 0" + days, "10 0 0 10ms @0s @24h 10"},
			{"", "@0s 4", "4"},
			{"", "!GET $1", "@0s 6"},
			{"", "quota 10 4 0" + days, "4 0 0 10ms @0s @24h 10"},
		}},
		{"at most what the period holds", []line{
			{"0s", "quota 10 3 0" + days, "3 7 0 24h @0s @24h 3"},
			{"", "@0s 4", "3"},
			{"", "@0s 1", "0"},
			{"", "!GET $1", "@0s 0"},
			{"", "quota 10 0 0" + days, "0 10 0 0 @0s @24h 0"},
		}},
		{"nothing of another period", []line{
			{"0s", "@0s 1", "0"},
			{"0s", "quota 10 3 0" + days, "3 7 0 24h @0s @24h 3"},
			{"", "@-24h 1", "0"},
			{"", "@24h 1", "0"},
			{"24h", "quota 10 2 0" + days, "2 8 0 24h @24h @48h 2"},
			{"24h", "@0s 1", "0"},
			{"24h", "@24h 1", "1"},
		}},
		{"a quota that an operator made to stay", []line{
			{"0s", "quota 10 3 0" + days, "3 7 0 24h @0s @24h 3"},
			{"", "!PERSIST $1", "1"},
			{"", "@0s 1000000000000", "3"},
			{"", "!PTTL $1", "-1"},
			{"", "!GET $1", "@0s 0"},
		}},
		{"in its last millisecond, when its TTL is 0", []line{
			{"0s", "quota 9 9 0" + days, "9 0 0 24h @0s @24h 9"},
			{"23h59m59.9985s", "@0s 3", "3"},
			{"24h0.001s", "@0s 3", "3"},
		}},
		{"the largest count and begin that are read", []line{
			{"", "!SET $1 9007199254740991~10000000000000", "OK"},
			{"0s", "9007199254740991 1000000000000", "1000000000000"},
			{"", "!GET $1", "@1362431h47m34.740991s 9000000000000"},
		}},
		{"what it cannot read is left alone", []line{
			{"", "!RPUSH $1 x", "1"},
			{"0s", "@0s 1", wrongType},
			{"", "!DEL $1", "1"},
			{"", "!SET $1 x", "OK"},
			{"0s", "@0s 1", badQuota},
			{"", "!SET $1 9007199254740992~1", "OK"},
			{"0s", "@0s 1", badQuota},
			{"", "!SET $1 @0s~10000000000001", "OK"},
			{"0s", "@0s 1", badQuota},
		}},
	},
}
