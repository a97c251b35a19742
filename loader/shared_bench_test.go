package loader_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// BenchmarkShareRoundTrips is what a decision about one of 1000 subjects takes, with and without ShareRoundTrips, with
// the client of README's example for production and contexts that can be cancelled.
//
//	go test ./loader -run '^$' -bench ShareRoundTrips -benchtime 2s -count 5
func BenchmarkShareRoundTrips(b *testing.B) {
	opt := *real(b).Options()
	opt.ContextTimeoutEnabled = true
	rdb := redis.NewClient(&opt)
	defer func() { _ = rdb.Close() }()
	single, shared := loader.New(rdb), loader.New(rdb, loader.ShareRoundTrips())
	must(b, single.Preload(background))
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	for _, callers := range []int{1, 64} {
		for _, how := range []*loader.Loader{single, shared} {
			for _, limiter := range []loader.Limiter{
				how.GCRA("bench", loader.PerSecond(1e6)), how.ListLog("bench", loader.PerSecond(1000)),
			} {
				b.Run(fmt.Sprintf("%T/%d/shared=%t", limiter, callers, how == shared), func(b *testing.B) {
					before := serverTime(b, rdb)
					var next atomic.Int64
					var all sync.WaitGroup
					for range callers {
						all.Go(func() {
							for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
								if err := errOf(limiter.Allow(ctx, fmt.Sprint(i%1000))); err != nil {
									b.Error(err)
								}
							}
						})
					}
					all.Wait()
					b.ReportMetric(float64((serverTime(b, rdb)-before).Nanoseconds())/float64(b.N), "ns-of-Redis/op")
				})
			}
		}
	}
}
