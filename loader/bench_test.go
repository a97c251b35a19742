package loader_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// mostAllocations is how many more a decision may take than the bare EVALSHA that it sends: one for the goroutine of
// the round trip, two for the id of a ZSetLog, and one where the garbage collector has emptied a pool.
const mostAllocations = 4 + raceAllocations

// TestAllocations holds every limiter against the EVALSHA that it sends, which finds its keys and
// arguments made already, over the same connection.
func TestAllocations(t *testing.T) {
	rdb := real(t)
	limits := loader.New(rdb)
	must(t, limits.Preload(background))
	eachLimiter(t, func(t *testing.T, i int) {
		limiter := makers[i].make(limits, loader.PerSecond(5000))
		sum, keys, args := sentBy(t, rdb.Options().Addr, i)
		bare := testing.AllocsPerRun(1000, func() {
			if reply, err := rdb.EvalSha(background, sum, keys, args...).Int64Slice(); err != nil || len(reply) < 5 {
				t.Error(reply, err)
			}
		})
		ours := testing.AllocsPerRun(1000, func() {
			if _, err := limiter.Allow(background, "s"); err != nil {
				t.Error(err)
			}
		})
		t.Logf("%v allocations, a bare EVALSHA %v", ours, bare)
		if ours > bare+mostAllocations {
			t.Errorf("%v allocations, want at most %d more than the %v of a bare EVALSHA", ours, mostAllocations, bare)
		}
	})
}

// sentBy is what a limiter sends for one permit.
func sentBy(tb testing.TB, addr string, maker int) (sum string, keys []string, args []any) {
	tb.Helper()
	rdb := client(tb, addr)
	var words []any
	rdb.AddHook(hook{before: func(cmd redis.Cmder) {
		if cmd.Name() == "evalsha" {
			words = cmd.Args()
		}
	}})
	must(tb, errOf(makers[maker].make(loader.New(rdb), loader.PerSecond(5000)).Allow(context.Background(), "s")))
	count, err := strconv.Atoi(fmt.Sprint(words[2]))
	must(tb, err)
	for _, key := range words[3 : 3+count] {
		keys = append(keys, key.(string))
	}
	return words[1].(string), keys, words[3+count:]
}

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

// BenchmarkAhead is a decision about one of 100,000 warm subjects, of which 40 may be ahead of Redis, by 64 callers: how
// long it takes, and how much of it reaches Redis.
//
//	go test ./loader -run '^$' -bench Ahead -benchtime 20000000x
func BenchmarkAhead(b *testing.B) {
	const callers = 64
	rdb := real(b)
	limits := loader.New(rdb)
	ring := limits.SliceRing("bench", []loader.Limit{{Permits: 20_000, Window: time.Minute}})
	ahead, err := ring.Ahead(loader.AheadOptions{Processes: 20, Error: 0.08})
	must(b, err)
	subjects := make([]string, 100_000)
	batch := limits.Batch()
	for i := range subjects {
		subjects[i] = "subject-" + strconv.Itoa(i)
		if batch.Allow(ring, subjects[i]); i%1000 == 999 {
			must(b, errOf(batch.Do(background)))
		}
	}
	var all sync.WaitGroup
	var took [callers][]time.Duration
	share := len(subjects) / callers
	for c := range callers {
		all.Go(func() {
			for _, subject := range subjects[c*share : (c+1)*share] {
				must(b, errOf(ahead.Allow(background, subject)))
			}
		})
	}
	all.Wait()
	before, granted := serverTime(b, rdb), atomic.Int64{}
	b.ResetTimer()
	for c := range callers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(c)))
			for range (b.N + callers - 1) / callers {
				subject := subjects[random.IntN(share*callers)]
				began := time.Now()
				d, err := ahead.Allow(background, subject)
				if took[c] = append(took[c], time.Since(began)); err != nil {
					b.Error(err)
				} else if d.Ahead {
					granted.Add(1)
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	sorted := slices.Concat(took[:]...)
	slices.Sort(sorted)
	b.ReportMetric(float64(len(sorted))/b.Elapsed().Seconds(), "decisions/s")
	b.ReportMetric(float64(sorted[len(sorted)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(sorted[len(sorted)*99/100].Nanoseconds()), "p99-ns")
	b.ReportMetric(100*float64(granted.Load())/float64(len(sorted)), "%ahead")
	must(b, ahead.Close(background))
	b.ReportMetric(float64((serverTime(b, rdb)-before).Nanoseconds())/float64(len(sorted)), "ns-of-Redis/op")
}

// serverTime is the processor time of the server.
func serverTime(b *testing.B, rdb *redis.Client) time.Duration {
	b.Helper()
	var total float64
	for line := range strings.Lines(rdb.Info(background, "cpu").Val()) {
		var seconds float64
		for _, field := range []string{"used_cpu_sys", "used_cpu_user"} {
			if _, err := fmt.Sscanf(line, field+":%g", &seconds); err == nil {
				total += seconds
			}
		}
	}
	return time.Duration(total * float64(time.Second))
}
