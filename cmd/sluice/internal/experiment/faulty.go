package experiment

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// fixedWindow counts the calls of each second of the server's clock: what most people write first.
// It says how long its second still lasts.
const fixedWindow = `
local clock = redis.call("TIME")
local count = redis.call("HINCRBY", KEYS[1], clock[1], 1)
redis.call("PEXPIRE", KEYS[1], 60000)
local granted = count <= tonumber(ARGV[1]) and 1 or 0
return {granted, clock[1] * 1000000 + clock[2], 1000000 - clock[2]}
`

// slidingLog is a sliding-window log as S2 keeps it: right in its count, but it can only say yes or no.
const slidingLog = `
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", now - 1000000)
if redis.call("ZCARD", KEYS[1]) >= tonumber(ARGV[1]) then return {0, now} end
redis.call("ZADD", KEYS[1], now, ARGV[2])
redis.call("PEXPIRE", KEYS[1], 2000)
return {1, now}
`

// pollEvery is how long S2 sleeps between two tries.
const pollEvery = 100 * time.Millisecond

// newFixedWindow is a worker's way with fixedWindow: turned away, it comes back when the next second begins.
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
	return Way{Name: "fixed window", Text: "a counter for each second of the clock, the common way", Kind: Faulty, take: take}
}

// newPolling is a worker's way with slidingLog: try, sleep 100 ms, try again.
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

// integers is a reply of at least so many integers.
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
