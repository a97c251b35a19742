package experiment

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// fixedWindow counts the calls in each second of the server's clock, as most people do at first. A denial says when
// the next second begins.
const fixedWindow = `
local clock = redis.call("TIME")
local count = redis.call("HINCRBY", KEYS[1], clock[1], 1)
redis.call("PEXPIRE", KEYS[1], 60000)
local granted = count <= tonumber(ARGV[1]) and 1 or 0
return {granted, clock[1] * 1000000 + clock[2], 1000000 - clock[2]}
`

// slidingLog is a sliding-window log that counts correctly but only says yes or no.
const slidingLog = `
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", now - 1000000)
if redis.call("ZCARD", KEYS[1]) >= tonumber(ARGV[1]) then return {0, now} end
redis.call("ZADD", KEYS[1], now, ARGV[2])
redis.call("PEXPIRE", KEYS[1], 2000)
return {1, now}
`

// pollEvery is the pause between two tries with slidingLog.
const pollEvery = 100 * time.Millisecond

// newFixedWindow returns a limiter with fixedWindow. A denied worker asks again when the next second begins.
func newFixedWindow(rdb redis.UniversalClient, key string) Way {
	script := redis.NewScript(fixedWindow)
	take := func(ctx context.Context) (answer, error) {
		reply, err := integers(script.Run(ctx, rdb, []string{key}, Limit), 3)
		if err != nil {
			return answer{}, err
		}
		a := answer{granted: reply[0] == 1, now: time.UnixMicro(reply[1])}
		if !a.granted {
			a.wait = time.Duration(reply[2]) * time.Microsecond
		}
		return a, nil
	}
	text := "a counter for each second of the clock, the common way"
	return Way{Name: "fixed window", Text: text, Kind: Faulty, take: take}
}

// newPolling returns a limiter with slidingLog. A denied worker sleeps 100 ms and asks again.
func newPolling(rdb redis.UniversalClient, key string) Way {
	script := redis.NewScript(slidingLog)
	var member atomic.Int64
	take := func(ctx context.Context) (answer, error) {
		id := strconv.FormatInt(member.Add(1), 10)
		reply, err := integers(script.Run(ctx, rdb, []string{key}, Limit, id), 2)
		if err != nil {
			return answer{}, err
		}
		a := answer{granted: reply[0] == 1, now: time.UnixMicro(reply[1])}
		if !a.granted {
			a.wait = pollEvery
		}
		return a, nil
	}
	return Way{Name: "polling", Text: "a ZSET log that says yes or no, tried every 100 ms", Kind: Faulty, take: take}
}

// integers returns a reply of at least want integers.
func integers(cmd *redis.Cmd, want int) ([]int64, error) {
	reply, err := cmd.Int64Slice()
	if err != nil {
		return nil, err
	}
	if len(reply) < want {
		return nil, fmt.Errorf("got %d integers, want %d", len(reply), want)
	}
	return reply, nil
}
