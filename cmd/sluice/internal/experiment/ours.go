package experiment

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/loader"
)

// buildWay makes a limiter with its own client and loads its script.
type buildWay func(context.Context, redis.UniversalClient, Config) (Way, error)

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
		faulty("fixed", fixedWindow, "fixed window", "a counter for each second of the clock, the common way"),
		faulty("polling", slidingLog, "polling", "a ZSET log that says yes or no, tried every 100 ms"),
	}
}

// limiterName is the limiter's part of the keys.
const limiterName = "demo"

// limit returns the limit for our scripts.
func (c Config) limit() loader.Limit {
	return loader.Limit{Permits: Limit, Window: Window + c.Margin}
}

// booking makes a limiter that books ahead: the worker sleeps once, until its permit is due.
func booking[R loader.Reserver](
	name, text string, limiter func(*loader.Loader, string, loader.Limit, ...loader.LimiterOption) R, burst int64,
) buildWay {
	return func(ctx context.Context, rdb redis.UniversalClient, c Config) (Way, error) {
		limits, limit := loader.New(rdb), c.limit()
		limit.Burst = burst
		reserver := limiter(limits, limiterName, limit)
		take := func(ctx context.Context) (answer, error) {
			reservation, err := reserver.Reserve(ctx, c.Subject)
			if err != nil {
				return answer{}, err
			}
			return answerOf(reservation.Decision()), nil
		}
		return Way{Name: name, Text: text, Kind: Booking, take: take}, limits.Preload(ctx)
	}
}

// asking makes the limiter with slice_ring, which cannot book ahead. The worker sleeps for the wait in the reply and
// asks again, as the loader's Wait does.
func asking(ctx context.Context, rdb redis.UniversalClient, c Config) (Way, error) {
	limits := loader.New(rdb)
	ring := limits.SliceRing(limiterName, []loader.Limit{c.limit()})
	take := func(ctx context.Context) (answer, error) {
		decision, err := ring.Allow(ctx, c.Subject)
		if err != nil {
			return answer{}, err
		}
		return answerOf(decision), nil
	}
	text := "a window in 60 slices, cannot book: says when to ask again"
	return Way{Name: "slice_ring", Text: text, Kind: Asking, take: take}, limits.Preload(ctx)
}

func answerOf(d loader.Decision) answer {
	return answer{granted: d.Granted, now: d.Now, wait: d.Wait}
}
