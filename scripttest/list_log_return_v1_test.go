package scripttest_test

import (
	"strconv"
	"testing"
)

// moment permits -> returned
var listLogReturnV1 = table{
	script: &listLogReturnV1Script,
	keys:   []string{"t:x:{u}:ll1"},
	timelines: []timeline{
		{"what is given back can be granted again", []line{
			{"0s", "list_log 3 10s 3 0", "3 0 0 10s"},
			{"1s", "list_log 3 10s 1 0", "0 0 9s 9s"},
			{"1s", "@0s 2", "2"},
			{"1s", "list_log 3 10s 2 0", "2 0 0 10s"},
			{"1s", "list_log 3 10s 1 0", "0 0 9s 10s"},
			{"10s", "list_log 3 10s 0 0", "0 1 0 1s"},
		}},
		{"entries of that very moment, and no other", []line{
			{"0s", "!RPUSH $1 @0.999999s @1s @1s @1s @1.000001s @1.000001s", "6"},
			{"2s", "@1s 1", "1"},
			{"", "!LRANGE $1 0 -1", "[@999.999ms @1s @1s @1.000001s @1.000001s]"},
			{"2s", "@1s 3", "2"},
			{"2s", "@1s 1", "0"},
			{"2s", "@2s 1", "0"},
			{"2s", "@0s 1", "0"},
			{"2s", "@1.000001s 3", "2"},
			{"", "!LRANGE $1 0 -1", "[@999.999ms]"},
		}},
		{"grants of one moment are alike", []line{
			{"0s", "list_log 9 10s 2 0", "2 7 0 10s"},
			{"0s", "list_log 9 10s 3 0", "3 4 0 10s"},
			{"1s", "@0s 2", "2"},
			{"1s", "@0s 1000", "3"},
			{"", "!EXISTS $1", "0"},
		}},
		{"where everything goes, the key goes", []line{
			{"0s", "@0s 1", "0"},
			{"", "!EXISTS $1", "0"},
			{"0s", "list_log 3 10s 1 0", "1 2 0 10s"},
			{"0s", "@0s 1", "1"},
			{"", "!EXISTS $1", "0"},
			{"0s", "list_log 3 10s 0 0", "0 3 0 0"},
		}},
		{"the last booking opens the limiter, one before it leaves a hole", []line{
			{"0s", "list_log 1 10s 1 0", "1 0 0 10s"},
			{"1s", "list_log 1 10s 1 60s", "1 0 9s 19s"},
			{"1s", "list_log 1 10s 1 60s", "1 0 19s 29s"},
			{"2s", "@10s 1", "1"},
			{"2s", "list_log 1 10s 0 60s", "0 0 28s 28s"},
			{"12s", "list_log 1 10s 1 0", "0 0 18s 18s"},
			{"12s", "@20s 1", "1"},
			{"12s", "list_log 1 10s 1 0", "1 0 0 10s"},
		}},
		{"the last booking, and the one before it is the next", []line{
			{"0s", "list_log 1 10s 1 0", "1 0 0 10s"},
			{"0s", "list_log 1 10s 1 60s", "1 0 10s 20s"},
			{"0s", "list_log 1 10s 1 60s", "1 0 20s 30s"},
			{"0s", "@20s 1", "1"},
			{"0s", "list_log 1 10s 0 60s", "0 0 20s 20s"},
			{"0s", "list_log 1 10s 1 60s", "1 0 20s 30s"},
		}},
		{"of several later bookings", []line{
			{"0s", "!RPUSH $1 @0s @1s @2s @3s @4s @5s @6s @7s @8s", "9"},
			{"8s", "@3s 1", "1"},
			{"8s", "@3s 2", "0"},
			{"8s", "@1s 1", "1"},
			{"8s", "@0s 1", "1"},
			{"8s", "@0s 1", "0"},
			{"8s", "@7s 1", "1"},
			{"8s", "@4.5s 1", "0"},
			{"", "!LRANGE $1 0 -1", "[@2s @4s @5s @6s @8s]"},
		}},
		// What has left the window may go as well: it frees nothing.
		{"what has left the window", []line{
			{"0s", "list_log 3 10s 1 0", "1 2 0 10s"},
			{"9s", "list_log 3 10s 1 0", "1 1 0 10s"},
			{"10s", "list_log 3 10s 0 0", "0 2 0 9s"},
			{"10s", "@0s 1", "1"},
			{"10s", "list_log 3 10s 0 0", "0 2 0 9s"},
			{"", "!LRANGE $1 0 -1", "[@9s]"},
		}},
		{"the clock steps back: what was granted before and after the step", []line{
			{"10s", "list_log 2 10s 1 0", "1 1 0 10s"},
			{"5s", "list_log 2 10s 1 5s", "1 0 5s 15s"},
			{"5s", "@10s 1", "1"},
			{"5s", "list_log 2 10s 1 0", "0 0 5s 15s"},
			{"5s", "@10s 1", "1"},
			{"5s", "list_log 2 10s 1 0", "1 1 0 10s"},
		}},
		{"the clock steps back behind what is given back: the permits before it still count", []line{
			{"0s", "list_log 2 10s 1 0", "1 1 0 10s"},
			{"5s", "list_log 2 10s 1 0", "1 0 0 10s"},
			{"-60s", "@5s 1", "1"},
			{"-60s", "list_log 2 10s 2 0", "0 0 70s 70s"},
			{"9s", "list_log 2 10s 2 0", "0 1 1s 1s"},
		}},
		{"granted by a clock that was hours ahead", []line{
			{"1h", "list_log 2 10s 2 0", "2 0 0 10s"},
			{"0s", "@1h 1", "1"},
			{"0s", "list_log 2 10s 0 0", "0 2 0 0"},
			{"0s", "list_log 2 10s 1 0", "1 1 0 10s"},
			{"0s", "@1h 1", "0"},
			{"0s", "list_log 2 10s 0 0", "0 1 0 10s"},
		}},
		{"the newest goes, a millisecond behind another", []line{
			{"0s", "list_log 3 10s 1 0", "1 2 0 10s"},
			{"1ms", "list_log 3 10s 1 0", "1 1 0 10s"},
			{"1ms", "@1ms 1", "1"},
		}},
		{"a changed limit", []line{
			{"0s", "list_log 5 10s 3 0", "3 2 0 10s"},
			{"1s", "list_log 5 10s 2 0", "2 0 0 10s"},
			{"2s", "@0s 2", "2"},
			{"2s", "list_log 2 10s 0 0", "0 0 9s 9s"},
			{"2s", "@1s 2", "2"},
			{"2s", "list_log 2 10s 1 0", "1 0 0 10s"},
		}},
		{"a log that an operator made to stay", []line{
			{"0s", "list_log 3 10s 1 0", "1 2 0 10s"},
			{"5s", "list_log 3 10s 1 0", "1 1 0 10s"},
			{"", "!PERSIST $1", "1"},
			{"5s", "@5s 1", "1"},
			{"", "!PTTL $1", "-1"},
			{"5s", "list_log 3 10s 1 0", "1 1 0 10s"},
		}},
		{"the first and the last time that an entry may have", []line{
			{"0s", "!RPUSH $1 0 1 9007199254740990 9007199254740991", "4"},
			{"0s", "9007199254740991 2", "1"},
			{"0s", "9007199254740990 1", "1"},
			{"0s", "0 2", "1"},
			{"0s", "1 1", "1"},
			{"", "!EXISTS $1", "0"},
		}},
		{"a key of another type is left alone", []line{
			{"0s", "!SET $1 x", "OK"},
			{"0s", "@0s 1", wrongType},
			{"", "!GET $1", "x"},
		}},
		{"an unreadable newest entry", []line{
			{"0s", "!RPUSH $1 @0s x", "2"},
			{"0s", "@0s 1", badLog},
			{"", "!RPUSH $1 1.5", "3"},
			{"0s", "1 1", badLog},
			{"", "!RPUSH $1 -1", "4"},
			{"0s", "@0s 1", badLog},
			{"", "!RPUSH $1 9007199254740992", "5"},
			{"0s", "9007199254740991 1", badLog},
			{"", "!LLEN $1", "5"},
		}},
		{"an entry later than the last time that one may have", []line{
			{"0s", "!RPUSH $1 9007199254740992", "1"},
			{"0s", "@0s 1", badLog},
		}},
		{"an unreadable entry before those that would go", []line{
			{"0s", "!RPUSH $1 x @0s", "2"},
			{"0s", "@0s 1", badLog},
			{"0s", "@0s 2", badLog},
			{"", "!RPUSH $1 @1s", "3"},
			{"0s", "@1s 1", "1"},
			{"", "!LLEN $1", "2"},
		}},
		{"an unreadable entry that is not read: as many of the others go", []line{
			{"0s", "!RPUSH $1 @0s @0s @0s @0s x @0s @0s @0s @0s @0s", "10"},
			{"0s", "@0s 9", "9"},
			{"", "!LRANGE $1 0 -1", "[x]"},
		}},
		{"entries that a person wrote with a zero in front are other texts", []line{
			{"0s", "!RPUSH $1 999 01000 1000", "3"},
			{"0s", "1000 1", "1"},
			{"0s", "1000 1", "1"},
			{"", "!RPUSH $1 01000 1000", "3"},
			{"0s", "1000 2", "1"},
			{"", "!LRANGE $1 0 -1", "[999 1000]"},
		}},
	},
}

// At most 1000 later entries stand behind what is given back.
func checkReturnLooksBack1000(t testing.TB) {
	for _, c := range []struct {
		later    int
		returned string
	}{{999, "[5]"}, {1000, "[5]"}, {1001, "[0]"}, {1022, "[0]"}, {1023, "[0]"}, {1024, "[0]"}, {1025, "[0]"},
		{3000, "[0]"}} {
		h := startHarness(t, false)
		h.setTime(epoch)
		for _, l := range append(filledLog(0, 7), filledLog(1, c.later)...) {
			h.do(listLogReturnV1.commandWords(l.do[1:])...)
		}
		result := h.result(&listLogReturnV1Script, false, listLogReturnV1.keys, decimals(epoch, 5))
		if got := rendered(result.Reply); got != c.returned {
			t.Errorf("%d later entries: %s, %v; want %s", c.later, got, result.Err, c.returned)
		}
		for _, command := range result.Commands {
			if command.Args[0] == "LLEN" {
				continue
			}
			if index, _ := strconv.Atoi(command.Args[2]); index >= 0 || index < -1030 {
				t.Errorf("%d later entries: %q does not begin at the end", c.later, command.Args)
			}
		}
	}
}
