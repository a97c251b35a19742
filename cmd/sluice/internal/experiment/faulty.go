package experiment

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/loader"
)

// fixedWindow counts the calls in each second of the server's clock, as most people do at first. A denied worker asks
// again when the next second begins.
const fixedWindow = `
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
local count = redis.call("HINCRBY", KEYS[1], clock[1], 1)
redis.call("PEXPIRE", KEYS[1], 60000)
if count > tonumber(ARGV[1]) then return {0, now, 1000000 - clock[2]} end
return {1, now, 0}
`

// slidingLog is a sliding-window log that counts correctly but only says yes or no. A denied worker asks again after
// 100 ms.
const slidingLog = `
local clock = redis.call("TIME")
local now = clock[1] * 1000000 + clock[2]
redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", now - 1000000)
if redis.call("ZCARD", KEYS[1]) >= tonumber(ARGV[1]) then return {0, now, 100000} end
redis.call("ZADD", KEYS[1], now, ARGV[2])
redis.call("PEXPIRE", KEYS[1], 2000)
return {1, now, 0}
`

// faulty makes a limiter without the loader, on its own key. Its script takes the limit and a name for the permit, and
// replies whether it granted, the time, and how long to wait before asking again.
func faulty(state, source, name, text string) buildWay {
	return func(ctx context.Context, rdb redis.UniversalClient, c Config) (Way, error) {
		key, err := loader.Key("sluice", limiterName, c.Subject, state)
		if err != nil {
			return Way{}, err
		}
		if err := rdb.ScriptLoad(ctx, source).Err(); err != nil {
			return Way{}, fmt.Errorf("loading scripts: %w", err)
		}
		script := redis.NewScript(source)
		var member atomic.Int64
		take := func(ctx context.Context) (answer, error) {
			reply, err := script.Run(ctx, rdb, []string{key}, Limit, member.Add(1)).Int64Slice()
			if err == nil && len(reply) != 3 {
				err = fmt.Errorf("got %d integers, want 3", len(reply))
			}
			if err != nil {
				return answer{}, err
			}
			wait := time.Duration(reply[2]) * time.Microsecond
			return answer{granted: reply[0] == 1, now: time.UnixMicro(reply[1]), wait: wait}, nil
		}
		return Way{Name: name, Text: text, Kind: Faulty, take: take}, nil
	}
}
