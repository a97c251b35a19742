// Package redis_rate has the API of github.com/go-redis/redis_rate/v10, on Sluice. Use it to move a service by changing
// the import:
//
//	import "github.com/sluice-redis/sluice/adapters/redisrate"
//
//	limiter := redis_rate.NewLimiter(rdb)
//	res, err := limiter.Allow(ctx, "project:123", redis_rate.PerSecond(10))
//
// It decides by a [loader.GCRA] of the name "rate": the same burst and the same rate. What is different:
//
//   - Keys are new, so every limit begins full.
//   - AllowAtMost charges what it grants; redis_rate charges fractions of a permit, too.
//   - A decision is never sent twice, and ends within 1 s: see the errors of package loader.
//   - A key is not empty, n is not negative, and a burst is at most 10^7. A burst or rate of 0 denies everything.
//
// For new code use package loader. It also waits, gives back, and has fallbacks.
package redis_rate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/loader"
)

// Limit is Rate events in a Period, and up to Burst at once. A Period is 1 ms to 366 days; parts of a microsecond are
// rounded up. Rate and Burst are at most 10^7.
type Limit struct {
	Rate   int
	Burst  int
	Period time.Duration
}

// String returns "10 req/s (burst 10)".
func (l Limit) String() string {
	period := l.Period.String()
	switch l.Period {
	case time.Second:
		period = "s"
	case time.Minute:
		period = "m"
	case time.Hour:
		period = "h"
	}
	return fmt.Sprintf("%d req/%s (burst %d)", l.Rate, period, l.Burst)
}

// IsZero reports whether the limit is Limit{}.
func (l Limit) IsZero() bool { return l == Limit{} }

// PerSecond is rate events a second, and as many at once.
func PerSecond(rate int) Limit { return Limit{Rate: rate, Burst: rate, Period: time.Second} }

// PerMinute is rate events a minute, and as many at once.
func PerMinute(rate int) Limit { return Limit{Rate: rate, Burst: rate, Period: time.Minute} }

// PerHour is rate events an hour, and as many at once.
func PerHour(rate int) Limit { return Limit{Rate: rate, Burst: rate, Period: time.Hour} }

// Result is the answer of a Limiter.
type Result struct {
	Limit      Limit         // the limit of the call
	Allowed    int           // how many events may happen now
	Remaining  int           // how many more could be allowed now
	RetryAfter time.Duration // until what was asked for is free; -1 if it was allowed, or n was 0
	ResetAfter time.Duration // until the key has its whole burst again
}

// Limiter limits the events of keys. NewLimiter makes it. It is safe for concurrent use.
type Limiter struct{ rate loader.GCRA }

// NewLimiter returns a Limiter on a redis.Client, ClusterClient or Ring, or what wraps one. The options are those of
// loader.New. Cost: nothing is sent.
func NewLimiter(rdb redis.UniversalClient, opts ...loader.Option) *Limiter {
	return &Limiter{loader.New(rdb, opts...).GCRA("rate", loader.Limit{})}
}

// Allow is AllowN for one event.
func (l Limiter) Allow(ctx context.Context, key string, limit Limit) (*Result, error) {
	return l.AllowN(ctx, key, limit, 1)
}

// AllowN reports whether n events may happen now, all or none; 0 only looks. More than the burst are never allowed, and
// RetryAfter is then as if the burst were large enough. Cost: one round trip.
func (l Limiter) AllowN(ctx context.Context, key string, limit Limit, n int) (*Result, error) {
	rate := l.with(limit)
	if n == 0 {
		d, err := rate.Peek(ctx, key)
		d.Wait = -1
		return resultOf(limit, d, err)
	}
	d, err := rate.AllowN(ctx, key, int64(n))
	if errors.Is(err, loader.ErrExceedsLimit) {
		d, err = rate.Peek(ctx, key)
		above := float64(n-limit.Burst) * float64(limit.Period) / float64(limit.Rate)
		d.Wait = d.ResetAfter + time.Duration(min(above, float64(loader.Never)))
	}
	if d.Granted {
		d.Wait = -1
	}
	return resultOf(limit, d, err)
}

// AllowAtMost allows as many of n events as may happen now, and charges exactly these; 0 only looks. Cost: one round
// trip if all n are free, otherwise two; more if others are granted permits in between.
func (l Limiter) AllowAtMost(ctx context.Context, key string, limit Limit, n int) (*Result, error) {
	if n > limit.Burst {
		n = max(1, limit.Burst)
	}
	for {
		res, err := l.AllowN(ctx, key, limit, n)
		if err != nil || res.Allowed > 0 || n <= 1 {
			return res, err
		}
		n = max(1, res.Remaining)
	}
}

// Reset gives the key its whole burst again. Cost: one round trip.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	return l.rate.Reset(ctx, key)
}

// with returns the limiter of a limit. In package loader a burst of 0 means as many as the permits, here none.
func (l Limiter) with(limit Limit) loader.GCRA {
	if limit.Burst == 0 {
		limit = Limit{}
	}
	return l.rate.With(loader.Limit{
		Permits: int64(limit.Rate), Burst: int64(limit.Burst),
		Window: (limit.Period + time.Microsecond - 1).Truncate(time.Microsecond),
	})
}

func resultOf(limit Limit, d loader.Decision, err error) (*Result, error) {
	if err != nil {
		return nil, err
	}
	return &Result{limit, int(d.Permits), int(d.Remaining), d.Wait, d.ResetAfter}, nil
}
