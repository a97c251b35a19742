package loader_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// BenchmarkShareRoundTrips is what a decision takes with and without ShareRoundTrips, of one caller and of 64, about 1000
// subjects, with contexts that can be cancelled and a client that keeps deadlines.
//
//	go test ./loader -run '^$' -bench ShareRoundTrips -benchtime 2s -count 5
func BenchmarkShareRoundTrips(b *testing.B) {
	opt := *real(b).Options()
	opt.ContextTimeoutEnabled = true
	rdb := redis.NewClient(&opt)
	defer func() { _ = rdb.Close() }()
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	for _, callers := range []int{1, 64} {
		for _, limiter := range []string{"GCRA", "ListLog"} {
			for how, opts := range map[string][]loader.Option{"single": nil, "shared": {loader.ShareRoundTrips()}} {
				b.Run(fmt.Sprintf("%s/%d/%s", limiter, callers, how), func(b *testing.B) {
					limits := loader.New(rdb, opts...)
					must(b, limits.Preload(ctx))
					ask := limits.GCRA("bench", loader.PerSecond(1e6)).Allow
					if limiter == "ListLog" {
						ask = limits.ListLog("bench", loader.PerSecond(1000)).Allow
					}
					before := serverTime(b, rdb)
					var next atomic.Int64
					b.SetParallelism(max(callers/runtime.GOMAXPROCS(0), 1))

					b.ResetTimer()
					if callers == 1 {
						for i := range b.N {
							must(b, errOf(ask(ctx, fmt.Sprint(i%1000))))
						}
					} else {
						b.RunParallel(func(pb *testing.PB) {
							for pb.Next() {
								if err := errOf(ask(ctx, fmt.Sprint(next.Add(1)%1000))); err != nil {
									b.Error(err)
								}
							}
						})
					}
					b.ReportMetric(float64((serverTime(b, rdb)-before).Nanoseconds())/float64(b.N), "ns-of-Redis/op")
				})
			}
		}
	}
}
