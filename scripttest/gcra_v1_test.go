package scripttest_test

import "github.com/sluice-redis/sluice"

// limit window burst permits max_wait -> granted remaining wait reset_after
var gcraV1 = table{
	script: &sluice.GCRAV1,
	keys:   []string{"t:x:{u}:gcra1"},
	timelines: append([]timeline{
		{"a burst, then one permit an emission interval", []line{
			{"0s", "10 10s 3 1 0", "1 2 0 1s"},
			{"0s", "10 10s 3 1 0", "1 1 0 2s"},
			{"0s", "10 10s 3 1 0", "1 0 0 3s"},
			{"0s", "10 10s 3 1 0", "0 0 1s 3s"},
			{"999.999ms", "10 10s 3 1 0", "0 0 1us 2.000001s"},
			{"1s", "10 10s 3 1 0", "1 0 0 3s"},
			{"3s", "10 10s 3 0 0", "0 2 0 1s"},
			{"4s", "10 10s 3 0 0", "0 3 0 0"},
			{"9s", "10 10s 3 1 0", "1 2 0 1s"},
		}},
		{"the emission interval is not rounded: 7 a second", []line{
			{"0s", "7 1s 1 1 0", "1 0 0 142858us"},
			{"142857us", "7 1s 1 1 0", "0 0 1us 1us"},
			{"142858us", "7 1s 1 1 2s", "1 0 0 142858us"},
			{"142858us", "7 1s 1 1 2s", "1 0 142858us 285715us"},
			{"142858us", "7 1s 1 2 2s", "BADARG permits: want up to burst"},
		}},
		{"a look writes nothing", []line{
			{"0s", "10 10s 3 0 0", "0 3 0 0"},
			{"", "!EXISTS $1", "0"},
			{"0s", "10 10s 3 3 0", "3 0 0 3s"},
			{"0s", "10 10s 3 0 60s", "0 0 1s 3s"},
			{"", "!GET $1", "bucket:@3s:0:10:@-70s"},
		}},
		{"n permits together or not at all", []line{
			{"0s", "10 10s 5 3 0", "3 2 0 3s"},
			{"0s", "10 10s 5 3 0", "0 2 1s 3s"},
			{"1s", "10 10s 5 3 0", "3 0 0 5s"},
		}},
		{"reserve: first come, first served", []line{
			{"0s", "1 1s 1 1 0", "1 0 0 1s"},
			{"0s", "1 1s 1 1 60s", "1 0 1s 2s"},
			{"0s", "1 1s 1 1 1.999999s", "0 0 2s 2s"},
			{"0s", "1 1s 1 1 2s", "1 0 2s 3s"},
			{"1s", "1 1s 1 1 0", "0 0 2s 2s"},
			{"3s", "1 1s 1 1 0", "1 0 0 1s"},
		}},
		{"a changed limit keeps the stored moment, rounded up to a microsecond", []line{
			{"0s", "7 1s 2 1 0", "1 1 0 142858us"},
			{"", "!GET $1", "bucket:@142857us:1:7:@-61s"},
			{"0s", "2 1s 2 0 0", "0 1 0 142858us"},
			{"0s", "2 1s 2 1 0", "1 0 0 642858us"},
			{"", "!GET $1", "bucket:@642858us:0:2:@-61s"},
		}},
		{"a changed burst applies at once", []line{
			{"0s", "10 10s 5 5 0", "5 0 0 5s"},
			{"0s", "10 10s 2 1 0", "0 0 4s 5s"},
			{"0s", "10 10s 8 0 0", "0 3 0 5s"},
			{"0s", "10 10s 8 3 0", "3 0 0 8s"},
		}},
		{"a changed window applies at once", []line{
			{"0s", "10 10s 2 2 0", "2 0 0 2s"},
			{"0s", "10 100s 2 0 0", "0 1 0 2s"},
			{"0s", "10 1s 2 0 0", "0 0 1.9s 2s"},
		}},
		{"the clock steps back: nothing extra, no delay beyond the step", []line{
			{"10s", "1 1s 1 1 0", "1 0 0 1s"},
			{"5s", "1 1s 1 1 0", "0 0 6s 6s"},
			{"11s", "1 1s 1 1 0", "1 0 0 1s"},
		}},
		{"a step back of a window and 60 s voids nothing, a microsecond more does", []line{
			{"0s", "1 60s 1 1 0", "1 0 0 60s"},
			{"0s", "1 60s 1 1 60s", "1 0 60s 120s"},
			{"-120s", "1 60s 1 1 0", "0 0 240s 240s"},
			{"-120s", "1 1ms 1 1 0", "0 0 240s 240s"},
			{"-120.000001s", "1 60s 1 0 0", "0 1 0 0"},
			{"-120.000001s", "1 8784h 1 0 0", "0 1 0 0"},
			{"-120.000001s", "1 60s 1 1 0", "1 0 0 60s"},
		}},
		{"a large burst written just now is not void", []line{
			{"0s", "1 1s 10000 10000 0", "10000 0 0 10000s"},
			{"1s", "1 1s 1 1 0", "0 0 9999s 9999s"},
			{"1s", "1 1ms 1 1 0", "0 0 9999s 9999s"},
		}},
		{"the clock steps back three years: afresh at once", []line{
			{"0s", "1 1s 3 3 0", "3 0 0 3s"},
			{"-26280h", "1 1s 3 3 0", "3 0 0 3s"},
			{"-26280h", "1 1s 3 1 0", "0 0 1s 3s"},
		}},
		{"the clock of 1970", []line{
			{"-4102444740s", "1 1s 1 1 0", "1 0 0 1s"},
			{"", "!GET $1", "bucket:61000000:0:1:0"},
			{"", "!DEL $1", "1"},
			{"-4102444739.000001s", "1 1s 1 1 0", "1 0 0 1s"},
			{"", "!GET $1", "bucket:61999999:0:1:0"},
			{"-4102444738s", "1 1s 1 1 0", "1 0 0 1s"},
			{"", "!GET $1", "bucket:63000000:0:1:1000000"},
		}},
		{"the largest bucket, and one beyond", []line{
			{"0s", "1 4503599627370496us 1 1 0", "BADARG window: want 1000..31622400000000"},
			{"0s", "1 1099511627776us 4096 4096 0", "4096 0 0 4503599627370496us"},
			{"0s", "1 1099511627776us 4097 1 0", "BADARG burst: want burst * window / limit up to 2^52"},
			{"0s", "1 31622400000000us 10000000 1 0", "BADARG burst: want burst * window / limit up to 2^52"},
		}},
		{"a fraction of a microsecond beyond the largest bucket", []line{
			{"0s", "69999 31524885741128us 9999956 1 0", "BADARG burst: want burst * window / limit up to 2^52"},
			{"0s", "69999 31524885741128us 9999955 0 0", "0 9999955 0 0"},
		}},
		{"a wait near 2^52 is exact", []line{
			{"-2307252800s", "1 31622399999999us 142 142 0", "142 0 0 4490380799999858us"},
			{"-2307252800s", "1 31622399999999us 142 141 0", "0 0 4458758399999859us 4490380799999858us"},
			{"-2307252800s", "1 31622399999999us 142 137 0", "0 0 4332268799999863us 4490380799999858us"},
		}},
		{"less than a microsecond a permit", []line{
			{"0s", "10000000 1ms 10000000 10000000 0", "10000000 0 0 1ms"},
			{"0s", "10000000 1ms 10000000 1 0", "0 0 1us 1ms"},
			{"1us", "10000000 1ms 10000000 0 0", "0 10000 0 999us"},
			{"1us", "10000000 1ms 10000000 10001 0", "0 10000 1us 999us"},
			{"1us", "10000000 1ms 10000000 10000 0", "10000 0 0 1ms"},
		}},
		{"a microsecond more room than is wanted is no wait", []line{
			{"0s", "1 10s 2 1 0", "1 1 0 10s"},
			{"1us", "1 10s 2 1 0", "1 0 0 19.999999s"},
		}},
		{"beyond a lowered burst by a fraction of a microsecond: none", []line{
			{"0s", "1001 1ms 1002 1002 0", "1002 0 0 1001us"},
			{"999us", "1001 1ms 2 0 0", "0 0 1us 2us"},
		}},
		{"a key of another type is left alone", []line{
			{"0s", "!RPUSH $1 x", "1"},
			{"0s", "1 1s 1 1 0", wrongType},
			{"0s", "1 1s 1 0 0", wrongType},
			{"", "!LRANGE $1 0 -1", "[x]"},
		}},
		unreadableGCRA,
	}, gcraV1Edges...),
}

var unreadableGCRA = timeline{"an unreadable value is left alone", func() (lines []line) {
	for _, value := range []string{
		"x", "@0s~0~10~@0s", "bucket:@0s:1:1:@0s", "bucket:@0s:0:0:@0s",
		"bucket:@0s:0:16777221:@0s", "bucket:72061696482727936:0:1:@0s", "bucket:@0s:0:10000001:@0s", "bucket:@0s:10000000:9999999:@0s", "bucket:9007199254740992:0:1:@0s",
	} {
		lines = append(lines,
			line{"0s", "!SET $1 " + value, "OK"},
			line{"0s", "1 1s 1 1 0", badBucket},
		)
	}
	return lines
}()}

const badBucket = "BADSTATE bucket: want the 24 bytes of a bucket"
