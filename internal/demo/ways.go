package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/loader"
)

// buildWay makes a limiter with its own client and loads its script.
type buildWay func(ctx context.Context, rdb redis.UniversalClient, subject string, margin time.Duration) (way, error)

// ways returns the limiters in the order of the display.
func ways() []buildWay {
	return []buildWay{
		booking("list_log", "at most 5 in any second; books ahead", (*loader.Loader).ListLog, 0),
		booking("zset_log", "the same, readable with ZRANGE; books ahead", (*loader.Loader).ZSetLog, 0),
		booking("token_bucket", "a permit comes back a window after it was taken; books ahead",
			(*loader.Loader).TokenBucket, 0),
		// With a burst of b, a window could hold b - 1 permits more than the limit.
		booking("gcra", "with burst 1, so spread evenly; books ahead", (*loader.Loader).GCRA, 1),
		asking,
		faultyWay("fixed", fixedWindow, "fixed window", "a counter for each second of the clock, the common way"),
		faultyWay("polling", slidingLog, "polling", "a ZSET log that says yes or no, tried every 100 ms"),
	}
}

// limiterName is the limiter's part of the keys.
const limiterName = "demo"

// booking makes a limiter that books ahead: the worker sleeps once, until its permit is due.
func booking[R loader.Reserver](
	name, text string, limiter func(*loader.Loader, string, loader.Limit, ...loader.LimiterOption) R, burst int64,
) buildWay {
	return func(ctx context.Context, rdb redis.UniversalClient, subject string, margin time.Duration) (way, error) {
		limits := loader.New(rdb)
		reserver := limiter(limits, limiterName, loader.Limit{Permits: limit, Window: window + margin, Burst: burst})
		take := func(ctx context.Context) (answer, error) {
			reservation, err := reserver.Reserve(ctx, subject)
			if err != nil {
				return answer{}, err
			}
			return answerOf(reservation.Decision()), nil
		}
		return way{name, text, books, take}, limits.Preload(ctx)
	}
}

// asking makes the limiter with slice_ring, which cannot book ahead. The worker sleeps for the wait in the reply and
// asks again, as the loader's Wait does.
func asking(ctx context.Context, rdb redis.UniversalClient, subject string, margin time.Duration) (way, error) {
	limits := loader.New(rdb)
	ring := limits.SliceRing(limiterName, []loader.Limit{{Permits: limit, Window: window + margin}})
	take := func(ctx context.Context) (answer, error) {
		decision, err := ring.Allow(ctx, subject)
		return answerOf(decision), err
	}
	text := "a window in 200 slices, cannot book: says when to ask again"
	return way{"slice_ring", text, asks, take}, limits.Preload(ctx)
}

func answerOf(d loader.Decision) answer {
	return answer{granted: d.Granted, now: d.Now, wait: d.Wait}
}

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
redis.call("ZADD", KEYS[1], now, redis.call("INCR", KEYS[2]))
redis.call("PEXPIRE", KEYS[1], 2000)
redis.call("PEXPIRE", KEYS[2], 60000)
return {1, now, 0}
`

// faultyWay makes a limiter without the loader, on its own keys. Its script takes the limit, and replies whether it
// granted, the time, and how long to wait before asking again.
func faultyWay(state, source, name, text string) buildWay {
	return func(ctx context.Context, rdb redis.UniversalClient, subject string, _ time.Duration) (way, error) {
		key := "sluice:" + limiterName + ":{" + subject + "}:" + state
		script := redis.NewScript(source)
		take := func(ctx context.Context) (answer, error) {
			reply, err := script.Run(ctx, rdb, []string{key, key + ":member"}, limit).Int64Slice()
			if err == nil && len(reply) != 3 {
				err = fmt.Errorf("got %d integers, want 3", len(reply))
			}
			if err != nil {
				return answer{}, err
			}
			wait := time.Duration(reply[2]) * time.Microsecond
			return answer{granted: reply[0] == 1, now: time.UnixMicro(reply[1]), wait: wait}, nil
		}
		return way{name, text, faulty, take}, script.Load(ctx, rdb).Err()
	}
}
