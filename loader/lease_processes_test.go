package loader_test

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/loader"
)

var hammerFor = flag.Duration("hammer", time.Second, "how long TestLeaseHammer hammers")

const (
	leaseEnv       = "SLUICE_TEST_LEASES"
	leaseProcesses = 8
	hammerLimit    = 1000
	hammerWindow   = 200 * time.Millisecond
)

// TestLeaseHammer has 8 processes ask for permits of one key as fast as they can, seven that lease and one that does
// not: of the moments at which permits are spent, by this machine's clock, no window surely holds more than the limit.
func TestLeaseHammer(t *testing.T) {
	if role := os.Getenv(leaseEnv); role != "" {
		hammerLeases(t, role)
		return
	}
	server := redistest.Start(t)
	a := &audit{start: time.Now()}
	var all sync.WaitGroup
	for process := range leaseProcesses {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLeaseHammer$", "-hammer="+hammerFor.String())
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d", leaseEnv, server.Addr, process, a.start.UnixMicro()))
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		all.Go(func() {
			a.collect(bufio.NewScanner(out))
			if err := cmd.Wait(); err != nil {
				t.Errorf("process %d: %v", process, err)
			}
		})
	}
	all.Wait()
	most := a.most(hammerWindow)
	t.Logf("leases: %d permits spent by %d processes, at most %d of %d in %v", len(a.spent), leaseProcesses, most, hammerLimit, hammerWindow)
	if most > hammerLimit || most < hammerLimit/2 {
		t.Errorf("at most %d spent in a window, want at most %d and not much less", most, hammerLimit)
	}
}

// collect reads the spendings of a process; the test runner's own lines are others.
func (a *audit) collect(lines *bufio.Scanner) {
	for lines.Scan() {
		var s spending
		if _, err := fmt.Sscanf(lines.Text(), "spent %d %d", &s.after, &s.before); err == nil {
			a.mu.Lock()
			a.spent = append(a.spent, s)
			a.mu.Unlock()
		}
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
