package scripttest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/scripttest"
)

// A cost is what a call sends to the server. What is sent beyond need changes no answer, so only counting finds it.
type cost struct {
	name   string
	before []line // what came before the call; nothing is asked of the replies
	call   line   // want is the commands in their order, LINDEX*3 for three in a row
}

// after are steps before a call: the time, and what is done then.
func after(steps ...string) []line {
	lines := make([]line, len(steps))
	for i, step := range steps {
		lines[i].at, lines[i].do, _ = strings.Cut(step, " ")
	}
	return lines
}

func costsOf(script *sluice.Script) []cost {
	return map[*sluice.Script][]cost{
		&listLogV1Script:            listLogV1Costs,
		&zsetLogV1Script:            zsetLogV1Costs,
		&sliceRingV1Script:          sliceRingV1Costs,
		&sliceRingReturnV1Script:    sliceRingReturnV1Costs,
		&listLogReturnV1Script:      listLogReturnV1Costs,
		&zsetLogReturnV1Script:      zsetLogReturnV1Costs,
		&budgetV1Script:             budgetV1Costs,
		&budgetSettleV1Script:       budgetSettleV1Costs,
		&tokenBucketV1Script:        tokenBucketV1Costs,
		&tokenBucketSetV1Script:     {{"a set", nil, line{"0s", "5 10s 0", "HMGET HSET PERSIST"}}},
		&gcraV1Script:               gcraV1Costs,
		&concurrencyV1Script:        concurrencyV1Costs,
		&concurrencyReleaseV1Script: concurrencyReleaseV1Costs,
		&quotaV1Script:              quotaV1Costs,
		&quotaReturnV1Script:        quotaReturnV1Costs,
		&gcraManyV1Script:           gcraManyV1Costs,
		&listLogManyV1Script:        listLogManyV1Costs,
		&sliceRingManyV1Script:      sliceRingManyV1Costs,
	}[script]
}

var listLogV1Costs = []cost{
	{"the first look", nil, line{"0s", "3 10s 0 0", "TIME LINDEX"}},
	{"the first grant", nil, line{"0s", "3 10s 1 0", "TIME LINDEX RPUSH PEXPIREAT"}},
	{"a grant where nothing has left", after("0s 3 10s 1 0"),
		line{"1s", "3 10s 1 0", "TIME LINDEX LLEN LINDEX RPUSH PEXPIREAT"}},
	{"a grant where one has left", after("0s 3 10s 1 0", "9s 3 10s 1 0"),
		line{"10s", "3 10s 1 0", "TIME LINDEX LLEN LINDEX*2 LTRIM RPUSH PEXPIREAT"}},
	{"a grant where all have left in this microsecond", after("0s 3 10s 2 0"),
		line{"10s", "3 10s 1 0", "TIME LINDEX UNLINK RPUSH PEXPIREAT"}},
	{"a look where there is room", after("0s 3 10s 1 0"), line{"1s", "3 10s 0 0", "TIME LINDEX LLEN LINDEX"}},
	{"one permit denied", after("0s 3 10s 3 0"), line{"1s", "3 10s 1 0", "TIME LINDEX LLEN LINDEX"}},
	{"a look at a full log", after("0s 3 10s 3 0"), line{"1s", "3 10s 0 0", "TIME LINDEX LLEN LINDEX"}},
	{"one permit denied for a booking", after("0s 1 10s 1 0", "0s 1 10s 1 60s"),
		line{"1s", "9 10s 1 0", "TIME LINDEX LLEN"}},
	{"several denied for a booking", after("0s 1 10s 1 0", "0s 1 10s 1 60s"), line{"1s", "9 10s 3 0", "TIME LINDEX LLEN"}},
	{"several denied, though one is there", after("0s 3 10s 2 0"), line{"1s", "3 10s 2 0", "TIME LINDEX LLEN LINDEX*2"}},
	{"several denied by what was granted right now", after("0s 3 10s 2 0"),
		line{"0s", "3 10s 2 0", "TIME LINDEX LLEN LINDEX*2"}},
	{"more has left than is removed, and more is live than the limit", append(
		filledLog(0, 10001), filledLog(9, 64)...),
		line{"10s", "3 10s 2 0", "TIME LINDEX LLEN LINDEX*29"}},
	{"more has left than is removed, and little is live", append(
		filledLog(0, 10001), filledLog(9, 64)...),
		line{"10s", "1000000 10s 0 0", "TIME LINDEX LLEN LINDEX*28"}},
	{"more has left than is removed, and a booking is ahead", append(append(
		filledLog(0, 10009), filledLog(9, 64)...), line{"", "!RPUSH $1 @11s", ""}),
		line{"10s", "4 10s 2 60s", "TIME LINDEX LLEN LINDEX*29 LTRIM RPUSH PEXPIREAT"}},
}

