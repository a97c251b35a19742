package scripttest_test

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/scripttest"
)

// Time lines of the edges: the first and last values of a range, states that only just are or are not
// readable, counts that meet exactly. Mutants found what was missing.

var listLogV1Edges = []timeline{
	{"permits above the limit can never be granted", []line{
		{"0s", "2 10s 3 60s", "BADARG permits: want up to limit"},
		{"0s", "2 10s 2 0", "2 0 0 10s"},
	}},
	{"the first and the last moment that an entry may have", []line{
		{"0s", "!RPUSH $1 0", "1"},
		{"0s", "2 10s 1 0", "1 1 0 10s"},
		{"", "!LRANGE $1 0 -1", "[@0s]"},
		{"", "!RPUSH $1 9007199254740991", "2"},
		{"0s", "2 10s 1 0", "1 1 0 10s"},
		{"", "!LRANGE $1 0 -1", "[@0s]"},
	}},
	{"arguments are refused before what they may not be together", []line{
		{"0s", "5 10s 6 99999999999", "BADARG max_wait: want 0..60000000"},
	}},
	{"a booking of one permit trims what has left", []line{
		{"0s", "2 10s 1 0", "1 1 0 10s"},
		{"5s", "2 10s 1 0", "1 0 0 10s"},
		{"12s", "1 10s 1 60s", "1 0 3s 13s"},
		{"", "!LRANGE $1 0 -1", "[@5s @15s]"},
	}},
}

