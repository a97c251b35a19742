package scripttest_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice"
)

// limit ttl renew id -> granted remaining wait reset_after
var concurrencyV1 = table{
	script: &concurrencyV1Script,
	keys:   []string{"t:x:{u}:cc1"},
	timelines: []timeline{
		{"take, deny, and take when the earliest lease has ended", []line{
			{"0s", "2 10s 0 a", "1 1 0 10s"},
			{"1s", "2 10s 0 b", "1 0 0 10s"},
			{"2s", "2 10s 0 c", "0 0 8s 9s"},
			{"9.999999s", "2 10s 0 c", "0 0 1us 1.000001s"},
			{"10s", "2 10s 0 c", "1 0 0 10s"},
			{"", "!ZRANGE $1 0 -1 WITHSCORES", "[b @11s c @20s]"},
		}},
		{"holders that die hold nothing for longer than their ttl", []line{
			{"0s", "2 10s 0 a", "1 1 0 10s"},
			{"0s", "2 10s 0 b", "1 0 0 10s"},
			{"10s", `2 10s 0 ""`, "0 2 0 0"},
			{"10s", "2 10s 0 c", "1 1 0 10s"},
			{"10s", "2 10s 0 d", "1 0 0 10s"},
			{"20s", "2 10s 0 e", "1 1 0 10s"},
			{"", "!ZRANGE $1 0 -1", "[e]"},
		}},
		{"when all are released, and when the key is lost, all are free", []line{
			{"0s", "1 10s 0 a", "1 0 0 10s"},
			{"0s", "1 10s 0 b", "0 0 10s 10s"},
			{"0s", "concurrency_release a", "1"},
			{"", "!EXISTS $1", "0"},
			{"0s", "1 10s 0 b", "1 0 0 10s"},
			{"0s", "1 10s 0 c", "0 0 10s 10s"},
			{"", "!DEL $1", "1"},
			{"0s", "1 10s 0 c", "1 0 0 10s"},
			{"0s", "1 10s 0 d", "0 0 10s 10s"},
		}},
		{"a look changes nothing", []line{
			{"0s", `2 10s 0 ""`, "0 2 0 0"},
			{"0s", `2 10s 1 ""`, "0 2 0 0"},
			{"", "!EXISTS $1", "0"},
			{"0s", "2 10s 0 a", "1 1 0 10s"},
			{"1s", "2 20s 0 b", "1 0 0 20s"},
			{"4s", `2 10s 0 ""`, "0 0 6s 17s"},
			{"4s", `2 1ms 1 ""`, "0 0 6s 17s"},
			{"4s", `3 10s 0 ""`, "0 1 0 17s"},
			{"10s", `2 10s 0 ""`, "0 1 0 11s"},
			{"21s", `2 10s 0 ""`, "0 2 0 0"},
			{"", "!ZRANGE $1 0 -1 WITHSCORES", "[a @10s b @21s]"},
		}},
		{"a live id takes no second slot and is renewed", []line{
			{"0s", "2 10s 0 a", "1 1 0 10s"},
			{"4s", "2 10s 0 a", "1 1 0 10s"},
			{"4s", "2 10s 0 a", "1 1 0 10s"},
			{"5s", "2 10s 1 a", "1 1 0 10s"},
			{"5s", "2 10s 0 b", "1 0 0 10s"},
			{"9s", "2 10s 0 a", "1 0 0 10s"},
			{"9s", "2 10s 1 b", "1 0 0 10s"},
			{"9s", "2 10s 0 c", "0 0 10s 10s"},
			{"", "!ZRANGE $1 0 -1 WITHSCORES", "[a @19s b @19s]"},
		}},
		{"a lease that ends in the second half of a second", []line{
			{"700ms", "2 10s 0 a", "1 1 0 10s"},
			{"700ms", "2 5s 0 b", "1 0 0 10s"},
		}},
		{"a renewal in its lease's last microsecond, and one in the next", []line{
			{"0s", "2 10s 0 a", "1 1 0 10s"},
			{"9.999999s", "2 10s 1 a", "1 1 0 10s"},
			{"19.999999s", "2 10s 1 a", "0 2 0 0"},
			{"", "!ZRANGE $1 0 -1 WITHSCORES", "[a @19.999999s]"},
			{"19.999999s", "2 10s 0 a", "1 1 0 10s"},
			{"", "!ZRANGE $1 0 -1 WITHSCORES", "[a @29.999999s]"},
		}},
		{"renew 1 takes nothing: no lease was ever there", []line{
			{"0s", "2 10s 1 a", "0 2 0 0"},
			{"", "!EXISTS $1", "0"},
			{"0s", "2 10s 0 b", "1 1 0 10s"},
			{"1s", "2 10s 1 a", "0 1 0 9s"},
			{"1s", "1 10s 1 a", "0 0 9s 9s"},
			{"", "!ZCARD $1", "1"},
		}},
		{"renew 1 does not revive a lease that has ended, beside one that is live", []line{
			{"0s", "2 10s 0 a", "1 1 0 10s"},
			{"5s", "2 10s 0 b", "1 0 0 10s"},
			{"10s", "2 10s 1 a", "0 1 0 5s"},
			{"10s", "2 10s 0 c", "1 0 0 10s"},
			{"10s", "2 10s 1 a", "0 0 5s 10s"},
			{"", "!ZRANGE $1 0 -1 WITHSCORES", "[b @15s c @20s]"},
		}},
		{"a renewal that comes after the release takes nothing", []line{
			{"0s", "2 10s 0 a", "1 1 0 10s"},
			{"1s", "concurrency_release a", "1"},
			{"1s", "2 10s 1 a", "0 2 0 0"},
			{"1s", "1 10s 0 b", "1 0 0 10s"},
			{"1s", "2 10s 1 a", "0 1 0 10s"},
		}},
		{"a lease that has ended is taken anew, before and after it is removed", []line{
			{"0s", "1 10s 0 a", "1 0 0 10s"},
			{"5s", "2 10s 0 b", "1 0 0 10s"},
			{"10s", "2 10s 0 a", "1 0 0 10s"},
			{"", "!ZRANGE $1 0 -1 WITHSCORES", "[b @15s a @20s]"},
			{"15s", "2 10s 0 c", "1 0 0 10s"},
			{"15s", "2 10s 0 b", "0 0 5s 10s"},
			{"20s", "2 10s 0 b", "1 0 0 10s"},
		}},
		{"a renewal never shortens a lease", []line{
			{"0s", "3 10s 0 a", "1 2 0 10s"},
			{"1s", "3 2s 1 a", "1 2 0 9s"},
			{"1s", "3 2s 0 a", "1 2 0 9s"},
			{"", "!ZRANGE $1 0 -1 WITHSCORES", "[a @10s]"},
			{"8s", "3 2s 1 a", "1 2 0 2s"},
			{"8.000001s", "3 2s 1 a", "1 2 0 2s"},
			{"", "!ZRANGE $1 0 -1 WITHSCORES", "[a @10.000001s]"},
		}},
		{"leases of other ttls end each by its own", []line{
			{"0s", "3 1h 0 a", "1 2 0 1h"},
			{"0s", "3 1ms 0 b", "1 1 0 1h"},
			{"0s", "3 8784h 0 c", "1 0 0 8784h"},
			{"0s", "3 10s 0 d", "0 0 1ms 8784h"},
			{"1ms", "3 10s 0 d", "1 0 0 31622399.999s"},
			{"", "!ZRANGE $1 0 -1 WITHSCORES", "[d @10.001s a @1h0m0s c @8784h0m0s]"},
		}},
		{"a short ttl does not end the leases of others", []line{
			{"0s", "3 1h 0 a", "1 2 0 1h"},
			{"0s", "3 1ms 0 b", "1 1 0 1h"},
			{"10ms", "3 1h 0 c", "1 1 0 1h"},
			{"10ms", "3 1h 0 d", "1 0 0 1h"},
			{"10ms", "3 1h 0 e", "0 0 3599.99s 1h"},
		}},
		{"a lowered limit: several leases must end", []line{
			{"0s", "4 10s 0 a", "1 3 0 10s"},
			{"1s", "4 10s 0 b", "1 2 0 10s"},
			{"2s", "4 10s 0 c", "1 1 0 10s"},
			{"3s", "4 10s 0 d", "1 0 0 10s"},
			{"4s", "4 10s 0 e", "0 0 6s 9s"},
			{"4s", "3 10s 0 e", "0 0 7s 9s"},
			{"4s", "2 10s 0 e", "0 0 8s 9s"},
			{"4s", "1 10s 0 e", "0 0 9s 9s"},
			{"4s", `2 10s 0 ""`, "0 0 8s 9s"},
			{"4s", "2 10s 1 e", "0 0 8s 9s"},
			{"4s", "2 10s 1 a", "1 0 0 10s"},
			{"5s", "2 10s 0 b", "1 0 0 10s"},
			{"5s", "2 10s 0 e", "0 0 9s 10s"},
			{"6s", "6 8s 0 e", "1 1 0 9s"},
			{"6s", "6 8s 0 f", "1 0 0 9s"},
			{"6s", "2 10s 0 g", "0 0 8s 9s"},
			{"6s", "1 10s 0 g", "0 0 9s 9s"},
			{"6s", "concurrency_release e", "1"},
			{"6s", "concurrency_release f", "1"},
			{"13s", "2 10s 0 e", "0 0 1s 2s"},
			{"14s", "2 10s 0 e", "1 0 0 10s"},
			{"", "!ZRANGE $1 0 -1 WITHSCORES", "[b @15s e @24s]"},
		}},
		{"a raised limit applies at once", []line{
			{"0s", "1 10s 0 a", "1 0 0 10s"},
			{"1s", "1 10s 0 b", "0 0 9s 9s"},
			{"1s", "3 10s 0 b", "1 1 0 10s"},
			{"1s", "1 10s 0 c", "0 0 10s 10s"},
			{"1s", "10000 10s 0 c", "1 9997 0 10s"},
		}},
		{"a clock stepped back keeps slots longer by the step", []line{
			{"0s", "1 10s 0 a", "1 0 0 10s"},
			{"-5s", "1 10s 0 b", "0 0 15s 15s"},
			{"-5s", "1 10s 1 a", "1 0 0 15s"},
			{"-5s", "2 10s 0 b", "1 0 0 15s"},
			{"", "!ZRANGE $1 0 -1 WITHSCORES", "[b @5s a @10s]"},
			{"-2h", "2 10s 0 c", "0 0 2h5s 2h10s"},
		}},
		{"a clock stepped on ends leases early by the step", []line{
			{"0s", "1 10s 0 a", "1 0 0 10s"},
			{"9s", "1 10s 1 a", "1 0 0 10s"},
			{"19s", "1 10s 1 a", "0 1 0 0"},
			{"19s", "1 10s 0 b", "1 0 0 10s"},
			{"9s", "1 10s 1 a", "0 0 20s 20s"},
		}},
		{"leases of a clock that was years ahead stay, until the key is removed", []line{
			{"50000h", "1 10s 0 a", "1 0 0 10s"},
			{"0s", "1 10s 0 b", "0 0 50000h10s 50000h10s"},
			{"0s", "concurrency_release a", "1"},
			{"0s", "1 10s 0 b", "1 0 0 10s"},
			{"", "!DEL $1", "1"},
			{"0s", "1 10s 0 c", "1 0 0 10s"},
		}},
		{"the longest id, and ids of any bytes", []line{
			{"0s", "9 10s 0 " + strings.Repeat("i", 128), "1 8 0 10s"},
			{"0s", "9 10s 0 " + strings.Repeat("i", 129), "BADARG id: want up to 128 bytes"},
			{"0s", "9 10s 1 " + strings.Repeat("i", 128), "1 8 0 10s"},
			{"0s", "9 10s 0 a|b", "1 7 0 10s"},
			{"0s", "9 10s 0 4102444801000000", "1 6 0 10s"},
			{"0s", "9 10s 0 %d%s", "1 5 0 10s"},
			{"0s", "9 10s 0 \xff", "1 4 0 10s"},
			{"0s", "9 10s 0 \xfe", "1 3 0 10s"},
			{"0s", "9 10s 0 A", "1 2 0 10s"},
			{"0s", "9 10s 0 a", "1 1 0 10s"},
			{"0s", "9 10s 1 a|b", "1 1 0 10s"},
		}},
		{"a round time, which some servers print with an exponent", []line{
			{"-2102444810s", "2 10s 0 a", "1 1 0 10s"},
			{"-2102444809s", "2 10s 1 a", "1 1 0 10s"},
			{"-2102444809s", "2 9s 1 a", "1 1 0 10s"},
			{"-2102444810s", "2 10s 0 b", "1 0 0 11s"},
			{"-2102444809s", "2 10s 0 c", "0 0 9s 10s"},
			{"-2102444808s", "1 10s 0 c", "0 0 9s 9s"},
			{"-2102444808s", "2 10s 1 b", "1 0 0 10s"},
		}},
		{"a key of another type is left alone", []line{
			{"0s", "!SET $1 x", "OK"},
			{"0s", "2 10s 0 a", wrongType},
			{"0s", `2 10s 0 ""`, wrongType},
			{"", "!GET $1", "x"},
		}},
		{"the first and the last time that a score may be", []line{
			{"0s", "!ZADD $1 0 x", "1"},
			{"0s", `2 10s 0 ""`, "0 2 0 0"},
			{"0s", "2 10s 0 a", "1 1 0 10s"},
			{"", "!ZRANGE $1 0 -1", "[a]"},
			{"", "!ZADD $1 0 x", "1"},
			{"0s", "2 10s 0 x", "1 0 0 10s"},
			{"", "!ZADD $1 9007199254740991 x", "0"},
			{"0s", "2 10s 0 b", "0 0 10s 4904754454740.991ms"},
			{"", "!ZADD $1 9007199254740992 x", "0"},
			{"0s", "2 10s 0 b", badHolders},
			{"0s", "2 10s 1 a", badHolders},
			{"0s", `2 10s 0 ""`, badHolders},
		}},
		{"a score that decides and is unreadable: of the last lease", []line{
			{"0s", "2 10s 0 a", "1 1 0 10s"},
			{"", "!ZADD $1 inf x", "1"},
			{"0s", "2 10s 1 a", badHolders},
			{"0s", "3 10s 0 b", badHolders},
			{"", "!ZRANGE $1 0 -1", "[a x]"},
		}},
		{"of the id itself", []line{
			{"0s", "3 10s 0 a", "1 2 0 10s"},
			{"", "!ZADD $1 4102444800000000.5 x 1.5 y -1 z", "3"},
			{"0s", "3 10s 0 x", badHolders},
			{"0s", "3 10s 1 y", badHolders},
			{"0s", "3 10s 0 z", badHolders},
			{"1us", "3 10s 0 a", "1 2 0 10s"},
			{"", "!ZRANGE $1 0 -1", "[a]"},
		}},
		{"of the lease that must end first", []line{
			{"0s", "2 10s 0 a", "1 1 0 10s"},
			{"", "!ZADD $1 4102444800000000.5 x", "1"},
			{"0s", "2 10s 0 b", badHolders},
			{"0s", `2 10s 0 ""`, badHolders},
			{"0s", "1 10s 0 b", "0 0 10s 10s"},
			{"0s", "2 10s 1 a", "1 0 0 10s"},
			{"0s", "3 10s 0 b", "1 0 0 10s"},
		}},
		{"an unreadable score that decides nothing, because its lease has ended", []line{
			{"0s", "!ZADD $1 1.5 x -inf y", "2"},
			{"0s", `2 10s 0 ""`, "0 2 0 0"},
			{"0s", "2 10s 0 a", "1 1 0 10s"},
			{"", "!ZRANGE $1 0 -1", "[a]"},
			{"10s", "!ZADD $1 1.5 x", "1"},
			{"10s", "2 10s 0 x", "1 1 0 10s"},
			{"", "!ZRANGE $1 0 -1 WITHSCORES", "[x @20s]"},
		}},
	},
}

