package loader_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// partEnv tells a process what its part in a test is.
const partEnv = "SLUICE_TEST_PART"

// processes are copies of this one, which take part in a test until their standard input ends.
type processes struct {
	stdin []io.Closer
	ended sync.WaitGroup
	mu    sync.Mutex // held while a line is read
}

// startProcesses runs this test in n more processes, and passes on each line that they print.
func startProcesses(t *testing.T, n int, part func(i int) string, read func(line string)) *processes {
	t.Helper()
	p := &processes{}
	for i := range n {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-hammer="+hammerFor.String())
		cmd.Env = append(os.Environ(), partEnv+"="+part(i))
		in, err := cmd.StdinPipe()
		must(t, err)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		p.stdin = append(p.stdin, in)
		p.ended.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				p.mu.Lock()
				read(lines.Text())
				p.mu.Unlock()
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("process %d: %v", i, err)
			}
		})
	}
	return p
}

// end ends their standard input, and returns when they have ended.
func (p *processes) end() {
	for _, in := range p.stdin {
		_ = in.Close()
	}
	p.ended.Wait()
}

const (
	waitProcesses = 4
	waitersEach   = 50 // of each process, for each limiter
	waitLimit     = 50 // a second
)

// waiter is one Wait. Its times are in microseconds; all but the last are the server's.
type waiter struct {
	limiter  string
	asked    int64 // when its first call was decided
	booked   int64 // the time it was granted for
	calls    int
	finished int64 // when Wait returned, by this machine's clock
}

