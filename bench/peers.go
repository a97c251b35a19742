package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-chi/httprate"
	httprateredis "github.com/go-chi/httprate-redis"
	"github.com/go-redis/redis_rate/v10"
	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/sethvargo/go-redisstore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/sluice-redis/sluice/loader"
)

// nothing is a script that does nothing, called as the others are: no limiter, but the least that an EVALSHA takes.
const nothing = "EVALSHA of return 1"

// libraries are those in Go that limit on Redis and come as modules, and ours beside them.
func libraries() []contender {
	return []contender{
		{"list_log", "", anyWindow, ours((*loader.Loader).ListLog)},
		{"zset_log", "", anyWindow, ours((*loader.Loader).ZSetLog)},
		{"token_bucket", "", anyWindow, ours((*loader.Loader).TokenBucket)},
		{"slice_ring", "", slicewise, ours(oneWindow)},
		{"gcra", "", burstRate, ours((*loader.Loader).GCRA)},
		{"redis_rate", "github.com/go-redis/redis_rate/v10", burstRate, newRedisRate},
		{"throttled", "github.com/throttled/throttled/v2", burstRate, newThrottled},
		{"ulule/limiter", "github.com/ulule/limiter/v3", fixedWindow, newUlule},
		{"go-redisstore", "github.com/sethvargo/go-redisstore", fixedWindow, newRedisStore},
		{"httprate-redis", "github.com/go-chi/httprate-redis", estimate, newHTTPRate},
		{"capped counter", "", fixedWindow, newCounter},
		{nothing, "", none, running("return 1")},
	}
}

// peers measures every library beside the floor, called in the same way.
func (b *bench) peers(ctx context.Context) ([]*Row, error) {
	base := contender{"floor", "", none, running(floorSource)}
	var pairs []pair
	for _, c := range libraries() {
		pairs = append(pairs, pair{c.row(), [2]contender{base, c}, []task{granting, denying, alone, crowd}})
	}
	err := inTurn(b, pairs, func(p pair, round int) error { return b.measure(ctx, p, round) })
	var rows []*Row
	for _, p := range pairs {
		if err != nil {
			return nil, err
		}
		b.progress("%s: memory, audit", p.Name)
		if p.Bytes, err = p.contenders[1].memory(ctx, b.server); err == nil {
			p.Audits, err = p.contenders[1].audit(ctx, b.server, b.windows)
		}
		rows = append(rows, p.Row)
	}
	return rows, err
}

// A maker makes a limiter on a server.
type maker = func(on *server, limit int64, window time.Duration) (decider, error)

// ours are used as README's example does.
func ours[L loader.Limiter](limiter func(*loader.Loader, string, loader.Limit, ...loader.LimiterOption) L) maker {
	return func(on *server, limit int64, window time.Duration) (decider, error) {
		l := limiter(loader.New(on.Client), "peer", loader.Limit{Permits: limit, Window: window})
		return func(ctx context.Context, subject string) (bool, error) {
			d, err := l.Allow(ctx, subject)
			return d.Granted, err
		}, nil
	}
}

func oneWindow(l *loader.Loader, name string, limit loader.Limit, _ ...loader.LimiterOption) loader.SliceRing {
	return l.SliceRing(name, []loader.Limit{limit})
}

func newRedisRate(on *server, limit int64, window time.Duration) (decider, error) {
	l := redis_rate.NewLimiter(on.Client)
	rate := redis_rate.Limit{Rate: int(limit), Burst: int(limit), Period: window}
	return func(ctx context.Context, subject string) (bool, error) {
		result, err := l.Allow(ctx, subject, rate)
		return err == nil && result.Allowed > 0, err
	}, nil
}

func newThrottled(on *server, limit int64, window time.Duration) (decider, error) {
	store, err := goredisstore.NewCtx(on.Client, "throttled:")
	if err != nil {
		return nil, err
	}
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(int(limit), window), MaxBurst: int(limit) - 1}
	l, err := throttled.NewGCRARateLimiterCtx(store, quota)
	return func(ctx context.Context, subject string) (bool, error) {
		limited, _, err := l.RateLimitCtx(ctx, subject, 1)
		return !limited, err
	}, err
}

func newUlule(on *server, limit int64, window time.Duration) (decider, error) {
	store, err := ululeredis.NewStore(on.Client)
	return byUlule(store, limit, window), err
}

// byUlule asks ulule's limiter over a store.
func byUlule(store limiter.Store, limit int64, window time.Duration) decider {
	l := limiter.New(store, limiter.Rate{Period: window, Limit: limit})
	return func(ctx context.Context, subject string) (bool, error) {
		result, err := l.Get(ctx, subject)
		return !result.Reached, err
	}
}

func newRedisStore(on *server, limit int64, window time.Duration) (decider, error) {
	store, err := redisstore.New(&redisstore.Config{
		Tokens: uint64(limit), Interval: window,
		Dial: func() (redigo.Conn, error) { return redigo.Dial("tcp", on.process.Addr) },
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, subject string) (bool, error) {
		_, _, _, ok, err := store.Take(ctx, subject)
		return ok, err
	}, nil
}

func newHTTPRate(on *server, limit int64, window time.Duration) (decider, error) {
	counter := httprateredis.NewCounter(&httprateredis.Config{Client: on.Client, FallbackDisabled: true})
	l := httprate.NewRateLimiter(int(limit), window, httprate.WithLimitCounter(counter))
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	return func(_ context.Context, subject string) (bool, error) {
		return !l.OnLimit(httptest.NewRecorder(), request, subject), nil
	}, nil
}

// counter is what INCREX of Redis 8.8 does, with a cap and a lifetime, for servers without it.
const counter = `
if tonumber(redis.call("GET", KEYS[1]) or "0") >= tonumber(ARGV[1]) then return 0 end
if redis.call("INCR", KEYS[1]) == 1 then redis.call("PEXPIRE", KEYS[1], ARGV[2]) end
return 1`

func newCounter(on *server, limit int64, window time.Duration) (decider, error) {
	script := redis.NewScript(counter)
	return func(ctx context.Context, subject string) (bool, error) {
		n, err := script.Run(ctx, on, []string{"counter:" + subject}, limit, window.Milliseconds()).Int()
		return n == 1, err
	}, nil
}

// running is a script that decides nothing, called as the libraries call theirs.
func running(source string) maker {
	script := redis.NewScript(source)
	return func(on *server, _ int64, _ time.Duration) (decider, error) {
		return func(ctx context.Context, subject string) (bool, error) {
			return true, script.Run(ctx, on, []string{"floor:" + subject}).Err()
		}, nil
	}
}
