package redis_rate_test

import (
	"errors"
	"testing"
	"time"

	redis_rate "github.com/sluice-redis/sluice/adapters/redisrate"
	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/loader/embedded"
)

// What redis_rate's own tests do not say: AllowAtMost charges whole events, and what is never allowed.
func TestTimeline(t *testing.T) {
	server, err := embedded.Start()
	must(t, err)
	defer server.Close()
	l, ctx := redis_rate.NewLimiter(server.Client()), t.Context()
	ten := redis_rate.PerSecond(10)
	third := redis_rate.Limit{Rate: 1, Burst: 1, Period: time.Second / 3}
	for _, c := range []struct {
		at     time.Duration
		key    string
		limit  redis_rate.Limit
		n      int
		atMost bool
		want   redis_rate.Result
	}{
		{0, "a", ten, 7, false, redis_rate.Result{ten, 7, 3, -1, 700 * time.Millisecond}},
		{50 * time.Millisecond, "a", ten, 10, true, redis_rate.Result{ten, 3, 0, -1, 950 * time.Millisecond}},
		{100 * time.Millisecond, "a", ten, 99, true, redis_rate.Result{ten, 1, 0, -1, time.Second}},
		{100 * time.Millisecond, "a", ten, 99, true, redis_rate.Result{ten, 0, 0, 100 * time.Millisecond, time.Second}},
		{100 * time.Millisecond, "a", ten, 12, false, redis_rate.Result{ten, 0, 0, 1200 * time.Millisecond, time.Second}},
		{0, "b", redis_rate.Limit{Rate: 10, Period: 1}, 1, false,
			redis_rate.Result{redis_rate.Limit{Rate: 10, Period: 1}, 0, 0, loader.Never, 0}},
		{0, "b", redis_rate.Limit{}, 5, true, redis_rate.Result{redis_rate.Limit{}, 0, 0, loader.Never, 0}},
		{0, "c", third, 1, false, redis_rate.Result{third, 1, 0, -1, 333334 * time.Microsecond}},
	} {
		server.SetTime(time.Unix(1_800_000_000, 0).Add(c.at))
		ask := l.AllowN
		if c.atMost {
			ask = l.AllowAtMost
		}
		got, err := ask(ctx, c.key, c.limit, c.n)
		must(t, err)
		if *got != c.want {
			t.Errorf("%v: %d of %q by %v: %+v, want %+v", c.at, c.n, c.key, c.limit, *got, c.want)
		}
	}
	must(t, l.Reset(ctx, "a"))
	if got, err := l.Allow(ctx, "a", ten); err != nil || got.Remaining != 9 {
		t.Errorf("after Reset: %+v, %v", got, err)
	}
	for _, c := range []struct {
		key string
		n   int
	}{{"", 1}, {"a", -1}} {
		got, err := l.AllowN(ctx, c.key, ten, c.n)
		if _, ok := errors.AsType[*loader.ArgumentError](err); !ok || got != nil {
			t.Errorf("%d of %q: %v, %v", c.n, c.key, got, err)
		}
	}
}

func TestString(t *testing.T) {
	for limit, want := range map[redis_rate.Limit]string{
		redis_rate.PerSecond(10):                      "10 req/s (burst 10)",
		redis_rate.PerMinute(10):                      "10 req/m (burst 10)",
		redis_rate.PerHour(10):                        "10 req/h (burst 10)",
		{Rate: 3, Burst: 5, Period: 90 * time.Second}: "3 req/1m30s (burst 5)",
	} {
		if got := limit.String(); got != want || limit.IsZero() {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