// filledLog writes so many entries of one second into a list_log.
func filledLog(second, entries int) []line {
	return []line{{"0s", "!RPUSH $1" + strings.Repeat(fmt.Sprintf(" @%ds", second), entries), ""}}
}

var zsetLogV1Costs = costsWithIDs([]cost{
	{"the first look", nil, line{"0s", `3 10s 0 0 *`, "TIME ZCARD"}},
	{"the first grant", nil, line{"0s", `3 10s 1 0 *`, "TIME ZCARD ZADD PEXPIREAT"}},
	{"a grant where nothing has left", after("0s 3 10s 1 0 *"),
		line{"1s", `3 10s 1 0 *`, "TIME ZCARD ZSCORE ZCOUNT*2 ZADD PEXPIREAT"}},
	{"a grant where one has left", after("0s 3 10s 1 0 *", "9s 3 10s 1 0 *"),
		line{"10s", `3 10s 1 0 *`, "TIME ZCARD ZSCORE ZCOUNT*2 ZREMRANGEBYRANK ZADD PEXPIREAT"}},
	{"a grant where all have left in this microsecond", after("0s 3 10s 1 0 *"),
		line{"10s", `3 10s 1 0 *`, "TIME ZCARD ZSCORE ZCOUNT*2 UNLINK ZADD PEXPIREAT"}},
	{"a look where all have left in this microsecond", after("0s 3 10s 1 0 *"),
		line{"10s", `3 10s 0 0 *`, "TIME ZCARD ZRANGE"}},
	{"one permit denied", after("0s 3 10s 3 0 *"), line{"1s", `3 10s 1 0 *`, "TIME ZCARD ZRANGE ZSCORE ZRANGE"}},
	{"a look at a full log", after("0s 3 10s 3 0 *"), line{"1s", `3 10s 0 0 *`, "TIME ZCARD ZRANGE*2"}},
	{"one permit denied for a booking", after("0s 1 10s 1 0 *", "0s 1 10s 1 60s *"),
		line{"1s", `9 10s 1 0 *`, "TIME ZCARD ZSCORE ZCOUNT ZRANGE"}},
	{"several denied for a booking", after("0s 1 10s 1 0 *", "0s 1 10s 1 60s *"),
		line{"1s", `9 10s 3 0 *`, "TIME ZCARD ZSCORE ZCOUNT ZRANGE"}},
	{"several denied, though one is there", after("0s 3 10s 2 0 *"),
		line{"1s", `3 10s 2 0 *`, "TIME ZCARD ZRANGE ZSCORE ZRANGE ZCOUNT"}},
	{"several denied by what was granted right now", after("0s 3 10s 2 0 *"),
		line{"0s", `3 10s 2 0 *`, "TIME ZCARD ZRANGE ZSCORE ZRANGE ZCOUNT"}},
	{"an id that is live", after("0s 3 10s 1 0 a"),
		line{"1s", `3 10s 1 0 a`, "TIME ZCARD ZSCORE ZRANGE ZCOUNT ZSCORE"}},
	{"a second one in a microsecond", after("0s 3 10s 1 0 *"),
		line{"0s", `3 10s 1 0 *`, "TIME ZCARD ZSCORE ZCOUNT ZRANGE ZCOUNT ZADD PEXPIREAT"}},
})

