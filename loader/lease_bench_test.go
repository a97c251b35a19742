package loader_test

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// BenchmarkLeased is what one process decides by itself and how much of it reaches Redis: with permits held, and with a
// limit that is used up and denials remembered.
//
//	go test ./loader -run '^$' -bench Leased -benchtime 3s
func BenchmarkLeased(b *testing.B) {
	for _, c := range []struct {
		name     string
		limit    int64 // a second
		subjects int
	}{
		{"granted, 1 subject", 1_000_000_000, 1},
		{"granted, 100 subjects", 100_000_000, 100},
		{"mostly denied, 1 subject", 100_000, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			rdb := real(b)
			var calls atomic.Int64
			rdb.AddHook(hook{before: func(redis.Cmder) { calls.Add(1) }})
			ring := loader.New(rdb).SliceRing("bench", []loader.Limit{loader.PerSecond(c.limit)},
				loader.LeaseAge(time.Second/4), loader.RememberDenials(1000))
			leased, err := ring.Leased(loader.LeaseOptions{Block: 1000})
			must(b, err)
			defer func() { must(b, leased.Close(background)) }()

			subjects := make([]string, c.subjects)
			for i := range subjects {
				subjects[i] = "subject-" + strconv.Itoa(i)
			}
			var grants atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				mine := int64(0)
				for i := 0; pb.Next(); i++ {
					d, err := leased.Allow(background, subjects[i%len(subjects)])
					if err != nil {
						b.Error(err)
						return
					}
					if d.Granted {
						mine++
					}
				}
				grants.Add(mine)
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
			b.ReportMetric(100*float64(grants.Load())/float64(b.N), "%granted")
			b.ReportMetric(100*float64(calls.Load())/float64(b.N), "%to-redis")
		})
	}
}
