package loader_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/loader"
)

const (
	outageEnv       = "SLUICE_TEST_OUTAGE"
	outageProcesses = 3
	outageWorkers   = 10 // of each process
	outageLimit     = 5  // a second
	outageDeadline  = 15 * time.Second
)

// TestWaitRidesOutAnOutage has 30 workers in 3 processes wait on 5 a second by a ZSetLog, while Redis stands still for
// two seconds, and is killed and started again with its append-only file. By the server's clock no second holds more
// than 5, one window of capacity is lost at most, and no worker sees an error before its deadline.
func TestWaitRidesOutAnOutage(t *testing.T) {
	if addr := os.Getenv(outageEnv); addr != "" {
		workThroughAnOutage(t, addr)
		return
	}
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	var mu sync.Mutex
	var moments []int64 // of permits, in microseconds of the server's clock
	var stop []io.Closer
	var done sync.WaitGroup
	for range outageProcesses {
		cmd := exec.Command(os.Args[0], "-test.run=^TestWaitRidesOutAnOutage$")
		cmd.Env = append(os.Environ(), outageEnv+"="+server.Addr)
		in, err := cmd.StdinPipe()
		must(t, err)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		stop = append(stop, in)
		done.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				var at int64
				if _, err := fmt.Sscanf(lines.Text(), "granted %d", &at); err == nil {
					mu.Lock()
					moments = append(moments, at)
					mu.Unlock()
				} else if lines.Text() != "PASS" {
					t.Error(lines.Text())
				}
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	granted := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(moments)
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
	for _, in := range stop {
		_ = in.Close()
	}
	done.Wait()
	slices.Sort(moments)
	for i := outageLimit; i < len(moments); i++ {
		if moments[i]-moments[i-outageLimit] < 1_000_000 {
			t.Errorf("%d permits within %d us", outageLimit+1, moments[i]-moments[i-outageLimit])
		}
	}
	span := time.Duration(moments[len(moments)-1]-moments[0]) * time.Microsecond
	capacity := int(span.Seconds()*outageLimit) + outageLimit
	t.Logf("%d permits in %v, where %d could have been granted", len(moments), span, capacity)
	if len(moments) < capacity-outageLimit {
		t.Errorf("%d permits in %v, want %d: one window less than could have been granted", len(moments), span, capacity-outageLimit)
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
				if err := log.Wait(ctx, "s"); err != nil && (!errors.Is(err, context.DeadlineExceeded) || time.Since(started) < outageDeadline) {
					fmt.Printf("an error after %v: %v\n", time.Since(started), err)
				}
				cancel()
			}
		})
	}
	all.Wait()
}