var sliceRingV1Costs = []cost{
	{"the first look", nil, line{"0s", "0 0 1s 3 2", "TIME GETRANGE"}},
	{"the first grant", nil, line{"0s", "1 0 1s 3 2", "TIME GETRANGE SETRANGE PEXPIREAT SETRANGE"}},
	{"a grant in the same slice", after("0s 1 0 1s 3 2"), line{"0s", "1 0 1s 3 2", "TIME GETRANGE SETRANGE"}},
	{"a grant in the next slice", after("0s 1 0 1s 3 2"),
		line{"1s", "1 0 1s 3 2", "TIME GETRANGE*2 PEXPIREAT SETRANGE*2"}},
	{"a gap across the end of the ring", after("1s 1 0 1s 3 2"),
		line{"3s", "1 0 1s 3 2", "TIME GETRANGE*2 PEXPIREAT SETRANGE*3"}},
	{"a gap that ends with the ring", after("0s 1 0 1s 3 2"),
		line{"2s", "1 0 1s 3 2", "TIME GETRANGE*2 PEXPIREAT SETRANGE*2"}},
	{"a gap as long as the ring", after("0s 1 0 1s 3 2"),
		line{"3s", "1 0 1s 3 2", "TIME GETRANGE PEXPIREAT SETRANGE*3"}},
	{"two windows, one of which is new", after("0s 1 0 1s 3 2"),
		line{"0s", "1 0 1s 3 2 1s 5 9", "TIME GETRANGE*2 SETRANGE PEXPIREAT SETRANGE*2"}},
	{"two windows in a new slice", after("0s 1 0 1s 3 2 1s 5 9"),
		line{"1s", "1 0 1s 3 2 1s 5 9", "TIME GETRANGE*4 PEXPIREAT*2 SETRANGE*4"}},
	{"a report", after("0s 2 0 1s 3 2"), line{"0s", "0 1 1s 3 2", "TIME GETRANGE*2 SETRANGE"}},
	{"a report beside what is denied", after("0s 2 0 1s 3 2"), line{"0s", "1 1 1s 3 2", "TIME GETRANGE*2 SETRANGE"}},
	{"denied", after("0s 2 0 1s 64 2"), line{"0s", "1 0 1s 64 2", "TIME GETRANGE*2"}},
	{"denied by older slices", after("0s 1 0 1s 64 2", "1s 1 0 1s 64 2"), line{"1s", "1 0 1s 64 2", "TIME GETRANGE*2"}},
	{"denied in a new slice", after("0s 2 0 1s 64 2"), line{"9s", "1 0 1s 64 2", "TIME GETRANGE*3"}},
	{"denied in two windows, the last of which waits longer", after("0s 2 0 1s 4 2 1s 64 2"),
		line{"0s", "1 0 1s 4 2 1s 64 2", "TIME GETRANGE*3"}},
	{"denied in two windows, of which both wait as long", after("0s 2 0 1s 4 2 2s 2 2"),
		line{"0s", "1 0 1s 4 2 2s 2 2", "TIME GETRANGE*3"}},
	{"denied in two windows, the first of which waits longer", after("0s 2 0 1s 64 2 1s 4 2"),
		line{"0s", "1 0 1s 64 2 1s 4 2", "TIME GETRANGE*4"}},
}

var sliceRingReturnV1Costs = []cost{
	{"of a ring that is gone", nil, line{"0s", "@0s 1 1s 3", "GETRANGE"}},
	{"of a slice that has left", after("3s slice_ring 1 0 1s 3 2"), line{"3s", "@0s 1 1s 3", "GETRANGE"}},
	{"of a slice that holds none", after("2s slice_ring 1 0 1s 3 2"), line{"2s", "@1s 1 1s 3", "GETRANGE*2"}},
	{"in the same slice", after("0s slice_ring 1 0 1s 3 2"), line{"0s", "@0s 1 1s 3", "GETRANGE*2 SETRANGE"}},
	{"in two windows", after("0s slice_ring 1 0 1s 3 2 1s 5 9"),
		line{"0s", "@0s 1 1s 3 1s 5", "GETRANGE*4 SETRANGE*2"}},
	{"a slice later", after("0s slice_ring 1 0 1s 3 2", "1s slice_ring 1 0 1s 3 2"),
		line{"1s", "@0s 1 1s 3", "GETRANGE*2 SETRANGE*2"}},
	{"across the end of the ring", after("2s slice_ring 1 0 1s 3 2", "3s slice_ring 1 0 1s 3 2"),
		line{"3s", "@2s 1 1s 3", "GETRANGE*3 SETRANGE*3"}},
}

