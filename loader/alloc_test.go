package loader_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

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
