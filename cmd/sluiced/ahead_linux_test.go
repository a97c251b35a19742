package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// BenchmarkAhead is what a proxy waits for a decision, with 64 calls at a time in four connections about 10,000
// subjects: where no limit applies, where Redis decides, and where the service is 40 permits ahead of Redis.
//
//	cd cmd/sluiced && go test -run '^$' -bench Ahead -benchtime 200000x
func BenchmarkAhead(b *testing.B) {
	const callers, connections, subjects = 64, 4, 10_000
	v := newVictim(b, `limits:
  redis: {when: 'domain == "limits"', by: 'descriptor["redis"]', empty: skip, rates: 20000/1m, script: slice_ring}
  ahead: {by: 'descriptor["ahead"]', empty: skip, rates: 20000/1m, ahead: {processes: 20, error: 8%}}
`)
	clients := make([]ratelimitv3.RateLimitServiceClient, connections)
	for i := range clients {
		clients[i] = v.connect(b)
	}
	for _, key := range []string{"none", "redis", "ahead"} {
		ask := func(client, subject int) {
			response, err := clients[client].ShouldRateLimit(context.Background(), &ratelimitv3.RateLimitRequest{
				Domain: "limits", Descriptors: []*commonv3.RateLimitDescriptor{
					{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: key, Value: strconv.Itoa(subject)}}}}})
			must(b, err)
			if response.OverallCode != ratelimitv3.RateLimitResponse_OK {
				b.Error(response)
			}
		}
		b.Run(key, func(b *testing.B) {
			for subject := range subjects { // from here on the subjects are known
				ask(0, subject)
			}
			var took [callers][]time.Duration
			var all sync.WaitGroup
			b.ResetTimer()
			for c := range callers {
				all.Go(func() {
					for range b.N/callers + 1 {
						began := time.Now()
						ask(c%connections, rand.IntN(subjects))
						took[c] = append(took[c], time.Since(began))
					}
				})
			}
			all.Wait()
			b.StopTimer()
			sorted := slices.Concat(took[:]...)
			slices.Sort(sorted)
			b.ReportMetric(float64(len(sorted))/b.Elapsed().Seconds(), "decisions/s")
			b.ReportMetric(float64(sorted[len(sorted)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(sorted[len(sorted)*99/100].Microseconds()), "p99-us")
		})
	}
}