var listLogReturnV1Costs = []cost{
	{"of a log that is gone", nil, line{"0s", "@0s 1", "LLEN"}},
	{"of none", after("0s !RPUSH $1 @0s @1s"), line{"1s", "@2s 1", "LLEN LINDEX*2"}},
	{"the only one", after("0s list_log 3 10s 1 0"), line{"0s", "@0s 1", "LLEN LINDEX*3 LREM"}},
	{"the newest", after("0s list_log 3 10s 1 0", "1s list_log 3 10s 1 0"),
		line{"1s", "@1s 1", "LLEN LINDEX*3 PTTL PEXPIRE LINDEX LREM"}},
	{"the newest of a log that stays", after("0s !RPUSH $1 @0s @1s"),
		line{"1s", "@1s 1", "LLEN LINDEX*3 PTTL LINDEX LREM"}},
	{"the newest in the last millisecond", after("0s !RPUSH $1 @0s @1s", "1s !PEXPIRE $1 1"),
		line{"1s", "@1s 1", "LLEN LINDEX*3 PTTL PEXPIRE LINDEX LREM"}},
	{"the newest of a log that is overdue", after("0s !RPUSH $1 @0s @1s", "0s !PEXPIRE $1 1"),
		line{"1s", "@1s 1", "LLEN LINDEX*3 PTTL LINDEX LREM"}},
	{"one of the newest", after("0s list_log 3 10s 3 0"), line{"0s", "@0s 1", "LLEN LINDEX*4 LREM"}},
	{"behind one", after("0s !RPUSH $1 @0s @1s @2s"), line{"2s", "@1s 1", "LLEN LINDEX*4 LREM"}},
	{"behind 20", append(filledLog(0, 9), filledLog(1, 20)...), line{"2s", "@0s 9", "LLEN LINDEX*14 LREM"}},
	{"behind 1000", append(filledLog(0, 9), filledLog(1, 1000)...), line{"2s", "@0s 1", "LLEN LINDEX*21 LREM"}},
	{"behind 1001", append(filledLog(0, 30), filledLog(1, 1001)...), line{"2s", "@0s 1", "LLEN LINDEX*19"}},
}

var zsetLogReturnV1Costs = []cost{
	{"of a log that is gone", nil, line{"0s", "a 1", "ZSCORE"}},
	{"of an id that is not there", after("0s zset_log 9 10s 1 0 b"), line{"0s", "a 1", "ZSCORE"}},
	{"the only one", after("0s zset_log 9 10s 1 0 a"), line{"0s", "a 1", "ZSCORE*2 ZRANGE ZREM"}},
	{"the newest", after("0s zset_log 9 10s 1 0 b", "1s zset_log 9 10s 1 0 a"),
		line{"1s", "a 1", "ZSCORE*2 ZRANGE PTTL PEXPIRE ZREM"}},
	{"the newest of a log that stays", after("0s !ZADD $1 @0s b @1s a"),
		line{"1s", "a 1", "ZSCORE*2 ZRANGE PTTL ZREM"}},
	{"the newest in the last millisecond", after("0s !ZADD $1 @0s b @1s a", "1s !PEXPIRE $1 1"),
		line{"1s", "a 1", "ZSCORE*2 ZRANGE PTTL PEXPIRE ZREM"}},
	{"the newest of a log that is overdue", after("0s !ZADD $1 @0s b @1s a", "0s !PEXPIRE $1 1"),
		line{"1s", "a 1", "ZSCORE*2 ZRANGE PTTL ZREM"}},
	{"one before the newest", after("0s zset_log 9 10s 1 0 a", "1s zset_log 9 10s 1 0 b"),
		line{"1s", "a 1", "ZSCORE*2 ZRANGE ZREM"}},
	{"500", after("0s zset_log 900 10s 400 0 b", "0s zset_log 900 10s 500 0 a"),
		line{"0s", "a 500", "ZSCORE*18 ZRANGE ZREM"}},
}