var zsetLogV1Edges = []timeline{
	{"permits above the limit can never be granted", []line{
		{"0s", `2 10s 3 60s *`, "BADARG permits: want up to limit"},
		{"0s", `2 10s 2 0 *`, "2 0 0 10s"},
	}},
	{"the first and the last moment that a member may have", []line{
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
	{"a round moment, which some servers print with an exponent", []line{
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
	{"a changed limit where the stored moment is whole", []line{
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
	{"the first and the last moment that an entry may have", []line{
		{"0s", "!RPUSH $2 entry:0:0:1", "1"},
		{"0s", "2 10s 0 1 0", "1 1 0 10s 2 10s"},
		{"", "!LLEN $2", "1"},
		{"", "!DEL $2", "1"},
		{"", "!RPUSH $2 entry:9007199254740991:0:2", "1"},
		{"0s", "2 10s 0 1 0", "1 1 0 10s 2 10s"},
		{"", "!LLEN $2", "1"},
		{"", "!DEL $2", "1"},
		{"", "!RPUSH $2 entry:9007199254740992:0:2", "1"},
		{"0s", "2 10s 0 1 0", badPermits},
		{"", "!DEL $2", "1"},
		{"", "!RPUSH $2 entry:72057594037927936:0:2", "1"},
		{"0s", "2 10s 0 1 0", badPermits},
		{"", "!DEL $2", "1"},
		{"", "!RPUSH $2 entry:18446744073709551615:0:2", "1"},
		{"0s", "2 10s 0 1 0", badPermits},
	}},
	{"moments and running totals of every size", func() (lines []line) {
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
		{"0s", "9 10s 0 0 0", badPermits},
		{"", "!DEL $2", "1"},
		{"", "!RPUSH $2 entry:@-1s:0:16777217", "1"},
		{"0s", "9 10s 0 0 0", "0 0 9s 9s 9 10s"},
		{"", "!DEL $2", "1"},
		{"", "!RPUSH $2 entry:@-1s:0:2147483648", "1"},
		{"0s", "9 10s 0 0 0", "0 0 9s 9s 9 10s"},
	}},
	{"the totals begin anew when every permit has come back, not a microsecond before", []line{
		{"0s", "5 10s 0 2 0", "2 3 0 10s 5 10s"},
		{"9.999999s", "5 10s 0 1 0", "1 2 0 10s 5 10s"},
		{"", "!LINDEX $2 -1", "entry:@9.999999s:2:1"},
		{"19.999999s", "5 10s 0 3 0", "3 2 0 10s 5 10s"},
		{"", "!LINDEX $2 -1", "entry:@19.999999s:0:3"},
		{"", "!LLEN $2", "1"},
	}},
	{"a running total beyond the newest", []line{
		{"0s", "!RPUSH $2 entry:@-3s:0:1 entry:@-2s:1:100 entry:@-1s:2:1", "3"},
		{"0s", "3 10s 0 2 0", badPermits},
		{"0s", "3 10s 0 1 0", "0 0 7s 9s 3 10s"},
	}},
	{"an unreadable entry that decides", []line{
		{"0s", "9 10s 0 1 0", "1 8 0 10s 9 10s"},
		{"1s", "!RPUSH $2 unreadable entry:@2s:8:1", "3"},
		{"3s", "9 10s 0 8 0", badPermits},
		{"3s", "9 10s 0 1 0", "0 0 7s 9s 9 10s"},
		{"", "!LLEN $2", "3"},
		{"", "!DEL $2", "1"},
		{"10s", "!RPUSH $2 entry:@0s:0:1 unreadable entry:@2s:8:1", "3"},
		{"10s", "9 10s 0 1 0", badPermits},
		{"9s", "9 10s 0 1 0", "0 0 1s 3s 9 10s"},
	}},
}

var sliceRingV1Edges = []timeline{
	{"permits above a limit can never be granted", []line{
		{"0s", "1s 3 3 2", "BADARG permits: want up to every limit"},
		{"0s", "1s 3 3 4 5 2 6 4", "BADARG permits: want up to every limit"},
		{"0s", "1s 3 3 3 5 4", "3 0 0 5s 3 3"},
	}},
	{"the window that is full for longest decides, wherever it stands", []line{
		{"0s", "1s 3 5 3 2 3", "3 0 0 5s 3 3"},
		{"0s", "1s 1 5 3 2 3", "0 0 5s 5s 3 3"},
		{"0s", "1s 1 2 3 5 3", "0 0 5s 5s 3 3"},
	}},
	{"the largest limit is what remains", []line{
		{"0s", "1s 0 3 1000000000", "0 1000000000 0 0 0"},
	}},
	{"totals wrap at 2^44", []line{
		{"0s", "!SET $1 " + ringOf(3, 0, 1<<44-1, 1<<44-1, 1<<44-1, 1<<44-1), "OK"},
		{"0s", "1s 0 3 9", "0 9 0 3s 0"},
		{"0s", "1s 1 3 9", "1 8 0 3s 1"},
		{"0s", "1s 2 3 9", "2 6 0 3s 3"},
		{"1s", "1s 2 3 9", "2 4 0 3s 5"},
		{"3s", "1s 0 3 9", "0 7 0 1s 2"},
		{"3s", "!SET $1 " + ringOf(3, 3, 1, 1<<44-2, 1<<44-2, 1<<44-2), "OK"},
		{"3s", "1s 0 3 9", "0 6 0 3s 3"},
	}},
	{"what is stored of each slice", []line{
		{"0s", "1s 2 3 9", "2 7 0 3s 2"},
		{"", "!GETRANGE $1 18 44", "\x00\x00\x00\x00\x00\x02" + strings.Repeat("\x00\x00\x00\x00\x00\x07\x00", 3)},
		{"2s", "1s 1 3 9", "1 6 0 3s 3"},
		{"", "!GETRANGE $1 18 44", "\x00\x00\x00\x00\x00\x03" + "\x00\x00\x00\x00\x00\x07\x00" + strings.Repeat("\x00\x00\x00\x00\x00\x27\x02", 2)},
		{"2s", "slice_ring_return 1s @0s 1", "1"},
		{"", "!GETRANGE $1 18 44", "\x00\x00\x00\x00\x00\x02" + "\x00\x00\x00\x00\x00\x07\x00" + strings.Repeat("\x00\x00\x00\x00\x00\x17\x02", 2)},
	}},
	{"a narrow window was empty a microsecond ago", []line{
		{"0s", "1s 1 10 9", "1 8 0 10s 1"},
		{"1s", "1s 0 1 9", "0 9 0 0 0"},
		{"1.000001s", "1s 0 1 9", "0 9 0 0 0"},
	}},
	{"a size that is no size", []line{
		{"0s", "!SET $1 " + ringOf(0, 0, 0), "OK"},
		{"0s", "1s 1 3 9", "BADSTATE ring: want 1..10000 slices"},
		{"0s", "!SET $1 " + ringOf(10001, 0, 0), "OK"},
		{"0s", "1s 1 3 9", "BADSTATE ring: want 1..10000 slices"},
	}},
	{"the totals of a ring end too soon for it to be lengthened", []line{
		{"0s", "!SET $1 " + cut(ringOf(3, 0, 1, 0, 0, 0)), "OK"},
		{"0s", "1s 1 1 9", "1 7 0 1s 2"},
		{"0s", "1s 1 1 9 4 9", "BADSTATE ring: want a total and a link for each slice"},
	}},
	{"the totals of a ring end too soon for a wait", []line{
		{"0s", "!SET $1 " + cut(ringOf(3, 0, 1, 1, 0, 0)), "OK"},
		{"0s", "1s 0 3 1", "BADSTATE ring: want a total and a link for each slice"},
	}},
	{"what stands behind the ring does not matter", []line{
		{"0s", "1s 1 3 9", "1 8 0 3s 1"},
		{"", "!APPEND $1 xxxxxxxxxxxx", "57"},
		{"0s", "1s 1 5 9", "1 7 0 5s 2"},
		{"4s", "1s 1 5 9", "1 6 0 5s 3"},
	}},
	{"a wider window asks a ring of three slices", []line{
		{"0s", "1s 1 3 9", "1 8 0 3s 1"},
		{"1s", "1s 1 3 9", "1 7 0 3s 2"},
		{"2s", "1s 1 3 9", "1 6 0 3s 3"},
		{"2s", "1s 0 10 9", "0 6 0 10s 3"},
		{"3s", "1s 1 3 9", "1 6 0 3s 3"},
		{"3s", "1s 0 10 9", "0 6 0 10s 3"},
		{"4s", "1s 0 10 9", "0 6 0 9s 3"},
	}},
	{"a narrow window is empty before the ring is", []line{
		{"0s", "1s 1 10 9", "1 8 0 10s 1"},
		{"1.5s", "1s 0 2 9", "0 8 0 500ms 1"},
		{"2s", "1s 0 2 9", "0 9 0 0 0"},
		{"5s", "1s 0 2 9", "0 9 0 0 0"},
	}},
}

// ringOf is a ring with slices of a second; the last slice is so many behind the epoch. Each slice links to itself,
// which says nothing of the next.
func ringOf(size, last, total int64, totals ...int64) string {
	var bytes []byte
	last += epoch / 1_000_000
	for _, n := range []int64{1_000_000, size, last, total} {
		bytes = append(bytes, binary.BigEndian.AppendUint64(nil, uint64(n))[2:]...)
	}
	for i, n := range totals {
		slice := last - (last-int64(i))%size
		bytes = append(bytes, binary.BigEndian.AppendUint64(nil, uint64(n<<12|slice%4096))[1:]...)
	}
	return string(bytes)
}

// cut is a text without its last byte.
func cut(text string) string { return text[:len(text)-1] }

// The first and the last value of every argument's range is in it.
func TestRanges(t *testing.T) {
	for _, tab := range tables {
		tab.checkRanges(t)
	}
}

func (tab table) checkRanges(t testing.TB) {
	groups := 1
	if tab.script.Group != nil {
		groups = tab.script.Group.Max
	}
	for i, field := range tab.fields(groups) {
		if field.Type == "str" {
			continue
		}
		for _, n := range []int64{field.Min, field.Max} {
			h := startHarness(t, false)
			h.setTime(epoch)
			args := tab.valid(groups)
			args[i] = strconv.FormatInt(n, 10)
			refusal := fmt.Sprintf("BADARG %s: want %d..%d", field.Name, field.Min, field.Max)
			if _, failed := h.call(tab.script, false, tab.keys, args); failed == refusal || strings.Contains(failed, "user_script") {
				t.Errorf("%s with %s = %d: %s", tab.script.Name, field.Name, n, failed)
			}
		}
	}
}

// An unreadable entry among the live ones is found where live ones are counted, behind more that has left
// than a grant removes.
func TestListLogFindsUnreadable(t *testing.T) { checkListLogFindsUnreadable(t) }

func checkListLogFindsUnreadable(t testing.TB) {
	h := startHarness(t, true)
	for _, l := range append(filledLog(0, 10_000), line{do: "!RPUSH $1 x @9s @9s"}) {
		h.do(listLogV1.commandWords(strings.TrimPrefix(l.do, "!"))...)
	}
	h.setTime(epoch + 10_000_000)
	if _, failed := h.call(&sluice.ListLogV1, true, listLogV1.keys, []string{"9", "10000000", "0", "0"}); failed != badLog {
		t.Errorf("%q, want %q", failed, badLog)
	}
}

const badLog = "BADSTATE log: want times in microseconds"

// token_bucket removes a bounded number of entries too, with each grant.
func TestBucketRemovesABoundedNumber(t *testing.T) { checkBucketRemovesABoundedNumber(t) }

func checkBucketRemovesABoundedNumber(t testing.TB) {
	h := startHarness(t, true)
	key := tokenBucketV1.keys[1]
	for from := 0; from < 25_000; from += 1000 {
		fill := []string{"RPUSH", key}
		for i := range 1000 {
			fill = append(fill, bucketEntry(epoch, uint64(from+i), 1))
		}
		h.do(fill...)
	}
	h.do("RPUSH", key, bucketEntry(epoch+1, 25_000, 3))
	h.setTime(epoch + 10_000_000)
	for i, want := range []string{"15002", "5003", "4", "5"} { // 10000, 10000, 5000 and none of them
		args := []string{"1000", "10000000", "0", "1", "0"}
		reply, failed := h.call(&sluice.TokenBucketV1, false, tokenBucketV1.keys, args)
		if failed != "" || reply[1] != int64(996-i) {
			t.Errorf("%v, %s; want %d remaining", reply, failed, 996-i)
		}
		if entries := h.do("LLEN", key); entries != want {
			t.Errorf("%s entries after a grant, want %s", entries, want)
		}
	}
}

// A config keeps a TTL that a booking may have set before the clock stepped back, and no longer one. In its last
// millisecond it is put off as well.
func TestConfigTTLOfAFarClock(t *testing.T) { checkConfigTTLOfAFarClock(t) }

func checkConfigTTLOfAFarClock(t testing.TB) {
	bucket := compile(t, sluice.TokenBucketV1.File, sluice.TokenBucketV1.Source)
	for _, c := range []struct{ stored, later, want int64 }{{141_000, 0, 141_000}, {141_001, 0, 10_100}, {1000, 1000, 10_100}} {
		r := scripttest.Start(t)
		r.SetTime(epoch)
		if _, err := r.Do("HSET", tokenBucketV1.keys[0], "rate", 3, "interval", 10_000_000, "scope", 0); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Do("PEXPIRE", tokenBucketV1.keys[0], c.stored); err != nil {
			t.Fatal(err)
		}
		r.SetTime(epoch + 1000*c.later)
		if result := bucket.Run(r, tokenBucketV1.keys, []string{"3", "10000000", "0", "1", "0"}); result.Err != nil {
			t.Fatal(result.Err)
		}
		assertTTL(t, r, tokenBucketV1.keys[0], c.want)
	}
}

// The struct library does what it can do where it is there: by hand it takes more instructions.
func TestPacksWithStruct(t *testing.T) {
	for _, tab := range []table{tokenBucketV1, gcraV1, sliceRingV1} {
		t.Run(tab.script.Name, func(t *testing.T) { tab.checkPacksWithStruct(t) })
	}
}

func (tab table) checkPacksWithStruct(t testing.TB) {
	grant, look := "1000 10s 0 1 0", "1000 10s 0 0 0"
	switch tab.script {
	case &sluice.GCRAV1:
		grant, look = "1000 10s 10 1 0", "1000 10s 10 0 0"
	case &sluice.SliceRingV1:
		grant, look = "1s 1 3 1000", "1s 0 3 1000"
	}
	instructions := func(h *harness, do string) int {
		h.setTime(epoch)
		return h.result(tab.script, false, tab.keys, tab.arguments(do)).Instructions
	}
	with, byHand := startHarness(t, false), startLikeMiniredis(t, false)
	// The first call packs, the second reads as well, and the look only reads.
	for _, c := range []struct {
		do   string
		more int
	}{{grant, 20}, {grant, 40}, {look, 20}} {
		if saved := instructions(byHand, c.do) - instructions(with, c.do); saved < c.more {
			t.Errorf("%s, %s: struct saves %d instructions, want %d", tab.script.Name, c.do, saved, c.more)
		}
	}
}