// TestWaitAcrossProcesses has 4 processes wait on 50 a second, 200 waiters for each script that books: they get their
// permits in the order in which they asked, with one call each, and no capacity is lost.
func TestWaitAcrossProcesses(t *testing.T) {
	if role := os.Getenv(partEnv); role != "" {
		waitAsToldTo(t, role)
		return
	}
	t.Parallel()
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
		t.Logf("%s: %d waiters, %d calls, order of asking and of times %.4f, of finishing %.4f, capacity used %.2f %%",
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
func runWaiters(t *testing.T, addr string) (all []waiter) {
	t.Helper()
	var ready atomic.Int64
	processes := startProcesses(t, waitProcesses, func(int) string { return addr }, func(text string) {
		var w waiter
		if _, err := fmt.Sscanf(text, "waited %s %d %d %d %d",
			&w.limiter, &w.asked, &w.booked, &w.calls, &w.finished); err == nil {
			all = append(all, w)
		}
		if text == "ready" {
			ready.Add(1)
		}
	})
	await(t, func() bool { return ready.Load() == waitProcesses })
	processes.end()
	return all
}

// waitAsToldTo is one of the processes. Its waiters come every 8 ms.
func waitAsToldTo(t *testing.T, addr string) {
	rdb := client(t, addr)
	rdb.AddHook(around(noteDecision))
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

type waiterKey struct{}

// noteDecision notes the decisions of the waiter in the context.
func noteDecision(ctx context.Context, cmds []redis.Cmder, send func() error) error {
	err := send()
	w, _ := ctx.Value(waiterKey{}).(*waiter)
	decision, ok := cmds[0].(interface{ Val() []int64 })
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

// rankCorrelation is Spearman's, of the order of asking and that of another time.
func rankCorrelation(all []waiter, at func(waiter) int64) float64 {
	slices.SortFunc(all, func(a, b waiter) int { return cmp.Compare(a.asked, b.asked) })
	order := make([]int, len(all)) // order[i] asked as the order[i]th, and comes ith
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(at(all[a]), at(all[b])) })
	var squares float64
	for i, asked := range order {
		squares += float64((i - asked) * (i - asked))
	}
	n := float64(len(all))
	return 1 - 6*squares/(n*(n*n-1))
}

// capacityUsed is how soon the last permit could have been granted at the earliest, when no waiter asks earlier than
// they did, to how soon it was.
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

const (
	outageProcesses = 3
	outageWorkers   = 10 // of each process
	outageLimit     = 5  // a second
	outageDeadline  = 15 * time.Second
)

// TestWaitRidesOutAnOutage has 30 workers in 3 processes wait on 5 a second by a ZSetLog, while Redis stands still for
// two seconds, and is killed and started again with its append-only file. By the server's clock no second holds more
// than 5, one window of capacity is lost at most, and no worker sees an error before its deadline.
func TestWaitRidesOutAnOutage(t *testing.T) {
	if addr := os.Getenv(partEnv); addr != "" {
		workThroughAnOutage(t, addr)
		return
	}
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	var times []int64 // of permits, in microseconds of the server's clock
	processes := startProcesses(t, outageProcesses, func(int) string { return server.Addr }, func(text string) {
		var at int64
		if _, err := fmt.Sscanf(text, "granted %d", &at); err == nil {
			times = append(times, at)
		} else if text != "PASS" {
			t.Error(text)
		}
	})
	granted := func() int {
		processes.mu.Lock()
		defer processes.mu.Unlock()
		return len(times)
	}
	more := func(n int) {
		for want := granted() + n; granted() < want; {
			await(t, func() bool { return granted() >= want })
		}
	}
	more(15)
	must(t, syscall.Kill(server.PID, syscall.SIGSTOP))
	time.Sleep(2 * time.Second)
	must(t, syscall.Kill(server.PID, syscall.SIGCONT))
	more(15)
	server.Kill()
	server.Restart(t)
	more(15)
	processes.end()
	slices.Sort(times)
	for i := outageLimit; i < len(times); i++ {
		if times[i]-times[i-outageLimit] < 1_000_000 {
			t.Errorf("%d permits within %d us", outageLimit+1, times[i]-times[i-outageLimit])
		}
	}
	span := time.Duration(times[len(times)-1]-times[0]) * time.Microsecond
	capacity := int(span.Seconds()*outageLimit) + outageLimit
	t.Logf("%d permits in %v, where %d could have been granted", len(times), span, capacity)
	if len(times) < capacity-outageLimit {
		t.Errorf("%d permits in %v, want %d: one window less than could have been granted", len(times), span,
			capacity-outageLimit)
	}
}

// workThroughAnOutage is one of the processes.
func workThroughAnOutage(t *testing.T, addr string) {
	var mu sync.Mutex
	limits := loader.New(client(t, addr), loader.Observe(loader.ObserverFunc(func(_ context.Context, e loader.Event) {
		if e.Err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Println("granted", e.Decision.Now.Add(e.Decision.Wait).UnixMicro())
	})))
	log := limits.ZSetLog("x", loader.PerSecond(outageLimit))
	stopped := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(stopped)
	}()
	var all sync.WaitGroup
	for range outageWorkers {
		all.Go(func() {
			for {
				select {
				case <-stopped:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(background, outageDeadline)
				started := time.Now()
				if err := log.Wait(ctx, "s"); err != nil && (!errors.Is(err, context.DeadlineExceeded) ||
					time.Since(started) < outageDeadline) {
					fmt.Printf("an error after %v: %v\n", time.Since(started), err)
				}
				cancel()
			}
		})
	}
	all.Wait()
}

var hammerFor = flag.Duration("hammer", time.Second, "how long TestLeaseHammer and TestBudgetGateway run, at least")

const (
	leaseProcesses = 8
	hammerLimit    = 1000
	hammerWindow   = 200 * time.Millisecond
)

// TestLeaseHammer has 8 processes ask for permits of one key as fast as they can, seven that lease and one that does
// not: of the times at which permits are spent, by this machine's clock, no window surely holds more than the limit.
func TestLeaseHammer(t *testing.T) {
	if role := os.Getenv(partEnv); role != "" {
		hammerLeases(t, role)
		return
	}
	t.Parallel()
	server := redistest.Start(t)
	a := &audit{start: time.Now()}
	part := func(i int) string { return fmt.Sprintf("%s %d %d", server.Addr, i, a.start.UnixMicro()) }
	startProcesses(t, leaseProcesses, part, func(text string) {
		var s spending // the test runner's own lines are others
		if _, err := fmt.Sscanf(text, "spent %d %d", &s.after, &s.before); err == nil {
			a.spent = append(a.spent, s)
		}
	}).end()
	most := a.most(hammerWindow)
	t.Logf("leases: %d permits spent by %d processes, at most %d of %d in %v", len(a.spent), leaseProcesses, most,
		hammerLimit, hammerWindow)
	if most > hammerLimit || most < hammerLimit/2 {
		t.Errorf("at most %d spent in a window, want at most %d and not much less", most, hammerLimit)
	}
}

// hammerLeases is one of the processes: two callers.
func hammerLeases(t *testing.T, role string) {
	var addr string
	var process int
	var start int64
	_, err := fmt.Sscan(role, &addr, &process, &start)
	must(t, err)
	a := &audit{start: time.UnixMicro(start)} // by the wall clock, which the processes share
	ring := loader.New(client(t, addr)).SliceRing("x", []loader.Limit{{Permits: hammerLimit, Window: hammerWindow}},
		loader.Slice(auditSlice), loader.LeaseAge(auditAge))
	limiter := loader.Limiter(ring)
	if process > 0 {
		leased := lease(t, ring, loader.LeaseOptions{Block: 50})
		defer func() { must(t, leased.Close(background)) }()
		limiter = leased
	}
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for until := time.Now().Add(*hammerFor); time.Now().Before(until); {
				for range 1 + rand.IntN(100) {
					must(t, a.note(func() (loader.Decision, error) { return limiter.Allow(background, "s") }))
				}
				time.Sleep(rand.N(20 * time.Millisecond)) // what is held grows old
			}
		})
	}
	all.Wait()
	for _, s := range a.spent {
		fmt.Println("spent", int64(s.after), int64(s.before))
	}
}
