package loader_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/loader"
)

const (
	allProcesses = 4
	allCallers   = 8   // of each process
	allCalls     = 100 // of each caller
	allSubjects  = 6   // of each limiter, half of them full
	allLimit     = 150 // an hour, for each subject
)

// allThree are the limiters of the storm.
func allThree(limits *loader.Loader) [3]loader.Limiter {
	limit := loader.PerHour(allLimit)
	return [3]loader.Limiter{
		limits.ListLog("list", limit), limits.ZSetLog("zset", limit), limits.SliceRing("ring", []loader.Limit{limit}),
	}
}

// TestAllAcrossProcesses has 4 processes ask three limiters at once for subjects of which half are full. Afterwards
// each subject holds exactly what was granted, and never more than its limit.
func TestAllAcrossProcesses(t *testing.T) {
	if addr := os.Getenv(partEnv); addr != "" {
		storm(t, addr)
		return
	}
	t.Parallel()
	server := redistest.Start(t)
	limits := loader.New(client(t, server.Addr))
	must(t, limits.Preload(background))
	want := fillHalf(t, limits)
	var granted, refused int
	startProcesses(t, allProcesses, func(int) string { return server.Addr }, func(text string) {
		var at [3]int
		var n int64
		if _, err := fmt.Sscanf(text, "granted %d %d %d %d", &at[0], &at[1], &at[2], &n); err == nil {
			granted++
			for i, subject := range at {
				want[i][subject] += n
			}
		} else if text == "refused" {
			refused++
		}
	}).end()
	t.Logf("%d granted, %d refused", granted, refused)
	if granted < 100 || refused < 1000 || granted+refused != allProcesses*allCallers*allCalls {
		t.Errorf("%d granted and %d refused of %d", granted, refused, allProcesses*allCallers*allCalls)
	}
	for i, limiter := range allThree(limits) {
		for subject, want := range want[i] {
			n := charged(t, limiter, strconv.Itoa(subject), allLimit)
			if n != want || n > allLimit {
				t.Errorf("limiter %d, subject %d: %d are charged, %d were granted, limit %d", i, subject, n, want, allLimit)
			}
		}
	}
}

// fillHalf uses up the limit of every other subject.
func fillHalf(t *testing.T, limits *loader.Loader) (charged [3][allSubjects]int64) {
	t.Helper()
	for i, limiter := range allThree(limits) {
		for subject := 0; subject < allSubjects; subject += 2 {
			wantGrant(t, limiter, strconv.Itoa(subject), allLimit)
			charged[i][subject] = allLimit
		}
	}
	return charged
}

// storm is one of the processes.
func storm(t *testing.T, addr string) {
	rdb := redis.NewClient(options(addr))
	defer func() { _ = rdb.Close() }()
	plain, shared := loader.New(rdb), loader.New(rdb, loader.ShareRoundTrips())
	var callers sync.WaitGroup
	for i := range allCallers {
		limits := []*loader.Loader{plain, shared}[i%2]
		callers.Go(func() {
			for range allCalls {
				must(t, askAll(limits, 1+rand.Int64N(3)))
			}
		})
	}
	callers.Wait()
	must(t, plain.Flush(background))
	must(t, shared.Flush(background))
}

// askAll asks once, for random subjects, and prints the answer.
func askAll(limits *loader.Loader, n int64) error {
	all := limits.All()
	var at [3]int
	for i, limiter := range allThree(limits) {
		at[i] = rand.IntN(allSubjects)
		all.AllowN(limiter, strconv.Itoa(at[i]), n)
	}
	d, err := all.Do(background)
	switch {
	case err != nil:
	case d.Granted:
		fmt.Printf("granted %d %d %d %d\n", at[0], at[1], at[2], n)
	default:
		fmt.Println("refused")
	}
	return err
}
