package scripttest_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// limit window burst permits max_wait -> granted remaining wait reset_after
var gcraV1 = table{
	script: &gcraV1Script,
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
			{"", "!GET $1", "bucket:@3s:0:10:@0s:10s"},
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
		{"a larger burst comes before those who have booked", []line{
			{"0s", "1 10s 1 1 60s", "1 0 0 10s"},
			{"0s", "1 10s 1 1 60s", "1 0 10s 20s"},
			{"0s", "1 10s 3 1 0", "1 0 0 30s"},
		}},
		{"a changed limit keeps the stored time, rounded up to a microsecond", []line{
			{"0s", "7 1s 2 1 0", "1 1 0 142858us"},
			{"", "!GET $1", "bucket:@142857us:1:7:@0s:1s"},
			{"0s", "2 1s 2 0 0", "0 1 0 142858us"},
			{"0s", "2 1s 2 1 0", "1 0 0 642858us"},
			{"", "!GET $1", "bucket:@642858us:0:2:@0s:1s"},
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
		{"a grant under a narrower window, then a step back: the wider one's grants count", []line{
			{"0s", "5 1h 5 5 0", "5 0 0 1h"},
			{"0s", "10 1s 100000 1 0", "1 63999 0 1h0m0.1s"},
			{"-10m", "5 1h 5 5 0", "0 0 1h10m0.1s 1h10m0.1s"},
			{"-10m", "5 1h 5 1 0", "0 0 22m0.1s 1h10m0.1s"},
			{"-61m", "5 1h 5 0 0", "0 0 1h13m0.1s 2h1m0.1s"},
			{"-61m0.000001s", "5 1h 5 5 0", "5 0 0 1h"},
		}},
		{"minutes after the wider grants: the last grant is what a clock may be behind", []line{
			{"0s", "5 1h 5 5 0", "5 0 0 1h"},
			{"30m", "10 1s 100000 1 0", "1 81999 0 30m0.1s"},
			{"-31m", "5 1h 5 0 0", "0 0 43m0.1s 1h31m0.1s"},
			{"-31m0.000001s", "5 1h 5 0 0", "0 5 0 0"},
		}},
		{"the wider grants have drained, though the bucket was never empty: the narrower window counts", []line{
			{"0s", "5 1h 5 5 0", "5 0 0 1h"},
			{"59m59.999999s", "10 1s 100000 10 0", "10 99989 0 1.000001s"},
			{"", "!GET $1", "bucket:@60m1s:0:10:@59m59.999999s:1h:1s:@1h"},
			{"-1m0.000001s", "1 1s 1 0 0", "0 0 1h1m1.000001s 1h1m1.000001s"},
			{"59m59.999999s", "10 1s 100000 0 0", "0 99989 0 1.000001s"},
			{"1h", "10 1s 100000 1 0", "1 99989 0 1.1s"},
			{"", "!GET $1", "bucket:@1h1.1s:0:10:@1h:1s"},
			{"58m59s", "10 1s 100000 0 0", "0 99379 0 1m2.1s"},
			{"58m58.999999s", "10 1s 100000 0 0", "0 100000 0 0"},
		}},
		{"never empty for an hour at 5 a second, then 30 min back: it grants at once", []line{
			{"0s", "5 1s 5 5 0", "5 0 0 1s"},
			{"0s", "5 1s 5 5 60s", "5 0 1s 2s"},
			{"1.9s", "5 1s 5 5 60s", "5 0 100ms 1.1s"},
			{"", "!SET $1 bucket:@1h1s:0:5:@1h:1s", "OK"},
			{"1h", "5 1s 5 5 60s", "5 0 1s 2s"},
			{"30m", "5 1s 5 5 0", "5 0 0 1s"},
			{"30m", "5 1s 5 1 0", "0 0 200ms 1s"},
		}},
		{"three windows: the middle one takes over from the widest", []line{
			{"0s", "1 1h 1 1 0", "1 0 0 1h"},
			{"", "!GET $1", "bucket:@1h:0:1:@0s:1h"},
			{"0s", "1 1s 100000 1 0", "1 96399 0 1h1s"},
			{"", "!GET $1", "bucket:@1h1s:0:1:@0s:1h:1s:@1h"},
			{"0s", "1 1m 100000 1 0", "1 99938 0 1h1m1s"},
			{"", "!GET $1", "bucket:@1h1m1s:0:1:@0s:1h:1m:@1h"},
			{"1s", "1 1s 100000 1 0", "1 96339 0 1h1m1s"},
			{"", "!GET $1", "bucket:@1h1m2s:0:1:@1s:1h:1m:@1h"},
			{"1h", "1 1s 100000 1 0", "1 99937 0 1m3s"},
			{"", "!GET $1", "bucket:@1h1m3s:0:1:@1h:1m:1s:@1h1m2s"},
			{"58m", "1 1s 1 0 0", "0 0 3m3s 3m3s"},
			{"57m59.999999s", "1 1s 1 0 0", "0 1 0 0"},
			{"1h1m2s", "1 1s 100000 1 0", "1 99998 0 2s"},
			{"", "!GET $1", "bucket:@1h1m4s:0:1:@1h1m2s:1s"},
		}},
		{"the widest window again, and an equal one: what came before is behind it no more", []line{
			{"0s", "1 1h 10 1 0", "1 9 0 1h"},
			{"0s", "1 1s 100000 1 0", "1 96399 0 1h1s"},
			{"0s", "1 1h 10 1 0", "1 7 0 2h1s"},
			{"", "!GET $1", "bucket:@2h1s:0:1:@0s:1h"},
			{"0s", "3 1s 300000 1 0", "1 278396 0 2h1.333334s"},
			{"", "!GET $1", "bucket:@2h1.333333s:1:3:@0s:1h:1s:@2h1s"},
			{"1s", "7 2h 10 1 0", "1 1 0 2h17m8.904763s"},
		}},
		{"the time at which the wider grants have drained is rounded up to a microsecond", []line{
			{"0s", "7 1h 7 1 0", "1 6 0 8m34.285715s"},
			{"0s", "7 1s 100000 1 0", "1 96399 0 8m34.428572s"},
			{"", "!GET $1", "bucket:@8m34.428571s:3:7:@0s:1h:1s:@8m34.285715s"},
		}},
		{"a full bucket, and a void one, forget the windows", []line{
			{"0s", "1 1h 10 1 0", "1 9 0 1h"},
			{"0s", "1 1s 100000 1 0", "1 96399 0 1h1s"},
			{"1h1s", "1 1s 1 1 0", "1 0 0 1s"},
			{"", "!GET $1", "bucket:@1h2s:0:1:@1h1s:1s"},
			{"", "!DEL $1", "1"},
			{"0s", "1 1h 10 1 0", "1 9 0 1h"},
			{"0s", "1 1s 100000 1 0", "1 96399 0 1h1s"},
			{"-61m0.000001s", "1 1s 1 1 0", "1 0 0 1s"},
			{"", "!GET $1", "bucket:@-60m59.000001s:0:1:@-61m0.000001s:1s"},
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
			{"", "!GET $1", "bucket:61000000:0:1:60000000:1s"},
			{"", "!DEL $1", "1"},
			{"-4102444739.000001s", "1 1s 1 1 0", "1 0 0 1s"},
			{"", "!GET $1", "bucket:61999999:0:1:60999999:1s"},
			{"-4102444738s", "1 1s 1 1 0", "1 0 0 1s"},
			{"", "!GET $1", "bucket:63000000:0:1:62000000:1s"},
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
		"x", "@0s~0~10~@0s~1", "bucket:@0s:0:1:@0s", "bucket:@0s:0:1:@0s:1s:1s", "bucket:@0s:1:1:@0s:1s",
		"bucket:@0s:0:0:@0s:1s",
		"bucket:@0s:0:16777215:@0s:1s", "bucket:72057594037927935:0:1:@0s:1s", "bucket:@0s:0:10000001:@0s:1s",
		"bucket:@0s:10000000:9999999:@0s:1s", "bucket:9007199254740992:0:1:@0s:1s",
		"bucket:9007199254740992:0:1:@0s:1s:1ms:@1s",
	} {
		lines = append(lines,
			line{"0s", "!SET $1 " + value, "OK"},
			line{"0s", "1 1s 1 1 0", badBucket},
		)
	}
	return lines
}()}

const badBucket = "BADSTATE bucket: want the 26 or 39 bytes of a bucket"

// How far a clock may step back is held against an account of all grants: the widest window of those that have not
// drained, and 60 s. For two windows to the microsecond; where there are three never less, and no longer than until all
// has drained that was in the bucket when the widest's grants had.
func TestGCRAHoldsTheWidestWindow(t *testing.T) {
	for _, windows := range [][]int64{{3_600_000_000, 1_000_000}, {3_600_000_000, 60_000_000, 1_000_000}} {
		for seed := range uint64(20) {
			t.Run(fmt.Sprintf("%d windows, seed %d", len(windows), seed), func(t *testing.T) {
				account := &drainage{on: startHarness(t, true), random: rand.New(rand.NewPCG(seed, 8)), now: epoch}
				for i := range 300 {
					narrow := windows[min(i%30/10, len(windows)-1):] // after ten calls the widest stays away
					account.grant(narrow[account.random.IntN(len(narrow))])
					account.check(t, len(windows) == 2)
				}
			})
		}
	}
}

// drainage is an account of what a bucket was granted.
type drainage struct {
	on      *harness
	random  *rand.Rand
	now     int64
	grants  []drain
	longest int64 // that the bucket took to be full
}

// drain is a grant under a window, which has drained at a time.
type drain struct{ window, at int64 }

// grant moves the clock on, now and then to where a grant has just drained, and takes a permit where there is room.
func (d *drainage) grant(window int64) {
	if n := len(d.grants); n > 0 {
		at := d.grants[n-1-d.random.IntN(min(n, 5))].at + d.random.Int64N(3) - 1
		if d.random.IntN(3) > 0 {
			at = d.now + d.random.Int64N(2_000_000)
		}
		d.now = max(d.now, at)
	}
	limit := 1 + d.random.Int64N(9)
	reply := d.ask(limit, window, min(100_000_000_000/window*limit, 10_000_000), 1)
	if reply[0] == 1 {
		d.grants = append(d.grants, drain{window, d.now + reply[3]})
		d.longest = max(d.longest, reply[3])
	}
}

func (d *drainage) ask(limit, window, burst, permits int64) []int64 {
	d.on.setTime(d.now)
	reply, failed := d.on.call(&gcraV1Script, permits == 0, gcraV1.keys, decimals(limit, window, burst, permits, 0))
	if failed != "" {
		d.on.t.Fatal(failed)
	}
	return reply
}

// widest is the widest window of the grants that drain later.
func (d *drainage) widest(later int64) (window int64) {
	for _, g := range d.grants {
		if g.at > later {
			window = max(window, g.window)
		}
	}
	return window
}

func (d *drainage) check(t *testing.T, exact bool) {
	t.Helper()
	written := d.now
	defer func() { d.now = written }()
	d.now -= d.widest(written) + 60_000_000
	if reply := d.ask(1, 1_000_000, 1, 0); reply[3] == 0 {
		t.Errorf("void at %d, %d us before %d: it holds a grant under %d us", d.now, written-d.now, written,
			d.widest(written))
	}
	if !exact {
		d.now = written - d.widest(written-d.longest) - 60_000_000
	}
	d.now--
	if reply := d.ask(1, 1_000_000, 1, 0); reply[3] != 0 {
		t.Errorf("not void at %d, %d us before %d", d.now, written-d.now, written)
	}
}

var gcraV1Edges = []timeline{
	{"permits above the burst can never be granted", []line{
		{"0s", "7 1s 4 5 60s", "BADARG permits: want up to burst"},
		{"0s", "7 1s 4 4 0", "4 0 0 571429us"},
	}},
	{"a bucket one microsecond, and a third of one, beyond the largest", []line{
		{"0s", "1 5248944497us 858001 0 0", "BADARG burst: want burst * window / limit up to 2^52"},
		{"0s", "3 13551453241837us 997 0 0", "BADARG burst: want burst * window / limit up to 2^52"},
		{"0s", "1 5248944497us 858000 0 0", "0 858000 0 0"},
	}},
	{"the first and the last values that are read", []line{
		{"0s", "!SET $1 bucket:0:0:1:0:0", "OK"},
		{"0s", "7 1s 4 0 0", "0 4 0 0"},
		{"0s", "!SET $1 bucket:@0s:9999999:10000000:@0s:1s", "OK"},
		{"0s", "10000000 1s 4 0 0", "0 0 1us 1us"},
		{"0s", "!SET $1 bucket:9007199254740991:0:1:9007199254740991:1s", "OK"},
		{"0s", "7 1s 4 0 0", "0 4 0 0"},
		{"0s", "!SET $1 bucket:9007199254740991:0:1:0:1s", "OK"},
		{"0s", "7 1s 4 0 0", "0 0 4904754454312420us 4904754454740991us"},
		{"0s", "!SET $1 bucket:9007199254740992:0:1:0:1s", "OK"},
		{"0s", "7 1s 4 0 0", badBucket},
	}},
	{"fractions add up to whole microseconds", []line{
		{"0s", "7 1s 7 3 0", "3 4 0 428572us"},
		{"0s", "7 1s 7 3 0", "3 1 0 857143us"},
		{"", "!GET $1", "bucket:@857142us:6:7:@0s:1s"},
		{"0s", "7 1s 7 1 0", "1 0 0 1s"},
		{"", "!GET $1", "bucket:@1s:0:7:@0s:1s"},
		{"0s", "7 1s 7 3 60s", "3 0 428572us 1428572us"},
		{"0s", "7 1s 7 5 60s", "5 0 1142858us 2142858us"},
		{"", "!GET $1", "bucket:@2142857us:1:7:@0s:1s"},
	}},
	{"a narrower window behind as many microseconds as there are parts of one", []line{
		{"0s", "!SET $1 bucket:@1us:1:7:@0s:1h", "OK"},
		{"0s", "7 1s 7 1 0", "1 5 0 142859us"},
		{"", "!GET $1", "bucket:@142858us:2:7:@0s:1h:1s:@2us"},
	}},
	{"a changed limit where the stored time is whole", []line{
		{"0s", "2 1s 2 1 0", "1 1 0 500ms"},
		{"0s", "7 1s 7 0 0", "0 3 0 500ms"},
		{"0s", "7 1s 7 1 0", "1 2 0 642858us"},
	}},
	{"what remains of a bucket of less than a microsecond", []line{
		{"0s", "10000000 1ms 5000 0 0", "0 5000 0 0"},
		{"0s", "10000000 1ms 5000 1 0", "1 4999 0 1us"},
	}},
	{"what remains is rounded down, however little is missing", []line{
		{"0s", "10 10s 3 3 0", "3 0 0 3s"},
		{"500ms", "10 10s 3 0 0", "0 0 500ms 2.5s"},
		{"1.2s", "10 10s 3 0 0", "0 1 0 1.8s"},
		{"1.999999s", "10 10s 3 0 0", "0 1 0 1.000001s"},
	}},
	{"what remains is rounded down where only a fraction of a microsecond is missing", []line{
		{"0s", "!SET $1 bucket:@4us:0:9999991:@0s:1s", "OK"},
		{"0s", "9999991 3288925us 44 0 0", "0 31 0 4us"},
	}},
	{"nothing remains below zero", []line{
		{"0s", "1 1s 3 3 0", "3 0 0 3s"},
		{"999.999ms", "1 1s 2 0 0", "0 0 1.000001s 2.000001s"},
		{"999.999ms", "1 1s 1 0 0", "0 0 2.000001s 2.000001s"},
		{"", "!SET $1 bucket:@142857us:2:7:@0s:1s", "OK"},
		{"0s", "7 1s 1 0 0", "0 0 142858us 142858us"},
	}},
}