const badHolders = "BADSTATE holders: want scores in microseconds"

// id -> released
var concurrencyReleaseV1 = table{
	script: &concurrencyReleaseV1Script,
	keys:   concurrencyV1.keys,
	timelines: []timeline{
		{"a released slot is free at once", []line{
			{"0s", "concurrency 2 10s 0 a", "1 1 0 10s"},
			{"0s", "concurrency 2 10s 0 b", "1 0 0 10s"},
			{"1s", "a", "1"},
			{"1s", "concurrency 2 10s 0 c", "1 0 0 10s"},
			{"", "!ZRANGE $1 0 -1 WITHSCORES", "[b @10s c @11s]"},
		}},
		{"what was released, or never was, is not released again", []line{
			{"0s", "a", "0"},
			{"", "!EXISTS $1", "0"},
			{"0s", "concurrency 2 10s 0 a", "1 1 0 10s"},
			{"0s", "concurrency 2 10s 0 b", "1 0 0 10s"},
			{"0s", "c", "0"},
			{"0s", "a", "1"},
			{"0s", "a", "0"},
			{"0s", `concurrency 2 10s 0 ""`, "0 1 0 10s"},
			{"0s", "b", "1"},
			{"0s", "b", "0"},
			{"", "!EXISTS $1", "0"},
		}},
		{"the end of the lease decides, not that its member is still there", []line{
			{"0s", "concurrency 2 10s 0 a", "1 1 0 10s"},
			{"0s", "concurrency 2 20s 0 b", "1 0 0 20s"},
			{"10s", "a", "0"},
			{"10.000001s", "a", "0"},
			{"", "!ZRANGE $1 0 -1", "[a b]"},
			{"10s", "a", "0"},
			{"10s", "concurrency 2 10s 0 c", "1 0 0 10s"},
			{"10s", "a", "0"},
			{"10s", "concurrency 2 10s 0 d", "0 0 10s 10s"},
			{"19.999999s", "b", "1"},
			{"19.999999s", "c", "1"},
			{"19.999999s", `concurrency 2 10s 0 ""`, "0 2 0 0"},
		}},
		{"the slot of another with the same name in another case stays", []line{
			{"0s", "concurrency 2 10s 0 a", "1 1 0 10s"},
			{"0s", "A", "0"},
			{"0s", "aa", "0"},
			{"0s", `concurrency 2 10s 0 ""`, "0 1 0 10s"},
		}},
		{"the lease that ends last, and one that does not", []line{
			{"0s", "concurrency 9 10s 0 a", "1 8 0 10s"},
			{"0s", "concurrency 9 20s 0 b", "1 7 0 20s"},
			{"0s", "concurrency 9 30s 0 c", "1 6 0 30s"},
			{"0s", "c", "1"},
			{"0s", `concurrency 9 10s 0 ""`, "0 7 0 20s"},
			{"0s", "a", "1"},
			{"0s", `concurrency 9 10s 0 ""`, "0 8 0 20s"},
			{"", "!ZRANGE $1 0 -1 WITHSCORES", "[b @20s]"},
		}},
		{"two that end last at once", []line{
			{"0s", "concurrency 9 10s 0 a", "1 8 0 10s"},
			{"0s", "concurrency 9 10s 0 b", "1 7 0 10s"},
			{"0s", "b", "1"},
			{"", "!ZRANGE $1 0 -1 WITHSCORES", "[a @10s]"},
			{"0s", "concurrency 9 10s 0 b", "1 7 0 10s"},
			{"0s", "a", "1"},
			{"", "!ZRANGE $1 0 -1 WITHSCORES", "[b @10s]"},
		}},
		{"the last that is live, beside ended ones", []line{
			{"0s", "concurrency 9 10s 0 a", "1 8 0 10s"},
			{"0s", "concurrency 9 20s 0 b", "1 7 0 20s"},
			{"10s", "b", "1"},
			{"10s", `concurrency 9 10s 0 ""`, "0 9 0 0"},
			{"", "!ZRANGE $1 0 -1", "[a]"},
		}},
		{"the others end in the second half of a second, or have ended a microsecond ago", []line{
			{"700ms", "concurrency 9 10s 0 a", "1 8 0 10s"},
			{"700ms", "concurrency 9 20s 0 b", "1 7 0 20s"},
			{"700ms", "b", "1"},
			{"", "concurrency 9 20s 0 b", "1 7 0 20s"},
			{"10.700001s", "b", "1"},
		}},
		{"a clock stepped back: the lease still counts", []line{
			{"0s", "concurrency 1 10s 0 a", "1 0 0 10s"},
			{"-1h", "a", "1"},
			{"-1h", "concurrency 1 10s 0 b", "1 0 0 10s"},
		}},
		{"a round time, which some servers print with an exponent", []line{
			{"-2102444810s", "concurrency 2 10s 0 a", "1 1 0 10s"},
			{"-2102444810s", "concurrency 2 20s 0 b", "1 0 0 20s"},
			{"-2102444801s", "b", "1"},
			{"-2102444801s", "a", "1"},
			{"-2102444810s", "concurrency 2 10s 0 a", "1 1 0 10s"},
			{"-2102444800s", "a", "0"},
		}},
		{"the longest id", []line{
			{"0s", "concurrency 1 10s 0 " + strings.Repeat("i", 128), "1 0 0 10s"},
			{"0s", strings.Repeat("i", 129), "BADARG id: want 1 to 128 bytes"},
			{"0s", `""`, "BADARG id: want 1 to 128 bytes"},
			{"0s", strings.Repeat("i", 128), "1"},
		}},
		{"a key of another type is left alone", []line{
			{"0s", "!SET $1 x", "OK"},
			{"0s", "a", wrongType},
			{"", "!GET $1", "x"},
		}},
		{"the first and the last time that a score may be", []line{
			{"0s", "!ZADD $1 0 a 9007199254740991 b", "2"},
			{"0s", "a", "0"},
			{"0s", "b", "1"},
			{"", "!ZADD $1 9007199254740992 b", "1"},
			{"0s", "b", badHolders},
			{"", "!ZADD $1 inf b -1 a", "0"},
			{"0s", "b", badHolders},
			{"0s", "a", badHolders},
			{"", "!ZADD $1 1.5 a 4102444800000000.5 b", "0"},
			{"0s", "b", badHolders},
			{"0s", "a", badHolders},
			{"", "!ZCARD $1", "2"},
		}},
		{"an unreadable score of the lease before the last", []line{
			{"0s", "concurrency 9 10s 0 a", "1 8 0 10s"},
			{"0s", "concurrency 9 20s 0 b", "1 7 0 20s"},
			{"", "!ZADD $1 4102444800000000.5 x", "1"},
			{"0s", "a", "1"},
			{"0s", "b", badHolders},
			{"", "!ZRANGE $1 0 -1", "[x b]"},
		}},
	},
}