var budgetV1Costs = []cost{
	{"the first look", nil, line{"0s", "1h 0 1s 3 9", "TIME GETRANGE"}},
	{"the first grant", nil, line{"0s", "1h 1 1s 3 9", "TIME GETRANGE GET SETRANGE PEXPIREAT SETRANGE SET"}},
	{"a grant in the same slice", after("0s #b 1h 1 1s 3 9"),
		line{"0s", "1h 1 1s 3 9", "TIME GETRANGE GET SETRANGE SET"}},
	{"a grant in the next slice", after("0s #b 1h 1 1s 3 9"),
		line{"1s", "1h 1 1s 3 9", "TIME GETRANGE*2 GET PEXPIREAT SETRANGE*2 SET"}},
	{"denied", after("0s #b 1h 9 1s 3 9"), line{"0s", "1h 1 1s 3 9", "TIME GETRANGE GET GETRANGE"}},
	{"asked again", after("0s 1h 1 1s 3 9"), line{"0s", "1h 1 1s 3 9", "TIME GETRANGE GET"}},
	{"asked again with other permits", after("0s 1h 1 1s 3 9"), line{"0s", "1h 2 1s 3 9", "TIME GETRANGE GET"}},
}

var budgetSettleV1Costs = []cost{
	{"not known", after("0s budget #b 1h 1 1s 3 9"), line{"0s", "1h 1 0 1s 3", "TIME GET"}},
	{"settled before", after("0s 1h 1 1 1s 3"), line{"0s", "1h 2 1 1s 3", "TIME GET"}},
	{"as estimated", after("0s budget 1h 1 1s 3 9"), line{"0s", "1h 1 0 1s 3", "TIME GET SET"}},
	{"the first charge", nil, line{"0s", "1h 1 1 1s 3", "TIME GET GETRANGE SETRANGE PEXPIREAT SETRANGE SET"}},
	{"the first, of nothing", nil, line{"0s", "1h 0 1 1s 3", "TIME GET SET"}},
	{"a charge in the same slice", after("0s budget 1h 1 1s 3 9"),
		line{"0s", "1h 2 0 1s 3", "TIME GET GETRANGE SETRANGE SET"}},
	{"a charge in the next slice", after("0s budget 1h 1 1s 3 9"),
		line{"1s", "1h 2 0 1s 3", "TIME GET GETRANGE*2 PEXPIREAT SETRANGE*2 SET"}},
	{"a refund in the same slice", after("0s budget 1h 2 1s 3 9"),
		line{"0s", "1h 1 0 1s 3", "TIME GET GETRANGE*2 SET SETRANGE"}},
	{"a refund across the end of the ring", after("2s budget 1h 2 1s 3 9", "3s budget #b 1h 2 1s 3 9"),
		line{"3s", "1h 1 0 1s 3", "TIME GET GETRANGE*3 SET SETRANGE*3"}},
	{"a refund to a slice that has left", after("0s budget 1h 2 1s 3 9", "3s budget #b 1h 2 1s 3 9"),
		line{"3s", "1h 1 0 1s 3", "TIME GET GETRANGE SET"}},
	{"a refund when the ring is gone", after("0s budget 1h 2 1s 3 9", "0s !DEL $1/1sx3"),
		line{"0s", "1h 1 0 1s 3", "TIME GET GETRANGE SET"}},
	{"a refund to a window that was not charged", after("0s budget 1h 2 1s 3 9"),
		line{"0s", "1h 1 0 1s 4", "TIME GET GETRANGE SET"}},
	{"a refund to a slice that holds nothing", after("0s budget 1h 2 1s 3 9", "0s slice_ring_return @0s 2 1s 3"),
		line{"0s", "1h 1 0 1s 3", "TIME GET GETRANGE*2 SET"}},
}

