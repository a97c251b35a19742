package loader_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/loader"
)

const (
	waitEnv       = "SLUICE_TEST_WAITERS"
	waitProcesses = 4
	waitersEach   = 50 // of each process, for each limiter
	waitLimit     = 50 // a second
)

// waiter is one Wait. Its moments are in microseconds; all but the last are the server's.
type waiter struct {
	limiter  string
	asked    int64 // when its first call was decided
	booked   int64 // the moment it was granted for
	calls    int
	finished int64 // when Wait returned, by this machine's clock
}

// TestWaitAcrossProcesses has 4 processes wait on 50 a second, 200 waiters for each script that books: they get their
// permits in the order in which they asked, with one call each, and no capacity is lost.
func TestWaitAcrossProcesses(t *testing.T) {
	if role := os.Getenv(waitEnv); role != "" {
		waitAsToldTo(t, role)
		return
	}
	server := redistest.Start(t)
	must(t, loader.New(client(t, server.Addr)).Preload(background))
	waited := map[string][]waiter{}
	for _, w := range runWaiters(t, server.Addr) {
		waited[w.limiter] = append(waited[w.limiter], w)
	}
	for _, name := range []string{"ListLog", "ZSetLog", "GCRA", "TokenBucket"} {
		all := waited[name]
		if len(all) != waitProcesses*waitersEach {
			t.Fatalf("%s: %d waiters, want %d", name, len(all), waitProcesses*waitersEach)
		}
		calls := 0
		for _, w := range all {
			calls += w.calls
			if w.finished < w.booked {
				t.Errorf("%s: one went on %d us before its permit", name, w.booked-w.finished)
			}
		}
		order := rankCorrelation(all, func(w waiter) int64 { return w.booked })
		finish := rankCorrelation(all, func(w waiter) int64 { return w.finished })
		used := capacityUsed(all, name == "GCRA")
		t.Logf("%s: %d waiters, %d calls, order of asking and of moments %.4f, of finishing %.4f, capacity used %.2f %%",
			name, len(all), calls, order, finish, 100*used)
		if order < 0.99 || used < 0.99 || calls != len(all) {
			t.Errorf("%s: want an order of 0.99, 99 %% of the capacity and one call each", name)
		}
		if finish < 0.9 { // those who are due while the machine stands still wake in any order
			t.Errorf("%s: they finished in another order than they asked", name)
		}
	}
}

// runWaiters starts the processes, lets them begin when all are there, and collects what they tell.
func runWaiters(t *testing.T, addr string) []waiter {
	t.Helper()
	var mu sync.Mutex
	var all []waiter
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	ready.Add(waitProcesses)
	for range waitProcesses {
		cmd := exec.Command(os.Args[0], "-test.run=^TestWaitAcrossProcesses$")
		cmd.Env = append(os.Environ(), waitEnv+"="+addr)
		in, err := cmd.StdinPipe()
		must(t, err)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		done.Go(func() {
			lines := bufio.NewScanner(out)
			lines.Scan() // it is there, or has failed
			ready.Done()
			<-start
			_ = in.Close()
			for lines.Scan() {
				var w waiter
				if _, err := fmt.Sscanf(lines.Text(), "waited %s %d %d %d %d",
					&w.limiter, &w.asked, &w.booked, &w.calls, &w.finished); err == nil {
					mu.Lock()
					all = append(all, w)
					mu.Unlock()
				}
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
	return all
}

// waitAsToldTo is one of the processes. Its waiters come every 8 ms.
func waitAsToldTo(t *testing.T, addr string) {
	rdb := client(t, addr)
	rdb.AddHook(waiterHook{})
	limits := loader.New(rdb)
	must(t, rdb.Ping(background).Err())
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	var all sync.WaitGroup
	var mu sync.Mutex
	for range waitersEach {
		for _, m := range makers {
			limiter, books := m.make(limits, loader.PerSecond(waitLimit)).(loader.Reserver)
			if !books {
				continue
			}
			all.Go(func() {
				w := &waiter{limiter: m.name}
				err := limiter.Wait(context.WithValue(background, waiterKey{}, w), "s")
				w.finished = time.Now().UnixMicro()
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				fmt.Println("waited", w.limiter, w.asked, w.booked, w.calls, w.finished)
			})
		}
		time.Sleep(8 * time.Millisecond)
	}
	all.Wait()
}

// waiterHook notes the decisions of the waiter in the context.
type waiterHook struct{ hook }

type waiterKey struct{}

func (h waiterHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		w, _ := ctx.Value(waiterKey{}).(*waiter)
		decision, ok := cmd.(interface{ Val() []int64 })
		if w == nil || !ok || err != nil {
			return err
		}
		reply := decision.Val()
		now, wait := reply[4], reply[2]
		if w.calls == 0 {
			w.asked = now
		}
		w.calls++
		w.booked = now + wait
		return nil
	}
}

// rankCorrelation is Spearman's, of the order of asking and that of another moment.
func rankCorrelation(all []waiter, moment func(waiter) int64) float64 {
	slices.SortFunc(all, func(a, b waiter) int { return cmp.Compare(a.asked, b.asked) })
	order := make([]int, len(all)) // order[i] asked as the order[i]th, and comes ith
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(moment(all[a]), moment(all[b])) })
	var squares float64
	for i, asked := range order {
		squares += float64((i - asked) * (i - asked))
	}
	n := float64(len(all))
	return 1 - 6*squares/(n*(n*n-1))
}

// capacityUsed is how soon the last permit could have been granted at the earliest, when nobody asks earlier than they
// did, to how soon it was.
func capacityUsed(all []waiter, bucket bool) float64 {
	const second, interval = 1_000_000, 1_000_000 / waitLimit
	slices.SortFunc(all, func(a, b waiter) int { return cmp.Compare(a.asked, b.asked) })
	due := make([]int64, len(all))
	var full int64 // when the bucket is full again
	for i, w := range all {
		due[i] = w.asked
		switch full = max(full, w.asked) + interval; {
		case bucket:
			due[i] = max(due[i], full-second)
		case i >= waitLimit:
			due[i] = max(due[i], due[i-waitLimit]+second)
		}
	}
	last := slices.MaxFunc(all, func(a, b waiter) int { return cmp.Compare(a.booked, b.booked) })
	return float64(due[len(due)-1]-due[0]) / float64(last.booked-due[0])
}
