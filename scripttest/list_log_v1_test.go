package scripttest_test

import (
	"strconv"
	"strings"
	"testing"
)

const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"

// limit window permits max_wait -> granted remaining wait reset_after
var listLogV1 = table{
	script: &listLogV1Script,
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

var listLogV1Edges = []timeline{
	{"permits above the limit can never be granted", []line{
		{"0s", "2 10s 3 60s", "BADARG permits: want up to limit"},
		{"0s", "2 10s 2 0", "2 0 0 10s"},
	}},
	{"the first and the last time that an entry may have", []line{
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

// An unreadable entry among the live ones is found where live ones are counted, behind more that has left than a grant
// removes.
func (tab table) checkFindsUnreadable(t testing.TB) {
	h := startHarness(t, true)
	for _, l := range append(filledLog(0, 10_000), line{do: "!RPUSH $1 x @9s @9s"}) {
		h.do(tab.commandWords(strings.TrimPrefix(l.do, "!"))...)
	}
	h.setTime(epoch + 10_000_000)
	reply, failed := h.call(tab.script, true, tab.keys, []string{"9", "10000000", "0", "0"})
	if failed != badLog && (failed != "" || tab.first(reply)[0] != -1) {
		t.Errorf("%v, %q; want %q", reply, failed, badLog)
	}
}

const badLog = "BADSTATE log: want times in microseconds"

// The same of list_log; what remains is exact also where more has left than is removed.
func (tab table) checkRemovesABoundedNumber(t testing.TB) {
	h := startHarness(t, true)
	key := tab.keys[0]
	fill := []string{"RPUSH", key}
	for range 300 {
		fill = append(fill, strconv.FormatInt(epoch, 10))
	}
	h.do(fill...)
	h.setTime(epoch + 9_000_000)
	for range 3 {
		h.call(tab.script, false, []string{key}, []string{"1000000", "10000000", "1", "0"})
	}
	h.setTime(epoch + 10_000_000)
	for _, c := range []struct {
		permits   string
		remaining int64
		want      string // entries afterwards
	}{
		{"0", 999_997, "303"},
		{"1", 999_996, "203"},
		{"50", 999_946, "103"},
		{"0", 999_946, "103"},
		{"1", 999_945, "55"},
		{"1", 999_944, "56"},
	} {
		reply, failed := h.call(tab.script, c.permits == "0", []string{key},
			[]string{"1000000", "10000000", c.permits, "0"})
		if failed != "" || tab.first(reply)[1] != c.remaining {
			t.Errorf("%s permits: %v, %s; want %d remaining", c.permits, reply, failed, c.remaining)
		}
		if entries := h.do("LLEN", key); entries != c.want {
			t.Errorf("%s entries after %s permits, want %s", entries, c.permits, c.want)
		}
	}
}

// Where more has left than is removed, and more lives than the limit, as after a lowered one: it looks no further from
// the newest than the limit.
func TestListLogLooksNoFurtherThanTheLimit(t *testing.T) {
	const limit = 100
	h := startHarness(t, true)
	key := listLogV1.keys[0]
	for i := range 30 {
		fill := []string{"RPUSH", key}
		for range 1000 {
			fill = append(fill, strconv.Itoa(epoch+i))
		}
		h.do(fill...)
	}
	h.setTime(epoch + 10_000_014)
	result := h.result(&listLogV1Script, false, []string{key}, []string{strconv.Itoa(limit), "10000000", "2", "0"})
	if result.Err != nil || result.Reply.([]any)[1] != int64(0) {
		t.Fatalf("%v, %v; want nothing remaining", result.Reply, result.Err)
	}
	for _, command := range result.Commands {
		if command.Args[0] != "LINDEX" {
			continue
		}
		if index, _ := strconv.Atoi(command.Args[2]); index < -limit {
			t.Errorf("it looks at entry %d", index)
		}
	}
}