var tokenBucketV1Costs = []cost{
	{"the first look", nil, line{"0s", "3 10s 0 0 0", "TIME HMGET EXISTS LINDEX"}},
	{"the first grant", nil, line{"0s", "3 10s 0 1 0", "TIME HMGET EXISTS LINDEX HSET PEXPIREAT RPUSH PEXPIREAT"}},
	{"a grant that the config outlives", after("0s 3 10s 0 1 0"),
		line{"99ms", "3 10s 0 1 0", "TIME HMGET LINDEX*2 PTTL RPUSH PEXPIREAT"}},
	{"a later grant", after("0s 3 10s 0 1 0"),
		line{"99.001ms", "3 10s 0 1 0", "TIME HMGET LINDEX*2 PTTL PEXPIREAT RPUSH PEXPIREAT"}},
	{"a grant where one has come back", after("0s 3 10s 0 1 0", "9s 3 10s 0 1 0"),
		line{"10s", "3 10s 0 1 0", "TIME HMGET LINDEX*4 PTTL LTRIM PEXPIREAT RPUSH PEXPIREAT"}},
	{"a grant where all have come back in this microsecond", after("0s 3 10s 0 2 0"),
		line{"10s", "3 10s 0 1 0", "TIME HMGET LINDEX PTTL UNLINK PEXPIREAT RPUSH PEXPIREAT"}},
	{"a grant under a config that was set to stay", after("0s !HSET $1 rate 3 interval 10000000 scope 0"),
		line{"0s", "3 10s 0 1 0", "TIME HMGET LINDEX PTTL RPUSH PEXPIREAT"}},
	{"a config with a rate alone", after("0s !HSET $1 rate 3"), line{"0s", "3 10s 0 1 0", "TIME HMGET"}},
	{"a config without a rate", after("0s !HSET $1 interval 1000 scope 0"),
		line{"0s", "3 10s 0 1 0", "TIME HMGET EXISTS"}},
	{"denied by the oldest", after("0s 3 10s 0 3 0"), line{"1s", "3 10s 0 1 0", "TIME HMGET LINDEX*2"}},
	{"denied by the second of two", after("0s 3 10s 0 1 0", "0s 3 10s 0 2 0"),
		line{"1s", "3 10s 0 2 0", "TIME HMGET LINDEX*4"}},
	{"denied by the third of many", bucketOfSingles(64), line{"1s", "64 10s 0 3 0", "TIME HMGET LINDEX*6"}},
	{"denied by the last of many", bucketOfSingles(64), line{"1s", "64 10s 0 64 0", "TIME HMGET LINDEX*14"}},
}

// bucketOfSingles takes so many permits from a bucket, one at a time.
func bucketOfSingles(permits int) (lines []line) {
	for range permits {
		lines = append(lines, line{"0s", fmt.Sprintf("%d 10s 0 1 0", permits), ""})
	}
	return lines
}

var gcraV1Costs = []cost{
	{"a look", after("0s 1 1s 1 1 0"), line{"0s", "1 1s 1 0 0", "TIME GET"}},
	{"a denial", after("0s 1 1s 1 1 0"), line{"0s", "1 1s 1 1 0", "TIME GET"}},
	{"a grant", after("0s 2 1s 2 1 0"), line{"0s", "2 1s 2 1 0", "TIME GET SET"}},
}

var concurrencyV1Costs = []cost{
	{"the first look", nil, line{"0s", `2 10s 0 ""`, "TIME ZCOUNT"}},
	{"the first grant", nil, line{"0s", "2 10s 0 a", "TIME ZCOUNT ZCARD ZADD PEXPIREAT"}},
	{"a grant beside another", after("0s 2 10s 0 a"),
		line{"1s", "2 10s 0 b", "TIME ZCOUNT ZRANGE ZSCORE ZCARD ZADD PEXPIREAT"}},
	{"a grant where one has ended", after("0s 2 10s 0 a", "1s 2 10s 0 b"),
		line{"10s", "2 10s 0 c", "TIME ZCOUNT ZRANGE ZSCORE ZCARD ZREMRANGEBYRANK ZADD PEXPIREAT"}},
	{"a grant where all have ended in this microsecond", after("0s 2 10s 0 a"),
		line{"10s", "2 10s 0 c", "TIME ZCOUNT ZCARD ZREMRANGEBYRANK ZADD PEXPIREAT"}},
	{"a renewal", after("0s 2 10s 0 a"), line{"1s", "2 10s 1 a", "TIME ZCOUNT ZRANGE ZSCORE ZCARD ZADD PEXPIREAT"}},
	{"a renewal that lengthens nothing", after("0s 2 10s 0 a"),
		line{"1s", "2 9s 1 a", "TIME ZCOUNT ZRANGE ZSCORE"}},
	{"a renewal of nothing", nil, line{"0s", "2 10s 1 a", "TIME ZCOUNT"}},
	{"denied", after("0s 2 10s 0 a", "1s 2 10s 0 b"), line{"2s", "2 10s 0 c", "TIME ZCOUNT ZRANGE ZSCORE ZRANGE"}},
	{"denied by the only slot", after("0s 1 10s 0 a"), line{"2s", "1 10s 0 c", "TIME ZCOUNT ZRANGE ZSCORE"}},
	{"a look where all are held", after("0s 2 10s 0 a", "1s 2 10s 0 b"),
		line{"2s", `2 10s 0 ""`, "TIME ZCOUNT ZRANGE*2"}},
	{"a look where one is free", after("0s 2 10s 0 a"), line{"2s", `2 10s 0 ""`, "TIME ZCOUNT ZRANGE"}},
}

