package loader_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// BenchmarkAllow holds a decision against the bare EVALSHA that it sends, which go-redis might repeat, with a
// context that cannot end and with one that has a deadline. They take turns of 20 calls, since what else
// runs on a machine changes by the second; the medians are printed, and ratios to the bare one.
//
//	go test ./loader -run '^$' -bench Allow -benchtime 2000x
func BenchmarkAllow(b *testing.B) {
	rdb := real(b)
	limits := loader.New(rdb)
	must(b, limits.Preload(background))
	deadline, cancel := context.WithTimeout(background, time.Hour)
	defer cancel()
	for i, m := range makers {
		b.Run(m.name, func(b *testing.B) {
			limiter := m.make(limits, loader.PerSecond(5000))
			sum, keys, args := sentBy(b, rdb.Options().Addr, i)
			bare := func() error { return rdb.EvalSha(background, sum, keys, args...).Err() }
			allow := func() error { return errOf(limiter.Allow(background, "s")) }
			bounded := func() error { return errOf(limiter.Allow(deadline, "s")) }

			var took [3][]effort
			for b.Loop() {
				for way, call := range []func() error{bare, allow, bounded} {
					took[way] = append(took[way], effort{wall: turn(b, call)})
				}
			}
			base := median(took[0], wallTime)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(us(base), "bare_us")
			b.ReportMetric(float64(median(took[1], wallTime))/float64(base), "x_bare")
			b.ReportMetric(float64(median(took[2], wallTime))/float64(base), "x_bare_with_deadline")
		})
	}
}

// turn is the time of one call, of 20 in a row.
func turn(b *testing.B, call func() error) time.Duration {
	const calls = 20
	started := time.Now()
	for range calls {
		if err := call(); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(started) / calls
}

// BenchmarkNobodyListens is a call without a deadline to an address at which no server listens, by how often go-redis
// dials: as it does by default, and once.
//
//	go test ./loader -run '^$' -bench NobodyListens -benchtime 5x
func BenchmarkNobodyListens(b *testing.B) {
	for _, dials := range []int{5, 1} {
		b.Run(fmt.Sprintf("DialerRetries=%d", dials), func(b *testing.B) {
			opt := options("127.0.0.1:1")
			opt.DialerRetries = dials
			limiter := loader.New(clientOf(b, opt)).ListLog("x", loader.PerHour(1))
			for b.Loop() {
				if errOf(limiter.Allow(background, "s")) == nil {
					b.Fatal("somebody listens")
				}
			}
		})
	}
}
