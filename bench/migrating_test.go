package main

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	sredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/loader"
)

// Every call in the tables of docs/migrating.md stands in the functions below, and so compiles: those of Sluice, and
// those of the libraries in Go.
func TestMigratingCompiles(t *testing.T) {
	source := read(t, "migrating_test.go") + read(t, "migrating_golimiter_test.go")
	source = regexp.MustCompile(`(?m)^\t*//.*$`).ReplaceAllString(source, "")
	page, java, _ := strings.Cut(read(t, "../docs/migrating.md"), "## Redisson")
	calls := 0
	check := func(cell string) {
		for _, code := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
			if calls++; !strings.Contains(source, code[1]) {
				t.Errorf("%s is not in the functions of this test", code[1])
			}
		}
	}
	for _, row := range regexp.MustCompile(`(?m)^\|.*\|$`).FindAllString(page, -1) {
		check(row)
	}
	for _, row := range regexp.MustCompile(`(?m)^\|[^|]*\|(.*)\|$`).FindAllStringSubmatch(java, -1) {
		check(row[1])
	}
	if calls < 100 {
		t.Errorf("found only %d calls", calls)
	}
}

// The functions are not called.
var _ = []any{sluiceCalls, redissonCalls, httpCalls, redisRateCalls, ululeCalls, throttledCalls, goLimiterCalls}

// use keeps values from being unused.
func use(...any) {}

func sluiceCalls(ctx context.Context, rdb *redis.Client, user string, n int64) {
	limits := loader.New(rdb)
	use(limits.GCRA("api", loader.PerSecond(10)).Allow(ctx, user))
	limit := loader.Limit{Permits: 10, Burst: 20, Window: time.Second}
	use(limit, loader.Limit{Permits: 20, Window: time.Minute, Burst: 6}, loader.PerMinute(5))
	{
		api := limits.GCRA("api", limit)
		use(api.AllowN(ctx, user, n))
		use(api.Peek(ctx, user))
		use(api.With(limit))
		use(api.Reset(ctx, user))
		d, err := api.AllowN(ctx, user, n)
		use(d, err)
	}
	login := limits.ListLog("login", loader.PerMinute(5))
	d, err := login.Allow(ctx, user)
	use(d.Granted, !d.Granted, d.Wait, d.Remaining, d.ResetAfter, err)
	use(login.Peek(ctx, user))
	use(login.Reset(ctx, user))
	use(login.AllowN(ctx, user, n))
	{
		api := limits.ListLog("api", loader.PerMinute(15))
		d, err := api.Allow(ctx, user)
		use(d.Limit.Permits, err, loader.ListLog.GiveBack, loader.ZSetLog.GiveBack, loader.SliceRing.GiveBack)
	}
	{
		api := login
		d, err := api.Peek(ctx, user)
		use(d, err)
	}
}

func redissonCalls(ctx context.Context, limits *loader.Loader, subject string, limit loader.Limit, id string, n int64) {
	jobs := limits.TokenBucket("jobs", loader.PerSecond(5))
	use(limits.TokenBucket("jobs", limit, loader.PerClient(), loader.ClientID(id)))
	use(jobs.SetRate(ctx, subject, limit))
	use(jobs.AllowN(ctx, subject, n))
	use(jobs.WaitN(ctx, subject, n))
	d, err := jobs.Peek(ctx, subject)
	use(d.Remaining, d.Limit, err)
	use(jobs.Reset(ctx, subject))
}

func httpCalls(login, api loader.ListLog, h http.Handler, get, path func(*http.Request) string,
	refuse httplimit.Refusal) {
	use(httplimit.New(login, httplimit.KeyByIP()).Handler(h), httplimit.New(api, httplimit.KeyByIP()).Handler(h))
	use(httplimit.KeyBy(get), httplimit.Refuse(refuse))
	use(httplimit.KeyByIP(httplimit.TrustXForwardedFor("10.0.0.0/8")))
	use(httplimit.Join(httplimit.KeyBy(path), httplimit.KeyByHeader("X-Api-Key")))
	use(httplimit.Headers(httplimit.XRateLimit), httplimit.Headers(httplimit.Draft11|httplimit.XRateLimit))
	use(httplimit.IPv6Prefix(128))
}

func redisRateCalls(ctx context.Context, rdb *redis.Client, key, user string, n int) {
	l := redis_rate.NewLimiter(rdb)
	use(l.Allow(ctx, "api:"+user, redis_rate.PerSecond(10)))
	limit := redis_rate.Limit{Rate: 10, Burst: 20, Period: time.Second}
	use(l.AllowAtMost(ctx, key, limit, n))
	res, err := l.AllowN(ctx, key, limit, n)
	use(res.Allowed > 0, res.RetryAfter, res.Remaining, res.ResetAfter, err)
	use(l.Reset(ctx, key))
}

func ululeCalls(ctx context.Context, rdb *redis.Client, key string, n int64, h http.Handler,
	get func(*http.Request) string, failed stdlib.ErrorHandler, reached stdlib.LimitReachedHandler) {
	rate, err := limiter.NewRateFromFormatted("5-M")
	use(err)
	store, err := sredis.NewStore(rdb)
	use(err, limiter.New(store, rate, limiter.WithTrustForwardHeader(true)))
	l := limiter.New(store, rate)
	c, err := l.Get(ctx, key)
	use(c.Reached, c.Remaining, c.Reset, err)
	use(l.Peek(ctx, key))
	use(l.Reset(ctx, key))
	use(l.Increment(ctx, key, n))
	use(stdlib.NewMiddleware(l).Handler(h), stdlib.WithKeyGetter(get))
	use(stdlib.WithErrorHandler(failed), stdlib.WithLimitReachedHandler(reached))
}

func throttledCalls(ctx context.Context, rdb *redis.Client, key string, n int, h http.Handler) {
	store, err := goredisstore.NewCtx(rdb, "")
	use(err)
	quota := throttled.RateQuota{MaxRate: throttled.PerMin(20), MaxBurst: 5}
	l, err := throttled.NewGCRARateLimiterCtx(store, quota)
	use(err)
	limited, res, err := l.RateLimitCtx(ctx, key, n)
	use(limited, res.RetryAfter, res.ResetAfter, res.Remaining, err)
	use(l.RateLimitCtx(ctx, key, 0))
	l.SetMaxCASAttemptsLimit(n)
	m := throttled.HTTPRateLimiterCtx{RateLimiter: l, VaryBy: &throttled.VaryBy{RemoteAddr: true}}
	use(m.RateLimit(h), m.DeniedHandler, m.Error)
	use(throttled.VaryBy{Path: true, Headers: []string{"X-Api-Key"}})
}
