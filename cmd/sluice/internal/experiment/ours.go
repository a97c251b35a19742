package experiment

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/loader"
)

// buildWay makes a limiter with its own client and loads its script.
type buildWay func(context.Context, redis.UniversalClient, Config) (Way, error)

// ways returns the limiters in the order of the display.
func ways() []buildWay {
	return []buildWay{
		booking("list_log", "at most 5 in any second; books ahead", func(l *loader.Loader,
			limit loader.Limit) loader.Reserver {
			return l.ListLog(limiterName, limit)
		}),
		booking("zset_log", "the same, readable with ZRANGE; books ahead", func(l *loader.Loader,
			limit loader.Limit) loader.Reserver {
			return l.ZSetLog(limiterName, limit)
		}),
		booking("token_bucket", "a permit comes back a window after it was taken; books ahead", func(l *loader.Loader,
			limit loader.Limit) loader.Reserver {
			return l.TokenBucket(limiterName, limit)
		}),
		booking("gcra", "with burst 1, so spread evenly; books ahead", func(l *loader.Loader,
			limit loader.Limit) loader.Reserver {
			// With a burst of b, a window could hold b - 1 permits more than the limit.
			limit.Burst = 1
			return l.GCRA(limiterName, limit)
		}),
		asking,
		faulty("fixed", fixedWindow, newFixedWindow),
		faulty("polling", slidingLog, newPolling),
	}
}

// limiterName is the limiter's part of the keys.
const limiterName = "demo"

// limit returns the limit for our scripts.
func (c Config) limit() loader.Limit {
	return loader.Limit{Permits: Limit, Window: Window + c.Margin}
}

// booking makes a limiter that books ahead: the worker sleeps once, until its permit is due.
func booking(name, text string, limiter func(*loader.Loader, loader.Limit) loader.Reserver) buildWay {
	return func(ctx context.Context, rdb redis.UniversalClient, c Config) (Way, error) {
		limits := loader.New(rdb)
		reserver := limiter(limits, c.limit())
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

// faulty makes a limiter without the loader, on its own key.
func faulty(state, script string, way func(redis.UniversalClient, string) Way) buildWay {
	return func(ctx context.Context, rdb redis.UniversalClient, c Config) (Way, error) {
		key, err := loader.Key("sluice", limiterName, c.Subject, state)
		if err != nil {
			return Way{}, err
		}
		if err := rdb.ScriptLoad(ctx, script).Err(); err != nil {
			return Way{}, fmt.Errorf("loading scripts: %w", err)
		}
		return way(rdb, key), nil
	}
}