var concurrencyReleaseV1Costs = []cost{
	{"the only lease", after("0s concurrency 2 10s 0 a"), line{"1s", "a", "TIME ZSCORE ZRANGE ZREM"}},
	{"the first to end", after("0s concurrency 2 10s 0 a", "1s concurrency 2 10s 0 b"),
		line{"1s", "a", "TIME ZSCORE ZRANGE ZREM"}},
	{"the last to end", after("0s concurrency 2 10s 0 a", "1s concurrency 2 10s 0 b"),
		line{"1s", "b", "TIME ZSCORE ZRANGE PEXPIREAT ZREM"}},
	{"one of two that end last", after("0s concurrency 2 10s 0 a", "0s concurrency 2 10s 0 b"),
		line{"1s", "b", "TIME ZSCORE ZRANGE ZREM"}},
	{"an ended one", after("0s concurrency 2 10s 0 a"), line{"10s", "a", "TIME ZSCORE"}},
	{"none", nil, line{"0s", "a", "TIME ZSCORE"}},
}

var quotaV1Costs = []cost{
	{"a look", after("0s 9 1 0" + days), line{"0s", "9 0 0" + days, "TIME GET"}},
	{"the first grant", nil, line{"0s", "9 1 0" + days, "TIME GET SET"}},
	{"another", after("0s 9 1 0" + days), line{"1s", "9 1 0" + days, "TIME GET PTTL SET"}},
	{"denied", after("0s 9 9 0" + days), line{"1s", "9 1 0" + days, "TIME GET"}},
	{"denied with a report", after("0s 9 9 0" + days), line{"1s", "9 1 1" + days, "TIME GET PTTL SET"}},
	{"in none of the periods", nil, line{"48h", "9 1 0" + days, "TIME GET"}},
}

var quotaReturnV1Costs = []cost{
	{"some", after("0s quota 9 3 0" + days), line{"0s", "@0s 2", "GET PTTL SET"}},
	{"of another period", after("0s quota 9 3 0" + days), line{"0s", "@24h 2", "GET"}},
	{"nothing", nil, line{"0s", "@0s 2", "GET"}},
}

// A call sends no more than it needs.
func (tab table) checkCosts(t testing.TB) {
	for _, c := range costsOf(tab.script) {
		h := startHarness(t, true)
		tab.play(h, timeline{lines: c.before})
		h.setTime(epoch + microseconds(c.call.at))
		keys, args := tab.asked(c.call.do)
		result := h.result(tab.script, false, keys, args)
		if _, refused := result.Err.(scripttest.ErrorReply); result.Err != nil && !refused {
			t.Errorf("%s, %s: %v", tab.script.Name, c.name, result.Err)
		}
		if got := inShort(result.Commands); got != c.call.want {
			t.Errorf("%s, %s: %s\n got  %s\n want %s", tab.script.Name, c.name, c.call.do, got, c.call.want)
		}
	}
}

// inShort is the names of commands, equal ones in a row as one with their number.
func inShort(commands []scripttest.Command) string {
	var words []string
	for i, n := 0, 0; i < len(commands); i += n {
		name := commands[i].Args[0]
		for n = 1; i+n < len(commands) && commands[i+n].Args[0] == name; n++ {
		}
		if n > 1 {
			name = fmt.Sprintf("%s*%d", name, n)
		}
		words = append(words, name)
	}
	return strings.Join(words, " ")
}