// A grant and a renewal remove a bounded number of leases that have ended, and more than a grant adds.
func checkGrantsRemoveEndedLeases(t testing.TB) {
	h := startHarness(t, true)
	h.setTime(epoch)
	key := concurrencyV1.keys
	for i := range 450 {
		h.call(&concurrencyV1Script, false, key, []string{"10000", "10000000", "0", fmt.Sprint(i)})
	}
	h.setTime(epoch + 9_999_999)
	h.call(&concurrencyV1Script, false, key, []string{"10000", "20000000", "0", "live"})
	h.setTime(epoch + 10_000_000)
	for _, c := range []struct{ ttl, renew, id, want string }{ // leases afterwards
		{"10000000", "0", "x", "352"}, // 451 - 100 + 1
		{"10000000", "1", "x", "352"}, // nothing was renewed, nothing is written
		{"10000001", "1", "x", "252"},
		{"10000000", "0", "449", "152"}, // an ended one of its own moves
		{"10000000", "0", "", "152"},
		{"10000000", "1", "448", "152"},
		{"10000000", "0", "y", "53"},
		{"10000000", "0", "z", "5"}, // the last 49 ended ones, and no live one
		{"10000000", "0", "zz", "6"},
	} {
		h.call(&concurrencyV1Script, c.id == "", key, []string{"10000", c.ttl, c.renew, c.id})
		if members := h.do("ZCARD", key[0]); members != c.want {
			t.Errorf("%s leases after renew %s of %q, want %s", members, c.renew, c.id, c.want)
		}
	}
}

