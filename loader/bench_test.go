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
// the round trip, and two for the id of a ZSetLog.
const mostAllocations = 3

// TestAllocations holds every limiter against the EVALSHA that it sends, which finds its keys and
// arguments made already, over the same connection.
func TestAllocations(t *testing.T) {
	rdb := real(t)
	limits := loader.New(rdb)
	must(t, limits.Preload(background))
	eachLimiter(t, func(t *testing.T, i int) {
		limiter := makers[i].make(limits, loader.PerSecond(5000))
		sum, keys, args := sentBy(t, rdb.Options().Addr, i)
		bare := loader.FewestAllocations(func() {
			if reply, err := rdb.EvalSha(background, sum, keys, args...).Int64Slice(); err != nil || len(reply) < 5 {
				t.Error(reply, err)
			}
		})
		ours := loader.FewestAllocations(func() {
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

// BenchmarkAhead is a decision of 64 callers as fast as they can, by how many subjects they ask about and how many
// permits of each may be ahead of Redis: how long it takes, and how many wait for Redis. BenchmarkAllow and
// BenchmarkShared are the same by calls to Redis, alone and in shared round trips.
//
//	go test ./loader -run '^$' -bench '(Allow|Shared|Ahead)$' -benchtime 1000000x
func BenchmarkAhead(b *testing.B) {
	for _, subjects := range []int{100_000, 1000} {
		for _, most := range []int64{4, 40, 400} {
			b.Run(fmt.Sprintf("%d subjects, %d ahead", subjects, most), func(b *testing.B) {
				benchCallers(b, subjects, func(limits *loader.Loader) closing {
					ring := limits.SliceRing("bench", []loader.Limit{benchLimit})
					ahead, err := ring.Ahead(loader.AheadOptions{
						Processes: 1, Error: (2*float64(most) + 1) / float64(benchLimit.Permits),
					})
					must(b, err)
					return ahead
				})
			})
		}
	}
}

func BenchmarkAllow(b *testing.B) { benchRing(b, loader.WithoutSharing()) }

func BenchmarkShared(b *testing.B) { benchRing(b) }

var benchLimit = loader.PerMinute(100_000_000)

func benchRing(b *testing.B, opts ...loader.Option) {
	benchCallers(b, 100_000, func(limits *loader.Loader) closing {
		return notClosed{limits.SliceRing("bench", []loader.Limit{benchLimit})}
	}, opts...)
}

// closing is a limiter that is ahead of Redis in some way.
type closing interface {
	loader.Limiter
	Close(ctx context.Context) error
}

type notClosed struct{ loader.Limiter }

func (notClosed) Close(context.Context) error { return nil }

func benchCallers(b *testing.B, subjects int, newLimiter func(*loader.Loader) closing, opts ...loader.Option) {
	const callers = 64
	rdb := real(b)
	limiter := newLimiter(loader.New(rdb, opts...))
	names := make([]string, subjects)
	var all sync.WaitGroup
	for c := range callers { // from here on the subjects are known
		all.Go(func() {
			for i := c; i < subjects; i += callers {
				names[i] = "subject-" + strconv.Itoa(i)
				must(b, errOf(limiter.Allow(background, names[i])))
			}
		})
	}
	all.Wait()
	var took [callers][]time.Duration
	before, waited := serverTime(b, rdb), atomic.Int64{}
	b.ResetTimer()
	for c := range callers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(c)))
			for range b.N/callers + 1 {
				subject := names[random.IntN(subjects)]
				began := time.Now()
				d, err := limiter.Allow(background, subject)
				took[c] = append(took[c], time.Since(began))
				if must(b, err); !d.Ahead {
					waited.Add(1)
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
	if _, ok := limiter.(*loader.Ahead); ok {
		b.ReportMetric(100*float64(waited.Load())/float64(len(sorted)), "%waiting")
	}
	must(b, limiter.Close(background))
	b.ReportMetric(float64((serverTime(b, rdb)-before).Nanoseconds())/float64(len(sorted)), "ns-of-Redis/op")
}

// BenchmarkAheadReports is what a decision costs Redis: by single calls of 64 callers, also in shared round trips, and
// ahead of Redis, with so many decisions in a report.
//
//	go test ./loader -run '^$' -bench AheadReports -benchtime 500000x
func BenchmarkAheadReports(b *testing.B) {
	const callers, subjects = 64, 6400
	rdb := real(b)
	run := func(name string, limiter loader.Limiter, each int, flush func() error) {
		b.Run(name, func(b *testing.B) {
			for i := range subjects { // from here on the subjects are known
				must(b, errOf(limiter.Allow(background, "s"+strconv.Itoa(i))))
			}
			before, waited := serverTime(b, rdb), atomic.Int64{}
			var all sync.WaitGroup
			b.ResetTimer()
			for c := range callers {
				all.Go(func() {
					for i := range b.N/callers + 1 {
						subject := "s" + strconv.Itoa(i/each%(subjects/callers)*callers+c)
						d, err := limiter.Allow(background, subject)
						if must(b, err); !d.Ahead {
							waited.Add(1)
						}
					}
				})
			}
			all.Wait()
			b.StopTimer()
			must(b, flush())
			b.ReportMetric(100*float64(waited.Load())/float64(b.N), "%waiting")
			b.ReportMetric(float64((serverTime(b, rdb)-before).Nanoseconds())/float64(b.N), "ns-of-Redis/op")
		})
	}
	nothing := func() error { return nil }
	limit := []loader.Limit{{Permits: 1_000_000, Window: time.Minute}}
	run("single", loader.New(rdb, loader.WithoutSharing()).SliceRing("single", limit), 1, nothing)
	run("shared", loader.New(rdb).SliceRing("shared", limit), 1, nothing)
	for _, each := range []int{1, 3, 10} {
		ring := loader.New(rdb).SliceRing("ahead-"+strconv.Itoa(each), limit)
		ahead, err := ring.Ahead(loader.AheadOptions{Processes: 1, Error: 4 * float64(each) / 1_000_000})
		must(b, err)
		run(strconv.Itoa(each)+" a report", ahead, each, func() error { return ahead.Flush(background) })
	}
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
