package loader_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	audits "github.com/sluice-redis/sluice/internal/audit"
	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// use acquires a slot, uses it for a time, and releases it.
func use(ctx context.Context, c loader.Concurrency, hold time.Duration) (
	u audits.Use, waited time.Duration, err error,
) {
	began := time.Now()
	slot, err := c.Acquire(ctx, "acme")
	if err != nil {
		return u, 0, err
	}
	u.From, waited = time.Now(), time.Since(began)
	ended := make(chan time.Time, 1)
	context.AfterFunc(slot.Context(), func() { ended <- time.Now() })
	select {
	case <-time.After(hold):
		u.To = time.Now()
	case u.To = <-ended:
	}
	_ = slot.Release()
	return u, waited, nil
}

// slotRun is what a run of processes told.
type slotRun struct {
	uses   []audits.Use
	waits  []time.Duration
	errors []string
}

// runSlots has processes use slots until stop returns. The part of each begins with the server's address.
func runSlots(t *testing.T, n int, part string, stop func()) (r slotRun) {
	t.Helper()
	var ready atomic.Int64
	processes := startProcesses(t, n, func(i int) string { return fmt.Sprint(part, " ", i) }, func(text string) {
		var from, to int64
		var waited time.Duration
		switch _, err := fmt.Sscanf(text, "used %d %d %d", &from, &to, &waited); {
		case err == nil:
			r.uses = append(r.uses, audits.Use{From: time.UnixMicro(from), To: time.UnixMicro(to)})
			r.waits = append(r.waits, waited)
		case text == "ready":
			ready.Add(1)
		case text != "PASS":
			r.errors = append(r.errors, text)
		}
	})
	await(t, func() bool { return ready.Load() == int64(n) })
	stop()
	processes.end()
	return r
}

// useAsToldTo is one of the processes: callers who use slots until the standard input ends.
func useAsToldTo(t *testing.T, role string) {
	var addr string
	var callers, process int
	var n int64
	var ttl, hold time.Duration
	_, err := fmt.Sscan(role, &addr, &callers, &n, &ttl, &hold, &process)
	must(t, err)
	opt := options(addr)
	opt.PoolSize = callers
	rdb := clientOf(t, opt)
	must(t, rdb.Ping(background).Err())
	render := loader.New(rdb, loader.Timeout(10*time.Second)).Concurrency("render", n, ttl) // a busy machine is slow
	fmt.Println("ready")
	ctx, cancel := context.WithCancel(background)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var all sync.WaitGroup
	var mu sync.Mutex
	for range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				u, waited, err := use(ctx, render, hold/2+rand.N(hold))
				mu.Lock()
				switch {
				case err == nil:
					fmt.Println("used", u.From.UnixMicro(), u.To.UnixMicro(), int64(waited))
				case ctx.Err() == nil:
					fmt.Println("an error:", err)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
}

// TestSlotWaits has 200 callers in 4 processes use 20 slots, again and again. It prints how long they wait; none may be
// forgotten.
func TestSlotWaits(t *testing.T) {
	if role := os.Getenv(partEnv); role != "" {
		useAsToldTo(t, role)
		return
	}
	t.Parallel()
	server := redistest.Start(t)
	r := runSlots(t, 4, fmt.Sprint(server.Addr, " 50 20 ", int64(10*time.Second), " ", int64(20*time.Millisecond)),
		func() { time.Sleep(*hammerFor) })
	r.report(t)
	if _, most := audits.MostAtOnce(r.uses); most > 20 || len(r.errors) > 0 {
		t.Errorf("%d of 20 slots in use at once, errors %q", most, r.errors)
	}
}

// report prints the waits.
func (r slotRun) report(t *testing.T) {
	t.Helper()
	if len(r.waits) == 0 {
		t.Fatal("nobody got a slot")
	}
	slices.Sort(r.waits)
	median, p99 := r.waits[len(r.waits)/2], r.waits[len(r.waits)*99/100]
	_, most := audits.MostAtOnce(r.uses)
	t.Logf("%d slots used, at most %d at once; waits: median %v, p99 %v (%.1f x), longest %v", len(r.uses), most,
		median.Round(time.Millisecond), p99.Round(time.Millisecond), float64(p99)/float64(median),
		r.waits[len(r.waits)-1].Round(time.Millisecond))
}

// TestSlotHammer has 8 processes use 20 slots, for longer and shorter than a third of the ttl, while the server's clock
// is stepped on and back. More than 20 are in use only after a step on, until all who lost their slots know it.
func TestSlotHammer(t *testing.T) {
	if role := os.Getenv(partEnv); role != "" {
		useAsToldTo(t, role)
		return
	}
	t.Parallel()
	const n, ttl = 20, 1500 * time.Millisecond
	const known = ttl/3 + 1500*time.Millisecond // a busy machine may be late
	server, clock := redistest.StartWithClock(t, redistest.Servers(t)[0])
	var explained []audits.Use
	r := runSlots(t, 8, fmt.Sprint(server.Addr, " 5 ", n, " ", int64(ttl), " ", int64(time.Second)), func() {
		for began := time.Now(); len(explained) == 0 || time.Since(began) < *hammerFor; {
			time.Sleep(time.Second)
			now := time.Now()
			explained = append(explained, audits.Use{From: now, To: now.Add(known)})
			clock.Step(5 * time.Second)
			time.Sleep(known)
			clock.Step(-3 * time.Second)
			time.Sleep(time.Second)
		}
	})
	within, otherwise := audits.MostAtOnce(r.uses, explained...)
	t.Logf("%d slots used, at most %d of %d at once, and %d after %d steps on", len(r.uses), otherwise, n, within,
		len(explained))
	if otherwise > n || otherwise < n/2 || within > 2*n || len(r.errors) > 0 {
		t.Errorf("want at most %d, and %d after a step; errors %q", n, 2*n, r.errors)
	}
}

// TestSlotHolderIsKilled kills a process that holds 3 of 5 slots: they are free when their ttl has ended, not before.
func TestSlotHolderIsKilled(t *testing.T) {
	const ttl = time.Second
	if addr := os.Getenv(partEnv); addr != "" {
		render := loader.New(client(t, addr)).Concurrency("render", 5, ttl)
		for range 3 {
			take(t, render)
		}
		fmt.Println("held")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	t.Parallel()
	server := redistest.Start(t)
	render := loader.New(client(t, server.Addr)).Concurrency("render", 5, ttl)
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), partEnv+"="+server.Addr)
	_, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "held" {
		t.Log(lines.Text())
	}
	began := time.Now()
	await(t, func() bool {
		wantFree(t, render, 2)
		return time.Since(began) > 3*ttl
	})
	killed := time.Now()
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	for range 5 {
		slot, err := render.Acquire(within(t, 10*time.Second), "acme")
		must(t, err)
		defer func() { must(t, slot.Release()) }()
	}
	if took := time.Since(killed); took < ttl/3 || took > 2*ttl {
		t.Errorf("the slots were free %v after the kill", took)
	}
}