// While the clock steps back only, never more than the limit hold a slot by a clock that does not step. Whatever it
// does, there are never more members than the limit, so that none of them can come back to life beyond it.
func TestSlotsAcrossClockSteps(t *testing.T) {
	for _, steps := range []string{"back", "back and on"} {
		if held, members := maxSlots(t, &concurrencyV1Script, steps); members > auditedSlots ||
			held > auditedSlots && steps == "back" {
			t.Errorf("steps %s: %d held, %d members, want at most %d", steps, held, members, auditedSlots)
		}
	}
}

// Copies of the script that let more hold a slot fail that.
func TestSlotsAuditCatches(t *testing.T) {
	for _, edit := range [][2]string{
		{"renew == 0 and live < limit)", "renew == 0 and live <= limit)"},
		{"not (held and held >= ends)", "true"}, // a shorter renewal ends a lease that was promised
		{"math.ceil(last / 1000)", "math.ceil(ends / 1000)"},
	} {
		broken := edited(t, &concurrencyV1Script, edit[0], edit[1])
		if held, members := maxSlots(t, broken, "back"); held <= auditedSlots && members <= auditedSlots {
			t.Errorf("%s: at most %d held, %d members: the audit does not see it", edit[1], held, members)
		}
	}
}

// auditedSlots is the limit; more leases than a call removes end at once.
const auditedSlots = 120

