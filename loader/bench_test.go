package loader_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// BenchmarkAllow compares a decision with the bare EVALSHA that it sends, which go-redis might repeat.
func BenchmarkAllow(b *testing.B) {
	rdb := redis.NewClient(&redis.Options{
		Addr: redistest.Start(b).Addr, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer func() { _ = rdb.Close() }()
	ctx := context.Background()
	limits := loader.New(rdb)
	if err := limits.Preload(ctx); err != nil {
		b.Fatal(err)
	}
	limit := loader.PerSecond(1000000)

	b.Run("bare EvalSha", func(b *testing.B) {
		b.ReportAllocs()
		subject := "bare"
		for b.Loop() {
			r, err := rdb.EvalSha(ctx, sluice.GCRAV1.SHA1, []string{"sluice:bench:{" + subject + "}:gcra1"},
				limit.Permits, limit.Window.Microseconds(), limit.Permits, int64(1), int64(0)).Int64Slice()
			if err != nil || len(r) != 5 {
				b.Fatal(r, err)
			}
		}
	})
	b.Run("GCRA", func(b *testing.B) { allow(b, ctx, limits.GCRA("bench", limit)) })
	b.Run("ListLog", func(b *testing.B) { allow(b, ctx, limits.ListLog("bench", loader.PerSecond(1000))) })
	b.Run("ZSetLog", func(b *testing.B) { allow(b, ctx, limits.ZSetLog("bench", loader.PerSecond(1000))) })
	b.Run("TokenBucket", func(b *testing.B) { allow(b, ctx, limits.TokenBucket("bench", limit)) })
	b.Run("SliceRing", func(b *testing.B) { allow(b, ctx, limits.SliceRing("bench", []loader.Limit{limit})) })
	b.Run("GCRA cancellable", func(b *testing.B) {
		ctx, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		allow(b, ctx, limits.GCRA("bench", limit))
	})
}

func allow(b *testing.B, ctx context.Context, l loader.Limiter) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Allow(ctx, "subject"); err != nil {
			b.Fatal(err)
		}
	}
}