// A slotAudit takes, renews and releases slots on a clock that steps.
type slotAudit struct {
	t      testing.TB
	on     *harness
	script *sluice.Script
	random *rand.Rand
	now    int64            // by a clock that never steps
	off    int64            // what the server's clock is off
	until  map[string]int64 // the holders, and when their leases end by the clock that never steps
	known  []string         // all that ever held a slot
}

// maxSlots is the most that held a slot at once by a clock that never steps, and the most members.
func maxSlots(t testing.TB, script *sluice.Script, steps string) (held, members int) {
	random := rand.New(rand.NewPCG(12, 12))
	for range 6 {
		a := &slotAudit{
			t: t, on: startHarness(t, false), script: script, random: random, now: epoch, until: map[string]int64{},
		}
		for range 1500 {
			a.move(steps)
			a.act()
			n := 0
			for _, ends := range a.until {
				if ends > a.now {
					n++
				}
			}
			card, _ := strconv.Atoi(a.on.do("ZCARD", concurrencyV1.keys[0]))
			held, members = max(held, n), max(members, card)
		}
	}
	return held, members
}

func (a *slotAudit) move(steps string) {
	switch n := a.random.IntN(200); {
	case n == 0:
		a.off -= a.random.Int64N(20_000_000)
	case n == 1 && steps != "back":
		a.off += a.random.Int64N(40_000_000)
	case n < 5:
		a.now += a.random.Int64N(12_000_000)
	default:
		a.now += a.random.Int64N(20_000)
	}
	a.on.setTime(a.now + a.off)
}

// act takes a slot mostly; else it renews or releases one of somebody who holds or held it.
func (a *slotAudit) act() {
	ttl := 1_000_000 * (1 + a.random.Int64N(10))
	kind := a.random.IntN(10)
	if kind < 7 || len(a.known) == 0 {
		id := strconv.Itoa(len(a.known))
		if a.call(a.script, append(decimals(auditedSlots, ttl, 0), id)...) {
			a.until[id] = a.now + ttl
			a.known = append(a.known, id)
		}
		return
	}
	id := a.known[max(len(a.known)-1-a.random.IntN(2*auditedSlots), 0)]
	switch {
	case kind == 7:
		a.call(&concurrencyReleaseV1Script, id)
		delete(a.until, id)
	case a.call(a.script, append(decimals(auditedSlots, ttl, 1), id)...):
		a.until[id] = max(a.until[id], a.now+ttl)
	default:
		delete(a.until, id)
	}
}

// call reports whether the reply is 1.
func (a *slotAudit) call(script *sluice.Script, args ...string) bool {
	result := a.on.result(script, false, concurrencyV1.keys, args)
	if result.Err != nil {
		a.t.Fatal(result.Err)
	}
	return integers(a.t, result.Reply)[0] == 1
}
